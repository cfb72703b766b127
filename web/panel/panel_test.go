package panel

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/db"
	"berth/host/account"
)

func TestSignInAndOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	b.get("/account").leads(t, "a stranger", "/login?next=%2Faccount")
	b.get("/login").want(t, "the form", http.StatusOK, `name="password"`, "Sign in")
	p := b.post("/login", "name", "ana", "password", password, "next", "/account")
	p.leads(t, "the right password", "/login?kept=&next=%2Faccount")
	c := p.Cookies()[0]
	if c.Name != "__Host-berth" || !c.Secure || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || c.Domain != "" || c.MaxAge != 3600 {
		t.Errorf("the cookie is %+v", c)
	}
	if act := w.acts.last(); act.Operation != "session.begin" || act.Actor != w.ana.ID || act.Label != "panel" {
		t.Errorf("the audit log has %+v", act)
	}
	b.get("/login?kept=&next=%2Faccount").leads(t, "the way back", "/account")
	b.get("/account").want(t, "the account", http.StatusOK, "ana", "this one")
	old := b.cookies["__Host-berth"]
	b.post("/logout").leads(t, "sign out", "/login")
	if _, known := b.cookies["__Host-berth-known"]; !known || len(b.cookies) != 1 {
		t.Errorf("cookies are left, or the browser is forgotten: %v", b.cookies)
	}
	b.cookies["__Host-berth"] = old
	b.get("/account").leads(t, "an ended session", "/login?next=%2Faccount")
	delete(b.cookies, "__Host-berth")
	b.get("/login?kept=").want(t, "a cookie that was not kept", http.StatusOK, "did not keep the sign-in")
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	p := b.post("/login", "name", "ana", "password", "wrong password")
	p.want(t, "wrong", http.StatusUnauthorized, "The name or the password is wrong.", `value="ana"`)
	if strings.Contains(p.body, "wrong password<") || len(p.Cookies()) != 0 {
		t.Error("the page repeats the password, or sets a cookie")
	}
	act := w.acts.last()
	if act.Operation != "session.failed" || act.Actor != app.Stranger || !act.Counted || act.Detail != "account=ana" || act.From != "127.0.0.1" {
		t.Errorf("the audit log has %+v", act)
	}
	for range 4 {
		b.post("/login", "name", "ana", "password", "wrong password")
	}
	b.post("/login", "name", "ana", "password", password).want(t, "too many", http.StatusTooManyRequests, "Too many tries; try again in 1 seconds.")
	b.header["Accept-Language"] = "pt"
	b.post("/login", "name", "ana", "password", password).want(t, "in Portuguese", http.StatusTooManyRequests, `lang="pt-BR"`, "Entrar")
	b.header["Accept-Language"] = "es-419,es;q=0.9,en;q=0.8"
	b.post("/login", "name", "ana", "password", password).want(t, "in Spanish", http.StatusTooManyRequests, `lang="es"`, "Iniciar sesión")
}

// Strangers keep nobody out of a browser in which they have signed in before, nor
// after they have changed their password in it.
func TestKnownBrowserSignsIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b, stranger := w.as("ana"), w.browser()
	b.post("/logout")
	guess := func() {
		for range 7 {
			stranger.post("/login", "name", "ana", "password", "wrong password")
		}
		stranger.post("/login", "name", "ana", "password", password).want(t, "a stranger", http.StatusTooManyRequests)
	}
	guess()
	b.post("/login", "name", "ana", "password", password).leads(t, "the known browser", "/login?kept=&next=%2F")
	before := b.cookies["__Host-berth-known"]
	b.post("/account/password", "old", password, "password", "battery staple", "again", "battery staple").leads(t, "a new password", "/account")
	if b.cookies["__Host-berth-known"] == before {
		t.Error("the browser is known by what the change has ended")
	}
	b.post("/logout")
	guess()
	b.post("/login", "name", "ana", "password", "battery staple").leads(t, "the known browser, after the change", "/login?kept=&next=%2F")
	// A stranger waits for a second, and on a busy machine that may be over.
	var last page
	for range 10 {
		b.post("/logout")
		guess()
		b.cookies["__Host-berth-known"] = before
		if last = b.post("/login", "name", "ana", "password", "battery staple"); last.StatusCode == http.StatusTooManyRequests {
			break
		}
	}
	last.want(t, "by what has ended", http.StatusTooManyRequests)
}

func TestConnectionsThatOthersCanRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		base, peer, proto string
		insecure          bool
		cookie            string // "" when sign-in is refused
	}{
		"loopback":                 {"http://127.0.0.1:8400", "127.0.0.1:5", "", false, safeCookie},
		"localhost":                {"http://localhost:8400", "[::1]:5", "", false, safeCookie},
		"a name that is not":       {"http://localhost.example.org", "127.0.0.1:5", "", false, ""},
		"an address":               {"http://192.0.2.1:8400", "192.0.2.7:5", "", false, ""},
		"a name, claimed to be":    {"http://localhost", "192.0.2.7:5", "", false, ""},
		"behind a trusted proxy":   {"http://panel.example.org", "10.0.0.1:5", "https", false, safeCookie},
		"behind it without TLS":    {"http://panel.example.org", "10.0.0.1:5", "http", false, ""},
		"behind one not trusted":   {"http://panel.example.org", "192.0.2.7:5", "https", false, ""},
		"in plain, as it is asked": {"http://192.0.2.1:8400", "192.0.2.7:5", "", true, insecureCookie},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.Insecure = tt.insecure })
			b := w.browser()
			b.base, b.peer = tt.base, tt.peer
			if tt.proto != "" {
				b.header["X-Forwarded-Proto"], b.header["X-Forwarded-For"] = tt.proto, "198.51.100.9, 10.0.0.2"
			}
			form, p := b.get("/login"), b.post("/login", "name", "ana", "password", password)
			if tt.cookie == "" {
				form.want(t, "the form", http.StatusOK, "not encrypted")
				p.want(t, "the sign-in", http.StatusForbidden, "over HTTPS")
				if strings.Contains(form.body, `name="password"`) || len(p.Cookies()) != 0 {
					t.Error("a password can be typed")
				}
				return
			}
			form.want(t, "the form", http.StatusOK, `name="password"`)
			if len(p.Cookies()) != 2 {
				t.Errorf("cookies %v", p.Cookies())
			}
			for i, c := range p.Cookies() {
				if c.Name != tt.cookie+[]string{"", knownSuffix}[i] || c.Secure != (tt.cookie == safeCookie) || !c.HttpOnly || c.SameSite != http.SameSiteLaxMode {
					t.Errorf("cookie %d is %v", i, c)
				}
			}
			if from := w.acts.last().From; tt.proto != "" && from != "198.51.100.9" {
				t.Errorf("it came from %s", from)
			}
		})
	}
}

// What the API refuses is refused here, and nothing is done.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.bob.ID, "other")
	b, stranger := w.as("ana"), w.browser()
	stranger.post("/apps/shop/stop").leads(t, "without a session", "/login")
	b.post("/apps/other/stop").want(t, "another account's", http.StatusNotFound, "You have no application with this ID.")
	b.post("/apps/..%2fx/stop").want(t, "no ID", http.StatusNotFound)
	b.post("/apps/nothing/stop").want(t, "none", http.StatusNotFound)
	b.post("/account/tokens/99/revoke").want(t, "no token", http.StatusNotFound)
	b.post("/account/sessions/99/end").want(t, "no session", http.StatusNotFound)
	b.post("/account/locale", "locale", "de-DE").want(t, "no locale", http.StatusNotFound)
	b.post("/account/tokens", "expires", "-1").want(t, "no time", http.StatusBadRequest)
	b.post("/account/tokens", "label", strings.Repeat("x", 101)).want(t, "a long label", http.StatusBadRequest, "at most 100 characters", "API tokens")
	b.post("/account/password", "old", password, "password", "a", "again", "b").want(t, "two passwords", http.StatusBadRequest)
	b.post("/account/password", "old", "wrong password", "password", "battery staple", "again", "battery staple").want(t, "a wrong old one", http.StatusForbidden)
	b.ask(http.MethodPut, "/account", nil).want(t, "another method", http.StatusMethodNotAllowed)
	b.ask(http.MethodTrace, "/account", nil).want(t, "a trace", http.StatusMethodNotAllowed)
	b.get("/nothing").want(t, "no page", http.StatusNotFound, "To the applications")
	w.host.fail = app.Errorf(app.Conflict, "another operation is under way")
	b.post("/apps/shop/stop").want(t, "a conflict", http.StatusConflict, "Another operation is under way.", "The shop")
	w.host.fail = app.Errorf(app.Already, "it is online")
	b.post("/apps/shop/start").want(t, "already", http.StatusConflict, "It is online.")
	w.host.fail = http.ErrBodyNotAllowed
	b.post("/apps/shop/start").want(t, "internal", http.StatusInternalServerError, "berth could not do this", "Request ")
	w.host.fail = nil
	b.header["Sec-Fetch-Site"] = "cross-site"
	b.post("/apps/shop/stop").want(t, "from another site", http.StatusForbidden, "came from another site")
	b.post("/logout").want(t, "signed out by another site", http.StatusForbidden)
	if act := w.acts.last(); act.Operation != "session.end" || act.Status != http.StatusForbidden || act.Refusal == "" {
		t.Errorf("the audit log has %+v", act)
	}
	if len(w.host.done) != 0 {
		t.Errorf("something was done: %v", w.host.done)
	}
	delete(b.header, "Sec-Fetch-Site")
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Disabled = true; return nil })))
	b.get("/").leads(t, "a disabled account", "/login")
}

// A suspended account opens no page and no form, says why at the sign-in, and is as it was
// when that ends.
func TestSuspendedAtEveryRoute(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	admin := account.NewAdmin(w.db.Accounts, stillPrograms{})
	b := w.as("bob")
	cookie := b.cookies["__Host-berth"]
	must(t, onlyError(admin.Suspend(t.Context(), w.bob.ID, "unpaid <b>")))
	replace := strings.NewReplacer("{app}", "shop", "{account}", "1", "{token}", "1", "{session}", "1", "{member}", "2",
		"{domain}", "shop.example.org", "{number}", "1", "{job}", "x", "{key}", "x", "{$}", "")
	for _, r := range (&pages{}).routes() {
		if r.access.who() == public {
			continue
		}
		b.cookies["__Host-berth"] = cookie
		path := replace.Replace(r.pattern)
		var p page
		if r.method == http.MethodPost {
			p = b.post(path)
		} else {
			p = b.get(path)
		}
		if to := p.Header.Get("Location"); p.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, "/login") {
			t.Errorf("%s %s: status %d to %q", r.method, path, p.StatusCode, to)
		}
	}
	if w.work.Wait(); len(w.host.done) > 0 {
		t.Errorf("done was %v", w.host.done)
	}
	fresh := w.browser()
	fresh.post("/login", "name", "bob", "password", password).want(t, "the right password", http.StatusForbidden,
		"This account is suspended (unpaid &lt;b&gt;); ask the owner of the server.")
	fresh.post("/login", "name", "bob", "password", "wrong password").want(t, "a wrong one", http.StatusUnauthorized, "The name or the password is wrong.")
	must(t, onlyError(admin.Unsuspend(t.Context(), w.bob.ID)))
	fresh.post("/login", "name", "bob", "password", password).leads(t, "afterwards", "/login?kept=&next=%2F")
}

func onlyError[T any](_ T, err error) error { return err }

// Every permission of a member holds, and no more.
func TestTeams(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	b := w.as("bob")
	b.get("/").want(t, "no member", http.StatusOK, "No applications yet")
	teams := account.NewTeams(w.db.Teams)
	must(t, onlyError(teams.AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"start_app", "restart_app"})))
	p := b.get("/")
	p.want(t, "a member", http.StatusOK, "The shop", "of ana", "/apps/shop/restart")
	if strings.Contains(p.body, "/apps/shop/stop") || strings.Contains(p.body, "CPU") {
		t.Error("a member sees more than permissions name")
	}
	b.post("/apps/shop/restart").leads(t, "restart", "/")
	if act := w.acts.last(); act.Actor != w.bob.ID || act.Account != w.ana.ID || act.App != "shop" || act.AppName != "The shop" {
		t.Errorf("the audit log has %+v", act)
	}
	b.post("/apps/shop/stop").want(t, "stop", http.StatusForbidden, "stop_app")
	if len(w.host.done) != 1 {
		t.Errorf("done: %v", w.host.done)
	}
}

// add makes the database know an application, for its team.
func add(t *testing.T, w *world, id app.ID) {
	t.Helper()
	must(t, addApp(t, w, id))
}

// A token that nobody needs is marked, so that somebody revokes it.
func TestUnusedTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, days := range []int{89, 91} {
		then, err := db.Open(t.Context(), w.file, func() time.Time { return time.Now().AddDate(0, 0, -days) })
		must(t, err)
		_, _, err = account.New(then.Accounts).IssueToken(t.Context(), app.Token{Account: w.ana.ID, Label: fmt.Sprintf("of %d days", days)})
		must(t, errors.Join(err, then.Close()))
	}
	body := w.as("ana").get("/account").body
	if !strings.Contains(body, `of 91 days <span class="tag">not used for 90 days</span>`) || strings.Count(body, "not used for 90 days") != 1 {
		t.Errorf("the page says %s", body)
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	secret := func(p page, what string) string {
		t.Helper()
		next := p.leads(t, what, "/account")
		shown := b.get(next)
		found := regexp.MustCompile(`value="(eyJ[^"]+)"`).FindStringSubmatch(shown.body)
		if found == nil {
			t.Fatalf("%s: the token is not shown", what)
		}
		if strings.Contains(b.get(next).body+b.get("/account").body, found[1]) {
			t.Errorf("%s: the token is shown twice", what)
		}
		return found[1]
	}
	service := account.New(w.db.Accounts)
	first := secret(b.post("/account/tokens", "label", "laptop", "expires", "168"), "a new one")
	_, token, err := service.Authenticate(t.Context(), first)
	if err != nil || token.Label != "laptop" || time.Until(token.Expires) > 168*time.Hour || time.Until(token.Expires) < 167*time.Hour {
		t.Errorf("%+v, %v", token, err)
	}
	second := secret(b.post("/account/tokens/1/rotate", "overlap", "1"), "a successor")
	for _, text := range []string{first, second} {
		if _, _, err := service.Authenticate(t.Context(), text); err != nil {
			t.Errorf("within the overlap: %v", err)
		}
	}
	third := secret(b.post("/account/tokens/2/rotate", "overlap", "0"), "one without overlap")
	if _, _, err := service.Authenticate(t.Context(), second); app.KindOf(err) != app.Unauthorized {
		t.Errorf("the old one: %v", err)
	}
	other := w.as("bob")
	other.post("/account/tokens/3/revoke").want(t, "another's", http.StatusNotFound)
	other.post("/account/tokens/3/rotate").want(t, "another's", http.StatusNotFound)
	b.post("/account/tokens/3/revoke").leads(t, "revoke", "/account")
	if _, _, err := service.Authenticate(t.Context(), third); app.KindOf(err) != app.Unauthorized {
		t.Errorf("a revoked one: %v", err)
	}
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	bound := secret(b.post("/account/tokens", "label", "ci", "app", "shop", "permission", "commit_app", "permission", "logs_app"), "a bound one")
	if _, token, err := service.Authenticate(t.Context(), bound); err != nil || token.Bounds == nil || !token.Bounds.Allows("shop", app.CommitApp) || token.Bounds.Allows("shop", app.StopApp) {
		t.Errorf("a bound one: %+v, %v", token, err)
	}
	if body := b.get("/account").body; !strings.Contains(body, "only The shop") || !strings.Contains(body, "read the log, deploy new versions") {
		t.Errorf("the page does not show the bounds: %s", body)
	}
	again := b.post("/account/tokens", "app", "shop")
	again.want(t, "no permission", http.StatusBadRequest)
	if !strings.Contains(again.body, "Choose at least one permission.") {
		t.Errorf("the refusal is not in the words of the form: %s", again.body)
	}
	if !regexp.MustCompile(`<details class="bounds" open>(?s:.*)value="shop" checked>`).MatchString(again.body) {
		t.Error("the form that is shown again forgot what was chosen")
	}
	b.post("/account/tokens", "app", "nobody", "permission", "logs_app").want(t, "an unknown application", http.StatusNotFound)
	b.post("/account/tokens", "permission", "logs_app").want(t, "no application", http.StatusBadRequest)
	for _, act := range w.acts.all {
		if strings.Contains(act.Detail, "eyJ") {
			t.Errorf("the audit log has a token: %+v", act)
		}
	}
}

func TestSessionsAndPasswords(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	here, there := w.as("ana"), w.as("ana")
	here.post("/account/sessions/2/end").leads(t, "end", "/account")
	there.get("/account").leads(t, "the ended one", "/login?next=%2Faccount")
	w.as("bob").post("/account/sessions/1/end").want(t, "another's", http.StatusNotFound)
	there = w.as("ana")
	next := here.post("/account/password", "old", password, "password", "battery staple", "again", "battery staple").leads(t, "change", "/account")
	here.get(next).want(t, "this session", http.StatusOK, "all other sessions were ended")
	there.get("/").leads(t, "the others", "/login")
	here.post("/account/locale", "locale", "pt-BR").leads(t, "locale", "/account")
	here.get("/").want(t, "in Portuguese", http.StatusOK, `lang="pt-BR"`, "Aplicações")
	here.post("/theme", "theme", "dark", "back", "//evil.example.org").leads(t, "theme", "/")
	here.get("/").want(t, "dark", http.StatusOK, `data-theme="dark"`)
	if here.cookies["__Host-berth-theme"] != "dark" {
		t.Errorf("the cookies are %v", here.cookies)
	}
}

// Each locale that an account can have is one that the panel speaks, by a name of its own.
func TestLocales(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	for locale, says := range map[string]string{"en-US": "English", "pt-BR": "Português (Brasil)", "es": "Español"} {
		if !slices.Contains(app.Locales, locale) || text.In(locale).Tag() != locale || localeWord(locale) != says {
			t.Errorf("%s is called %q, and spoken as %s", locale, localeWord(locale), text.In(locale).Tag())
		}
		b.post("/account/locale", "locale", locale).leads(t, locale, "/account")
		b.get("/account").want(t, locale, http.StatusOK, `<html lang="`+locale+`"`, `<option value="`+locale+`" selected>`+says, "English", "Español")
	}
	if len(app.Locales) != 3 {
		t.Errorf("this test does not know all of %q", app.Locales)
	}
	b.post("/account/locale", "locale", "es").leads(t, "Spanish", "/account")
	b.get("/").want(t, "in Spanish", http.StatusOK, `lang="es"`, "Aplicaciones", "Cerrar sesión")
}

func TestSetup(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	key, err := w.signIns.Invite(t.Context(), w.ana.ID)
	must(t, err)
	b.get("/setup/"+key).want(t, "the form", http.StatusOK, "Set a new password for the account ana")
	b.post("/setup/"+key, "password", "short", "again", "short").want(t, "too short", http.StatusBadRequest, "at least 10 characters", `name="again"`)
	b.post("/setup/"+key, "password", "battery staple", "again", "battery staple").leads(t, "used", "/login?kept=&next=%2Ffirst-steps")
	b.get("/account").want(t, "signed in", http.StatusOK, "ana")
	b.get("/setup/"+key).want(t, "again", http.StatusNotFound, "used already")
	b.post("/setup/"+key, "password", password, "again", password).want(t, "again", http.StatusNotFound)
	b.get("/setup/nothing").want(t, "none", http.StatusNotFound)
}

// Many at once: no answer is lost, and no session is another's.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	ana, bob := w.as("ana"), w.as("bob")
	var wg sync.WaitGroup
	for range 8 {
		for _, who := range []struct {
			b    *browser
			name string
		}{{ana, "ana"}, {bob, "bob"}} {
			b := w.browser()
			b.cookies[safeCookie] = who.b.cookies[safeCookie]
			wg.Go(func() {
				b.post("/account/tokens", "label", who.name)
				if p := b.get("/account"); p.StatusCode != http.StatusOK || !strings.Contains(p.body, who.name+"</span>") {
					t.Errorf("%s: %d", who.name, p.StatusCode)
				}
				b.get("/")
			})
		}
	}
	wg.Wait()
}
