package httpapi

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/web"
)

var testWarning = app.MemoryWarning{
	Run: 3, At: testNow, Level: 90, HeldBytes: 58 << 20, LimitBytes: 64 << 20, FullIn: 4 * time.Minute, Squeezed: 2, Signal: "SIGUSR2", Sent: true,
}

// testEvents are one of each kind.
func testEvents() []app.Event {
	event := func(id int64, kind app.EventKind) app.Event {
		return app.Event{ID: id, At: testNow, Kind: kind, App: "bot-one", Owner: 7}
	}
	state, exit, deploy, removed := event(42, app.StateEvent), event(43, app.ExitEvent), event(44, app.DeployEvent), event(45, app.RemovedEvent)
	memory := event(47, app.MemoryEvent)
	memory.Memory = &testWarning
	usage, lines := event(0, app.MetricEvent), event(0, app.LogEvent)
	state.State = &app.StateChange{State: app.Waiting, Name: "Bot", RAM: 64, Attempt: 2, RetryAt: testNow.Add(time.Second)}
	exit.Exit, deploy.Deploy = &testExit, &app.DeployStep{Kind: app.DeployCommit, Phase: app.DeployQueued, Position: 3}
	usage.Usage = &app.Usage{MemoryBytes: 1 << 20, LimitBytes: 64 << 20, CPUPercent: 12.3456, NetIn: 1, NetOut: 2}
	lines.Lines = &app.Lines{Pos: "k3jf9.120394.1795349885634_", Text: "2026-11-20T09:31:02.123Z one\n2026-11-20T09:31:02.123Z \"two\" \u2028 <b>\n"}
	return []app.Event{state, exit, deploy, memory, usage, lines, removed, {Kind: app.GapEvent, Missed: 5}, {Kind: app.ResetEvent, ID: 46}, {Kind: app.EndEvent}}
}

func eventScenes() []scene {
	const (
		metrics = "/v2/app/{appID}/metrics"
		listed  = "/v2/app/{appID}/events"
		stream  = "/v2/events"
	)
	return []scene{
		{name: "app_metrics_ok", method: "GET", path: "/v2/app/bot-one/metrics?from=2026-11-01T00:00:00Z&to=1795000000&step=600", op: metrics},
		{name: "app_metrics_invalid", method: "GET", path: "/v2/app/bot-one/metrics?from=yesterday", op: metrics},
		{name: "app_metrics_not_found", method: "GET", path: "/v2/app/nobody/metrics", op: metrics},
		{name: "app_events_ok", method: "GET", path: "/v2/app/bot-one/events", op: listed},
		{name: "app_events_not_found", method: "GET", path: "/v2/app/nobody/events", op: listed},
		{name: "app_events_conflict", method: "GET", path: "/v2/app/bot-one/events", op: listed, arrange: failing("EventLog", app.Conflict, "The application is being deployed for the first time.")},
		{name: "events_ok", method: "GET", path: "/v2/events?app=bot-one&types=state,exit,deploy,memory,metric,log", op: stream, arrange: feeding(testEvents()...)},
		{name: "events_head", method: "HEAD", path: "/v2/events", op: "-"},
		{name: "events_invalid", method: "GET", path: "/v2/events?types=state,everything", op: stream},
		{name: "events_not_found", method: "GET", path: "/v2/events?app=nobody", op: stream},
	}
}

// What is asked for, and what is refused.
func TestWhatIsWatched(t *testing.T) {
	const usual = app.StateEvent | app.ExitEvent | app.DeployEvent | app.MemoryEvent
	for name, tt := range map[string]struct {
		path, last string
		status     int
		want       app.Watch
	}{
		"nothing said":    {"/v2/events", "", 200, app.Watch{App: app.All, Kinds: usual, Last: 41}},
		"one application": {"/v2/events?app=bot-one", "", 200, app.Watch{App: "bot-one", Kinds: usual, Last: 41}},
		"some kinds":      {"/v2/events?app=all&types=metric,exit", "", 200, app.Watch{App: app.All, Kinds: app.MetricEvent | app.ExitEvent, Last: 41}},
		"lines":           {"/v2/events?app=bot-one&types=log", "7", 200, app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true}},
		"lines again": {
			"/v2/events?app=bot-one&types=log&since=a.1.2_b.3.4", "7", 200,
			app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true, From: app.LineStart{Pos: "a.1.2_b.3.4", Mark: true}},
		},
		"the last lines of a build": {
			"/v2/events?app=bot-one&types=log&tail=20&build=1", "7", 200,
			app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true, Logs: app.BuildLog, From: app.LineStart{Last: 20, Mark: true}},
		},
		"lines of the last minutes": {
			"/v2/events?app=bot-one&types=log&since=10m&build=false", "7", 200,
			app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true, Logs: app.RunLog, From: app.LineStart{Time: testNow.Add(-10 * time.Minute), Mark: true}},
		},
		"lines of days": {
			"/v2/events?app=bot-one&types=log&since=2d", "7", 200,
			app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true, From: app.LineStart{Time: testNow.AddDate(0, 0, -2), Mark: true}},
		},
		"lines since a time": {
			"/v2/events?app=bot-one&types=log&since=2026-11-20T09:00:00Z", "7", 200,
			app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true, From: app.LineStart{Time: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC), Mark: true}},
		},
		"all lines once": {
			"/v2/events?app=bot-one&types=log&follow=false", "7", 200,
			app.Watch{App: "bot-one", Kinds: app.LogEvent, Last: 7, Exact: true, From: app.LineStart{All: true, Once: true, Mark: true}},
		},
		"lines of no type":     {"/v2/events?app=bot-one&tail=5", "", 400, app.Watch{}},
		"a half position":      {"/v2/events?app=bot-one&types=log&since=yesterday", "", 400, app.Watch{}},
		"a negative time":      {"/v2/events?app=bot-one&types=log&since=-10m", "", 400, app.Watch{}},
		"negative lines":       {"/v2/events?app=bot-one&types=log&tail=-1", "", 400, app.Watch{}},
		"since and tail":       {"/v2/events?app=bot-one&types=log&tail=1&since=1m", "", 400, app.Watch{}},
		"perhaps of the build": {"/v2/events?app=bot-one&types=log&build=perhaps", "", 400, app.Watch{}},
		"perhaps followed":     {"/v2/events?app=bot-one&types=log&follow=", "", 400, app.Watch{}},
		"again":                {"/v2/events", "1795000000000001", 200, app.Watch{App: app.All, Kinds: usual, Last: 1795000000000001}},
		"of another server":    {"/v2/events", "01JABC", 200, app.Watch{App: app.All, Kinds: usual, Last: -1}},
		"a negative one":       {"/v2/events", "-5", 200, app.Watch{App: app.All, Kinds: usual, Last: -1}},
		"no kind":              {"/v2/events?types=", "", 400, app.Watch{}},
		"half a list":          {"/v2/events?types=state,", "", 400, app.Watch{}},
		"malformed":            {"/v2/events?types=%zz", "", 400, app.Watch{}},
		"no id":                {"/v2/events?app=../x", "", 404, app.Watch{}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			feeding()(w)
			r := newRequest("GET", tt.path, "")
			if tt.last != "" {
				r.Header.Set("Last-Event-ID", tt.last)
			}
			rec := do(t, w.handler(), r)
			if tt.status == 200 {
				tt.want.Account = w.account.ID
			}
			if rec.Code != tt.status || !reflect.DeepEqual(w.watched, tt.want) {
				t.Errorf("status %d, watched %+v, want %d, %+v", rec.Code, w.watched, tt.status, tt.want)
			}
			if closed := w.called("Close"); (closed == 1) != (tt.status == 200) {
				t.Errorf("closed %d times", closed)
			}
			if id := strings.Contains(rec.Body.String(), "id: 41\n"); id != (tt.status == 200 && tt.last == "") {
				t.Errorf("the first frame has an id: %v", id)
			}
		})
	}
}

// A stream that is silent says so, and ends when its token or its application is
// taken away; nothing else ends it.
func TestAStreamEnds(t *testing.T) {
	for name, tt := range map[string]struct {
		call string
		err  error
		ends bool
	}{
		"nothing happens":  {"Check", nil, false},
		"token revoked":    {"Authenticate", app.Errorf(app.Unauthorized, "gone"), true},
		"disabled":         {"Authenticate", app.Errorf(app.Forbidden, "disabled"), true},
		"left the team":    {"Check", app.Errorf(app.NotFound, "gone"), true},
		"may not any more": {"Check", app.Errorf(app.Forbidden, "no"), true},
		"a busy disk":      {"Authenticate", context.DeadlineExceeded, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.feed = make(chan []app.Event)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				rec, done := httptest.NewRecorder(), make(chan struct{})
				h := w.handler()
				go func() {
					defer close(done)
					h.ServeHTTP(rec, newRequest("GET", "/v2/events", "").WithContext(ctx))
				}()
				time.Sleep(web.StreamPing + time.Second)
				synctest.Wait()
				w.mu.Lock()
				w.fail[tt.call] = tt.err
				w.mu.Unlock()
				time.Sleep(web.StreamCheck)
				synctest.Wait()
				ended := false
				select {
				case <-done:
					ended = true
				default:
				}
				cancel()
				<-done
				if ended != tt.ends || w.called("Close") != 1 {
					t.Errorf("ended: %v, closed %d times", ended, w.called("Close"))
				}
				if got := rec.Body.String(); got != "id: 41\nretry: 3000\n\n: ping\n\n" {
					t.Errorf("told %q", got)
				}
			})
		})
	}
}

// Over a real connection frames come when they happen, with the headers that
// keep proxies from holding them back.
func TestFramesComeAtOnce(t *testing.T) {
	w := newWorld(t)
	w.feed = make(chan []app.Event)
	server := httptest.NewServer(w.handler())
	defer server.Close()
	r, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/v2/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(tokenHeader, goodToken)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.Header.Get("X-Accel-Buffering") != "no" || resp.Header.Get("Content-Type") != "text/event-stream" || resp.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("headers %v", resp.Header)
	}
	lines := bufio.NewScanner(resp.Body)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if lines.Text() == want {
				return
			}
		}
		t.Fatalf("no %q: %v", want, lines.Err())
	}
	until("retry: 3000")
	for range 3 {
		w.feed <- testEvents()[:1]
		until("event: app.state")
	}
	close(w.feed)
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Errorf("the end: %v", err)
	}
}
