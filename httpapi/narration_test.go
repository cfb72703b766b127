package httpapi

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/web"
)

// told is one event of a narration.
type told struct{ name, data string }

// narrated reads the events of a whole answer.
func narrated(t *testing.T, body io.Reader) []told {
	t.Helper()
	var all []told
	var now told
	for lines := bufio.NewScanner(body); lines.Scan(); {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case lines.Text() == "" && now != told{}:
			all, now = append(all, now), told{}
		case name == "event":
			now.name = value
		case name == "data":
			now.data = value
		case lines.Text() != "" && !strings.HasPrefix(lines.Text(), ":"):
			t.Errorf("an odd line: %q", lines.Text())
		}
	}
	if now != (told{}) {
		t.Errorf("the stream ends within %+v", now)
	}
	return all
}

// narrations are requests of every operation that can tell how a deployment goes.
func narrations() map[string]func() *http.Request {
	zip := func(method, path string) func() *http.Request {
		return func() *http.Request { return zipRequest(method, path, "PK") }
	}
	return map[string]func() *http.Request{
		"upload":           zip("POST", "/v2/upload"),
		"commit":           zip("PUT", "/v2/app/bot-one/commit"),
		"commit as member": zip("PUT", "/v2/team/bot-one/commit"),
		"restore":          zip("POST", "/v2/app/bot-one/restore"),
		"rollback":         func() *http.Request { return newRequest("POST", "/v2/app/bot-one/rollback", "") },
		"snapshot": func() *http.Request {
			return newRequest("POST", "/v2/app/bot-one/restore", `{"snapshot":"`+lastNight+`"}`)
		},
		"copy": func() *http.Request {
			return newRequest("POST", "/v2/app/bot-one/copy", `{"snapshot":"`+lastNight+`"}`)
		},
	}
}

// The last event is the ordinary answer, whatever that is.
func TestTheLastEventIsTheAnswer(t *testing.T) {
	for outcome, fail := range map[string]error{
		"done":     nil,
		"failed":   &app.Error{Kind: app.Unusable, Message: app.Textf("The build failed."), Logs: "npm ERR! 404\n"},
		"already":  app.Errorf(app.Already, "That is the newest."),
		"internal": io.ErrUnexpectedEOF,
	} {
		for name, request := range narrations() {
			t.Run(name+" "+outcome, func(t *testing.T) {
				answer := func(accept string) (*httptest.ResponseRecorder, string) {
					w, records := audited(t)
					if strings.Contains(name, "member") {
						w.join(app.AllPermissions)
					}
					w.deployed = app.Deployed{Snapshot: bot("bot-one"), Logs: "added 12 packages"}
					for _, method := range []string{"Upload", "Commit", "Restore", "Rollback", "RestoreSnapshot", "CopySnapshot"} {
						w.fail[method] = fail
					}
					r := request()
					r.Header.Set("Accept", accept)
					rec := do(t, w.handler(), r)
					w.checkSpools(t)
					return rec, strings.Join(records.lines(), "\n")
				}
				ordinary, recorded := answer("application/json")
				stream, recordedToo := answer("text/event-stream")
				events := narrated(t, stream.Body)
				if len(events) != 1 {
					t.Fatalf("the events are %q", events)
				}
				if events[0].name != "done" || events[0].data != ordinary.Body.String() {
					t.Errorf("the events are %q, the answer %s", events, ordinary.Body)
				}
				if h := stream.Header(); stream.Code != 200 || h.Get("Content-Type") != "text/event-stream" || h.Get("X-Accel-Buffering") != "no" {
					t.Errorf("status %d, headers %v", stream.Code, h)
				}
				if recorded != recordedToo || recorded == "" {
					t.Errorf("the audit log has %q, of the ordinary answer %q", recordedToo, recorded)
				}
				var done struct{ StatusCode, Code int }
				if err := json.Unmarshal([]byte(events[0].data), &done); err != nil || cmp.Or(done.StatusCode, done.Code) != ordinary.Code {
					t.Errorf("the event says %d, %v, the answer %d", done.StatusCode, err, ordinary.Code)
				}
			})
		}
	}
}

// Phases, the place in the queue and what the build prints come while they happen.
func TestADeploymentIsNarrated(t *testing.T) {
	for name, request := range narrations() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if strings.Contains(name, "member") {
				w.join(app.AllPermissions)
			}
			w.deployed.Snapshot = bot("bot-one")
			b := &build{ready: make(chan struct{}, 1), text: make(chan string, 1), closed: make(chan struct{})}
			w.config.Logs = b
			release := make(chan struct{})
			w.before = func(ctx context.Context, _ string) {
				tell := app.ProgressOf(ctx)
				tell(app.Progress{Phase: app.Checked, App: "bot-one"})
				tell(app.Progress{Phase: app.Queued, App: "bot-one", Position: 3})
				tell(app.Progress{Phase: app.Building, App: "bot-one"})
				b.text <- "\x1b[32mnpm\x1b[0m \"installs\"\nmore\n"
				b.ready <- struct{}{}
				<-release
				b.text <- strings.Repeat("x", maxLog-1) + "\nand more\n"
				tell(app.Progress{Phase: app.Launching, App: "bot-one"})
			}
			server := httptest.NewServer(w.handler())
			defer server.Close()
			r := request()
			r = r.WithContext(t.Context())
			r.URL, r.RequestURI = must(r.URL.Parse(server.URL+r.URL.Path)), ""
			r.Header.Set("Accept", "text/event-stream")
			resp, err := server.Client().Do(r)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			first := make([]byte, 0, 1<<10) // before the work is over
			for !strings.Contains(string(first), "more") {
				n, err := resp.Body.Read(first[len(first):cap(first)])
				if err != nil {
					t.Fatalf("after %q: %v", first, err)
				}
				first = first[:len(first)+n]
			}
			close(release)
			events := narrated(t, io.MultiReader(strings.NewReader(string(first)), resp.Body))
			event := func(phase app.DeployPhase, place int, log string) told {
				return told{"progress", string(encode(object{{"id", "bot-one"}, {"phase", phase}, {"position", place}, {"log", log}}))}
			}
			want := []told{
				event("checked", 0, ""), event("queued", 3, ""), event("building", 0, ""),
				event("building", 0, "\x1b[32mnpm\x1b[0m \"installs\"\nmore\n"),
				event("building", 0, strings.Repeat("x", maxLog-1)+"\n"), event("building", 0, "and more\n"),
				event("launching", 0, ""),
			}
			if len(events) != len(want)+1 || events[len(want)].name != "done" {
				t.Fatalf("%d events: %q", len(events), events)
			}
			for i, e := range want {
				if events[i] != e {
					t.Errorf("event %d is %.200q, want %.200q", i, events[i], e)
				}
			}
			<-b.closed
			w.checkSpools(t)
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// What is refused before the file has come is refused as ever.
func TestARefusalBeforeTheFileIsNoStream(t *testing.T) {
	form := func(method, path string) *http.Request {
		return formRequest(method, path, func(m *multipart.Writer) { _ = m.WriteField("x", "text") })
	}
	for name, tt := range map[string]struct {
		request *http.Request
		token   string
		status  int
	}{
		"bad token":      {zipRequest("POST", "/v2/upload", "PK"), "wrong", 401},
		"no file":        {form("POST", "/v2/upload"), goodToken, 404},
		"not there":      {zipRequest("PUT", "/v2/app/nobody/commit", "PK"), goodToken, 404},
		"too large":      {zipRequest("PUT", "/v2/app/bot-one/commit", strings.Repeat("P", 1<<10)), goodToken, 413},
		"no such backup": {newRequest("POST", "/v2/app/bot-one/restore", `{"backup":"x"}`), goodToken, 404},
		"no snapshot":    {newRequest("POST", "/v2/app/bot-one/copy", `{"snapshot":"x"}`), goodToken, 400},
		"no deploy":      {newRequest("POST", "/v2/app/bot-one/rollback", `{"deploy":"x"}`), goodToken, 400},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.config.MaxUpload = 1 << 10
			tt.request.Header.Set("Accept", "text/event-stream")
			tt.request.Header.Set(tokenHeader, tt.token)
			rec := do(t, w.handler(), tt.request)
			if rec.Code != tt.status || !strings.HasPrefix(rec.Header().Get("Content-Type"), "application/json") {
				t.Errorf("status %d, %q: %s", rec.Code, rec.Header().Get("Content-Type"), rec.Body)
			}
			w.checkSpools(t)
		})
	}
}

func TestWhoAcceptsEvents(t *testing.T) {
	for accept, want := range map[string]bool{
		"":                                 false,
		"*/*":                              false,
		"text/*":                           false,
		"application/json":                 false,
		"text/event-stream":                true,
		"Text/Event-Stream; charset=utf-8": true,
		"application/json;q=0.5, text/event-stream":   true,
		"application/json, text/event-stream;q=0":     false,
		"text/event-stream;q=x":                       true,
		"text/event-streams, ;;;, text/event-stream ": true,
	} {
		if got := acceptsEvents(http.Header{"Accept": {accept}}); got != want {
			t.Errorf("%q: %v", accept, got)
		}
	}
	if !acceptsEvents(http.Header{"Accept": {"application/json", "text/event-stream"}}) {
		t.Error("the second line is not read")
	}
}

// narrate sends an upload in a bubble of synctest and returns the client's end.
func narrate(t *testing.T, w *world, life context.Context) io.ReadWriteCloser { //nolint:revive // t goes first
	t.Helper()
	conn := connectIn(t, w, life)
	sendText(conn, strings.Replace(uploadHead, "\r\n", "\r\nAccept: text/event-stream\r\nConnection: close\r\n", 1)+announced(len(uploadBody))+uploadBody)
	return conn
}

// A client that takes nothing, or has gone, holds no deployment up, and changes nothing.
func TestADeploymentWaitsForNoListener(t *testing.T) {
	for name, leave := range map[string]func(c io.Closer){
		"takes nothing": func(io.Closer) {},
		"goes":          func(c io.Closer) { _ = c.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, records := audited(t)
				w.deployed.Snapshot = bot("bot-one")
				b := &build{ready: make(chan struct{}, 1), text: make(chan string, 1), closed: make(chan struct{})}
				w.config.Logs = b
				began, took := make(chan struct{}), make(chan time.Duration, 1)
				w.before = func(ctx context.Context, _ string) {
					close(began)
					at := time.Now()
					time.Sleep(time.Second)
					app.ProgressOf(ctx)(app.Progress{Phase: app.Building, App: "bot-one"})
					for range 100 {
						select {
						case b.text <- strings.Repeat("x", 60<<10) + "\n":
						default:
						}
						select {
						case b.ready <- struct{}{}:
						default:
						}
					}
					app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: "bot-one"})
					if ctx.Err() != nil {
						t.Error("the deployment was cancelled")
					}
					took <- time.Since(at)
				}
				c := narrate(t, w, t.Context())
				head := make([]byte, 1)
				if _, err := c.Read(head); err != nil {
					t.Fatal(err)
				}
				<-began
				leave(c)
				if took := <-took; took > time.Second {
					t.Errorf("the deployment took %v", took)
				}
				<-b.closed
				synctest.Wait()
				if list := records.lines(); len(list) != 1 || !strings.Contains(list[0], "app.upload bot-one") || !strings.Contains(list[0], " 200 ") {
					t.Errorf("the audit log has %q", list)
				}
			})
		})
	}
}

// A long wait is not silent, moves up in the queue, and a daemon that ends answers.
func TestALongNarration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.apps[0].Position = 1
		life, end := context.WithCancelCause(t.Context())
		w.before = func(ctx context.Context, _ string) {
			app.ProgressOf(ctx)(app.Progress{Phase: app.Queued, App: "bot-one", Position: 2})
			time.Sleep(time.Minute)
			end(app.Errorf(app.Unavailable, "The server is being upgraded."))
			if ctx.Err() != nil {
				t.Error("the deployment was cancelled")
			}
		}
		w.fail["Upload"] = app.Errorf(app.Unavailable, "The server is being upgraded. Send it again in a minute.")
		c := narrate(t, w, life)
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(text), ": ping\n\n"); n < int(time.Minute/web.StreamPing)-1 {
			t.Errorf("%d pings in a minute", n)
		}
		events := narrated(t, strings.NewReader(string(text)))
		if len(events) != 3 || !strings.Contains(events[0].data, `"position":2`) || !strings.Contains(events[1].data, `"position":1`) ||
			events[2].name != "done" || !strings.Contains(events[2].data, `"statusCode":503`) || !strings.Contains(events[2].data, "upgraded") {
			t.Errorf("it was told %q", events)
		}
		w.checkSpools(t)
	})
}
