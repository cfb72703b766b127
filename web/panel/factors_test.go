package panel

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // RFC 6238
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// codeOf is what an app shows, written apart from the code that checks it.
func codeOf(seed string, at time.Time) string {
	key, err := base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(seed)
	if err != nil {
		panic(err)
	}
	h := hmac.New(sha1.New, key)
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(at.Unix()/30)))
	sum := h.Sum(nil)
	n := binary.BigEndian.Uint32(sum[sum[19]&15:]) & 0x7fffffff
	return fmt.Sprintf("%06d", n%1_000_000)
}

// withTOTP gives an account an app for codes, whose last code is used, and returns what makes
// them and the recovery codes.
func (w *world) withTOTP(a app.Account) (seed string, recovery []string) {
	w.t.Helper()
	seed, _, err := w.signIns.OfferTOTP(w.t.Context(), a, "panel.example.org")
	must(w.t, err)
	recovery, err = w.signIns.ConfirmTOTP(w.t.Context(), a, codeOf(seed, time.Now().Add(-30*time.Second)))
	must(w.t, err)
	return seed, recovery
}

// The password of an account with a second factor opens nothing: the browser gets a cookie of
// its own name, and the second step begins the session, with a new key.
func TestSecondStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed, recovery := w.withTOTP(w.ana)
	b := w.browser()
	b.post("/login", "name", "ana", "password", password, "next", "/upload").leads(t, "the password", "/login/second?next=%2Fupload")
	pending := b.cookies["__Host-berth-pending"]
	if b.cookies["__Host-berth"] != "" || b.cookies["__Host-berth-known"] != "" || pending == "" {
		t.Fatalf("after the password alone: %v", b.cookies)
	}
	if act := w.acts.last(); act.Operation != "session.pending" || act.Actor != w.ana.ID {
		t.Errorf("the audit log has %+v", act)
	}
	b.get("/account").leads(t, "half a sign-in", "/login?next=%2Faccount")
	b.get("/login/second?next=%2Fupload").want(t, "the second step", http.StatusOK, `name="code"`, `value="/upload"`, "ana")
	b.post("/login/second", "code", "000000", "next", "/upload").want(t, "a wrong code", http.StatusUnauthorized, "The code is wrong.", `value="/upload"`)
	if act := w.acts.last(); act.Operation != "session.failed" || act.Actor != app.Stranger || act.Detail != "step=second account=ana" {
		t.Errorf("the audit log has %+v", act)
	}
	b.post("/login/second", "code", codeOf(seed, time.Now()), "next", "//evil.example").leads(t, "the code", "/login?kept=&next=%2F")
	if b.cookies["__Host-berth"] == "" || b.cookies["__Host-berth"] == pending || b.cookies["__Host-berth-pending"] != "" {
		t.Errorf("after both steps: %v", b.cookies)
	}
	b.get("/account").want(t, "signed in", http.StatusOK, "ana")
	b.cookies["__Host-berth-pending"] = pending
	b.get("/login/second").leads(t, "the used sign-in", "/login")
	b.post("/login/second", "code", recovery[0]).want(t, "the used sign-in", http.StatusUnauthorized, "This sign-in has ended; begin again.")
}

// A code counts once, whoever types it again, and a recovery code too.
func TestCodesAreNotReplayed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed, recovery := w.withTOTP(w.ana)
	for what, code := range map[string]string{
		"a code of the app": codeOf(seed, time.Now()), "a recovery code": strings.ToLower(strings.ReplaceAll(recovery[3], "-", " ")),
	} {
		first := w.browser()
		first.post("/login", "name", "ana", "password", password)
		first.post("/login/second", "code", code).leads(t, what, "/login?kept=&next=%2F")
		second := w.browser()
		second.post("/login", "name", "ana", "password", password)
		second.post("/login/second", "code", code).want(t, what+" again", http.StatusUnauthorized, "The code is wrong.")
		if second.cookies["__Host-berth"] != "" {
			t.Errorf("%s has opened a second session", what)
		}
	}
	b := w.browser()
	b.post("/login", "name", "ana", "password", password)
	b.post("/login/second", "code", recovery[0]).leads(t, "another recovery code", "/login?kept=&next=%2F")
	b.get("/account/factors").want(t, "what is left", http.StatusOK, "8 recovery codes are left")
}

// No cookie of one step, browser or account is of use for another.
func TestStepsAreNotMixed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed, _ := w.withTOTP(w.ana)
	w.withTOTP(w.bob)
	ana, bob := w.browser(), w.browser()
	ana.header["User-Agent"], bob.header["User-Agent"] = "Firefox/1 Linux", "Firefox/1 Linux"
	// A key that somebody has put into the browser becomes neither a pending sign-in nor a session.
	ana.cookies["__Host-berth"], ana.cookies["__Host-berth-pending"] = "fixed", "fixed"
	ana.post("/login", "name", "ana", "password", password)
	bob.post("/login", "name", "bob", "password", password)
	pending := ana.cookies["__Host-berth-pending"]
	if pending == "fixed" || pending == bob.cookies["__Host-berth-pending"] {
		t.Fatal("the first step has not made a key of its own")
	}
	for what, cookies := range map[string][2]string{ // of the session, of the pending sign-in
		"a pending key as a session": {pending, ""},
		"another account's":          {"", bob.cookies["__Host-berth-pending"]},
		"in another browser":         {"", pending},
		"made up":                    {"", "fixed"},
	} {
		b := w.browser()
		if b.header["User-Agent"] = "Firefox/1 Linux"; what == "in another browser" {
			b.header["User-Agent"] = "Chrome/1 Windows"
		}
		b.cookies["__Host-berth"], b.cookies["__Host-berth-pending"] = cookies[0], cookies[1]
		b.post("/login/second", "code", codeOf(seed, time.Now())).want(t, what, http.StatusUnauthorized)
		b.get("/account").leads(t, what, "/login?next=%2Faccount")
	}
	ana.post("/login/second", "code", codeOf(seed, time.Now())).leads(t, "the own code", "/login?kept=&next=%2F")
	session := ana.cookies["__Host-berth"]
	if session == "fixed" || session == pending {
		t.Fatal("the second step has not made a key of its own")
	}
	w.forgetProof("ana")
	ana.post("/again", proveField, password, "next", "/upload").leads(t, "asked again", "/upload")
	if ana.cookies["__Host-berth"] == session {
		t.Error("the proof has not made a key of its own")
	}
	ana.get("/account").want(t, "the new key", http.StatusOK)
	ana.cookies["__Host-berth"] = session
	ana.get("/account").leads(t, "the key of before", "/login?next=%2Faccount")
}

// A link to a new password does not get around the second step.
func TestLinkNeedsTheSecondStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	_, recovery := w.withTOTP(w.ana)
	key, err := w.signIns.Invite(t.Context(), w.ana.ID)
	must(t, err)
	b := w.browser()
	b.post("/setup/"+key, "password", "another password", "again", "another password").leads(t, "the link", "/login/second?next=%2Ffirst-steps")
	b.get("/account").leads(t, "without the second step", "/login?next=%2Faccount")
	b.post("/login/second", "code", recovery[9]).leads(t, "with it", "/login?kept=&next=%2F")
}

// Every route that opens most asks again when the proof is old, or from elsewhere; does nothing
// before; and goes on with the form that it was sent.
func TestAskedAgain(t *testing.T) {
	t.Parallel()
	asked := map[string]bool{}
	for _, r := range (&pages{}).routes() {
		if r.access&again != 0 {
			asked[r.method+" "+r.pattern] = true
		} else if strings.HasPrefix(r.pattern, "/apps/{app}/terminal") {
			t.Errorf("%s does not ask again", r.pattern)
		} else if r.access.who() == admin && r.method == http.MethodPost && r.pattern != "/host/doctor" {
			t.Errorf("%s changes the host and does not ask again", r.pattern)
		}
	}
	for _, must := range []string{
		"/account/tokens", "/account/tokens/{token}/rotate", "/device/allow", "/apps/{app}/env/reveal", "/apps/{app}/delete", "/apps/{app}/team",
		"/apps/{app}/team/{member}", "/apps/{app}/team/{member}/remove", "/account/factors/app", "/account/factors/app/remove", "/account/factors/codes",
		"/apps/{app}/invitations", "/host/invitations", "/account/channels", "/account/channels/{channel}", "/account/channels/{channel}/secret",
		"/account/sessions/{session}/end", "/account/others/end", "/account/password/first", "/account/identities/{provider}", "/account/identities/{identity}/remove",
		"/account/factors/passkeys", "/account/factors/passkeys/{passkey}/remove",
	} {
		if !asked["POST "+must] {
			t.Errorf("%s does not ask again", must)
		}
	}
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	w.forgetProof("ana")
	fill := strings.NewReplacer("{app}", "shop", "{account}", "2", "{token}", "1", "{member}", "2", "{invitation}", "1", "{passkey}", "1", "{identity}", "1", "{provider}", "corp", "{session}", "1", "{channel}", "1")
	proofs, limited := 0, 0
	for route := range asked {
		method, pattern, _ := strings.Cut(route, " ")
		before := len(w.acts.all)
		if method == http.MethodGet {
			b.get(fill.Replace(pattern)).leads(t, pattern, "/again?"+query("next", fill.Replace(pattern)))
			continue
		}
		b.post(fill.Replace(pattern), "name", `"the <shop>`, "x", "1", "x", "2").want(t, pattern, http.StatusOK,
			"Confirm that it is you", `action="`+fill.Replace(pattern)+`"`, `name="name" value="&#34;the &lt;shop&gt;"`, `name="x" value="1"`, `name="x" value="2"`)
		wrong := b.post(fill.Replace(pattern), "x", "1", proveField, "wrong password")
		if proofs++; proofs > 5 && wrong.StatusCode == http.StatusTooManyRequests {
			limited++
		} else { // the first waits are over soon
			wrong.want(t, pattern, http.StatusForbidden)
		}
		if len(w.host.done) > 0 || len(w.acts.all) != before+1 || w.acts.last().Operation != "session.prove" {
			t.Errorf("%s: did %v, and recorded %+v", pattern, w.host.done, w.acts.last())
		}
	}
	if limited == 0 {
		t.Errorf("%d wrong passwords, and no wait", proofs)
	}
}

// The form goes on after the proof, which then holds for ten minutes and from one address.
func TestProofLetsTheFormGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	w.forgetProof("ana")
	old := b.cookies["__Host-berth"]
	p := b.post("/account/tokens", "label", "laptop", "expires", "24", proveField, password)
	made := b.get(p.leads(t, "with the password", "/account"))
	made.want(t, "the token", http.StatusOK, "laptop", "The token was created.")
	if act := w.acts.last(); act.Operation != "token.create" || act.Refusal != "" {
		t.Errorf("the audit log has %+v", act)
	}
	if b.cookies["__Host-berth"] == old {
		t.Error("the session has its old key")
	}
	b.post("/account/tokens", "label", "second").leads(t, "within ten minutes", "/account")
	b.peer, b.header["X-Forwarded-For"], b.header["X-Forwarded-Proto"] = "10.0.0.1:1", "198.51.100.9", "https"
	b.post("/account/tokens", "label", "third").want(t, "from another address", http.StatusOK, "Confirm that it is you")
	b.get("/again?next=//evil.example").want(t, "a link from elsewhere", http.StatusOK, `name="next" value="/"`)
	b.post("/again", "next", "https://evil.example", proveField, password).leads(t, "a form from elsewhere", "/")
	b.get("/again?next=/upload").leads(t, "proved", "/upload")
	if tokens, err := w.config.Tokens.Tokens(t.Context(), w.ana.ID); err != nil || len(tokens) != 2 {
		t.Errorf("%d tokens, %v", len(tokens), err)
	}
}

// A session is ended when another browser comes with its cookie, and the audit log has it.
func TestStolenSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	b.header["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
	b.post("/login", "name", "ana", "password", password)
	thief := w.browser()
	thief.cookies["__Host-berth"] = b.cookies["__Host-berth"]
	thief.header["User-Agent"] = "curl/8"
	thief.get("/account").leads(t, "in another browser", "/login?next=%2Faccount")
	act := w.acts.last()
	if act.Operation != "session.taken" || act.Actor != app.Stranger || act.Account != w.ana.ID || !strings.Contains(act.Detail, `account=ana`) || !strings.Contains(act.Detail, `agent="curl"`) {
		t.Errorf("the audit log has %+v", act)
	}
	b.get("/account").leads(t, "in the first browser", "/login?next=%2Faccount")
}

// An app is set up with its first code, shows ten recovery codes once, and is turned off.
func TestSetUpAnApp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	b.get("/account/factors").want(t, "before", http.StatusOK, "Set up an app")
	b.post("/account/factors/codes").want(t, "codes without a factor", http.StatusConflict, "set one up first")
	b.post("/account/factors/app/remove").want(t, "turned off before", http.StatusNotFound, "There is no app for codes.")
	offered := b.post("/account/factors/app")
	offered.want(t, "offered", http.StatusOK, `<svg class="qr"`, `name="code"`)
	seed := regexp.MustCompile(`id="seed" readonly value="([A-Z2-7]{32})"`).FindStringSubmatch(offered.body)
	if seed == nil {
		t.Fatal("the page has no key")
	}
	if strings.Contains(b.get("/account/factors").body, seed[1]) {
		t.Error("the key is shown a second time")
	}
	b.post("/account/factors/app/confirm", "code", "000000").want(t, "a wrong code", http.StatusForbidden, "check the clock", seed[1])
	p := b.get(b.post("/account/factors/app/confirm", "code", codeOf(seed[1], time.Now())).leads(t, "the first code", "/account/factors"))
	codes := regexp.MustCompile(`(?m)\b([A-Z2-7]{4}-){5}[A-Z2-7]{4}\b`).FindAllString(p.body, -1)
	p.want(t, "turned on", http.StatusOK, "Turned on", "10 recovery codes are left", "not shown again")
	if len(codes) != 10 || strings.Contains(b.get("/account/factors").body, codes[0]) {
		t.Errorf("%d codes, or they are shown twice", len(codes))
	}
	for _, act := range w.acts.all {
		if strings.Contains(act.Detail, seed[1]) || strings.Contains(act.Detail, codes[0]) {
			t.Errorf("the audit log has a secret: %+v", act)
		}
	}
	b.post("/account/factors/app").want(t, "a second app", http.StatusConflict, "turn it off first")
	p = b.get(b.post("/account/factors/codes").leads(t, "new codes", "/account/factors"))
	p.want(t, "new codes", http.StatusOK, "10 recovery codes are left")
	if strings.Contains(p.body, codes[0]) {
		t.Error("the new codes are the old ones")
	}
	second := w.browser()
	second.post("/login", "name", "ana", "password", password)
	second.post("/login/second", "code", codes[0]).want(t, "an old recovery code", http.StatusUnauthorized)
	b.get(b.post("/account/factors/app/remove").leads(t, "off", "/account/factors")).want(t, "off", http.StatusOK, "The app is turned off")
	w.browser().post("/login", "name", "ana", "password", password).leads(t, "without a second step", "/login?kept=&next=%2F")
}

// While everybody must have a second factor, somebody without one reaches the page that sets one
// up, and nothing else.
func TestFactorIsDemanded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	ana, bob := w.as("ana"), w.as("bob")
	ana.post("/host/factor", "on", "true").want(t, "without an own one", http.StatusConflict, "You have no second factor yourself")
	w.withTOTP(w.ana)
	ana.get(ana.post("/host/factor", "on", "true").leads(t, "demanded", "/host")).want(t, "the host", http.StatusOK, "Everybody must have a second factor.")
	if act := w.acts.last(); act.Operation != "factor.require" || act.Detail != "required=true" {
		t.Errorf("the audit log has %+v", act)
	}
	for _, r := range (&pages{}).routes() {
		if r.access.who() == public || r.access&bare != 0 {
			continue
		}
		path := strings.NewReplacer("{app}", "shop", "{$}", "").Replace(r.pattern)
		bob.ask(r.method, path, map[bool]url.Values{true: {}}[r.method == http.MethodPost]).leads(t, r.method+" "+path, "/account/factors")
	}
	bob.get("/account/factors").want(t, "the page", http.StatusOK, "The administrator of this host requires", "Set up an app")
	seed, _, err := w.signIns.OfferTOTP(t.Context(), w.bob, "x")
	must(t, err)
	bob.get(bob.post("/account/factors/app/confirm", "code", codeOf(seed, time.Now())).leads(t, "set up", "/account/factors")).want(t, "set up", http.StatusOK, "recovery codes are left")
	bob.get("/").want(t, "open", http.StatusOK)
	ana.post("/host/factor", "on", "false").leads(t, "no more demanded", "/host")
}

// Somebody sees a sign-in in a browser that was not known, on every page, until it is dismissed.
func TestNewSignInIsShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	b.get("/").want(t, "before", http.StatusOK)
	thief := w.browser()
	thief.header["User-Agent"] = "Mozilla/5.0 (Windows NT 10.0) Chrome/120 <b>"
	thief.post("/login", "name", "ana", "password", password)
	if act := w.acts.last(); act.Operation != "session.begin" || act.Detail != `agent="Chrome on Windows" new=true` {
		t.Errorf("the audit log has %+v", act)
	}
	if strings.Contains(thief.get("/").body, "New sign-in") {
		t.Error("the new session sees itself")
	}
	thief.post("/account/notices/2/dismiss").want(t, "dismissed by itself", http.StatusNotFound, "There is no such notice.")
	w.as("bob").post("/account/notices/2/dismiss").want(t, "dismissed by another", http.StatusNotFound)
	b.get("/upload").want(t, "the notice", http.StatusOK, "New sign-in: Chrome on Windows, from 127.0.0.1", "/account/notices/2/dismiss")
	b.get("/account").want(t, "the session", http.StatusOK, "Chrome on Windows", "this one")
	b.post("/account/notices/2/dismiss", "back", "/upload").leads(t, "dismissed", "/upload")
	if strings.Contains(b.get("/upload").body, "New sign-in") {
		t.Error("the notice is still shown")
	}
	known := w.browser()
	known.cookies["__Host-berth-known"] = b.cookies["__Host-berth-known"]
	known.post("/login", "name", "ana", "password", password)
	if strings.Contains(b.get("/upload").body, "New sign-in") {
		t.Error("a known browser is news")
	}
	b.post("/account/others/end").leads(t, "end the others", "/account")
	thief.get("/").leads(t, "an ended session", "/login")
	b.get("/").want(t, "the own session", http.StatusOK)
}
