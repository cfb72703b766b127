package browser

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// An application of somebody else is not there, whatever page of it one asks for; and
// a member of its team sees, and can do, what the permissions say.
func TestPanelOfOthers(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := chromium(t, "").tab()
	d.person(p, "bob")
	p.says("No applications yet")
	for _, page := range []string{"", "/logs", "/deploys", "/env", "/files", "/domains", "/backups", "/settings", "/logs/download"} {
		p.open(d.Base+"/apps/"+id+page, 404)
	}
	p.open(d.Base+"/host", 404)
	if got := d.postAs(p, "/apps/"+id+"/stop"); got != 404 {
		t.Errorf("a stranger's stop is answered with %d", got)
	}
	p.forgive()
	member := eval[string](d.openAccount(p), `[...document.querySelectorAll("dt")].find((e) => e.innerText == "Number of the account").nextElementSibling.innerText.trim()`)
	body := fmt.Sprintf(`{"modID":%q,"perms":["status_app","logs_app","stop_app"]}`, member)
	if status, text := d.ask(http.MethodPost, "/app/"+id+"/team", "application/json", strings.NewReader(body)); status != http.StatusOK {
		t.Fatalf("the team: %d %s", status, text)
	}
	p.open(d.Base+"/", 200)
	p.says("of ana")
	p.follow(func() { p.press("#apps a", "Greeter") })
	if got, want := eval[string](p, `[...document.querySelectorAll(".app-head nav a")].map((a) => a.innerText.trim()).join()`), "Overview,Logs"; got != want {
		t.Errorf("a member is shown %s, want %s", got, want)
	}
	if got, want := eval[string](p, `[...document.querySelectorAll("[data-part=buttons] button, [data-part=buttons] a")].map((a) => a.innerText.trim()).join()`), "Stop"; got != want {
		t.Errorf("a member can do %s, want %s", got, want)
	}
	if got := d.postAs(p, "/apps/"+id+"/restart"); got != 403 {
		t.Errorf("what a member may not do is answered with %d", got)
	}
	p.forgive()
	p.open(d.Base+"/apps/"+id+"/deploys", 404)
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.streaming()
	p.until(newest + " > 0")
	p.follow(func() { p.press("[data-part=buttons] button", "Stop") })
	p.says("Stopped")
	p.sound()
}

// postAs sends a form, as a page of p could, and returns the status of the answer.
func (d *daemon) postAs(p *tab, path string) int {
	d.t.Helper()
	return eval[int](p, fmt.Sprintf(`fetch(%q, {method: "POST", redirect: "manual", body: new URLSearchParams()}).then((a) => a.status)`, path))
}

// openAccount opens the account's page.
func (d *daemon) openAccount(p *tab) *tab {
	p.open(d.Base+"/account", 200)
	return p
}

// forgive forgets what went wrong so far, where that was meant to.
func (p *tab) forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = nil
}
