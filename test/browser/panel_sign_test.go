package browser

import (
	"fmt"
	"strings"
	"testing"
)

// The first account: a one-time link of the host's shell leads to a password, and to
// the panel.
func TestPanelFirstRun(t *testing.T) {
	t.Parallel()
	d := bare(t)
	p := chromium(t, "").tab()
	p.watch()
	p.open(d.Base+"/", 200)
	p.says("berth setup-url")
	link := d.run("setup-url", "--listen", strings.TrimPrefix(d.Base, "http://"))
	p.open(link, 200)
	p.says("Create the first account")
	p.fill("#name", "ana")
	p.fill("#password", secret)
	p.fill("#again", secret+"!")
	p.follow(func() { p.press("main button", "Set the password") })
	p.says("passwords differ")
	p.fill("#password", secret)
	p.fill("#again", secret)
	p.follow(func() { p.press("main button", "Set the password") })
	p.says("First steps")
	p.sound()
	p.open(link, 404) // it works once
	p.open(d.Base+"/", 200)
	p.says("No applications yet")
	p.follow(func() { p.press("header button", "Sign out") })
	p.until(`location.pathname == "/login"`)
	p.open(d.Base+"/account", 200)
	p.until(`location.pathname == "/login" && location.search.includes("next")`)
	p.fill("#name", "ana")
	p.fill("#password", secret)
	p.follow(func() { p.press("main button", "Sign in") })
	p.until(`location.pathname == "/account"`)
	p.sound()
}

// A wrong password says no more than that, and who guesses on waits.
func TestPanelGuesses(t *testing.T) {
	t.Parallel()
	d := launch(t)
	d.runWith(secret+"\n", "account", "password", "ana")
	p := chromium(t, "").tab()
	p.watch()
	p.open(d.Base+"/login", 200)
	try := func(name, password string) {
		p.fill("#name", name)
		p.fill("#password", password)
		p.follow(func() { p.press("main button", "Sign in") })
	}
	try("nobody", secret)
	unknown := eval[string](p, `document.querySelector("[role=alert]").innerText.trim()`)
	try("ana", "wrong "+secret)
	if got := eval[string](p, `document.querySelector("[role=alert]").innerText.trim()`); got != unknown || !strings.Contains(got, "wrong") {
		t.Errorf("an unknown name: %q; a wrong password: %q", unknown, got)
	}
	if eval[string](p, `document.querySelector("#name").value`) != "ana" || eval[string](p, `document.querySelector("#password").value`) != "" {
		t.Error("the name is not kept, or the password is")
	}
	waits := func() bool { return strings.Contains(p.text(), "oo many tries; try again in ") }
	for n := 0; !waits(); n++ { // each pause is twice as long as the one before
		if n == 12 {
			t.Fatalf("nothing slows down guesses: %q", p.text())
		}
		try("ana", fmt.Sprint("wrong ", n))
	}
	try("ana", secret)
	for waits() { // the pause is over some time
		try("ana", secret)
	}
	if at := p.address(); at != d.Base+"/" {
		t.Errorf("after the pause the browser is at %s, which says %q", at, p.text())
	}
	p.clean()
}

// Somebody ends a session from another browser: the page that is open there leads to
// the sign-in.
func TestPanelSessionEndedElsewhere(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	other := p.another()
	d.signIn(other, "ana")
	other.streaming()
	p.open(d.Base+"/account", 200)
	if n := eval[int](p, `document.querySelectorAll("form[action^='/account/sessions/']").length`); n != 1 {
		t.Fatalf("%d sessions can be ended, want the other one", n)
	}
	p.follow(func() { p.press("form[action^='/account/sessions/'] button", "End") })
	if n := eval[int](p, `document.querySelectorAll("form[action^='/account/sessions/']").length`); n != 0 {
		t.Errorf("%d other sessions are left", n)
	}
	p.sound()
	other.open(d.Base+"/account", 200)
	other.until(`location.pathname == "/login"`)
}

// The new password counts, the old one does not, and other browsers are signed out.
func TestPanelPasswordChange(t *testing.T) {
	t.Parallel()
	d := launch(t)
	p := d.visitor()
	other := p.another()
	d.signIn(other, "ana")
	p.open(d.Base+"/account", 200)
	p.fill("#old", secret)
	p.fill("main #password", "another "+secret)
	p.fill("#again", "another "+secret)
	p.follow(func() { p.press("section[aria-labelledby=change] button", "Change") })
	p.says("Your password was changed")
	p.sound()
	other.open(d.Base+"/", 200)
	other.until(`location.pathname == "/login"`)
	other.fill("#name", "ana")
	other.fill("#password", secret)
	other.follow(func() { other.press("main button", "Sign in") })
	other.says("wrong")
}
