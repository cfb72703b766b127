package browser

import (
	"os/exec"
	"strings"
	"testing"
)

// curl asks who has a token, as a program would: the status of the answer.
func (d *daemon) curl(token string) string {
	d.t.Helper()
	cmd := exec.Command("curl", "--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--header", "@-", d.Base+"/v2/user")
	cmd.Stdin = strings.NewReader("api-token: " + token + "\n") // not in the list of processes
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("curl: %v", err)
	}
	return string(out)
}

// made reads the token that the page shows once.
func (p *tab) made() string {
	p.t.Helper()
	p.until(`document.querySelector("#secret")?.value`)
	token := eval[string](p, `document.querySelector("#secret").value`)
	p.reload()
	if strings.Contains(eval[string](p, "document.documentElement.outerHTML"), token) {
		p.t.Error("the token is shown a second time")
	}
	return token
}

// A token of the panel works for the API, beside its successor for as long as it was
// told, and not a moment after it was revoked.
func TestPanelTokens(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	p.open(d.Base+"/account", 200)
	p.fill("#label", "laptop")
	p.choose("#expires", "168")
	p.follow(func() { p.press("section[aria-labelledby=tokens] button", "Create a token") })
	first := p.made()
	if got := d.curl(first); got != "200" {
		t.Fatalf("the API answers a new token with %s", got)
	}
	row := func(words string) string {
		return eval[string](p, `[...document.querySelectorAll("section[aria-labelledby=tokens] li")].map((e) => e.innerText).find((s) => s.includes("`+words+`")) ?? ""`)
	}
	p.reload()
	if got := row("laptop"); !strings.Contains(got, "expires in 6 d") || !strings.Contains(got, "last used") {
		t.Errorf("the token is described as %q", got)
	}
	rotate := func(hours string) string {
		p.choose("section[aria-labelledby=tokens] li:last-child select", hours)
		p.follow(func() { p.press("section[aria-labelledby=tokens] li:last-child button", "Replace") })
		return p.made()
	}
	second := rotate("1")
	if got := d.curl(first) + d.curl(second); got != "200200" || first == second {
		t.Errorf("while they overlap, the tokens are answered with %s", got)
	}
	third := rotate("0")
	if got := d.curl(second) + d.curl(third); got != "401200" {
		t.Errorf("without an overlap, the old and the new token are answered with %s", got)
	}
	p.follow(func() { p.press("section[aria-labelledby=tokens] li:last-child button", "Revoke") })
	if got := d.curl(third); got != "401" {
		t.Errorf("a revoked token is answered with %s", got)
	}
	if got := d.curl(d.token); got != "200" {
		t.Errorf("another token of the account is answered with %s", got)
	}
	p.sound()
}
