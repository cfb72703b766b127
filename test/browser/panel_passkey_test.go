package browser

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
)

// authenticator gives a tab one that is in the device, and sees the person at once.
func (p *tab) authenticator() {
	p.t.Helper()
	p.do(webauthn.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := webauthn.AddVirtualAuthenticator(&webauthn.VirtualAuthenticatorOptions{
			Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal, HasResidentKey: true,
			HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
		}).Do(ctx)
		return err
	}))
}

// A person makes a passkey, signs in by it alone and as the second step, proves by it who they
// are, and removes it. An address that imitates the panel gets nothing.
func TestPanelPasskey(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	base := strings.Replace(d.Base, "127.0.0.1", "localhost", 1)
	// Passkeys need a name: here it is localhost, and below it one that somebody else has.
	p := chromium(t, "", "--host-resolver-rules=MAP localhost 127.0.0.1, MAP *.localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1").tab()
	d.person(p, "ana")
	p.open(d.Base+"/account/factors", 200)
	p.says("Browsers make no passkeys at this address")

	p.authenticator()
	signIn := func(at string) {
		p.open(at+"/login", 200)
		p.fill("#name", "ana")
		p.fill("#password", secret)
		p.follow(func() { p.press("main button", "Sign in") })
	}
	signIn(base)
	p.open(base+"/account/factors", 200)
	p.looked(axe, "passkeys-none")
	p.fill("#passkey-name", "Ana's laptop")
	p.follow(func() { p.press("main button", "Create a passkey") })
	p.says("10 recovery codes are left")
	p.says("Ana's laptop")
	p.looked(axe, "passkeys-one")
	p.fill("#passkey-name", "the same")
	p.press("main button", "Create a passkey")
	p.says("This device has a passkey of your account already.")

	// Alone, without name and password.
	p.follow(func() { p.press("header button", "Sign out") })
	p.looked(axe, "passkey-login")
	p.follow(func() { p.press("main button", "Sign in with a passkey") })
	p.until(`location.pathname == "/"`)

	// As the second step after the password.
	p.follow(func() { p.press("header button", "Sign out") })
	signIn(base)
	p.until(`location.pathname == "/login/second"`)
	p.looked(axe, "passkey-second")
	p.follow(func() { p.press("main button", "Sign in with a passkey") })
	p.until(`location.pathname == "/"`)

	p.open(base+"/account/factors", 200)
	p.fill(`input[id^="name-"]`, "Laptop")
	p.follow(func() { p.press("main button", "Rename") })
	p.says("The passkey has another name now.")

	// A page in between, at a name of its own, gets no answer from the browser.
	target, err := url.Parse(d.Base)
	if err != nil {
		t.Fatal(err)
	}
	phish := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = strings.TrimPrefix(base, "http://")
		r.Out.Header.Del("Origin")
	}})
	defer phish.Close()
	evil := strings.Replace(phish.URL, "127.0.0.1", "evil.localhost", 1)
	p.open(evil+"/login", http.StatusOK)
	p.press("main button", "Sign in with a passkey")
	p.says("The browser gave no passkey.")
	p.until(`document.querySelector("[data-problem]").dataset.error == "SecurityError"`)

	p.open(base+"/account/factors", 200)
	p.follow(func() { p.press("main button", "Remove") })
	p.says("The passkey was removed")
	p.sound()
	p.follow(func() { p.press("header button", "Sign out") })
	p.follow(func() { p.press("main button", "Sign in with a passkey") })
	p.says("This passkey does not sign in here")
}
