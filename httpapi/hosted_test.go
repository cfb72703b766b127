package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

const hostToken = "berth-host-good"

// worldHosted are the accounts that a billing panel keeps in a world.
type worldHosted struct{ w *world }

func (h worldHosted) Authorize(_ context.Context, token string) (app.HostToken, error) {
	if token != hostToken {
		return app.HostToken{}, app.Errorf(app.Unauthorized, "this needs a token of the host; on the host, berth host-token create makes one")
	}
	return app.HostToken{ID: 2, Label: "whmcs"}, h.w.call("Authorize")
}

func (h worldHosted) account(external string) (app.Account, error) {
	if external != "whmcs-7" {
		return app.Account{}, app.Errorf(app.NotFound, "no account has the external id %q", external)
	}
	return app.Account{ID: 12, Name: "carl", TotalRAM: 512, Limits: app.Limits{Disk: 1024, Apps: 2}, External: external, CreatedAt: testNow}, nil
}

func (h worldHosted) Create(_ context.Context, external, name string, c app.AccountChange) (app.Account, bool, error) {
	if err := h.w.call("Create", external, name, said(c)); err != nil {
		return app.Account{}, false, err
	}
	a, err := h.account(external)
	a.Name = name
	return a, h.w.created, err
}

func said(c app.AccountChange) string {
	var list []string
	for name, n := range map[string]*int{"apps": c.Apps, "cpu": c.CPU, "builds": c.Builds, "backups": c.Backups} {
		if n != nil {
			list = append(list, fmt.Sprint(name, "=", *n))
		}
	}
	for name, n := range map[string]*app.MB{"ram": c.RAM, "disk": c.Disk} {
		if n != nil {
			list = append(list, fmt.Sprint(name, "=", int(*n)))
		}
	}
	slices.Sort(list)
	return strings.Join(list, ",")
}

func (h worldHosted) Account(_ context.Context, external string) (app.Account, error) {
	a, err := h.account(external)
	if failed := h.w.call("ExternalAccount", external); failed != nil {
		err = failed
	}
	return a, err
}

func (h worldHosted) Change(_ context.Context, external string, c app.AccountChange) (app.Account, error) {
	if err := h.w.call("Change", external, said(c)); err != nil {
		return app.Account{}, err
	}
	return h.account(external)
}

func (h worldHosted) Suspend(_ context.Context, external, why string) (app.Account, error) {
	if err := h.w.call("Suspend", external, why); err != nil {
		return app.Account{}, err
	}
	a, err := h.account(external)
	a.Suspended = app.Suspension{On: true, Why: why}
	return a, err
}

func (h worldHosted) Unsuspend(_ context.Context, external string) (app.Account, error) {
	if err := h.w.call("Unsuspend", external); err != nil {
		return app.Account{}, err
	}
	return h.account(external)
}

func (h worldHosted) Terminate(_ context.Context, external string) (app.Account, error) {
	if err := h.w.call("Terminate", external); err != nil {
		return app.Account{}, err
	}
	a, _ := h.account(external)
	return a, nil
}

func (h worldHosted) Link(_ context.Context, a app.Account) (string, error) {
	if err := h.w.call("Link", a.Name); err != nil {
		return "", err
	}
	return h.w.link, nil
}

func hostedScenes() []scene {
	const all, one = "/v2/host/accounts", "/v2/host/accounts/{externalID}"
	asHost := func(s scene) scene {
		s.header = map[string]string{tokenHeader: hostToken}
		return s
	}
	full := `{"externalId":"whmcs-7","name":"carl","ramMb":512,"diskMb":1024,"applications":2,"cpuPercent":100,"builds":1,"backups":2,"link":true}`
	here := func(verb, op, path, body string) scene { return scene{method: verb, op: op, path: path, body: body} }
	named := func(name string, s scene, arrange func(*world)) scene {
		s.name, s.arrange = name, arrange
		return asHost(s)
	}
	create, show := here("POST", all, all, full), here("GET", one, "/v2/host/accounts/whmcs-7", "")
	change := here("PUT", one, "/v2/host/accounts/whmcs-7", `{"ramMb":1024,"diskMb":0}`)
	remove := here("DELETE", one, "/v2/host/accounts/whmcs-7", "")
	suspend := here("PUT", one+"/suspend", "/v2/host/accounts/whmcs-7/suspend", `{"reason":"unpaid"}`)
	unsuspend := here("PUT", one+"/unsuspend", "/v2/host/accounts/whmcs-7/unsuspend", "")
	fault := func(call string) func(*world) { return failing(call, app.Internal, "disk on fire: secret path") }
	away := func(call string) func(*world) {
		return failing(call, app.Unavailable, "the server is shutting down; try again in a minute")
	}
	list := []scene{
		named("hosted_create_ok", create, func(w *world) { w.created, w.link = true, "one-time-key" }),
		named("hosted_create_ok_again", create, nil),
		named("hosted_create_ok_without_link", here("POST", all, all, `{"externalId":"whmcs-7","name":"carl","ramMb":512}`), func(w *world) { w.created = true }),
		named("hosted_create_invalid", here("POST", all, all, `{"externalId":"whmcs-7"}`), nil),
		named("hosted_create_invalid_limit", here("POST", all, all, `{"externalId":"whmcs-7","name":"carl","ramMb":512,"applications":"two"}`), nil),
		named("hosted_create_conflict", create, failing("Create", app.Conflict, `the account "whmcs-7" exists already, with another name or other limits; change it instead`)),
		named("hosted_create_too_large", here("POST", all, all, `{"name":"`+strings.Repeat("x", maxFields)+`"}`), nil),
		named("hosted_show_ok", show, nil),
		named("hosted_show_not_found", here("GET", one, "/v2/host/accounts/other", ""), nil),
		named("hosted_change_ok", change, nil),
		named("hosted_change_invalid", here("PUT", one, "/v2/host/accounts/whmcs-7", `{}`), nil),
		named("hosted_change_not_found", here("PUT", one, "/v2/host/accounts/other", `{"ramMb":1}`), nil),
		named("hosted_change_conflict", change, failing("Change", app.Conflict, "its applications have 612 MB assigned; the account cannot be set to 512 MB")),
		named("hosted_change_too_large", here("PUT", one, "/v2/host/accounts/whmcs-7", `{"x":"`+strings.Repeat("x", maxFields)+`"}`), nil),
		named("hosted_terminate_ok", remove, nil),
		named("hosted_terminate_ok_gone", here("DELETE", one, "/v2/host/accounts/other", ""), nil),
		named("hosted_suspend_ok", suspend, nil),
		named("hosted_suspend_ok_without_reason", here("PUT", one+"/suspend", "/v2/host/accounts/whmcs-7/suspend", ""), nil),
		named("hosted_suspend_invalid", here("PUT", one+"/suspend", "/v2/host/accounts/whmcs-7/suspend", `{"reason":1}`), nil),
		named("hosted_suspend_not_found", here("PUT", one+"/suspend", "/v2/host/accounts/other/suspend", ""), nil),
		named("hosted_suspend_too_large", here("PUT", one+"/suspend", "/v2/host/accounts/whmcs-7/suspend", `{"reason":"`+strings.Repeat("x", maxFields)+`"}`), nil),
		named("hosted_unsuspend_ok", unsuspend, nil),
		named("hosted_unsuspend_not_found", here("PUT", one+"/unsuspend", "/v2/host/accounts/other/unsuspend", ""), nil),
	}
	for name, s := range map[string]struct {
		scene
		call string
	}{
		"create": {create, "Create"}, "show": {show, "ExternalAccount"}, "change": {change, "Change"},
		"terminate": {remove, "Terminate"}, "suspend": {suspend, "Suspend"}, "unsuspend": {unsuspend, "Unsuspend"},
	} {
		list = append(list, named("hosted_"+name+"_internal", s.scene, fault(s.call)), named("hosted_"+name+"_unavailable", s.scene, away(s.call)))
		refused := s.scene
		refused.name = "hosted_" + name + "_unauthorized"
		list = append(list, refused) // with the token of an account
		list = append(list, named("hosted_"+name+"_limited", s.scene, failing("Authorize", app.Limited, "Too many requests.")))
	}
	slices.SortFunc(list, func(a, b scene) int { return strings.Compare(a.name, b.name) })
	return list
}

func withHostToken(method, path, body string) *http.Request {
	r := newRequest(method, path, body)
	r.Header.Set(tokenHeader, hostToken)
	return r
}

// A token of the host opens the routes of the host alone, and those open to no other.
func TestHostedNeedsATokenOfTheHost(t *testing.T) {
	for _, r := range new(server).routes() {
		if r.access == public {
			continue
		}
		path := strings.NewReplacer(":appID", "bot-one", ":locale", "en-US", ":modID", "8", ":tokenID", "5", ":name", "y",
			":subdomain", "blog", ":domain", "shop.example.org", ":externalID", "whmcs-7").Replace(r.Path)
		for token, of := range map[string]access{hostToken: byHost, goodToken: byToken, offToken: byToken, "berth-host-other": byHost + 1, "": byHost + 1} {
			if token != hostToken && r.access != byHost {
				continue
			}
			w := newWorld(t)
			w.created = true
			req := newRequest(r.Method, path, `{"externalId":"whmcs-7","name":"carl","ramMb":512}`)
			req.Header.Set(tokenHeader, token)
			rec := do(t, w.handler(), req)
			if refused := rec.Code == http.StatusUnauthorized; refused == (of == r.access) {
				t.Errorf("%s %s with %q: status %d, %s", r.Method, path, token, rec.Code, rec.Body)
			}
			if of != r.access && len(slices.DeleteFunc(w.calls, func(c string) bool { return c == "Authorize" || c == "Authenticate" })) > 0 {
				t.Errorf("%s %s with %q did %v", r.Method, path, token, w.calls)
			}
		}
	}
}

// What a billing panel does is the owner's, by the token that it used, for the account.
func TestHostedIsRecorded(t *testing.T) {
	w, b := audited(t)
	w.link = "one-time-key"
	h := w.handler()
	for _, r := range []*http.Request{
		withHostToken("POST", "/v2/host/accounts", `{"externalId":"whmcs-7","name":"carl","ramMb":512,"link":true}`),
		withHostToken("GET", "/v2/host/accounts/whmcs-7", ""),
		withHostToken("PUT", "/v2/host/accounts/whmcs-7/suspend", `{"reason":"unpaid"}`),
		withHostToken("DELETE", "/v2/host/accounts/other", ""),
	} {
		if rec := do(t, h, r); rec.Code != http.StatusOK {
			t.Errorf("%s: %d, %s", r.URL, rec.Code, rec.Body)
		}
	}
	do(t, h, newRequest("DELETE", "/v2/host/accounts/whmcs-7", "")) // with the token of an account
	const panel = `0 "" token 0 "host token 2 \"whmcs\"" for `
	want := []string{
		panel + `12 from 192.0.2.1: account.create  "" "external=\"whmcs-7\" account=\"carl\" again" 200 ""`,
		panel + `12 from 192.0.2.1: account.suspend  "" "external=\"whmcs-7\" reason=\"unpaid\"" 200 ""`,
		panel + `0 from 192.0.2.1: account.delete  "" "external=\"other\"" 200 ""`,
		`-1 "" token 0 "" for 0 from 192.0.2.1: auth.failed  "" "" 401 "this needs a token of the host; on the host, berth host-token create makes one" counted`,
	}
	if got := b.lines(); !slices.Equal(got, want) {
		t.Errorf("recorded\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, line := range b.lines() {
		if strings.Contains(line, "one-time-key") {
			t.Error("a link is recorded")
		}
	}
}

// A token of the host has the limit of every token, and wrong ones that of their address.
func TestHostedIsLimited(t *testing.T) {
	w := newWorld(t)
	w.config.RateLimit = 2
	h := w.handler()
	for _, want := range []int{200, 200, 429} {
		if rec := do(t, h, withHostToken("GET", "/v2/host/accounts/whmcs-7", "")); rec.Code != want {
			t.Errorf("status %d, want %d", rec.Code, want)
		}
	}
	for _, want := range []int{401, 401, 429} {
		r := withHostToken("GET", "/v2/host/accounts/whmcs-7", "")
		r.Header.Set(tokenHeader, "berth-host-guess")
		if rec := do(t, h, r); rec.Code != want {
			t.Errorf("a guess: status %d, want %d", rec.Code, want)
		}
	}
}

// The owner of the host needs no token at the local socket.
func TestHostedByTheOwner(t *testing.T) {
	w, b := owned(t)
	rec := asOwner(w, "GET", "/v2/host/accounts/whmcs-7", "")
	if rec.Code != http.StatusOK || !strings.Contains(rec.Body.String(), `"externalId":"whmcs-7"`) {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
	r := httptest.NewRequestWithContext(t.Context(), "PUT", "/v2/host/accounts/whmcs-7/unsuspend", nil)
	r.RemoteAddr = "@"
	rec = httptest.NewRecorder()
	w.owner.ServeHTTP(rec, r)
	if lines := b.lines(); rec.Code != http.StatusOK || len(lines) != 1 || !strings.HasPrefix(lines[0], `0 "" token 0 "" for 12 from : account.unsuspend`) {
		t.Errorf("status %d: %s, recorded %q", rec.Code, rec.Body, lines)
	}
}
