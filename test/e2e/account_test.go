package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// TestAccountLimits: at each limit of an account something is refused, or waits, with the
// numbers; limits are set while the daemon runs.
func TestAccountLimits(t *testing.T) {
	t.Parallel()
	d := launch(t, "--build-concurrency", "4")
	ana := d.account("ana", 2000)
	set := func(limits ...string) {
		t.Helper()
		d.CLI(append([]string{"account", "set", "ana"}, limits...)...)
	}
	set("--apps", "2", "--disk", "40MB", "--backups", "1", "--builds", "1", "--cpu", "60")
	ana.Get("/user").Want(200, "user.limits.applications", 2, "user.limits.diskMb", 40, "user.limits.backups", 1, "user.limits.builds", 1, "user.limits.cpuPercent", 60)
	small := harness.ShellBot(harness.IdleShell, "RAM=64")
	one, two := ana.Upload(small), ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=128").With("large", strings.Repeat("x", 3<<20)))
	ana.Post(small.Zip()).Want(422).Says("message", "the account has 2 of 2 applications; delete one, or ask the owner of this host for more")

	// The processor is dealt out by RAM, and anew when one stops.
	d.wantCPU(one, 20)
	d.wantCPU(two, 40)
	ana.Put("/app/"+two+"/stop", "").Want(200)
	d.wantCPU(one, 60)
	set("--cpu", "0")
	d.wantCPU(one, 0)

	// Backups, and then the disk.
	ana.Get("/app/" + one + "/backup").Want(200)
	ana.Get("/app/" + one + "/backup").Want(200) // in the place of the first
	ana.Get("/app/"+two+"/backup").Says("message", "cannot write the backup: the account has 1 of 1 backups, all of other applications; wait until one expires, or ask the owner of this host for more")
	set("--disk", "2MB")
	ana.Put("/app/"+two+"/start", "").Says("message", "cannot start the application: the files and backups of its account take 4 MB of disk, and may take 2 MB")
	ana.Commit(one, small.With("more", strings.Repeat("y", 1<<20))).Want(422).Says("message", "cannot deploy the application: the files and backups of the account would take 5 MB of disk, and may take 2 MB")
	ana.Get("/app/"+one+"/backup").Says("message", "cannot write the backup: the files and backups of the account take 4 MB of disk, and may take 2 MB")
	set("--disk", "0")
	ana.Put("/app/"+two+"/start", "").Want(200)

	// Builds wait for each other.
	set("--apps", "4")
	gate := filepath.Join(d.Gates, "gate")
	first, built := ana.uploading(gated(gate, harness.IdleNode))
	harness.Eventually(t, "it builds", func() bool { return harness.Exists(t, d.Path(first, "began")) })
	second, waited := ana.uploading(gated(gate, harness.IdleNode))
	ana.UntilLog(second, "waiting to be built: number 1 in the queue, for 1 of the 1 builds run that the account may have at once")
	bob := d.account("bob", 200)
	other, free := bob.uploading(gated(gate, harness.IdleNode))
	harness.Eventually(t, "another account's is built beside it", func() bool { return harness.Exists(t, d.Path(other, "began")) })
	set("--builds", "2")
	harness.Eventually(t, "it is built with the new limit", func() bool { return harness.Exists(t, d.Path(second, "began")) })
	harness.Write(t, gate, "")
	for _, done := range []<-chan harness.Answer{built, waited, free} {
		(<-done).Want(200)
	}
}

// wantCPU waits until what runs in an application may have so many percent of a processor, 0
// for any number. Hosts without that limit have nothing to show.
func (d *daemon) wantCPU(id string, percent int) {
	d.T.Helper()
	want := map[string]bool{fmt.Sprintf("%d 100000", percent*1000): true, fmt.Sprint(percent * 1000): true}
	if percent == 0 {
		want = map[string]bool{"max 100000": true, "-1": true}
	}
	var files []string
	for _, file := range []string{"cpu.max", "cpu.cfs_quota_us"} {
		for _, dir := range harness.GroupsNamed(filepath.Join(d.Group, "apps", id)) {
			if _, err := os.Stat(filepath.Join(dir, file)); err == nil {
				files = append(files, filepath.Join(dir, file))
			}
		}
	}
	if len(files) == 0 {
		d.T.Log("this host limits no processor time")
		return
	}
	harness.Eventually(d.T, fmt.Sprintf("%s may have %d percent", id, percent), func() bool {
		b, err := os.ReadFile(files[0])
		return err == nil && want[strings.TrimSpace(string(b))]
	})
}

// TestAccountSuspended: a bot and a site that are online rest while their account is
// suspended, over restarts and crashes of the daemon, and come back.
func TestAccountSuspended(t *testing.T) {
	t.Parallel()
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	ana, bob := d.account("ana", 400), d.account("bob", 100)
	v := d.visitor()
	bot := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	off := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	ana.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode})
	v.until("shop.apps.example.org", 200, "shop for")
	ana.Put("/app/"+off+"/stop", "").Want(200)
	ana.setEnv(bot, map[string]any{"KEPT": "yes"}).Want(200)
	ana.team(http.MethodPost, bot, bob.Account, "start_app", "status_app").Want(200)
	other := bob.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))

	d.CLI("account", "suspend", "ana", "--reason", "unpaid")
	rests := func(when string) {
		t.Helper()
		for _, id := range []string{bot, off, "shop"} {
			if left := d.Of(id); len(left) > 0 {
				t.Errorf("%s %s runs: %v", when, id, left)
			}
		}
		const said = "this account is suspended (unpaid); ask the owner of the server"
		ana.Get("/user").Want(403).Says("message", said)
		ana.Put("/app/"+bot+"/start", "").Want(403).Says("message", said)
		bob.Put("/team/"+bot+"/start", "").Want(403).Says("message", "is suspended; ask the owner of the server")
		d.owner("PUT", "/v2/app/"+bot+"/start", "ana").Want(403).Says("message", "the account that owns this application is suspended")
		resp, text := v.ask("GET", "shop.apps.example.org", "/")
		if resp.StatusCode != 503 || !strings.Contains(text, "This site is not available: the account of its owner is suspended.") {
			t.Errorf("%s visitors get %d %s", when, resp.StatusCode, text)
		}
		bob.Until(other, "apps.online", true)
	}
	rests("at once,")
	d.Restart()
	v = d.visitor()
	rests("after a restart")
	d.End(syscall.SIGKILL)
	d.Serve()
	v = d.visitor()
	rests("after a crash")
	if out := d.CLI("account", "list"); !strings.Contains(out, "suspended") {
		t.Errorf("the list is %s", out)
	}

	d.CLI("account", "unsuspend", "ana")
	v.until("shop.apps.example.org", 200, "shop for")
	ana.Until(bot, "apps.online", true)
	ana.Info(off).Want(200, "apps.online", false)
	ana.Get("/app/"+bot+"/env").Says("message", "")
	ana.Get("/user").Want(200, "user.ramUsedMb", 192, "user.subdomains", "[shop]")

	// Without a daemon it is stored, and the next one heeds it.
	if code := d.End(syscall.SIGTERM); code != 0 {
		t.Fatalf("exit status %d", code)
	}
	d.CLI("account", "suspend", "ana", "--reason", "unpaid")
	d.Serve()
	v = d.visitor()
	rests("after a suspension without a daemon")
	d.CLI("account", "unsuspend", "ana")
	ana.Until(bot, "apps.online", true)
}

// TestAccountDeleted: an account goes with everything that it has, and nothing of it is left.
func TestAccountDeleted(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 400), d.account("bob", 100)
	bot, off := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64")), ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64", "NAME=resting"))
	ana.Put("/app/"+off+"/stop", "").Want(200)
	ana.Get("/app/" + bot + "/backup").Want(200)
	ana.team(http.MethodPost, bot, bob.Account, "status_app").Want(200)
	gate := filepath.Join(d.Gates, "gate")
	building, called := ana.uploading(gated(gate, harness.IdleNode)) // which is called off
	harness.Eventually(t, "it builds", func() bool { return harness.Exists(t, d.Path(building, "began")) })
	if code, _, stderr := d.Run("account", "delete", "ana"); code != 1 || !strings.Contains(stderr, "the account owns 2 applications") {
		t.Errorf("without them: %d, %s", code, stderr)
	}
	code, _, stderr := d.Run("account", "delete", "ana", "--with-applications", "--yes")
	if code != 0 {
		t.Fatalf("%d: %s", code, stderr)
	}
	for _, says := range []string{"resting (" + off + "), 64 MB of RAM, 1 MB of files", "1 backup, 1 MB", "1 token", "1 membership of others in its teams"} {
		if !strings.Contains(stderr, says) {
			t.Errorf("the list lacks %q: %s", says, stderr)
		}
	}
	(<-called).Want(409).Says("message", "cancelled")
	ana.Get("/user").Want(401)
	ana.Token = bob.Token
	d.wantNothing(bot, off, building)
	if left := d.Entries("backups"); len(left) > 0 {
		t.Errorf("backups are left: %v", left)
	}
	if out := d.CLI("account", "list"); strings.Contains(out, "ana") {
		t.Errorf("the list is %s", out)
	}
	bob.Get("/team").Want(200)
}

// wantNothing fails unless nothing is left of applications.
func (d *daemon) wantNothing(ids ...string) {
	d.T.Helper()
	for _, id := range ids {
		if harness.Exists(d.T, d.Path(id)) || len(d.Of(id)) > 0 || len(harness.GroupsNamed(filepath.Join(d.Group, "apps", id))) > 0 {
			d.T.Errorf("something of %s is left", id)
		}
	}
}

// TestBilling: what a billing panel sends for a customer, from the order to the end.
func TestBilling(t *testing.T) {
	t.Parallel()
	d := launch(t)
	owner := d.account("owner", 100)
	panel := &client{d.NewAccount("unused", 1), d}
	panel.Token = d.CLI("host-token", "create", "--label", "whmcs")
	create := `{"externalId":"1042","name":"carl","ramMb":256,"applications":1,"link":true}`
	link := panel.ask("POST", "/host/accounts", create).Want(200, "account.name", "carl", "account.limits.applications", 1).Text("link")
	if !strings.Contains(link, "/setup/") {
		t.Errorf("the link is %s", link)
	}
	panel.ask("POST", "/host/accounts", create).Want(200, "account.externalId", "1042")
	panel.ask("POST", "/host/accounts", strings.Replace(create, "256", "512", 1)).Want(409)
	panel.ask("POST", "/host/accounts", `{"externalId":"1","name":"owner","ramMb":1}`).Want(409)
	panel.Get("/user").Want(401)
	panel.Get("/app/all").Want(401)
	panel.Get("/host/accounts/owner").Want(404)
	owner.Get("/host/accounts/1042").Want(401)

	carl := &client{d.NewAccount("x", 1), d} // for its methods
	carl.Token = d.CLI("token", "create", "carl")
	id := carl.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	for range 2 {
		panel.ask("PUT", "/host/accounts/1042/suspend", `{"reason":"unpaid"}`).Want(200, "account.suspended", true, "account.suspendedFor", "unpaid")
		if left := d.Of(id); len(left) > 0 {
			t.Errorf("it runs: %v", left)
		}
	}
	carl.Get("/user").Want(403).Says("message", "this account is suspended (unpaid)")
	for range 2 {
		panel.ask("PUT", "/host/accounts/1042/unsuspend", "").Want(200, "account.suspended", false)
	}
	carl.Until(id, "apps.online", true)
	panel.ask("PUT", "/host/accounts/1042", `{"ramMb":512,"applications":0}`).Want(200, "account.totalRamMb", 512)
	panel.ask("PUT", "/host/accounts/1042", `{"ramMb":32}`).Want(409).Says("message", "64 MB assigned")
	panel.ask("DELETE", "/host/accounts/1042", "").Want(200)
	panel.ask("DELETE", "/host/accounts/1042", "").Want(200)
	panel.Get("/host/accounts/1042").Want(404)
	carl.Get("/user").Want(401)
	d.wantNothing(id)
	d.CLI("host-token", "revoke", "1")
	panel.Get("/host/accounts/1042").Want(401)
	panel.Token, carl.Token = owner.Token, owner.Token
	if log := d.CLI("audit"); !strings.Contains(log, "account.suspend") {
		t.Errorf("the audit log is %s", log)
	}
}
