package panel

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"berth/app"
	"berth/host/account"
)

// authenticator is a software one with one key pair. What it says of itself can be bent.
type authenticator struct {
	t      testing.TB
	key    *ecdsa.PrivateKey
	id     []byte
	handle []byte
	count  uint32
	origin string // that the browser tells
	rp     string // for which it signs
	flags  byte   // 1: somebody is there, 4: it has seen who
}

const origin = "http://localhost:8400"

func newAuthenticator(t testing.TB) *authenticator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	return &authenticator{t: t, key: key, id: []byte(rand.Text()), count: 1, origin: origin, rp: "localhost", flags: 1 | 4}
}

var b64 = base64.RawURLEncoding

type options struct {
	Challenge string
	User      struct{ ID string }
}

// clientData is what a browser signs of the page.
func (a *authenticator) clientData(kind, challenge string) []byte {
	text, err := json.Marshal(map[string]any{"type": "webauthn." + kind, "challenge": challenge, "origin": a.origin, "crossOrigin": false})
	must(a.t, err)
	return text
}

func (a *authenticator) data(flags byte) []byte {
	rp := sha256.Sum256([]byte(a.rp))
	return binary.BigEndian.AppendUint32(append(rp[:], flags), a.count)
}

func (a *authenticator) answer(response map[string]any) string {
	text, err := json.Marshal(map[string]any{
		"id": b64.EncodeToString(a.id), "rawId": b64.EncodeToString(a.id), "type": "public-key", "response": response, "clientExtensionResults": map[string]any{},
	})
	must(a.t, err)
	return string(text)
}

// makes answers to the options for a new passkey.
func (a *authenticator) makes(o options) string {
	handle, err := b64.DecodeString(o.User.ID)
	must(a.t, err)
	a.handle = handle
	public, err := a.key.PublicKey.ECDH()
	must(a.t, err)
	point := public.Bytes()
	cose, err := cbor.Marshal(map[int]any{1: 2, 3: -7, -1: 1, -2: point[1:33], -3: point[33:]})
	must(a.t, err)
	data := append(a.data(a.flags|64), make([]byte, 16)...)
	data = append(binary.BigEndian.AppendUint16(data, uint16(len(a.id))), a.id...)
	object, err := cbor.Marshal(map[string]any{"fmt": "none", "attStmt": map[string]any{}, "authData": append(data, cose...)})
	must(a.t, err)
	return a.answer(map[string]any{
		"clientDataJSON": b64.EncodeToString(a.clientData("create", o.Challenge)), "attestationObject": b64.EncodeToString(object),
	})
}

// signs answers to the options of a sign-in, or of a proof.
func (a *authenticator) signs(o options) string {
	client, data := a.clientData("get", o.Challenge), a.data(a.flags)
	hash := sha256.Sum256(client)
	sum := sha256.Sum256(append(bytes.Clone(data), hash[:]...))
	signature, err := ecdsa.SignASN1(rand.Reader, a.key, sum[:])
	must(a.t, err)
	return a.answer(map[string]any{
		"clientDataJSON": b64.EncodeToString(client), "authenticatorData": b64.EncodeToString(data),
		"signature": b64.EncodeToString(signature), "userHandle": b64.EncodeToString(a.handle),
	})
}

var passkeyData = regexp.MustCompile(`data-passkey="([^"]*)"`)

// offered are the options on a page.
func offered(t *testing.T, p page) (o options) {
	t.Helper()
	m := passkeyData.FindStringSubmatch(p.body)
	if m == nil {
		t.Fatalf("the page asks for no passkey: %s", p.body)
	}
	must(t, json.Unmarshal([]byte(html.UnescapeString(m[1])), &o))
	return o
}

// at is a browser at the address where passkeys work.
func (w *world) at() *browser {
	b := w.browser()
	b.base = origin
	return b
}

// withPasskey gives an account a passkey.
func (w *world) withPasskey(a app.Account) *authenticator {
	w.t.Helper()
	key := newAuthenticator(w.t)
	at := app.OriginOf(origin)
	text, err := w.signIns.NewPasskeyOptions(w.t.Context(), a, at, 7)
	must(w.t, err)
	var o options
	must(w.t, json.Unmarshal([]byte(text), &o))
	_, err = w.signIns.AddPasskey(w.t.Context(), a, at, 7, "key", []byte(key.makes(o)))
	must(w.t, err)
	return key
}

// A passkey is made, signs in alone, proves who somebody is, gets another name and goes.
func TestPasskey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, key := w.at(), newAuthenticator(t)
	b.post("/login", "name", "ana", "password", password)
	made := b.post("/account/factors/passkeys", "name", "Ana's phone", "response", key.makes(offered(t, b.get("/account/factors"))))
	made.leads(t, "the first passkey", "/account/factors")
	if act := w.acts.last(); act.Operation != "factor.add" || act.Detail != `passkey="Ana's phone"` {
		t.Errorf("the audit log has %+v", act)
	}
	b.get(made.Header.Get("Location")).want(t, "with recovery codes", http.StatusOK, "Ana&#39;s phone", "never used", `id="codes"`, "10 recovery codes are left")

	other := w.at()
	other.post("/login", "name", "ana", "password", password).leads(t, "the password alone", "/login/second?next=%2F")
	other.get("/login/second?next=%2Fupload").want(t, "the second step", http.StatusOK, "Use your passkey.", "data-passkey", `action="/login/passkey"`)
	key.count++
	page := other.get("/login/second?next=%2Fupload")
	other.post("/login/passkey", "response", key.signs(offered(t, page)), "next", "/upload").leads(t, "the passkey", "/login?kept=&next=%2Fupload")
	other.get("/account").want(t, "signed in", http.StatusOK, "ana")

	alone := w.at()
	key.count++
	alone.post("/login/passkey", "response", key.signs(offered(t, alone.get("/login"))), "next", "//evil.example").leads(t, "the passkey alone", "/login?kept=&next=%2F")
	session := alone.cookies["__Host-berth"]

	w.forgetProof("ana")
	again := alone.post("/account/tokens", "label", "laptop")
	again.want(t, "asked again", http.StatusOK, "Confirm that it is you", `name="prove-passkey"`, `value="laptop"`)
	key.count++
	alone.post("/account/tokens", "label", "laptop", "prove-passkey", key.signs(offered(t, again))).leads(t, "proved", "/account")
	if alone.cookies["__Host-berth"] == session {
		t.Error("the session has the key of before")
	}

	alone.post("/account/factors/passkeys/1", "name", "Phone").leads(t, "renamed", "/account/factors")
	alone.get("/account/factors").want(t, "renamed", http.StatusOK, "Phone", "Last used")
	alone.post("/account/factors/passkeys/1/remove").leads(t, "removed", "/account/factors")
	alone.get("/account/factors").want(t, "without", http.StatusOK, "With a second factor, somebody who knows the password")
	key.count++
	last := w.at()
	last.post("/login/passkey", "response", key.signs(offered(t, last.get("/login")))).want(t, "removed", http.StatusUnauthorized, "This passkey does not sign in here")
}

// Whatever somebody sends that is no answer of the account's own authenticator, to this page, at
// this address, for the first time, opens nothing.
func TestPasskeyAttacks(t *testing.T) {
	t.Parallel()
	const refused = "This passkey does not sign in here"
	for what, c := range map[string]struct {
		bend func(a *authenticator, o *options)
		want string
	}{
		"a page that imitates this one": {func(a *authenticator, _ *options) { a.origin = "https://localhost.evil.example" }, refused},
		"another port":                  {func(a *authenticator, _ *options) { a.origin = "http://localhost:9999" }, refused},
		"another domain's key":          {func(a *authenticator, _ *options) { a.rp = "evil.example" }, refused},
		"nobody was there":              {func(a *authenticator, _ *options) { a.flags = 4 }, refused},
		"it has not seen who":           {func(a *authenticator, _ *options) { a.flags = 1 }, refused},
		"a forged signature": {func(a *authenticator, _ *options) {
			a.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		}, refused},
		"a handle of nobody":      {func(a *authenticator, _ *options) { a.handle = make([]byte, 64) }, refused},
		"no handle":               {func(a *authenticator, _ *options) { a.handle = nil }, refused},
		"another key's id":        {func(a *authenticator, _ *options) { a.id = []byte("another") }, refused},
		"a copy that counts less": {func(a *authenticator, _ *options) { a.count = 1 }, "This passkey was copied, or is gone"},
		"a challenge of its own":  {func(_ *authenticator, o *options) { o.Challenge = b64.EncodeToString(make([]byte, 56)) }, "the answer is for another one"},
		"one bent by a bit": {func(_ *authenticator, o *options) {
			raw, _ := b64.DecodeString(o.Challenge)
			raw[0] ^= 1
			o.Challenge = b64.EncodeToString(raw)
		}, "the answer is for another one"},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t)
			key := w.withPasskey(w.ana)
			b := w.at()
			o := offered(t, b.get("/login"))
			key.count = 5
			b.post("/login/passkey", "response", key.signs(o)).leads(t, "the passkey", "/login?kept=&next=%2F")
			b = w.at()
			o = offered(t, b.get("/login"))
			key.count = 6
			c.bend(key, &o)
			b.post("/login/passkey", "response", key.signs(o)).want(t, what, http.StatusUnauthorized, c.want)
			if b.cookies["__Host-berth"] != "" {
				t.Error("it has opened a session")
			}
			if act := w.acts.last(); act.Operation != "session.failed" || act.Status != http.StatusUnauthorized {
				t.Errorf("the audit log has %+v", act)
			}
		})
	}
}

func TestPasskeyAnswersCountOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.withPasskey(w.ana)
	key.count = 0 // as synchronized passkeys count
	w.zeroCounts()
	b := w.at()
	answer := key.signs(offered(t, b.get("/login")))
	codes := make(chan int, 4)
	for range cap(codes) {
		go func() { codes <- w.at().post("/login/passkey", "response", answer).StatusCode }()
	}
	in := 0
	for range cap(codes) {
		if code := <-codes; code == http.StatusSeeOther {
			in++
		} else if code != http.StatusUnauthorized {
			t.Errorf("status %d", code)
		}
	}
	if in != 1 {
		t.Errorf("one answer has opened %d sessions", in)
	}
	b.post("/login/passkey", "response", answer).want(t, "again", http.StatusUnauthorized)

	// An answer to one question is none to another, and none of another account's.
	b = w.at()
	b.post("/login/passkey", "response", key.signs(offered(t, b.get("/login")))).leads(t, "a new one", "/login?kept=&next=%2F")
	w.forgetProof("ana")
	b.post("/account/tokens", "label", "x", "prove-passkey", key.signs(offered(t, w.at().get("/login")))).want(t, "of the login page", http.StatusForbidden, "This is not a passkey of your account")
	bob := w.withPasskey(w.bob)
	page := b.post("/account/tokens", "label", "x")
	b.post("/account/tokens", "label", "x", "prove-passkey", bob.signs(offered(t, page))).want(t, "bob's", http.StatusForbidden, "This is not a passkey of your account")
	w.at().post("/login/passkey", "response", key.signs(offered(t, page))).want(t, "of the other page", http.StatusUnauthorized)
}

// An account that answers again and again keeps itself out, and nobody else. What a daemon has
// asked, the next one does not take.
func TestPasskeyAnswersAreBoundedForEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ana, bob := w.withPasskey(w.ana), w.withPasskey(w.bob)
	in := func(key *authenticator, s *account.SignIns) error {
		at := app.OriginOf(origin)
		var o options
		must(t, json.Unmarshal([]byte(w.signIns.PasskeyOptions(at, 0)), &o))
		key.count++
		_, err := s.SignInByPasskey(t.Context(), at, []byte(key.signs(o)), app.Visitor{Key: "a"})
		return err
	}
	refused := 0
	for range 80 {
		if err := in(ana, w.signIns); app.KindOf(err) == app.Unauthorized || app.KindOf(err) == app.Limited {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused < 10 {
		t.Errorf("%d of 80 answers were refused", refused)
	}
	at := app.OriginOf(origin)
	var o options
	must(t, json.Unmarshal([]byte(w.signIns.PasskeyOptions(at, 0)), &o))
	bob.count++
	if _, err := w.signIns.SignInByPasskey(t.Context(), at, []byte(bob.signs(o)), app.Visitor{Key: "b"}); err != nil {
		t.Errorf("bob: %v", err)
	}
	next := account.NewSignIns(w.db.SignIns, time.Hour, []byte("key"))
	if err := in(bob, next); app.KindOf(err) != app.Unauthorized || !strings.Contains(err.Error(), "the answer is for another one") {
		t.Errorf("an answer to the daemon before: %v", err)
	}
}

// zeroCounts lets the passkeys be of authenticators that count nothing.
func (w *world) zeroCounts() {
	w.t.Helper()
	all, err := w.db.SignIns.Passkeys(w.t.Context(), 0)
	must(w.t, err)
	for _, k := range all {
		w.exec("UPDATE passkey SET count = 0, record = ? WHERE id = ?", bytes.Replace(k.Record, []byte(`"signCount":1`), []byte(`"signCount":0`), 1), k.ID)
	}
}

// Somebody who may not sign in does not by a passkey either.
func TestPasskeyOfADisabledAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	key := w.withPasskey(w.ana)
	_, err := account.NewAdmin(w.db.Accounts, nil).SetDisabled(t.Context(), w.ana.ID, true)
	must(t, err)
	b := w.at()
	key.count++
	b.post("/login/passkey", "response", key.signs(offered(t, b.get("/login")))).want(t, "disabled", http.StatusForbidden, "disabled")
	if b.cookies["__Host-berth"] != "" {
		t.Error("it has opened a session")
	}
}

// A passkey that somebody else has made, for another page or too late, is not added.
func TestPasskeyIsMadeHere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.at()
	b.post("/login", "name", "ana", "password", password)
	add := func(name, response string) page {
		return b.post("/account/factors/passkeys", "name", name, "response", response)
	}
	o := offered(t, b.get("/account/factors"))
	for what, bend := range map[string]func(a *authenticator){
		"another origin": func(a *authenticator) { a.origin = "https://evil.example" },
		"another domain": func(a *authenticator) { a.rp = "evil.example" },
		"unseen":         func(a *authenticator) { a.flags = 1 },
	} {
		a := newAuthenticator(t)
		bend(a)
		add("x", a.makes(o)).want(t, what, http.StatusBadRequest, "The browser&#39;s answer is not a new passkey for this page")
	}
	for _, response := range []string{"", "{}", "[]", "null", strings.Repeat("x", 20<<10), newAuthenticator(t).signs(o)} {
		add("x", response).want(t, "nonsense", http.StatusBadRequest)
	}
	good := newAuthenticator(t)
	for _, name := range []string{"", "  ", strings.Repeat("ä", 61)} {
		add(name, good.makes(o)).want(t, "a bad name", http.StatusBadRequest, "Name the passkey with 1 to 60 characters")
	}
	answer := good.makes(o)
	add("one", answer).leads(t, "good", "/account/factors")
	add("two", answer).want(t, "twice", http.StatusBadRequest)
	add("three", good.makes(offered(t, b.get("/account/factors")))).want(t, "the same key", http.StatusConflict, "This passkey is there already.")
	other := w.at()
	other.post("/login", "name", "bob", "password", password)
	add("four", newAuthenticator(t).makes(offered(t, other.get("/account/factors")))).want(t, "of another session", http.StatusBadRequest)
	other.post("/account/factors/passkeys/1/remove").want(t, "of another account", http.StatusNotFound)
	other.post("/account/factors/passkeys/1", "name", "mine").want(t, "of another account", http.StatusNotFound)
	other.post("/account/factors/passkeys/x", "name", "mine").want(t, "no number", http.StatusNotFound)
}

// A page that was open for longer than a challenge lasts has to be fetched again.
func TestPasskeyTooLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := account.NewSignIns(nothingStored{}, time.Hour, []byte("key"))
		at := app.OriginOf(origin)
		var o options
		must(t, json.Unmarshal([]byte(s.PasskeyOptions(at, 0)), &o))
		key := newAuthenticator(t)
		time.Sleep(account.PasskeyTime)
		_, err := s.SignInByPasskey(t.Context(), at, []byte(key.signs(o)), app.Visitor{Key: "a"})
		if app.KindOf(err) != app.Unauthorized || !strings.Contains(err.Error(), "this page was open for too long") {
			t.Error(err)
		}
	})
}

// nothingStored is never asked.
type nothingStored struct {
	account.SignInStore
	account.FactorStore
	account.PasskeyStore
	account.IdentityStore
}

// Where browsers have no passkeys the pages say so, and offer what works.
func TestPasskeysNeedADomain(t *testing.T) {
	t.Parallel()
	for base, want := range map[string]app.Origin{
		"https://panel.example.org":      {URL: "https://panel.example.org", Domain: "panel.example.org"},
		"https://panel.example.org:8443": {URL: "https://panel.example.org:8443", Domain: "panel.example.org"},
		"http://localhost:8400":          {URL: "http://localhost:8400", Domain: "localhost"},
		"http://panel.example.org":       {URL: "http://panel.example.org"},
		"https://192.0.2.1":              {URL: "https://192.0.2.1"},
		"https://[2001:db8::1]:8443":     {URL: "https://[2001:db8::1]:8443"},
		"https://panel":                  {URL: "https://panel"},
		"":                               {},
	} {
		if got := app.OriginOf(base); got != want {
			t.Errorf("%s: %+v", base, got)
		}
	}
	w := newWorld(t)
	b := w.browser() // at an address
	if p := b.get("/login"); strings.Contains(p.body, "data-passkey") {
		t.Error("a passkey is asked for at an IP address")
	}
	b.post("/login", "name", "ana", "password", password)
	b.get("/account/factors").want(t, "at an address", http.StatusOK, "Browsers make no passkeys at this address")
	w.withPasskey(w.ana)
	b.get("/account/factors").want(t, "of elsewhere", http.StatusOK, "works at localhost only")
	b.post("/account/factors/passkeys", "name", "x", "response", "{}").want(t, "made here", http.StatusForbidden, "Browsers make passkeys only at a domain with HTTPS")
}

// The origin is that of the request, also behind a proxy.
func TestOriginOfACall(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	behind := w.browser()
	behind.base, behind.peer = "http://panel.example.org", "10.0.0.1:5000"
	behind.header["X-Forwarded-Proto"] = "https"
	behind.header["X-Forwarded-For"] = "192.0.2.7"
	var o struct{ RPID string }
	m := passkeyData.FindStringSubmatch(behind.get("/login").body)
	if m == nil {
		t.Fatal("behind a proxy no passkey is asked for")
	}
	must(t, json.Unmarshal([]byte(html.UnescapeString(m[1])), &o))
	if o.RPID != "panel.example.org" {
		t.Errorf("the passkeys are those of %q", o.RPID)
	}
}
