package e2e

import (
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"

	"berth/test/harness"
)

// guest is somebody with a browser who is nobody yet.
func (d *daemon) guest() *person {
	d.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.T.Fatal(err)
	}
	return &person{d.T, d, &http.Client{Jar: plainJar{jar}, Transport: harness.Web.Transport}}
}

// invite makes an invitation on the host, and returns the path of its link.
func (d *daemon) invite(args ...string) string {
	d.T.Helper()
	link := d.CLI(append([]string{"invite", "create", "--base-url", "https://berth.example.org"}, args...)...)
	path, found := strings.CutPrefix(link, "https://berth.example.org")
	if !found || !strings.HasPrefix(path, "/invitation/") {
		d.T.Fatalf("the link is %q", link)
	}
	return path
}

// TestInvitation: a link makes an account that works at once, with what was offered; it outlives
// a restart of the daemon, works once, and is nowhere in the files.
func TestInvitation(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana := d.account("ana", 512)
	shop := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	path := d.invite("--ram", "100", "--apps", "1", "--name", "carla", "--app", shop+":logs_app,status_app")
	d.Restart()
	guest := d.guest()
	for range 2 {
		if page := guest.open(path); !strings.Contains(page, `value="carla"`) || !strings.Contains(page, "100 MB") {
			t.Fatalf("the page says %s", page)
		}
	}
	guest.send(path, 409, "name", "ana", "password", "battery staple", "again", "battery staple")
	if page := guest.send(path, 200, "name", "carla", "password", "battery staple", "again", "battery staple"); !strings.Contains(page, "of ana") {
		t.Errorf("the new account does not see the application: %s", page)
	}
	guest.send(path, 404, "name", "mallory", "password", "battery staple", "again", "battery staple")
	carla := &client{&harness.Client{T: t, Berth: d.Berth, Name: "carla", Token: d.CLI("token", "create", "carla")}, d}
	d.Clients = append(d.Clients, carla.Client)
	carla.Get("/user").Want(200, "user.username", "carla", "user.totalRamMb", 100, "user.limits.applications", 1)
	carla.Get("/team/" + shop + "/status").Want(200)
	carla.Put("/team/"+shop+"/stop", "").Want(403)
	mine := harness.ShellBot(harness.IdleShell, "RAM=64")
	carla.Upload(mine)
	carla.Post(mine.Zip()).Want(422)
	if found := holding(t, d.Data, strings.TrimPrefix(path, "/invitation/")); len(found) > 0 {
		t.Errorf("the link is in %q", found)
	}
	if strings.Contains(d.Out.String(), strings.TrimPrefix(path, "/invitation/")) {
		t.Errorf("the daemon logs the link: %s", d.Out)
	}

	// By name, as the CLI of a laptop does it.
	d.CLI("account", "create", "dora", "--ram", "64")
	remote := func(args ...string) (int, string, string) {
		t.Helper()
		cmd := d.Command(args...)
		cmd.Env = append(harness.CleanEnv(), "BERTH_URL="+d.Base, "BERTH_TOKEN="+ana.Token)
		var out, errs strings.Builder
		cmd.Stdout, cmd.Stderr = &out, &errs
		_ = cmd.Run()
		return cmd.ProcessState.ExitCode(), out.String(), errs.String()
	}
	if code, _, said := remote("team", "add", shop, "dora", "--may", "logs_app"); code != 0 || !strings.Contains(said, "dora is now in the team") {
		t.Errorf("status %d: %s", code, said)
	}
	if code, _, said := remote("team", "add", shop, "nobody", "--may", "logs_app"); code != 5 || !strings.Contains(said, `no account that could become a member is called "nobody"`) {
		t.Errorf("status %d: %s", code, said)
	}
	if code, _, said := remote("team", "set", shop, "dora", "--may", "stop_app"); code != 0 {
		t.Errorf("status %d: %s", code, said)
	}
	if code, listed, said := remote("team", "list", shop); code != 0 || !strings.Contains(listed, "stop_app") {
		t.Errorf("status %d: %s %s", code, listed, said)
	}
	if code, _, said := remote("team", "remove", shop, "dora"); code != 0 {
		t.Errorf("status %d: %s", code, said)
	}
}

// TestInvitationsUsedAtOnce: of many who use a link at the same moment one gets what it brings.
func TestInvitationsUsedAtOnce(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana := d.account("ana", 512)
	shop := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	path := d.invite("--ram", "100", "--app", shop+":logs_app")
	const many = 6
	statuses := make([]int, many)
	var wait sync.WaitGroup
	for i := range many {
		wait.Go(func() {
			form := url.Values{"name": {"guest" + string(rune('a'+i))}, "password": {"battery staple"}, "again": {"battery staple"}}
			resp, err := http.DefaultTransport.RoundTrip(newForm(t, d.Base+path, form))
			if err != nil {
				t.Error(err)
				return
			}
			resp.Body.Close()
			statuses[i] = resp.StatusCode
		})
	}
	wait.Wait()
	in := 0
	for _, status := range statuses {
		switch status {
		case http.StatusSeeOther:
			in++
		case http.StatusNotFound, http.StatusServiceUnavailable:
		default:
			t.Errorf("status %d", status)
		}
	}
	members := len(ana.Get("/app/" + shop + "/team").Want(200).List("team"))
	if accounts := strings.Count(d.CLI("account", "list"), "guest"); in != 1 || accounts != 1 || members != 1 {
		t.Errorf("%d were let in, there are %d accounts and %d members", in, accounts, members)
	}
}

func newForm(t *testing.T, address string, form url.Values) *http.Request {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}
