package browser

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// shown is what an app for codes shows at a moment.
func shown(t *testing.T, seed string, at time.Time) string {
	t.Helper()
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(seed)
	if err != nil {
		t.Fatal(err)
	}
	h := hmac.New(sha1.New, key)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/30)))
	sum := h.Sum(nil)
	return fmt.Sprintf("%06d", (binary.BigEndian.Uint32(sum[sum[19]&15:])&0x7fffffff)%1_000_000)
}

// secondStep signs somebody out and in again, up to the second step.
func (d *daemon) secondStep(p *tab) {
	d.t.Helper()
	p.follow(func() { p.press("header button", "Sign out") })
	p.fill("#name", "ana")
	p.fill("#password", secret)
	p.follow(func() { p.press("main button", "Sign in") })
	p.until(`location.pathname == "/login/second" && document.activeElement.id == "code"`)
}

// A person sets up an app for codes, and signs in with a code of it, with a recovery code and
// without scripts. What is used is of no use again.
func TestPanelSecondFactor(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	p := d.visitor()
	p.open(d.Base+"/account", 200)
	p.follow(func() { p.press("main a", "Set up") })
	p.says("Your password alone")
	p.looked(axe, "factors-off")
	p.follow(func() { p.press("main button", "Set up an app") })
	p.looked(axe, "factors-offered")
	if modules := eval[int](p, `document.querySelector("svg.qr path").getAttribute("d").split("M").length`); modules < 300 {
		t.Errorf("the QR code has %d dark modules", modules)
	}
	seed := eval[string](p, `document.querySelector("#seed").value`)
	p.fill("#code", "000000")
	p.follow(func() { p.press("main button", "Turn on") })
	p.says("The code is wrong")
	began := time.Now()
	p.fill("#code", shown(t, seed, began))
	p.follow(func() { p.press("main button", "Turn on") })
	p.says("10 recovery codes are left")
	p.looked(axe, "factors-codes")
	codes := strings.Fields(eval[string](p, `document.querySelector("#codes").value`))
	if len(codes) != 10 {
		t.Fatalf("%d recovery codes", len(codes))
	}
	p.reload()
	if text := p.text(); strings.Contains(text, codes[0]) || !strings.Contains(text, "Turned on") {
		t.Errorf("after the codes were shown, the page says %q", text)
	}
	p.looked(axe, "factors-on")
	p.open(d.Base+"/account", 200)
	p.looked(axe, "account-factors")
	p.sound()

	d.secondStep(p)
	p.looked(axe, "second")
	p.open(d.Base+"/account", 200)
	p.until(`location.pathname == "/login"`) // the password alone opens nothing
	p.open(d.Base+"/login/second", 200)
	p.do(chromedp.KeyEvent(shown(t, seed, began))) // by the keyboard alone, a code that was used
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("The code is wrong")
	p.fill("#code", shown(t, seed, began.Add(30*time.Second)))
	p.follow(func() { p.press("main button", "Sign in") })
	p.until(`location.pathname == "/"`)

	d.secondStep(p)
	p.fill("#code", strings.ToLower(codes[4]))
	p.follow(func() { p.press("main button", "Sign in") })
	p.until(`location.pathname == "/"`)
	d.secondStep(p)
	p.fill("#code", codes[4])
	p.follow(func() { p.press("main button", "Sign in") })
	p.says("The code is wrong")

	plain := p.another()
	plain.scripts(false)
	plain.open(d.Base+"/", 200)
	plain.fill("#name", "ana")
	plain.fill("#password", secret)
	plain.follow(func() { plain.press("main button", "Sign in") })
	plain.fill("#code", codes[5])
	plain.follow(func() { plain.press("main button", "Sign in") })
	plain.until(`location.pathname == "/"`)

	// Who has lost all of it gets in by a link of the host's shell, and by nothing else.
	link := d.run("account", "reset", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	plain.open(d.Base+"/account", 200)
	plain.until(`location.pathname == "/login"`)
	p.open(link, 200)
	p.fill("#password", "another "+secret)
	p.fill("#again", "another "+secret)
	p.follow(func() { p.press("main button", "Set the password") })
	p.until(`location.pathname == "/first-steps"`)
	p.open(d.Base+"/account", 200)
	p.says("Your password alone opens your account")
}

// Somebody whose proof is of another address is asked again, and the form goes on with what it
// had. A sign-in elsewhere is shown until it is dismissed.
func TestPanelAsksAgain(t *testing.T) {
	t.Parallel()
	d := launch(t, "--proxy-trusted", "127.0.0.1")
	axe := axe(t)
	p := chromium(t, "").tab()
	from := func(p *tab, address string) {
		p.do(network.SetExtraHTTPHeaders(network.Headers{"X-Forwarded-For": address, "X-Forwarded-Proto": "https"}))
	}
	from(p, "192.0.2.7")
	d.person(p, "ana")
	from(p, "192.0.2.8")
	p.open(d.Base+"/account", 200)
	p.fill("#label", "laptop & more")
	p.choose("#expires", "168")
	p.follow(func() { p.press("main button", "Create a token") })
	p.says("Confirm that it is you")
	p.until(`document.activeElement.id == "prove-password"`)
	p.looked(axe, "again")
	p.fill("#prove-password", "wrong "+secret)
	p.follow(func() { p.press("main button", "Continue") })
	p.says("The password is wrong")
	p.fill("#prove-password", secret)
	p.follow(func() { p.press("main button", "Continue") })
	p.says("laptop & more")
	p.says("expires in 6 d")
	p.sound()

	other := p.another()
	from(other, "198.51.100.9")
	d.signIn(other, "ana")
	p.open(d.Base+"/upload", 200)
	p.says("from 198.51.100.9")
	p.looked(axe, "notice")
	p.follow(func() { p.press("main button", "It was me") })
	if at := p.address(); at != d.Base+"/upload" || strings.Contains(p.text(), "New sign-in") {
		t.Errorf("after the notice was dismissed the browser is at %s, which says %q", at, p.text())
	}
	p.sound()
}

// While an administrator demands a second factor of everybody, somebody without one finds the page
// that sets one up, whatever they open, and everything else afterwards.
func TestPanelDemandsAFactor(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	d.lookAfter()
	p := d.visitor()
	p.open(d.Base+"/host", 200)
	p.follow(func() { p.press("main button", "Require a second factor") })
	p.says("You have no second factor yourself")
	setUp := func(p *tab) {
		p.open(d.Base+"/account/factors", 200)
		p.follow(func() { p.press("main button", "Set up an app") })
		p.fill("#code", shown(t, eval[string](p, `document.querySelector("#seed").value`), time.Now()))
		p.follow(func() { p.press("main button", "Turn on") })
		p.says("recovery codes are left")
	}
	setUp(p)
	p.open(d.Base+"/host", 200)
	p.follow(func() { p.press("main button", "Require a second factor") })
	p.says("Everybody must have a second factor now")
	p.looked(axe, "host-factor")
	p.sound()

	bob := p.another()
	d.run("account", "create", "bob", "--ram", "512")
	d.runWith(secret+"\n", "account", "password", "bob")
	bob.watch()
	bob.open(d.Base+"/login", 200)
	bob.fill("#name", "bob")
	bob.fill("#password", secret)
	bob.follow(func() { bob.press("main button", "Sign in") })
	bob.until(`location.pathname == "/account/factors"`)
	bob.says("requires a second factor")
	bob.looked(axe, "factors-demanded")
	bob.open(d.Base+"/upload", 200)
	bob.until(`location.pathname == "/account/factors"`)
	setUp(bob)
	bob.open(d.Base+"/upload", 200)
	bob.until(`location.pathname == "/upload"`)
	bob.sound()
}
