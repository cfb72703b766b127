package panel

import (
	"net/http"
	"strings"
	"testing"

	"berth/app"
)

// begin is a program on a laptop that waits with a code.
func (w *world) begin() (secret string, d app.Device) {
	w.t.Helper()
	secret, d, err := w.devices.Begin(app.Device{
		Client: "berth <b>", Machine: "laptop", From: app.Visitor{Address: "203.0.113.9", Key: "203.0.113.9"},
	})
	must(w.t, err)
	return secret, d
}

func (w *world) deviceCode() string {
	_, d := w.begin()
	return d.Code
}

// token is what the program gets.
func (w *world) token(secret string) app.DeviceGrant {
	w.t.Helper()
	g, err := w.devices.Token(w.t.Context(), "berth <b>", secret)
	must(w.t, err)
	return g
}

// A person types the code, sees who asks, and gives the password again: the program gets a
// token, and the audit log has who did it for whom.
func TestDeviceIsAllowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	secret, d := w.begin()
	b.get("/account").want(t, "the account", http.StatusOK, `href="/device"`)
	b.get("/device").want(t, "the form", http.StatusOK, `name="code"`, `autocomplete="off"`)
	asked := b.post("/device", "code", " "+strings.ToLower(strings.ReplaceAll(d.Code, "-", ""))+" ")
	asked.want(t, "who asks", http.StatusOK, "berth &lt;b&gt;", "laptop", "203.0.113.9", d.Code, "it can do everything with your applications", "ends after 90 d", "Allow", "Deny")
	if strings.Contains(asked.body, secret) {
		t.Error("the page has the secret of the program")
	}
	w.forgetProof("ana")
	b.post("/device/allow", "code", d.Code).want(t, "without the password", http.StatusOK, "Confirm that it is you", d.Code)
	b.post("/device/allow", "code", d.Code, proveField, "wrong password").want(t, "a wrong password", http.StatusForbidden, "The password is wrong.", d.Code)
	if g := w.token(secret); g.State != app.DevicePending {
		t.Errorf("without the password: %+v", g)
	}
	next := b.post("/device/allow", "code", d.Code, proveField, password).leads(t, "allowed", "/device")
	b.get(next).want(t, "afterwards", http.StatusOK, "You allowed it. &#34;laptop&#34; gets its token now")
	if act := w.acts.last(); act.Operation != "device.allow" || act.Actor != w.ana.ID || act.Detail != `client="berth <b>" machine="laptop" from=203.0.113.9` {
		t.Errorf("the audit log has %+v", act)
	}
	b.post("/device/allow", "code", d.Code, proveField, password).want(t, "a second time", http.StatusNotFound, "No program waits with this code", `name="code"`)
	g := w.token(secret)
	if g.State != app.DeviceAllowed || g.Account.ID != w.ana.ID {
		t.Fatalf("the program gets %+v", g)
	}
	if a, _, err := w.config.Accounts.Authenticate(t.Context(), g.Token); err != nil || a.ID != w.ana.ID {
		t.Errorf("the token is of %+v, %v", a, err)
	}
	b.get("/account").want(t, "the account", http.StatusOK, "laptop", "expires in 89 d")
}

func TestDeviceIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	secret, d := w.begin()
	next := b.post("/device/deny", "code", d.Code).leads(t, "denied", "/device")
	b.get(next).want(t, "afterwards", http.StatusOK, "You denied it.")
	if g := w.token(secret); g.State != app.DeviceDenied {
		t.Errorf("the program gets %+v", g)
	}
	if act := w.acts.last(); act.Operation != "device.deny" || act.Actor != w.ana.ID {
		t.Errorf("the audit log has %+v", act)
	}
}

// No link types a code for its reader, and no other site sends the form, shows the page in
// a frame, or learns what is on it.
func TestDevicePageAgainstOtherSites(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	secret, d := w.begin()
	for _, query := range []string{"?code=", "?user_code=", "?name=x&code="} {
		p := b.get("/device" + query + d.Code)
		p.want(t, "a link", http.StatusOK, `name="code"`)
		if strings.Contains(p.body, d.Code) || strings.Contains(p.body, "203.0.113.9") {
			t.Errorf("the page at %s has the code", query)
		}
		if policy := p.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "form-action 'self'") {
			t.Errorf("the policy is %q", policy)
		}
	}
	b.post("/device?code="+d.Code).want(t, "a code in the address of a form", http.StatusNotFound, "No program waits")
	p := w.browser().get("/device?code=" + d.Code)
	if to := p.leads(t, "signed out", "/login?next=%2Fdevice"); strings.Contains(to, d.Code) {
		t.Error("the code goes through the sign-in")
	}
	for _, site := range []string{"cross-site", "same-site"} {
		cross := w.as("ana")
		cross.header["Sec-Fetch-Site"] = site
		for _, path := range []string{"/device", "/device/allow", "/device/deny"} {
			cross.post(path, "code", d.Code, proveField, password).want(t, site+" "+path, http.StatusForbidden, "another site")
		}
	}
	for _, path := range []string{"/device/allow", "/device/deny"} {
		b.get(path+"?code="+d.Code).want(t, "GET "+path, http.StatusMethodNotAllowed)
		w.browser().post(path, "code", d.Code, proveField, password).leads(t, "signed out", "/login")
	}
	if g := w.token(secret); g.State != app.DevicePending {
		t.Errorf("the program gets %+v", g)
	}
}

// Who guesses codes is stopped after five, whatever browser, session or address; others
// are not, and the code lives on.
func TestGuessedCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret, d := w.begin()
	bob := w.as("bob")
	for i := range 5 {
		guesser := w.as("bob") // another session
		guesser.peer = "127.0.0.1:" + string(rune('1'+i))
		guesser.post("/device", "code", "BCDF-GHJ"+string("KLMNP"[i])).want(t, "a guess", http.StatusNotFound, "No program waits")
	}
	bob.post("/device", "code", d.Code).want(t, "after five guesses", http.StatusTooManyRequests, "Too many tries")
	bob.post("/device/allow", "code", d.Code, proveField, password).want(t, "allowed after five guesses", http.StatusTooManyRequests)
	bob.post("/device/deny", "code", d.Code).want(t, "denied after five guesses", http.StatusTooManyRequests)
	if act := w.acts.last(); act.Operation != "device.deny" || act.Status != http.StatusTooManyRequests {
		t.Errorf("the audit log has %+v", act)
	}
	w.as("ana").post("/device/allow", "code", d.Code, proveField, password).leads(t, "another account", "/device")
	if g := w.token(secret); g.State != app.DeviceAllowed {
		t.Errorf("the program gets %+v", g)
	}
}

// The password is asked as often as at the sign-in.
func TestDevicePasswordIsSlowedDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	_, d := w.begin()
	w.forgetProof("ana")
	for range 5 {
		b.post("/device/allow", "code", d.Code, proveField, "wrong password").want(t, "wrong", http.StatusForbidden)
	}
	b.post("/device/allow", "code", d.Code, proveField, password).want(t, "too many", http.StatusTooManyRequests, "Too many tries", d.Code)
}

// An account that is disabled while its browser shows the page allows nothing, and gives
// nothing that it has allowed.
func TestDeviceOfADisabledAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	disable := func(off bool) {
		must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Disabled = off; return nil })))
	}
	secret, d := w.begin()
	disable(true)
	b.post("/device/allow", "code", d.Code, proveField, password).leads(t, "disabled", "/login")
	if g := w.token(secret); g.State != app.DevicePending {
		t.Errorf("the program gets %+v", g)
	}
	disable(false)
	b = w.as("ana") // its sessions have ended
	b.post("/device/allow", "code", d.Code, proveField, password).leads(t, "allowed", "/device")
	disable(true)
	if g := w.token(secret); g.State != app.DeviceDenied {
		t.Errorf("after it was disabled, the program gets %+v", g)
	}
}
