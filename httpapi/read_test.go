package httpapi

import (
	"net/http"
	"testing"
	"time"

	"berth/app"
)

func several(w *world) {
	w.apps = []app.Snapshot{bot("bot-one"), stopped("1745338954955"), crashed("crashing"), site("shop")}
}

func noApps(w *world) { w.apps = nil }

func withApp(s app.Snapshot) func(*world) { return func(w *world) { w.apps = []app.Snapshot{s} } }

func failing(method string, kind app.Kind, message string) func(*world) {
	return func(w *world) { w.fail[method] = &app.Error{Kind: kind, Message: app.Words(message)} }
}

func badHost(path string) func(*world) *http.Request {
	return func(*world) *http.Request {
		r := newRequest(http.MethodGet, path, "")
		r.Host = "a b\"c"
		return r
	}
}

func readScenes() []scene {
	const (
		info   = "/v2/app/{appID}"
		status = "/v2/app/{appID}/status"
		right  = "/v2/app/{appID}/ram"
	)
	busy := func(w *world) {
		w.usage["bot-one"] = app.Status{
			Usage:     app.Usage{MemoryBytes: 41838182, LimitBytes: 100 << 20, CPUPercent: 1.54, NetIn: 2048, NetOut: 1500},
			DiskBytes: 12897485,
		}
	}
	return []scene{
		{name: "user_ok", method: "GET", path: "/v2/user", arrange: several},
		{name: "user_ok_empty", method: "GET", path: "/v2/user", arrange: noApps},

		{name: "app_ok_online", method: "GET", path: "/v2/app/bot-one", op: info},
		{name: "app_ok_waiting", method: "GET", path: "/v2/app/crashing", op: info, arrange: several},
		{name: "app_ok_queued", method: "GET", path: "/v2/app/bot-one", op: info, arrange: withApp(queued("bot-one"))},
		{name: "app_ok_ram_killed", method: "GET", path: "/v2/app/bot-one", op: info, arrange: withApp(killed("bot-one"))},
		{name: "app_ok_stopped", method: "GET", path: "/v2/app/bot-one", op: info, arrange: withApp(stopped("bot-one"))},
		{name: "app_ok_site", method: "GET", path: "/v2/app/shop", op: info, arrange: withApp(visited("shop"))},
		{name: "app_ok_site_elsewhere", method: "GET", path: "/v2/app/shop", op: info, arrange: withApp(elsewhere("shop"))},
		{name: "app_ok_site_silent", method: "GET", path: "/v2/app/lost", op: info, arrange: withApp(unheard("lost"))},
		{name: "app_ok_stale", method: "GET", path: "/v2/app/bot-one", op: info, arrange: withApp(stale("bot-one"))},
		{name: "app_ok_all", method: "GET", path: "/v2/app/all", op: info, arrange: several},
		{name: "app_ok_all_empty", method: "GET", path: "/v2/app/all", op: info, arrange: noApps},
		{name: "app_not_found", method: "GET", path: "/v2/app/nobody", op: info},
		{name: "app_not_found_odd_id", method: "GET", path: "/v2/app/Bot%20One", op: info},

		{name: "app_right_size_ok", method: "GET", path: "/v2/app/bot-one/ram", op: right},
		{name: "app_right_size_ok_all", method: "GET", path: "/v2/app/all/ram", op: right, arrange: several},
		{name: "app_right_size_ok_all_empty", method: "GET", path: "/v2/app/all/ram", op: right, arrange: noApps},
		{name: "app_right_size_not_found", method: "GET", path: "/v2/app/nobody/ram", op: right},

		{name: "app_status_ok_online", method: "GET", path: "/v2/app/bot-one/status", op: status, arrange: busy},
		{name: "app_status_ok_offline", method: "GET", path: "/v2/app/bot-one/status", op: status, arrange: withApp(stopped("bot-one"))},
		{name: "app_status_ok_waiting", method: "GET", path: "/v2/app/crashing/status", op: status, arrange: several},
		{name: "app_status_ok_queued", method: "GET", path: "/v2/app/bot-one/status", op: status, arrange: withApp(queued("bot-one"))},
		{name: "app_status_ok_never_ran", method: "GET", path: "/v2/app/shop/status", op: status, arrange: several},
		{name: "app_status_ok_site_silent", method: "GET", path: "/v2/app/shop/status", op: status, arrange: withApp(unheard("shop"))},
		{name: "app_status_ok_stale", method: "GET", path: "/v2/app/bot-one/status", op: status, arrange: withApp(stale("bot-one"))},
		{name: "app_status_ok_all", method: "GET", path: "/v2/app/all/status", op: status, arrange: several},
		{name: "app_status_ok_all_empty", method: "GET", path: "/v2/app/all/status", op: status, arrange: noApps},
		{name: "app_status_not_found", method: "GET", path: "/v2/app/nobody/status", op: status},
	}
}

func TestStatusOfAllLeavesOutDeletedApplications(t *testing.T) {
	w := newWorld(t)
	several(w)
	w.fail["Status crashing"] = app.Errorf(app.NotFound, "gone")
	rec := do(t, w.handler(), newRequest("GET", "/v2/app/all/status", ""))
	var answer struct{ Apps []struct{ ID app.ID } }
	decode(t, rec, &answer)
	if rec.Code != http.StatusOK || len(answer.Apps) != 3 {
		t.Errorf("status %d with %d applications, want 200 with 3", rec.Code, len(answer.Apps))
	}
}

func TestReadingAllFailsWhenOneFails(t *testing.T) {
	for _, tt := range []struct{ method, path string }{
		{"Status shop", "/v2/app/all/status"},
		{"Terminal shop", "/v2/app/all/logs"},
	} {
		w := newWorld(t)
		several(w)
		w.fail[tt.method] = app.Errorf(app.Unavailable, "Not now.")
		if rec := do(t, w.handler(), newRequest("GET", tt.path, "")); rec.Code != http.StatusServiceUnavailable {
			t.Errorf("%s: status %d, want 503", tt.path, rec.Code)
		}
	}
}

func TestSplit(t *testing.T) {
	d := 26*time.Hour + 3*time.Minute + 4*time.Second + 999*time.Millisecond
	if got, want := string(encode(split(d))), `{"days":1,"hours":2,"minutes":3,"seconds":4}`; got != want {
		t.Errorf("split(%v) = %s, want %s", d, got, want)
	}
	if got, want := string(encode(split(-time.Hour))), `{"days":0,"hours":0,"minutes":0,"seconds":0}`; got != want {
		t.Errorf("split of the past = %s, want %s", got, want)
	}
}

func TestHeadHasHeadersOnly(t *testing.T) {
	w := newWorld(t)
	get := do(t, w.handler(), newRequest("GET", "/v2/app/bot-one", ""))
	head := do(t, w.handler(), newRequest("HEAD", "/v2/app/bot-one", ""))
	if head.Code != 200 || head.Header().Get("Content-Length") != get.Header().Get("Content-Length") {
		t.Errorf("HEAD: status %d, length %s; GET has %s", head.Code,
			head.Header().Get("Content-Length"), get.Header().Get("Content-Length"))
	}
}
