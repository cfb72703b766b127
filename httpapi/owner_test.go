package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/web"
	"berth/web/local"
)

// owned is a world whose host has an owner.
func owned(t *testing.T) (*world, *book) {
	w, b := audited(t)
	w.config.Account = func(_ context.Context, nameOrID string) (app.Account, error) {
		if err := w.call("Account", nameOrID); err != nil {
			return app.Account{}, err
		}
		if nameOrID != "ada" && nameOrID != "7" {
			return app.Account{}, app.Errorf(app.NotFound, "no account is called %q", nameOrID)
		}
		return w.account, nil
	}
	w.config.Host = func() local.Daemon { return local.Daemon{Version: "1.2.3", PID: 42, DataDir: "/srv/berth"} }
	w.handler()
	return w, b
}

// asOwner sends a request over the local socket, for an account unless that is "".
func asOwner(w *world, method, path, account string) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(context.Background(), method, path, nil)
	r.RemoteAddr = "@" // as of a Unix socket
	if account != "" {
		r.Header.Set(local.AccountHeader, account)
	}
	rec := httptest.NewRecorder()
	w.owner.ServeHTTP(rec, r)
	return rec
}

func TestOwnerActsForAnAccount(t *testing.T) {
	w, b := owned(t)
	for _, account := range []string{"ada", "7"} {
		rec := asOwner(w, "PUT", "/v2/app/bot-one/stop", account)
		if rec.Code != 200 || rec.Header().Get("ratelimit-limit") != "" {
			t.Errorf("for %s: status %d, headers %v", account, rec.Code, rec.Header())
		}
	}
	if w.called("Authenticate") != 0 {
		t.Error("a token was looked up")
	}
	want := `0 "" token 0 "" for 7 from : app.stop bot-one "Bot bot-one" "" 200 ""`
	if got := b.lines(); !slices.Equal(got, []string{want, want}) {
		t.Errorf("the audit log has %q", got)
	}
}

// A disabled account is refused by its tokens; the owner still acts for it.
func TestOwnerActsForADisabledAccount(t *testing.T) {
	w, _ := owned(t)
	w.account.Disabled = true
	if rec := asOwner(w, "PUT", "/v2/app/bot-one/stop", "ada"); rec.Code != 200 {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
}

func TestOwnerMustNameAnAccountThatIsThere(t *testing.T) {
	w, b := owned(t)
	for account, want := range map[string]struct {
		status int
		says   string
	}{
		"":      {400, "Name the account in the Berth-Account header."},
		"bob":   {404, `There is no account \"bob\".`},
		"8":     {404, `There is no account \"8\".`},
		"\x00?": {404, "There is no account"},
	} {
		if rec := asOwner(w, "PUT", "/v2/app/bot-one/stop", account); rec.Code != want.status || !strings.Contains(rec.Body.String(), want.says) {
			t.Errorf("%q: status %d, %s", account, rec.Code, rec.Body)
		}
	}
	if w.called("Stop") != 0 || len(b.lines()) != 0 {
		t.Errorf("done: %q, recorded: %q", w.calls, b.lines())
	}
}

// A token neither helps nor harms: the kernel says who asks.
func TestOwnerNeedsNoToken(t *testing.T) {
	w, _ := owned(t)
	r := newRequest("GET", "/v2/user", "")
	rec := httptest.NewRecorder()
	w.owner.ServeHTTP(rec, r)
	if rec.Code != 400 || w.called("Authenticate") != 0 {
		t.Errorf("with a token and no account: status %d", rec.Code)
	}
}

func TestOwnerAsksForTheHost(t *testing.T) {
	w, _ := owned(t)
	want := `{"version":"1.2.3","pid":42,"dataDir":"/srv/berth","listen":"","panel":false,"baseUrl":"","sites":null,"held":"","engine":""}`
	if rec := asOwner(w, "GET", "/host", ""); rec.Code != 200 || rec.Body.String() != want {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
	if rec := asOwner(w, "PUT", "/host", ""); rec.Code != 405 {
		t.Errorf("to change it: status %d", rec.Code)
	}
	if rec := asOwner(w, "GET", "/v2/openapi.json", ""); rec.Code != 200 {
		t.Errorf("what anybody may ask for: status %d", rec.Code)
	}
}

// The plan of the host is its owner's: the API has no such route.
func TestOwnerAsksForThePlan(t *testing.T) {
	w, _ := owned(t)
	rec := asOwner(w, "GET", local.PlanPath, "")
	var got local.Plan
	if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil || rec.Code != 200 {
		t.Fatalf("status %d, %s, %v", rec.Code, rec.Body, err)
	}
	want := local.Plan{
		HostMB: 1024, ReserveMB: 256, Overcommit: 1.5, CapacityMB: 1152, PromisedMB: 2048, GivenMB: 512, Apps: 3, RunningMB: 448, Used: 100 << 20, Days: 30,
		Worst:   &local.Moment{At: testNow, Used: 200 << 20, HadMB: 448, Apps: 2},
		Offers:  []local.Offer{{Overcommit: 1.5, CapacityMB: 1152, MoreMB: 640, Worst: 68, Verdict: app.RAMFits}},
		Message: "At the worst moment, programs used 45 % of their RAM: host.overcommit 1.5 fits.",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	w.fail["RAMPlan"] = errors.New("disk on fire")
	if rec := asOwner(w, "GET", local.PlanPath, ""); rec.Code != 500 || strings.Contains(rec.Body.String(), "fire") {
		t.Errorf("a failure: status %d, %s", rec.Code, rec.Body)
	}
	if rec := do(t, w.handler(), newRequest("GET", local.PlanPath, "")); rec.Code != 404 {
		t.Errorf("for others: status %d, %s", rec.Code, rec.Body)
	}
}

// The listeners of the network read nothing that only the local socket has, whatever
// spelling the header has.
func TestOthersAreNotTheOwner(t *testing.T) {
	w, b := owned(t)
	public := w.handler()
	for _, name := range []string{local.AccountHeader, "berth-account", "BERTH-ACCOUNT"} {
		for _, remote := range []string{"192.0.2.1:1", "127.0.0.1:1", "@", ""} {
			r := httptest.NewRequestWithContext(context.Background(), "PUT", "/v2/app/bot-one/stop", nil)
			r.RemoteAddr = remote
			r.Header[name] = []string{"ada"}
			rec := httptest.NewRecorder()
			public.ServeHTTP(rec, r)
			if rec.Code != 401 && rec.Code != 429 {
				t.Errorf("%s from %q: status %d", name, remote, rec.Code)
			}
		}
	}
	if rec := do(t, public, newRequest("GET", "/host", "")); rec.Code != 404 {
		t.Errorf("/host: status %d", rec.Code)
	}
	// With a token it is the token's account that acts, whatever the header names.
	r := newRequest("PUT", "/v2/app/bot-one/stop", "")
	r.Header.Set(local.AccountHeader, "bob")
	if rec := do(t, public, r); rec.Code != 200 {
		t.Errorf("with a token: status %d", rec.Code)
	}
	lines := b.lines()
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, me) || w.called("Account") != 0 || w.called("Stop") != 1 {
		t.Errorf("recorded %q, asked %q", last, w.calls)
	}
}

// A command that has changed an account in the database says so; nobody else can.
func TestOwnerSaysThatAnAccountChanged(t *testing.T) {
	w, b := owned(t)
	w.config.AccountChanged = func(_ context.Context, id app.AccountID) error {
		if id != 7 {
			return app.Errorf(app.NotFound, "there is no account %d", id)
		}
		return w.call("AccountChanged", id)
	}
	public := w.handler()
	for id, want := range map[string]int{"7": 200, "8": 404, "ada": 404} {
		if rec := asOwner(w, "PUT", "/host/accounts/"+id+"/changed", ""); rec.Code != want {
			t.Errorf("%s: status %d, %s", id, rec.Code, rec.Body)
		}
	}
	if rec := do(t, public, newRequest("PUT", "/host/accounts/7/changed", "")); rec.Code != 404 {
		t.Errorf("with a token: status %d", rec.Code)
	}
	if w.called("AccountChanged") != 1 || len(b.lines()) != 0 { // the command has recorded it
		t.Errorf("asked %q, recorded %q", w.calls, b.lines())
	}
}

// A command that has set or dropped the hold says so; nobody else can.
func TestOwnerSaysThatTheHoldChanged(t *testing.T) {
	w, _ := owned(t)
	var refusal error
	w.config.HoldChanged = func(context.Context) error {
		if refusal != nil {
			return refusal
		}
		return w.call("HoldChanged")
	}
	public := w.handler()
	if rec := asOwner(w, "PUT", local.HoldPath, ""); rec.Code != 200 || w.called("HoldChanged") != 1 {
		t.Errorf("status %d, asked %q", rec.Code, w.calls)
	}
	refusal = app.Errorf(app.Unavailable, "busy")
	if rec := asOwner(w, "PUT", local.HoldPath, ""); rec.Code != 503 || !strings.Contains(rec.Body.String(), "busy") {
		t.Errorf("one that takes too long: status %d, %s", rec.Code, rec.Body)
	}
	if rec := do(t, public, newRequest("PUT", local.HoldPath, "")); rec.Code != 404 || w.called("HoldChanged") != 1 {
		t.Errorf("with a token: status %d, asked %q", rec.Code, w.calls)
	}
}

// A stream ends when its account is deleted, as it does without its token.
func TestStreamOfTheOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := owned(t)
		w.feed = make(chan []app.Event)
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- asOwner(w, "GET", "/v2/events", "ada") }()
		time.Sleep(web.StreamPing + time.Second)
		synctest.Wait()
		w.mu.Lock()
		w.fail["Account"] = app.Errorf(app.NotFound, "gone")
		w.mu.Unlock()
		if rec := <-done; rec.Code != 200 || !strings.Contains(rec.Body.String(), ": ping") {
			t.Errorf("status %d: %s", rec.Code, rec.Body)
		}
	})
}

// Its audit records name what came of each application.
func TestOwnerOfAllApplications(t *testing.T) {
	w, b := owned(t)
	w.apps = append(w.apps, bot("bot-two"))
	w.handler()
	if rec := asOwner(w, http.MethodPut, "/v2/app/all/stop", "ada"); rec.Code != 200 {
		t.Errorf("status %d: %s", rec.Code, rec.Body)
	}
	for _, line := range b.lines() {
		if !strings.HasPrefix(line, `0 "" token 0 "" for 7 from : app.stop bot-`) {
			t.Errorf("recorded %q", line)
		}
	}
	if n := len(b.lines()); n != 2 {
		t.Errorf("%d records", n)
	}
}
