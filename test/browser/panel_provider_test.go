package browser

import (
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/openid"
)

// provided starts a provider at a site of its own, and a daemon behind HTTPS that knows it.
func provided(t *testing.T) (d *daemon, b *browser, l *openid.Server, base string) {
	t.Helper()
	l = openid.New(t)
	at := strings.TrimPrefix(l.URL, "https://")
	_, port, _ := strings.Cut(at, ":")
	l.Metadata = func(m map[string]any) { m["authorization_endpoint"] = "https://id.example.com:" + port + "/authorize" }
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var target *url.URL
	front := httptest.NewTLSServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.SetXForwarded()
		r.Out.Host = r.In.Host
	}})
	t.Cleanup(front.Close)
	d = launch(t, "--base-url", front.URL, "--proxy-trusted", "127.0.0.1", "--sign-in-openid-name", "Corp", "--sign-in-openid-issuer", l.URL,
		"--sign-in-openid-client", openid.Client, "--sign-in-openid-secret", write("secret", []byte(openid.Secret)),
		"--sign-in-openid-roots", write("roots", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.Certificate().Raw})))
	target, _ = url.Parse(d.Base)
	return d, chromium(t, at, "--ignore-certificate-errors"), l, front.URL
}

// A person adds a provider to their account, signs in with it, and with nothing else accepts an
// invitation with it, with and without scripts; the way there leads over another site.
func TestPanelProvider(t *testing.T) {
	t.Parallel()
	d, b, l, base := provided(t)
	axe := axe(t)
	p := b.tab()
	d.person(p, "ana")
	p.open(base+"/", 200)
	p.follow(func() { p.press("header button", "Sign out") })
	p.looked(axe, "provider-login")
	p.follow(func() { p.press("main button", "Sign in with Corp") })
	p.until(`location.pathname == "/sign-in/openid/callback"`)
	p.says("Nobody signs in by this identity")
	p.looked(axe, "provider-nobody")
	p.fill("#name", "ana")
	p.fill("#password", secret)
	p.follow(func() { p.press("main button", "Sign in") })
	p.open(base+"/account", 200)
	p.follow(func() { p.press("main button", "Add Corp") })
	p.until(`location.pathname == "/account"`)
	p.says("From now on you can sign in by this identity, too.")
	p.looked(axe, "provider-account")
	p.follow(func() { p.press("header button", "Sign out") })
	p.follow(func() { p.press("main button", "Sign in with Corp") })
	p.until(`location.pathname == "/"`)
	p.sound()

	l.Claims = func(c map[string]any) { c["sub"], c["name"] = "carla-1", "Carla" }
	link := d.run("invite", "create", "--ram", "64", "--name", "carla", "--base-url", base)
	link = link[strings.LastIndex(link, "https://"):]
	guest := p.another()
	guest.open(link, 200)
	guest.looked(axe, "provider-invitation")
	guest.scripts(false)
	guest.open(link, 200)
	guest.follow(func() { guest.press("main button", "Sign in with Corp") })
	guest.until(`location.pathname == "/"`)
	guest.scripts(true)
	guest.open(base+"/account", 200)
	guest.says("Set a password")
	guest.says("Carla")
	guest.looked(axe, "provider-only")
	guest.follow(func() { guest.press("main button", "Remove") })
	guest.says("Without this nobody could sign in to the account")
	guest.fill("#password", secret)
	guest.fill("#again", secret)
	guest.follow(func() { guest.press("main button", "Set a password") })
	guest.says("Your account has a password now")
	guest.open(link, http.StatusNotFound)
}

// Somebody accepts an invitation with a passkey, and then signs in by it.
func TestPanelInvitationByPasskey(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	base := strings.Replace(d.Base, "127.0.0.1", "localhost", 1)
	p := chromium(t, "", "--host-resolver-rules=MAP localhost 127.0.0.1, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1").tab()
	p.authenticator()
	link := d.run("invite", "create", "--ram", "64", "--name", "carla", "--base-url", base)
	p.open(link[strings.LastIndex(link, "http://"):], 200)
	p.follow(func() { p.press("main button", "Use a passkey") })
	p.says("Create a passkey for carla")
	p.looked(axe, "invitation-passkey")
	p.fill("#device", "Carla's phone")
	p.follow(func() { p.press("main button", "Create the account") })
	p.until(`location.pathname == "/account/factors"`)
	p.says("Carla's phone")
	p.looked(axe, "invitation-passkey-made")
	p.follow(func() { p.press("header button", "Sign out") })
	p.follow(func() { p.press("main button", "Sign in with a passkey") })
	p.until(`location.pathname == "/"`)
	p.sound()
}
