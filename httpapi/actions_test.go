package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// mixed has one application for each way an action can go.
func mixed(method string, offline bool) func(*world) {
	return func(w *world) {
		ready, already := bot("ready"), stopped("already")
		if offline {
			ready, already = stopped("ready"), bot("already")
		}
		w.apps = []app.Snapshot{ready, already, bot("busy"), bot("broken"), bot("gone")}
		w.fail[method+" busy"] = app.Errorf(app.Conflict, "Another operation is under way.")
		w.fail[method+" broken"] = app.Errorf(app.Exhausted, "The host has no memory left for it.")
		w.fail[method+" gone"] = app.Errorf(app.NotFound, "You have no application with this ID.")
	}
}

func actionScenes() []scene {
	const (
		start   = "/v2/app/{appID}/start"
		restart = "/v2/app/{appID}/restart"
		stop    = "/v2/app/{appID}/stop"
	)
	endedAtOnce := func(w *world) { w.apps = []app.Snapshot{crashed("bot-one")} }
	list := []scene{
		{name: "app_start_ok", method: "PUT", path: "/v2/app/bot-one/start", op: start, arrange: withApp(stopped("bot-one"))},
		{name: "app_start_ok_ended", method: "PUT", path: "/v2/app/bot-one/start", op: start, arrange: endedAtOnce},
		{name: "app_start_already", method: "PUT", path: "/v2/app/bot-one/start", op: start},
		{name: "app_start_ok_all", method: "PUT", path: "/v2/app/all/start", op: start, arrange: mixed("Start", true)},
		{name: "app_start_exhausted_with_logs", method: "PUT", path: "/v2/app/bot-one/start", op: start, arrange: func(w *world) {
			w.fail["Start"] = &app.Error{Kind: app.Unusable, Message: app.Textf("The program could not be started."), Logs: "Error: no module"}
		}},

		{name: "app_restart_ok", method: "PUT", path: "/v2/app/bot-one/restart", op: restart, body: "{}"},
		{name: "app_restart_already", method: "PUT", path: "/v2/app/bot-one/restart", op: restart, arrange: withApp(stopped("bot-one"))},
		{name: "app_restart_ok_all", method: "PUT", path: "/v2/app/all/restart", op: restart, arrange: mixed("Restart", false)},

		{name: "app_stop_ok", method: "PUT", path: "/v2/app/bot-one/stop", op: stop},
		{name: "app_stop_already", method: "PUT", path: "/v2/app/bot-one/stop", op: stop, arrange: withApp(stopped("bot-one"))},
		{name: "app_stop_ok_all", method: "PUT", path: "/v2/app/all/stop", op: stop, arrange: mixed("Stop", false)},
	}
	for method, op := range map[string]string{"Start": start, "Restart": restart, "Stop": stop} {
		verb := strings.ToLower(method)
		list = append(list,
			scene{name: "app_" + verb + "_ok_all_empty", method: "PUT", path: "/v2/app/all/" + verb, op: op, arrange: noApps},
			scene{name: "app_" + verb + "_not_found", method: "PUT", path: "/v2/app/nobody/" + verb, op: op},
			scene{
				name: "app_" + verb + "_conflict", method: "PUT", path: "/v2/app/bot-one/" + verb, op: op,
				arrange: failing(method, app.Conflict, "Another operation on this application is under way."),
			},
		)
		if method != "Stop" {
			list = append(list, scene{
				name: "app_" + verb + "_exhausted", method: "PUT", path: "/v2/app/bot-one/" + verb, op: op,
				arrange: failing(method, app.Exhausted, "The host has no memory left for it."),
			})
		}
	}
	return list
}

func TestActionOnAllAnswersTheFirstFailureWhenNothingSucceeded(t *testing.T) {
	w := newWorld(t)
	w.apps = []app.Snapshot{stopped("aa"), stopped("bb"), bot("cc")}
	w.fail["Start aa"] = app.Errorf(app.Exhausted, "No memory.")
	w.fail["Start bb"] = app.Errorf(app.Unavailable, "Not now.")
	rec := do(t, w.handler(), newRequest("PUT", "/v2/app/all/start", ""))
	var e errorBody
	decode(t, rec, &e)
	if rec.Code != http.StatusUnprocessableEntity || e.Message != "No memory." {
		t.Errorf("status %d, message %q; want the failure of the oldest application", rec.Code, e.Message)
	}
}

func TestActionOnAllIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for _, id := range strings.Fields("aa bb cc dd ee ff gg hh ii jj kk ll mm nn oo pp qq rr ss tt") {
			w.apps = append(w.apps, bot(app.ID(id)))
		}
		var running, most atomic.Int32
		release := make(chan struct{})
		w.before = func(context.Context, string) {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
		}
		done := make(chan int)
		h := w.handler()
		go func() { done <- do(t, h, newRequest("PUT", "/v2/app/all/stop", "")).Code }()
		time.Sleep(alone)
		synctest.Wait()
		if n := running.Load(); n != actors {
			t.Errorf("%d at once, want %d", n, actors)
		}
		close(release)
		if code := <-done; code != http.StatusOK || most.Load() > actors {
			t.Errorf("status %d, at most %d at once", code, most.Load())
		}
	})
}

func TestPanicInOneOfAllIsAFailureOfThatOne(t *testing.T) {
	w := newWorld(t)
	w.apps = []app.Snapshot{bot("good"), bot("evil")}
	w.before = func(_ context.Context, call string) {
		if call == "Stop evil" {
			panic("out of cheese")
		}
	}
	rec := do(t, w.handler(), newRequest("PUT", "/v2/app/all/stop", ""))
	var answer struct {
		Message string
		Apps    stoppedApps
	}
	decode(t, rec, &answer)
	if rec.Code != http.StatusOK || !slices.Equal(answer.Apps.Stopped, []app.ID{"good"}) || !slices.Equal(answer.Apps.Failed, []app.ID{"evil"}) {
		t.Errorf("status %d, %+v", rec.Code, answer)
	}
	if want := "1 application was stopped. evil failed: internal error."; answer.Message != want {
		t.Errorf("message %q, want %q", answer.Message, want)
	}
}

func TestLiteralAllIsNotFoundForOperationsOnOne(t *testing.T) {
	for _, r := range []*http.Request{
		newRequest("PUT", "/v2/app/all/ram", `{"ramMB":100}`),
		newRequest("PUT", "/v2/app/all/profile", `{"name":"x"}`),
		zipRequest("PUT", "/v2/app/all/commit", "PK"),
	} {
		w := newWorld(t)
		if rec := do(t, w.handler(), r); rec.Code != http.StatusNotFound {
			t.Errorf("%s %s: status %d, want 404", r.Method, r.URL.Path, rec.Code)
		}
	}
}
