package panel

import (
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// linkIn is the link that a page shows once.
var linkIn = regexp.MustCompile(`id="secret" readonly value="([^"]+)"`)

// invited sends a form that invites, and returns the link.
func invited(t *testing.T, b *browser, at string, pairs ...string) string {
	t.Helper()
	p := b.post(at, pairs...)
	p.want(t, at, http.StatusSeeOther)
	shown := b.get(p.Header.Get("Location"))
	found := linkIn.FindStringSubmatch(shown.body)
	if found == nil {
		t.Fatalf("%s shows no link: %s", at, shown.body)
	}
	return html.UnescapeString(found[1])
}

// pathOf is the path of a link, which begins as it should.
func pathOf(t *testing.T, link, base string) string {
	t.Helper()
	path, found := strings.CutPrefix(link, base)
	if !found || !regexp.MustCompile(`^/invitation/[A-Za-z0-9_-]{43}$`).MatchString(path) {
		t.Fatalf("the link is %q", link)
	}
	return path
}

func TestInvitationToANewAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	ana := w.as("ana")
	link := invited(t, ana, "/host/invitations", "for", "carla", "ram", "256", "disk", "1024", "apps", "2", "minutes", "1440", "app", "shop", "permission", "logs_app")
	path := pathOf(t, link, "http://127.0.0.1:8400")
	key := strings.TrimPrefix(path, "/invitation/")
	if act := w.acts.last(); act.Operation != "invitation.create" || !strings.Contains(act.Detail, `for="carla" ramMB=256 diskMB=1024 applications=2 minutes=1440 may=[shop:logs_app] invitation=3`) {
		t.Errorf("the audit log has %+v", act)
	}
	list := ana.get("/host")
	list.want(t, "the list", http.StatusOK, "carla", "256 MB of RAM", "1024 MB of disk", "by ana", "/host/invitations/3/revoke")
	if strings.Contains(list.body, key) {
		t.Error("the list shows the link again")
	}
	stranger := w.browser()
	for range 3 { // a messenger looks at what is behind a link
		p := stranger.get(path)
		p.want(t, "the page", http.StatusOK, "ana invites you.", `value="carla"`, "256 MB", "1024 MB", "2 applications", "The shop", "with an account that exists")
		if p.Header.Get("Referrer-Policy") != "same-origin" || p.Header.Get("Cache-Control") != "no-store" || strings.Contains(p.body, `name="back" value="/invitation`) {
			t.Errorf("the page tells others of the link: %v", p.Header)
		}
	}
	form := func(name, password, again string) []string {
		return []string{"name", name, "password", password, "again", again}
	}
	for what, c := range map[string]struct {
		form   []string
		status int
		says   string
	}{
		"two passwords":    {form("carla", password, "another horse"), http.StatusBadRequest, "the two passwords differ"},
		"a bad name":       {form("Carla", password, password), http.StatusBadRequest, "cannot be the name"},
		"a short password": {form("carla", "short", "short"), http.StatusBadRequest, "at least 10"},
		"a taken name":     {form("bob", password, password), http.StatusConflict, "bob"},
	} {
		p := stranger.post(path, c.form...)
		p.want(t, what, c.status, `name="again"`)
		if !strings.Contains(strings.ToLower(html.UnescapeString(p.body)), strings.ToLower(c.says)) {
			t.Errorf("%s: the page does not say %q", what, c.says)
		}
		if act := w.acts.last(); act.Operation != "invitation.accept" || act.Actor != app.Stranger || act.Refusal == "" || strings.Contains(act.Detail, key) {
			t.Errorf("%s: the audit log has %+v", what, act)
		}
	}
	stranger.post(path, form("carla", password, password)...).leads(t, "accepted", "/login?kept=&next=%2F")
	if act := w.acts.last(); act.Operation != "invitation.accept" || act.Name != "carla" || !strings.Contains(act.Detail, "invitation=3") {
		t.Errorf("the audit log has %+v", act)
	}
	stranger.get("/").want(t, "signed in", http.StatusOK, "carla", "The shop")
	if a, err := w.db.Accounts.AccountByName(t.Context(), "carla"); err != nil || a.TotalRAM != 256 || a.Limits != (app.Limits{Disk: 1024, Apps: 2}) || a.Admin {
		t.Errorf("%+v, %v", a, err)
	}
	w.browser().get(path).want(t, "used", http.StatusNotFound, "was used or revoked, or has expired")
	w.browser().post(path, form("mallory", password, password)...).want(t, "used twice", http.StatusNotFound)
	stranger.post(path+"/join").want(t, "joined twice", http.StatusNotFound)
	for _, act := range w.acts.all {
		if strings.Contains(act.Detail+act.Refusal+act.Request, key) {
			t.Errorf("the audit log has the link: %+v", act)
		}
	}
}

func TestInvitationToATeam(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	carl := w.person("carl")
	ana := w.as("ana")
	link := invited(t, ana, "/apps/shop/invitations", "permission", "stop_app", "minutes", "60")
	path := pathOf(t, link, "http://127.0.0.1:8400")
	stranger := w.browser()
	p := stranger.get(path)
	p.want(t, "a stranger", http.StatusOK, "/login?next=%2finvitation%2f")
	if strings.Contains(p.body, `name="password"`) {
		t.Error("a stranger can make an account")
	}
	stranger.post(path, "name", "eve", "password", password, "again", password).want(t, "no account", http.StatusUnprocessableEntity, "sign in with yours")
	stranger.post(path+"/join").leads(t, "without a session", "/login")
	ana.post(path+"/join").want(t, "one's own", http.StatusUnprocessableEntity, "is your own", "Accept as ana")
	next := url.QueryEscape(path)
	stranger.post("/login", "name", "carl", "password", password, "next", path).leads(t, "signed in", "/login?kept=&next="+next)
	stranger.get("/login?kept=&next="+next).leads(t, "the way back", path)
	stranger.get(path).want(t, "signed in", http.StatusOK, "Accept as carl")
	stranger.header["Sec-Fetch-Site"] = "cross-site"
	stranger.post(path+"/join").want(t, "by another site", http.StatusForbidden)
	delete(stranger.header, "Sec-Fetch-Site")
	stranger.post(path+"/join").leads(t, "accepted", "/")
	if act := w.acts.last(); act.Operation != "invitation.accept" || act.Actor != carl.ID || act.Detail != "invitation=3 may=[shop:stop_app]" {
		t.Errorf("the audit log has %+v", act)
	}
	stranger.post("/apps/shop/stop").leads(t, "a member", "/")
}

// The link of an application can make the account that uses it, which has nothing else.
func TestInviteSomebodyWithoutAnAccount(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	ana := w.as("ana")
	p := ana.post("/apps/shop/invitations", "permission", "logs_app", "minutes", "60", "new", "true")
	shown := ana.get(p.leads(t, "made", "/apps/shop/settings"))
	path := regexp.MustCompile(`/invitation/[\w-]+`).FindString(shown.body)
	eve := w.browser()
	eve.get(path).want(t, "the link", http.StatusOK, "ana invites you.")
	eve.post(path, "name", "eve", "password", password, "again", password).leads(t, "accepted", "/login?kept=&next=%2F")
	eve.get("/apps/shop/logs").want(t, "the log", http.StatusOK)
	eve.get("/apps/shop/settings").want(t, "the settings", http.StatusForbidden)
	a, err := w.db.Accounts.AccountByName(t.Context(), "eve")
	if err != nil || a.TotalRAM != 1 || a.Limits.Apps != 1 || a.Limits.Disk != 1 || a.Admin {
		t.Errorf("the account is %+v, %v", a, err)
	}
}

func TestRefusedInvitations(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.host.add(w.bob.ID, "other")
	must(t, addApp(t, w, "other"))
	ana, bob := w.as("ana"), w.as("bob")
	for what, c := range map[string]struct {
		b      *browser
		path   string
		form   []string
		status int
		says   string
	}{
		"no RAM":                {ana, "/host/invitations", []string{"minutes", "60"}, 400, "whole number of MB"},
		"too much RAM":          {ana, "/host/invitations", []string{"minutes", "60", "ram", "9000"}, 422, "MB more do not fit"},
		"no life":               {ana, "/host/invitations", []string{"ram", "100"}, 400, "15 minutes to 30 days"},
		"a life that is none":   {ana, "/host/invitations", []string{"ram", "100", "minutes", "x"}, 400, "15 minutes to 30 days"},
		"a very long one":       {ana, "/host/invitations", []string{"ram", "100", "minutes", "9223372036854775807"}, 400, "15 minutes to 30 days"},
		"a bad limit":           {ana, "/host/invitations", []string{"ram", "100", "minutes", "60", "disk", "x"}, 400, "disk space"},
		"a bad name":            {ana, "/host/invitations", []string{"ram", "100", "minutes", "60", "for", "<b>"}, 400, "name of an account"},
		"no permission":         {ana, "/host/invitations", []string{"ram", "100", "minutes", "60", "app", "shop"}, 400, "at least one permission"},
		"another's application": {ana, "/host/invitations", []string{"ram", "100", "minutes", "60", "app", "other", "permission", "logs_app"}, 404, "no application"},
		"no administrator":      {bob, "/host/invitations", []string{"ram", "100", "minutes", "60"}, 404, "nothing at this address"},
		"a member":              {bob, "/apps/shop/invitations", []string{"permission", "logs_app", "minutes", "60"}, 404, ""},
		"RAM from a team":       {bob, "/apps/other/invitations", []string{"minutes", "60", "ram", "100"}, 400, "at least one permission"},
		"a permission":          {bob, "/apps/other/invitations", []string{"minutes", "60", "permission", "fly"}, 400, "no permission"},
		"an account":            {bob, "/apps/other/invitations", []string{"minutes", "60", "permission", "logs_app", "new", "true"}, 403, "Only an administrator"},
		"another's invitation":  {bob, "/apps/other/invitations/2/revoke", nil, 404, "no invitation"},
		"none":                  {ana, "/host/invitations/99/revoke", nil, 404, "no invitation"},
		"no number":             {ana, "/host/invitations/x/revoke", nil, 404, "no invitation"},
	} {
		p := c.b.post(c.path, c.form...)
		p.want(t, what, c.status)
		if !strings.Contains(p.body, c.says) {
			t.Errorf("%s: the page does not say %q", what, c.says)
		}
	}
	if all, err := w.config.Invitations.Invitations(t.Context(), 0); err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	p := ana.post("/host/invitations", "ram", "300", "apps", "7", "for", "carla", "minutes", "1")
	p.want(t, "shown again", http.StatusBadRequest, `value="carla"`, `value="300"`, `value="7"`)
	if !strings.Contains(ana.get("/host").body, `id="ram" name="ram" type="number" min="1" value="512"`) {
		t.Error("the form of another account has changed")
	}
}

// The link has the address that people reach: that of the settings, else the one in the browser.
func TestAddressOfALink(t *testing.T) {
	t.Parallel()
	const here = "Nobody can open it on another computer: it begins with http://"
	for what, tt := range map[string]struct {
		base, host, proto string
		want              string // "" when no link is made
		local             bool
	}{
		"this host":               {"", "127.0.0.1:8400", "", "http://127.0.0.1:8400", true},
		"its name":                {"", "localhost:8400", "", "http://localhost:8400", true},
		"IPv6":                    {"", "[::1]:8400", "", "http://[::1]:8400", true},
		"behind a proxy with TLS": {"", "panel.example.org", "https", "https://panel.example.org", false},
		"the settings":            {"https://berth.example.org/", "127.0.0.1:8400", "", "https://berth.example.org", false},
		"the settings, forged":    {"https://berth.example.org", "evil.example", "https", "https://berth.example.org", false},
		"local settings":          {"http://localhost:8400", "127.0.0.1:8400", "", "http://localhost:8400", true},
		"a path":                  {"", "evil.example/x", "https", "", false},
		"a query":                 {"", "evil.example?x", "https", "", false},
		"a user":                  {"", "panel.example.org@evil.example", "https", "", false},
		"a tag":                   {"", `evil.example"><script>`, "https", "", false},
		"a space":                 {"", "evil example", "https", "", false},
		"nothing":                 {"", "", "https", "", false},
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, func(c *Config) { c.BaseURL = tt.base })
			seed(w)
			ana := w.as("ana")
			send := func(method, path string, form url.Values) page {
				r := httptest.NewRequest(method, path, strings.NewReader(form.Encode()))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Sec-Fetch-Site", "same-origin")
				r.Host, r.RemoteAddr = tt.host, "127.0.0.1:50000"
				if tt.proto != "" {
					r.RemoteAddr = "10.0.0.1:50000"
					r.Header.Set("X-Forwarded-Proto", tt.proto)
				}
				return ana.do(r)
			}
			if tt.proto != "" { // a proof counts from the address where it was made
				ana = w.browser()
				p := send(http.MethodPost, "/login", url.Values{"name": {"ana"}, "password": {password}})
				p.want(t, "sign in", http.StatusSeeOther)
			}
			p := send(http.MethodPost, "/host/invitations", url.Values{"ram": {"100"}, "minutes": {"60"}})
			if tt.want == "" {
				p.want(t, "refused", http.StatusBadRequest, "No link can be made")
				send(http.MethodPost, "/host/accounts", url.Values{"ram": {"100"}, "name": {"carla"}}).want(t, "an account", http.StatusBadRequest, "No link can be made")
				if _, err := w.db.Accounts.AccountByName(t.Context(), "carla"); app.KindOf(err) != app.NotFound {
					t.Errorf("the account was made: %v", err)
				}
				return
			}
			p.want(t, "made", http.StatusSeeOther)
			shown := send(http.MethodGet, p.Header.Get("Location"), nil)
			found := linkIn.FindStringSubmatch(shown.body)
			if found == nil {
				t.Fatal("no link is shown")
			}
			pathOf(t, html.UnescapeString(found[1]), tt.want)
			if strings.Contains(shown.body, here) != tt.local {
				t.Errorf("says that it is local: %t", !tt.local)
			}
		})
	}
}

// Of two who accept at once, one is let in.
func TestInvitationAcceptedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	path := pathOf(t, invited(t, w.as("ana"), "/host/invitations", "ram", "100", "minutes", "60"), "http://127.0.0.1:8400")
	var wait sync.WaitGroup
	statuses := make([]int, 4)
	for i := range statuses {
		wait.Go(func() {
			name := "guest" + string(rune('a'+i))
			statuses[i] = w.browser().post(path, "name", name, "password", password, "again", password).StatusCode
		})
	}
	wait.Wait()
	in := 0
	for _, status := range statuses {
		if status == http.StatusSeeOther {
			in++
		} else if status != http.StatusNotFound && status != http.StatusServiceUnavailable {
			t.Errorf("status %d", status)
		}
	}
	if all, err := w.db.Accounts.Accounts(t.Context()); in != 1 || err != nil || len(all) != 3 {
		t.Errorf("%d are in, %+v, %v", in, all, err)
	}
}

// What an inviter could not offer now, nobody accepts.
func TestInvitationOfSomebodyWhoMayNotAnyMore(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	ana := w.as("ana")
	path := pathOf(t, invited(t, ana, "/host/invitations", "ram", "100", "minutes", "60"), "http://127.0.0.1:8400")
	set := func(change func(a *app.Account)) {
		t.Helper()
		must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { change(a); return nil })))
	}
	guest := w.browser()
	set(func(a *app.Account) { a.Admin = false })
	guest.get(path).want(t, "no administrator any more", http.StatusNotFound)
	guest.post(path, "name", "eve", "password", password, "again", password).want(t, "no administrator any more", http.StatusNotFound)
	set(func(a *app.Account) { a.Admin, a.Disabled = true, true })
	guest.post(path, "name", "eve", "password", password, "again", password).want(t, "disabled", http.StatusNotFound)
	set(func(a *app.Account) { a.Disabled = false })
	guest.get(path).want(t, "as before", http.StatusOK)
	guest.base, guest.peer = "http://panel.example.org", "192.0.2.7:5"
	guest.get(path).want(t, "in plain", http.StatusOK, "not encrypted")
	guest.post(path, "name", "eve", "password", password, "again", password).want(t, "in plain", http.StatusForbidden, "over HTTPS")
	ana = w.as("ana")
	ana.post("/host/invitations/3/revoke").leads(t, "revoked", "/host")
	w.browser().get(path).want(t, "revoked", http.StatusNotFound)
	if _, err := w.db.Accounts.AccountByName(t.Context(), "eve"); app.KindOf(err) != app.NotFound {
		t.Error(errors.Join(err, errors.New("an account was made")))
	}
	link, _, err := w.config.Invitations.Invite(t.Context(), app.Account{}, app.Offer{RAM: 100}, time.Hour)
	must(t, err)
	w.browser().get("/invitation/"+link).want(t, "of the owner", http.StatusOK, "The owner of this host invites you.")
}
