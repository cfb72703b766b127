package httpapi

import (
	"context"
	"fmt"
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

// dies has applications whose programs end as soon as they are started.
func dies(ids ...app.ID) func(*world) {
	return func(w *world) {
		w.apps, w.ends = nil, map[app.ID]*app.Exit{}
		for _, id := range ids {
			w.apps = append(w.apps, stopped(id))
			w.ends[id] = &app.Exit{Run: 4, Code: 1}
		}
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
		{name: "app_start_ok_died", method: "PUT", path: "/v2/app/bot-one/start", op: start, arrange: dies("bot-one")},
		{name: "app_start_ok_out_of_memory", method: "PUT", path: "/v2/app/bot-one/start", op: start, arrange: func(w *world) {
			withApp(stopped("bot-one"))(w)
			w.ends = map[app.ID]*app.Exit{"bot-one": {Run: 4, Code: 137, OOM: true, LimitMB: 100}}
		}},
		{name: "app_start_ok_all_died", method: "PUT", path: "/v2/app/all/start", op: start, arrange: dies("bot-one", "bot-two")},
		{name: "app_start_ok_all_some_died", method: "PUT", path: "/v2/app/all/start", op: start, arrange: func(w *world) {
			mixed("Start", true)(w)
			w.apps = append(w.apps, stopped("dead"), stopped("asked"))
			w.ends = map[app.ID]*app.Exit{"dead": {Run: 4, Code: 1}, "asked": {Run: 4, Code: 143, Asked: true}}
		}},
		{name: "app_start_already", method: "PUT", path: "/v2/app/bot-one/start", op: start},
		{name: "app_start_ok_all", method: "PUT", path: "/v2/app/all/start", op: start, arrange: mixed("Start", true)},
		{name: "app_start_exhausted_with_logs", method: "PUT", path: "/v2/app/bot-one/start", op: start, arrange: func(w *world) {
			w.fail["Start"] = &app.Error{Kind: app.Unusable, Message: app.Textf("The program could not be started."), Logs: "Error: no module"}
		}},

		{name: "app_restart_ok", method: "PUT", path: "/v2/app/bot-one/restart", op: restart, body: "{}"},
		{name: "app_restart_ok_died", method: "PUT", path: "/v2/app/bot-one/restart", op: restart, arrange: func(w *world) {
			w.ends = map[app.ID]*app.Exit{"bot-one": {Run: 4, Code: 1}}
		}},
		{name: "app_restart_ok_all_died", method: "PUT", path: "/v2/app/all/restart", op: restart, arrange: func(w *world) {
			w.apps = []app.Snapshot{bot("aa"), bot("bb")}
			w.ends = map[app.ID]*app.Exit{"bb": {Run: 4, Code: 0}}
		}},
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

// A start of all watches every program, and takes no longer for many than for one.
func TestStartOfAllIsWatchedSideBySide(t *testing.T) {
	for name, c := range map[string]struct {
		apps   int
		launch time.Duration
		delay  time.Duration // the ok delay
		most   time.Duration
		least  time.Duration
	}{
		"a few":                    {3, 10 * time.Millisecond, 2 * time.Second, 2100 * time.Millisecond, 2 * time.Second},
		"a hundred":                {100, 100 * time.Millisecond, 2 * time.Second, 3 * time.Second, 2 * time.Second},
		"a long delay":             {3, 10 * time.Millisecond, time.Minute, 3 * time.Second, 2 * time.Second},
		"longer than web.Patience": {100, time.Second, 2 * time.Second, 13*time.Second + watchLast + 10*time.Millisecond, 12*time.Second + watchLast},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.apps = nil
				for i := range c.apps {
					w.apps = append(w.apps, stopped(app.ID(fmt.Sprintf("app-%d", i))))
				}
				w.ends = map[app.ID]*app.Exit{"app-1": {Run: 4, Code: 1}}
				w.before = func(ctx context.Context, call string) {
					wait := c.launch
					if strings.HasPrefix(call, "Outcome") {
						wait = c.delay
					}
					select {
					case <-time.After(wait):
					case <-ctx.Done():
					}
				}
				begin := time.Now()
				rec := do(t, w.handler(), newRequest("PUT", "/v2/app/all/start", ""))
				var answer struct {
					Apps struct{ Started, Failed []app.ID }
				}
				decode(t, rec, &answer)
				if took := time.Since(begin); took > c.most || took < c.least {
					t.Errorf("it took %s, want %s to %s", took, c.least, c.most)
				}
				if rec.Code != http.StatusOK || len(answer.Apps.Started) != c.apps-1 || !slices.Equal(answer.Apps.Failed, []app.ID{"app-1"}) {
					t.Errorf("status %d, %d were started, failed %v", rec.Code, len(answer.Apps.Started), answer.Apps.Failed)
				}
			})
		})
	}
}

// What was started and is gone before it was watched was started.
func TestStartOfWhatIsGoneMeanwhile(t *testing.T) {
	for _, verb := range []string{"start", "restart"} {
		w := newWorld(t)
		if verb == "start" {
			w.apps = []app.Snapshot{stopped("bot-one")}
		}
		w.fail["Outcome"] = app.Errorf(app.NotFound, "You have no application with this ID.")
		for _, id := range []string{"bot-one", "all"} {
			rec := do(t, w.handler(), newRequest("PUT", "/v2/app/"+id+"/"+verb, ""))
			var answer struct{ Status, Message string }
			decode(t, rec, &answer)
			if rec.Code != http.StatusOK || answer.Status != statusOK || !strings.HasSuffix(answer.Message, verb+"ed.") {
				t.Errorf("%s of %s: status %d, %+v", verb, id, rec.Code, answer)
			}
		}
	}
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
		Apps    struct{ Stopped, Failed []app.ID }
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
