package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app/exit"
)

// scripted is a server of one application, whose streams of events are scripted: each
// connection gets the next text, and is cut at its end.
type scripted struct {
	mu      sync.Mutex
	streams []string
	asked   []string // queries and Last-Event-IDs of the streams
	apps    string
	lists   []string // what is answered in place of apps, one after the other: "503", or apps
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	switch r.URL.Path {
	case "/v2/app/all":
		if len(s.lists) > 0 {
			s.apps, s.lists = s.lists[0], s.lists[1:]
		}
		if s.apps == "503" {
			unavailable(w)
			return
		}
		fmt.Fprintf(w, `{"status":"ok","apps":[%s]}`, s.apps)
	case "/v2/team":
		fmt.Fprint(w, `{"status":"ok","apps":[]}`)
	case "/v2/events":
		s.asked = append(s.asked, r.URL.RawQuery+" "+r.Header.Get("Last-Event-ID"))
		if len(s.streams) == 0 {
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"status":"error","statusCode":404,"message":"You have no application with this ID."}`)
			return
		}
		text := s.streams[0]
		s.streams = s.streams[1:]
		if text == "503" {
			unavailable(w)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, text)
		_ = http.NewResponseController(w).Flush()
		panic(http.ErrAbortHandler) // the connection is cut
	default:
		http.NotFound(w, r)
	}
}

func unavailable(w http.ResponseWriter) {
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprint(w, `{"status":"error","statusCode":503,"message":"The server is being upgraded."}`)
}

// berth runs a command against the server.
func (s *scripted) berth(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	server := httptest.NewServer(s)
	defer server.Close()
	getenv := func(name string) string {
		return map[string]string{"BERTH_URL": server.URL, "BERTH_TOKEN": "token"}[name]
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var out, errs bytes.Buffer
	code = Run(ctx, args, getenv, &out, &errs)
	return code, out.String(), strings.ReplaceAll(errs.String(), server.URL, "SERVER")
}

func logEvent(text, pos string) string {
	return fmt.Sprintf("event: app.log\ndata: {\"id\":\"shop\",\"build\":false,\"text\":%q,\"pos\":%q}\n\n", text, pos)
}

const shopOnline = `{"id":"shop","name":"Shop","ram":64,"online":true}`

// A stream that breaks, even within an event, goes on behind the last whole one.
func TestLogsGoOn(t *testing.T) {
	const at = "2026-11-23T02:00:00.000Z "
	s := &scripted{apps: shopOnline, streams: []string{
		"retry: 3000\n\n" + logEvent("", "a.0.0_"),
		logEvent(at+"one\n"+at+"two\n", "a.8.0_") + `event: app.log` + "\n" + `data: {"id":"shop","text":"` + at + `three\n","pos":"a.14.0_"}`,
		"503",
		logEvent(at+"three\n", "a.14.0_") + "event: app.removed\ndata: {\"id\":\"shop\"}\n\n",
	}}
	code, stdout, stderr := s.berth(t, "logs", "shop", "-f", "-n", "5")
	if want := at + "one\n" + at + "two\n" + at + "three\n"; stdout != want {
		t.Errorf("printed %q, want %q", stdout, want)
	}
	want := []string{
		"app=shop&build=false&tail=5&types=log ", "app=shop&build=false&since=a.0.0_&types=log ",
		"app=shop&build=false&since=a.8.0_&types=log ", "app=shop&build=false&since=a.8.0_&types=log ",
	}
	if fmt.Sprint(s.asked) != fmt.Sprint(want) {
		t.Errorf("asked %q, want %q", s.asked, want)
	}
	if code != exit.NotFound || !strings.HasSuffix(stderr, "berth: the application was deleted\n") || strings.Count(stderr, "trying again") != 2 ||
		strings.Count(stderr, "connected again") != 2 {
		t.Errorf("ended with %d: %s", code, stderr)
	}
}

func TestLogsEnd(t *testing.T) {
	const at, end = "2026-11-23T02:00:00.000Z ", "event: end\ndata: {}\n\n"
	for name, tt := range map[string]struct {
		args    []string
		streams []string
		code    int
		stdout  string
		stderr  string
		asked   string
	}{
		"once":       {nil, []string{logEvent(at+"one\n", "a.4.0_") + end}, 0, at + "one\n", "", "app=shop&build=false&follow=false&tail=100&types=log "},
		"of a build": {[]string{"--build", "--lines=all"}, []string{end}, 0, "", "", "app=shop&build=true&follow=false&since=0&types=log "},
		"since":      {[]string{"--since", "10m"}, []string{end}, 0, "", "", "app=shop&build=false&follow=false&since=10m&types=log "},
		"json": {
			[]string{"--json", "-n", "1"},
			[]string{logEvent(at+"one\n", "a.4.0_") + end},
			0,
			`{"at":"2026-11-23T02:00:00Z","build":false,"text":"one","pos":"a.4.0_"}` + "\n", "", "app=shop&build=false&follow=false&tail=1&types=log ",
		},
		"no application": {[]string{"-f"}, nil, exit.NotFound, "", "no application", "app=shop&build=false&tail=100&types=log "},
		"bad lines":      {[]string{"-n", "many"}, nil, exit.Usage, "", `bad number of lines "many"`, ""},
		"both":           {[]string{"-n", "1", "--since", "1m"}, nil, exit.Usage, "", "exclude each other", ""},
		"raw and json":   {[]string{"--raw", "--json"}, nil, exit.Usage, "", "exclude each other", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{apps: shopOnline, streams: tt.streams}
			code, stdout, stderr := s.berth(t, append([]string{"logs", "shop"}, tt.args...)...)
			if code != tt.code || stdout != tt.stdout || !strings.Contains(stderr, tt.stderr) {
				t.Errorf("ended with %d, %q, %q", code, stdout, stderr)
			}
			if got := strings.Join(s.asked, "|"); got != tt.asked {
				t.Errorf("asked %q, want %q", got, tt.asked)
			}
		})
	}
}

// Events go on with the ID of the last; what the server does not know any more is said.
func TestEventsGoOn(t *testing.T) {
	s := &scripted{apps: shopOnline, streams: []string{
		"id: 41\n\n" + "id: 42\nevent: app.state\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:00Z\",\"state\":\"stopping\"}\n\n" +
			"id: 43\nevent: app.memory\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:00Z\",\"level\":90,\"held\":60000000,\"limit\":67108864,\"fullIn\":240,\"memorySignal\":\"SIGUSR2\",\"sent\":true}\n\n",
		"id: 43\nevent: reset\ndata: {}\n\nid: 44\nevent: app.removed\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:01Z\"}\n\n",
	}}
	code, stdout, stderr := s.berth(t, "events", "shop", "-f")
	lines := strings.Split(stdout, "\n")
	if code != 0 || len(lines) != 4 || !strings.HasSuffix(lines[0], " shop stopping") ||
		!strings.HasSuffix(lines[1], " shop RAM 90 % full: it needs 58 of 64 MB, and grows: all of it in 4m0s; it got SIGUSR2") || !strings.HasSuffix(lines[2], " shop deleted") {
		t.Errorf("ended with %d: %q", code, stdout)
	}
	if !strings.Contains(stderr, "not known to the server") {
		t.Errorf("said %q", stderr)
	}
	if want := "[app=shop  app=shop 43]"; fmt.Sprint(s.asked) != want {
		t.Errorf("asked %q, want %s", s.asked, want)
	}
}

// Without a terminal status --watch prints a line for each change, and none again when the
// server does not know what was missed.
func TestStatusIsWatched(t *testing.T) {
	streams := func() []string {
		return []string{
			"id: 41\nevent: reset\ndata: {}\n\nid: 42\nevent: app.exit\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:00Z\",\"exitCode\":1}\n\n" +
				"event: app.metrics\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:00Z\",\"cpu\":1.5,\"memory\":1024}\n\n",
			"id: 43\nevent: reset\ndata: {}\n\nid: 44\nevent: app.removed\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:01Z\"}\n\n",
		}
	}
	s := &scripted{apps: shopOnline, streams: streams()}
	code, stdout, stderr := s.berth(t, "status", "shop", "-w")
	_, stdout, _ = strings.Cut(stdout, " ")
	if want := "shop online\n2026-11-23T02:00:00Z shop ended: exit code 1\n2026-11-23T02:00:01Z shop deleted\n"; code != 0 || stdout != want {
		t.Errorf("ended with %d: %q, want %q; %s", code, stdout, want, stderr)
	}
	s = &scripted{apps: shopOnline, streams: streams()}
	code, stdout, _ = s.berth(t, "status", "shop", "-w", "--json")
	if lines := strings.Split(stdout, "\n"); code != 0 || len(lines) != 5 || !strings.Contains(lines[2], `"cpu":1.5,"memory":1024`) {
		t.Errorf("ended with %d: %s", code, stdout)
	}
}

// A server that goes away between what it does not know any more and its lists does not end status --watch.
func TestStatusIsWatchedWithoutLists(t *testing.T) {
	const reset = "id: 41\nevent: reset\ndata: {}\n\n"
	s := &scripted{
		lists:   []string{shopOnline, shopOnline, "503", `{"id":"shop","name":"Shop","ram":64}`},
		streams: []string{reset, reset, reset, "id: 44\nevent: app.removed\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:01Z\"}\n\n"},
	}
	code, stdout, stderr := s.berth(t, "status", "shop", "-w")
	shown := strings.Contains(stdout, "shop offline\n") && strings.HasSuffix(stdout, "shop deleted\n")
	if code != 0 || strings.Count(stdout, "\n") != 3 || !shown {
		t.Errorf("ended with %d: %q; %s", code, stdout, stderr)
	}
}

// Without a terminal top prints its table once.
func TestTopOnce(t *testing.T) {
	s := &scripted{apps: shopOnline + `,{"id":"bot","name":"Bot","ram":64}`}
	for range 50 {
		s.streams = append(s.streams, "id: 41\nevent: reset\ndata: {}\n\nevent: app.metrics\ndata: {\"id\":\"shop\",\"at\":\"2026-11-23T02:00:00Z\",\"cpu\":1.5,\"memory\":10485760,\"limit\":67108864}\n\n")
	}
	code, stdout, _ := s.berth(t, "top")
	if code != 0 || strings.Count(stdout, "\n") != 4+3 && strings.Count(stdout, "\n") != 4 || !strings.Contains(stdout, "shop             online      1.5%    10M of 64M") ||
		!strings.Contains(stdout, "1 of 2 online") {
		t.Errorf("ended with %d:\n%s", code, stdout)
	}
}
