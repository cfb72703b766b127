package e2e

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"berth/test/harness"
)

// person is somebody with a browser without JavaScript.
type person struct {
	t   *testing.T
	d   *daemon
	web *http.Client
}

// person signs in with a one-time link.
func (d *daemon) person(account string) *person {
	d.T.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		d.T.Fatal(err)
	}
	p := &person{d.T, d, &http.Client{Jar: plainJar{jar}, Transport: harness.Web.Transport}}
	link := d.CLI("account", "password", account, "--link")
	_, key, _ := strings.Cut(link, "/setup/")
	p.send("/setup/"+key, 200, "name", account, "password", "correct horse", "again", "correct horse")
	return p
}

// plainJar keeps cookies as browsers do on this machine: also those for HTTPS alone.
type plainJar struct{ http.CookieJar }

func (j plainJar) SetCookies(u *url.URL, all []*http.Cookie) {
	for _, c := range all {
		c.Secure = false
	}
	j.CookieJar.SetCookies(u, all)
}

func (p *person) do(r *http.Request, status int) (page, at string) {
	p.t.Helper()
	resp, err := p.web.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != status {
		p.t.Fatalf("%s %s: status %d, %v: %s", r.Method, r.URL.Path, resp.StatusCode, err, body)
	}
	return string(body), resp.Request.URL.Path
}

func (p *person) open(path string) string {
	p.t.Helper()
	r, err := http.NewRequest(http.MethodGet, p.d.Base+path, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	page, _ := p.do(r, 200)
	return page
}

// send posts a form and follows.
func (p *person) send(path string, status int, pairs ...string) string {
	p.t.Helper()
	page, _ := p.follow(path, status, pairs...)
	return page
}

// follow is send, and tells where it led to.
func (p *person) follow(path string, status int, pairs ...string) (page, at string) {
	p.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequest(http.MethodPost, p.d.Base+path, strings.NewReader(form.Encode()))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return p.do(r, status)
}

// deploy sends a ZIP and returns what its job comes to.
func (p *person) deploy(c *client, path string, zip []byte) string {
	p.t.Helper()
	return p.end(p.begin(c, path, zip))
}

// sends sends a ZIP.
func (p *person) sends(c *client, path string, zip []byte, status int) (page, at string) {
	p.t.Helper()
	r := c.Form(http.MethodPost, path, zip)
	r.Header.Del("api-token")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	return p.do(r, status)
}

// begin sends a ZIP and returns the address of its job.
func (p *person) begin(c *client, path string, zip []byte) (at string) {
	p.t.Helper()
	_, at = p.sends(c, path, zip, 200)
	if !strings.HasPrefix(at, "/uploads/") {
		p.t.Fatalf("%s leads to %s", path, at)
	}
	return at
}

// end waits for a job, as somebody who looks at its page.
func (p *person) end(at string) (page string) {
	p.t.Helper()
	harness.Eventually(p.t, "the job has ended", func() bool {
		page = p.open(at)
		return !strings.Contains(page, `http-equiv="refresh"`)
	})
	return page
}

// first is what the first group of a pattern matches in a page.
func (p *person) first(page, pattern string) string {
	p.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(page)
	if found == nil {
		p.t.Fatalf("nothing is like %s in %s", pattern, page)
	}
	return found[1]
}

// Everything that the panel manages, on a real application, by forms alone.
func TestPanelManages(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 500)
	d.CLI("account", "set", "ana", "--admin", "true")
	p := d.person("ana")
	wants := func(what, page string, texts ...string) {
		t.Helper()
		for _, text := range texts {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page does not say %q: %s", what, text, page)
			}
		}
	}

	refused, _ := p.sends(c, "/upload", []byte("no ZIP"), 422)
	wants("a ZIP that is none", refused, `class="notice bad"`, "the file is not a ZIP")
	wants("an upload", p.deploy(c, "/upload", harness.Zip(counter("1"))), " is online.")
	id := c.IDs()[0]
	at := "/apps/" + id
	wants("a new version", p.deploy(c, at+"/commit", harness.Zip(counter("2"))), " is online.")
	p.send(at+"/env", 200, "block", "SECRET=from-the-panel\nOTHER='x y'")
	wants("a secret", p.send(at+"/env/reveal", 200, "name", "OTHER"), "x y")
	p.send(at+"/ram", 200, "ram", "150")
	p.send(at+"/autorestart", 200, "on", "true")
	c.Info(id).Want(200, "apps.ram", 150, "apps.autoRestart", true)
	p.send(at+"/ram", 422, "ram", "5000")

	wants("the files", p.open(at+"/files"), "data.txt", "lib", "discloud.config")
	p.send(at+"/files/write", 200, "path", "lib/code.txt", "text", "by hand\r\n", "over", "*")
	if got := d.text(id, "lib/code.txt"); got != "by hand\n" {
		t.Errorf("the file holds %q", got)
	}
	if err := os.Symlink("/etc/passwd", d.Path(id, "trap")); err != nil {
		t.Fatal(err)
	}
	p.send(at+"/files/write", 409, "path", "trap", "text", "x")
	wants("the link", p.open(at+"/files"), "a link, which is not followed")

	page := p.send(at+"/backups", 200, "env", "true")
	link := p.first(page, `href="(/d/[^"]+)"`)
	if zip := c.Download(d.Base + link); len(zip) < 100 {
		t.Errorf("the backup has %d bytes", len(zip))
	}
	p.send(at+"/env/remove", 200, "name", "SECRET")
	p.send(at+"/files/write", 200, "path", "lib/code.txt", "text", "spoiled", "over", "*")
	_, job := p.follow(at+"/restore", 200, "backup", p.first(page, `name="backup" value="([^"]+)"`), "sure", "true", "env", "true")
	wants("the restore", p.end(job), " is online.")
	c.UntilLog(id, "from-the-panel")
	if got := d.text(id, "lib/code.txt"); got != "by hand\n" {
		t.Errorf("restored, the file holds %q", got)
	}

	p.send("/host/doctor", 200)
	harness.Eventually(t, "the host is examined", func() bool { page = p.open("/host"); return strings.Contains(page, "a child was killed at 32 MB") })
	p.send(at+"/stop", 200)
	p.send("/host/doctor", 200)
	harness.Eventually(t, "it is examined again", func() bool { page = p.open("/host"); return !strings.Contains(page, `data-poll="doctor"`) })
	p.send(at+"/start", 200) // the doctor has left the groups as they were
	p.send(at+"/delete", 400, "name", "not it")
	p.send(at+"/delete", 200, "name", c.Info(id).Text("apps.name"))
	if left := c.IDs(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	harness.Eventually(t, "the audit log has everything", func() bool {
		page = p.open("/host/audit?account=ana")
		for _, name := range []string{"app.upload", "app.commit", "env.set", "env.reveal", "file.write", "app.restore", "app.delete", "host.examine"} {
			if !strings.Contains(page, name) {
				return false
			}
		}
		return true
	})
}

// An upgrade waits for a job as for a request, though no browser does; what takes
// longer is called off and leaves nothing. The next image knows none of them.
func TestPanelJobsAndUpgrades(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		patience, build string
		done            bool
	}{
		"within the patience": {"60s", "while ! test -e $GATE; do sleep 0.1; done", true},
		"too slow":            {"1s", "sleep 1000", false},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			d := upgradable(t, "--upgrade-patience", c.patience)
			d.Serve()
			ana := d.account("ana", 300)
			p := d.person("ana")
			gate := d.Gates + "/go"
			zip := harness.ShellBot("exec sleep 1000000\n", "BUILD="+strings.ReplaceAll("touch began; "+c.build, "$GATE", gate)).Zip()
			at := p.begin(ana, "/upload", zip)
			harness.Eventually(t, "it is built", func() bool { return harness.Exists(t, d.Data+"/apps/*/began") })
			d.asked()
			if c.done {
				if d.Images() != 1 || !strings.Contains(p.open(at), "Building") {
					t.Error("the upgrade did not wait")
				}
				if err := os.WriteFile(gate, nil, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			d.UntilImages(2)
			if got := len(ana.IDs()); got == 1 != c.done {
				t.Errorf("%d applications", got)
			}
			r, err := http.NewRequest(http.MethodGet, d.Base+at, nil)
			if err != nil {
				t.Fatal(err)
			}
			if page, _ := p.do(r, 404); !strings.Contains(page, "does not know this upload any more") {
				t.Errorf("the next image says %s", page)
			}
			log := ""
			harness.Eventually(t, "the upload is in the audit log", func() bool {
				log = d.CLI("audit", "--account", "ana")
				return strings.Contains(log, "app.upload")
			})
			if strings.Contains(log, " 503") == c.done { // and no id that has these digits
				t.Errorf("the audit log is %s", log)
			}
		})
	}
}
