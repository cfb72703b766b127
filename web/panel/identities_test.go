package panel

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"berth/app"
	"berth/host/account"
	"berth/test/openid"
	"berth/web/provider"
)

// newCorp is a world that knows a provider.
func newCorp(t *testing.T, change ...func(*Config)) (*world, *openid.Server) {
	t.Helper()
	l := openid.New(t)
	corp := provider.Config{Name: "corp", Title: "Corp", Issuer: l.URL, Client: openid.Client, Secret: openid.Secret, Roots: l.Roots}
	return newWorld(t, append(change, func(c *Config) {
		c.Providers = provider.New("http://127.0.0.1:8400", []provider.Config{corp})
	})...), l
}

var leadsTo = regexp.MustCompile(`<a class="button main" href="([^"]+)">`)

// goes sends a form that leads to the provider, agrees there, and returns the way back.
func (b *browser) goes(t *testing.T, l *openid.Server, path string, pairs ...string) string {
	t.Helper()
	p := b.post(path, pairs...)
	p.want(t, path, http.StatusOK, "Continue to Corp", `http-equiv="refresh"`)
	found := leadsTo.FindStringSubmatch(p.body)
	if found == nil {
		t.Fatalf("%s leads nowhere: %s", path, p.body)
	}
	return "/sign-in/corp/callback?" + l.Agree(t, html.UnescapeString(found[1])).Encode()
}

// is makes the provider say that it is somebody else.
func is(l *openid.Server, subject, name string) {
	l.Claims = func(c map[string]any) { c["sub"], c["name"] = subject, name }
}

func TestSignInByProvider(t *testing.T) {
	t.Parallel()
	w, l := newCorp(t)
	stranger := w.browser()
	stranger.get("/login").want(t, "the sign-in", http.StatusOK, "Sign in with Corp", `action="/login/by/corp"`)
	stranger.get(stranger.goes(t, l, "/login/by/corp")).want(t, "somebody unknown", http.StatusNotFound, "Nobody signs in by this identity; sign in with your password and add it")
	if stranger.cookies["__Host-berth"] != "" || stranger.cookies["__Host-berth-provider"] != "" {
		t.Errorf("the browser has %v", stranger.cookies)
	}
	if act := w.acts.last(); act.Operation != "session.failed" || act.Status != http.StatusNotFound || act.Detail != `step=provider provider="corp"` {
		t.Errorf("the audit log has %+v", act)
	}

	ana := w.as("ana")
	ana.get("/account").want(t, "the account", http.StatusOK, "Sign-in with other services", `action="/account/identities/corp"`)
	ana.get(ana.goes(t, l, "/account/identities/corp")).leads(t, "added", "/account")
	if act := w.acts.last(); act.Operation != "identity.add" || act.Actor != w.ana.ID || !strings.Contains(act.Detail, `subject="ana-1"`) {
		t.Errorf("the audit log has %+v", act)
	}
	ana.get("/account").want(t, "added", http.StatusOK, "<h3>Corp</h3>", "<span>Ana</span>", "last used")

	other := w.browser()
	before := other.cookies["__Host-berth"]
	other.get(other.goes(t, l, "/login/by/corp", "next", "/upload")).leads(t, "signed in", "/login?kept=&next=%2Fupload")
	if key := other.cookies["__Host-berth"]; key == "" || key == before {
		t.Error("no new session")
	}
	other.get("/account").want(t, "signed in", http.StatusOK, "<span>ana</span>")
	if act := w.acts.last(); act.Operation != "session.begin" || act.Actor != w.ana.ID {
		t.Errorf("the audit log has %+v", act)
	}

	bob := w.as("bob")
	bob.get(bob.goes(t, l, "/account/identities/corp")).want(t, "of another account", http.StatusConflict, "This identity signs in to an account already", "Sign-in with other services")
	bob.post("/account/identities/1/remove").want(t, "of another account", http.StatusNotFound, "There is no identity 1")

	w.withTOTP(w.ana) // the second factor stays one
	third := w.browser()
	third.get(third.goes(t, l, "/login/by/corp", "next", "/upload")).leads(t, "the first step", "/login/second?next=%2Fupload")
	third.get("/account").leads(t, "not yet", "/login?next=%2Faccount")
	third.get("/login/second").want(t, "the second step", http.StatusOK, "you are signing in as ana")

	ana.post("/account/identities/1/remove").leads(t, "removed", "/account")
	gone := w.browser()
	gone.get(gone.goes(t, l, "/login/by/corp")).want(t, "removed", http.StatusNotFound)
	w.exec("UPDATE account SET suspended = 1 WHERE name = 'bob'")
	is(l, "bob-1", "Bob")
	must(t, w.signIns.LinkIdentity(t.Context(), w.bob.ID, app.Identity{Issuer: l.URL, Subject: "bob-1"}))
	gone.get(gone.goes(t, l, "/login/by/corp")).want(t, "a suspended account", http.StatusForbidden)
	gone.post("/login/by/nobody").want(t, "no such provider", http.StatusNotFound, "the host has none of this name")
}

// Only the browser, the session and the page that began end what a provider proves.
func TestProviderAttacks(t *testing.T) {
	t.Parallel()
	w, l := newCorp(t)
	must(t, w.signIns.LinkIdentity(t.Context(), w.ana.ID, app.Identity{Issuer: l.URL, Subject: "ana-1"}))
	refused := func(what string, b *browser, back string, status int, says string) {
		t.Helper()
		b.get(back).want(t, what, status, says)
	}
	victim, thief := w.browser(), w.browser()
	back := thief.goes(t, l, "/login/by/corp")
	refused("a link that somebody sends", victim, back, http.StatusUnauthorized, "this browser has begun no such sign-in")
	if victim.cookies["__Host-berth"] != "" {
		t.Error("the victim is signed in as somebody else")
	}
	thief.get(back).leads(t, "the browser itself", "/login?kept=&next=%2F")
	refused("the same again", thief, back, http.StatusUnauthorized, "this browser has begun no such sign-in")

	// Another site cannot make a browser begin, nor add its own identity to the account.
	r := w.as("bob")
	r.header["Sec-Fetch-Site"] = "cross-site"
	r.header["Origin"] = "https://evil.example"
	if p := r.do(crossPost(r, "/account/identities/corp")); p.StatusCode != http.StatusForbidden {
		t.Errorf("a form of another site: %d", p.StatusCode)
	}

	// Another session than the one that began gets nothing added.
	bob := w.as("bob")
	is(l, "bob-1", "Bob")
	back = bob.goes(t, l, "/account/identities/corp")
	bob.post("/logout")
	refused("signed out meanwhile", bob, back, http.StatusUnauthorized, "Your session has ended meanwhile")
	bob.post("/login", "name", "ana", "password", password)
	back = bob.goes(t, l, "/account/identities/corp")
	bob.post("/login", "name", "bob", "password", password)
	refused("another account meanwhile", bob, back, http.StatusUnauthorized, "Your session has ended meanwhile")

	// What a provider says is checked: it lies about for whom its token is.
	l.Claims = func(c map[string]any) { c["aud"] = "another" }
	liar := w.browser()
	refused("a lie", liar, liar.goes(t, l, "/login/by/corp"), http.StatusUnauthorized, "Cannot sign you in by Corp: its answer does not prove who you are; begin again")
	refused("no query", liar, "/sign-in/corp/callback", http.StatusUnauthorized, "this browser has begun no such sign-in")
	refused("no provider", liar, "/sign-in/nobody/callback", http.StatusNotFound, "the host has none of this name")
}

func crossPost(b *browser, path string) *http.Request {
	r, _ := http.NewRequest(http.MethodPost, b.base+path, strings.NewReader(""))
	r.RemoteAddr, r.RequestURI = b.peer, path
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func TestInvitationByProvider(t *testing.T) {
	t.Parallel()
	w, l := newCorp(t)
	seed(w)
	link := invited(t, w.as("ana"), "/host/invitations", "for", "carla", "ram", "256", "minutes", "1440")
	path := pathOf(t, link, "http://127.0.0.1:8400")
	b := w.browser()
	b.get(path).want(t, "the page", http.StatusOK, "Or without a password", `formaction="`+path+`/by/corp"`)
	b.post(path+"/by/corp", "name", "Carla!").want(t, "a bad name", http.StatusBadRequest, "cannot be the name of an account")
	b.get(b.goes(t, l, path+"/by/corp", "name", "bob")).want(t, "a taken name", http.StatusConflict, "Create a new account", `value="bob"`)
	must(t, w.signIns.LinkIdentity(t.Context(), w.bob.ID, app.Identity{Issuer: l.URL, Subject: "ana-1"}))
	b.get(b.goes(t, l, path+"/by/corp", "name", "carla")).want(t, "another's identity", http.StatusConflict, "This identity signs in to an account already", "Create a new account")
	is(l, "carla-1", "Carla")
	back := b.goes(t, l, path+"/by/corp", "name", "carla")
	b.get(back).leads(t, "accepted", "/login?kept=&next=%2F")
	if act := w.acts.last(); act.Operation != "invitation.accept" || act.Name != "carla" {
		t.Errorf("the audit log has %+v", act)
	}
	b.get(path).want(t, "used", http.StatusNotFound, "This invitation was used or revoked")
	w.browser().post("/login", "name", "carla", "password", "").want(t, "without a password", http.StatusUnauthorized)

	// Nobody is locked out: the only entrance stays, and a password can be set.
	b.post("/account/identities/2/remove").want(t, "the only entrance", http.StatusConflict, "Without this nobody could sign in to the account")
	b.get("/account").want(t, "the account", http.StatusOK, "Set a password", `action="/account/password/first"`)
	w.forgetProof("carla")
	again := b.do(withReferrer(b, "/account/password/first", url.Values{"password": {password}, "again": {password}}, "/account"))
	again.want(t, "asked again", http.StatusOK, "Confirm that it is you", `action="/again/by/corp"`, `name="next" value="/account"`)
	if strings.Contains(again.body, "prove-password\" type") {
		t.Error("it asks for a password that the account does not have")
	}
	is(l, "ana-1", "Bob") // bob's, who sits at the open browser
	b.get(b.goes(t, l, "/again/by/corp", "next", "/account")).want(t, "another's identity", http.StatusForbidden, "This identity does not sign in to your account")
	is(l, "carla-1", "Carla")
	session := b.cookies["__Host-berth"]
	b.get(b.goes(t, l, "/again/by/corp", "next", "/account")).leads(t, "proved", "/account")
	if b.cookies["__Host-berth"] == session {
		t.Error("the session has the key of before")
	}
	b.post("/account/password/first", "password", password, "again", "another horse").want(t, "two passwords", http.StatusBadRequest, "The two passwords differ")
	b.post("/account/password/first", "password", "short", "again", "short").want(t, "a short one", http.StatusBadRequest, "at least 10")
	b.post("/account/password/first", "password", password, "again", password).leads(t, "a password", "/account")
	b.post("/account/password/first", "password", password+"x", "again", password+"x").want(t, "a second first one", http.StatusConflict, "This account has a password")
	w.as("carla").post("/account/identities/2/remove").leads(t, "no more the only one", "/account")

	// With a password, a browser that the provider knows proves nothing.
	must(t, w.signIns.LinkIdentity(t.Context(), idOf(t, w, "carla"), app.Identity{Issuer: l.URL, Subject: "carla-1"}))
	w.forgetProof("carla")
	b.get("/again?next=/account").want(t, "asked again", http.StatusOK, `name="prove-password"`)
	b.get(b.goes(t, l, "/again/by/corp")).want(t, "by the provider", http.StatusForbidden, "Your account has a password; confirm with it")
}

func idOf(t *testing.T, w *world, name string) app.AccountID {
	t.Helper()
	a, err := w.db.Accounts.AccountByName(t.Context(), name)
	must(t, err)
	return a.ID
}

// withReferrer is a form that was on a page.
func withReferrer(b *browser, path string, f url.Values, page string) *http.Request {
	r, _ := http.NewRequest(http.MethodPost, b.base+path, strings.NewReader(f.Encode()))
	r.RemoteAddr, r.RequestURI = b.peer, path
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.Header.Set("Referer", b.base+page)
	return r
}

func TestInvitationByPasskey(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	ana := w.at()
	ana.post("/login", "name", "ana", "password", password)
	path := pathOf(t, invited(t, ana, "/host/invitations", "for", "carla", "ram", "256", "minutes", "1440"), "http://localhost:8400")
	b, key := w.at(), newAuthenticator(t)
	b.get(path).want(t, "the page", http.StatusOK, `formaction="`+path+`/passkey"`)
	b.post(path+"/passkey", "name", "Carla!").want(t, "a bad name", http.StatusBadRequest, "cannot be the name of an account")
	asked := b.post(path+"/passkey", "name", "carla")
	asked.want(t, "the browser is asked", http.StatusOK, "Create a passkey for carla", `name="name" value="carla"`)
	o := offered(t, asked)
	for what, response := range map[string]string{
		"nonsense":                  "{}",
		"the answer of a sign-in":   key.signs(offered(t, b.get("/login"))),
		"the answer to another one": newAuthenticator(t).makes(offered(t, ana.get("/account/factors"))),
	} {
		b.post(path+"/passkey", "name", "carla", "device", "phone", "response", response).
			want(t, what, http.StatusBadRequest, "The browser&#39;s answer is not a new passkey for this page", "Create a passkey for carla")
	}
	b.post(path+"/passkey", "name", "carla", "device", " ", "response", key.makes(o)).want(t, "no name", http.StatusBadRequest, "Name the passkey with 1 to 60 characters")
	answer := key.makes(offered(t, b.post(path+"/passkey", "name", "carla")))
	results := make(chan int, 4)
	for range cap(results) { // of several at once one succeeds
		go func() {
			results <- w.at().post(path+"/passkey", "name", "carla", "device", "Carla's phone", "response", answer).StatusCode
		}()
	}
	in := 0
	for range cap(results) {
		if <-results == http.StatusSeeOther {
			in++
		}
	}
	if in != 1 {
		t.Fatalf("one link has made %d accounts", in)
	}
	key.count++
	b.post("/login/passkey", "response", key.signs(offered(t, b.get("/login")))).leads(t, "the passkey", "/login?kept=&next=%2F")
	b.get("/account/factors").want(t, "the passkey", http.StatusOK, "Carla&#39;s phone")
	b.post("/account/factors/passkeys/1/remove").want(t, "the only entrance", http.StatusConflict, "Without this nobody could sign in to the account")
	w.forgetProof("carla")
	b.get("/again").want(t, "asked again", http.StatusOK, `name="prove-passkey"`)
	if p := b.get("/again"); strings.Contains(p.body, `name="prove-password"`) {
		t.Error("it asks for a password that the account does not have")
	}
	w.browser().post(path+"/passkey", "name", "carla").want(t, "at an address", http.StatusNotFound, "This invitation was used")
}

func TestSignUp(t *testing.T) {
	t.Parallel()
	w, l := newCorp(t)
	w.signIns.SignUp = account.SignUp{RAM: 256, Capacity: func() app.MB { return 2048 + 2048 + 2*256 }}
	b := w.browser()
	is(l, "x-1", "Bob") // whose name is taken
	b.get(b.goes(t, l, "/login/by/corp")).leads(t, "signed up", "/login?kept=&next=%2F")
	b.get("/account").want(t, "signed up", http.StatusOK, "<span>bob-2</span>", "256")
	b.get(b.goes(t, l, "/login/by/corp")).leads(t, "signed in", "/login?kept=&next=%2F")
	is(l, "x-2", "Ünal 3000 "+strings.Repeat("x", 90))
	b.get(b.goes(t, l, "/login/by/corp")).leads(t, "another", "/login?kept=&next=%2F")
	b.get("/account").want(t, "another", http.StatusOK, "<span>nal-3000-xxxxxxxxxxxxxxx</span>")
	is(l, "x-3", "")
	b.get(b.goes(t, l, "/login/by/corp")).want(t, "no room", http.StatusUnprocessableEntity, "This host has no room for another account; ask its owner")
	all, err := w.db.Accounts.Accounts(t.Context())
	must(t, err)
	if len(all) != 4 {
		t.Errorf("there are %d accounts", len(all))
	}
}
