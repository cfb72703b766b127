package panel

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// listener reads the stream of a page over a real connection.
type listener struct {
	t      testing.TB
	frames chan sent // closed when the stream ends
	status int
	header http.Header
	close  context.CancelFunc
}

// sent is one frame.
type sent struct{ id, event, data string }

// patienceOfTests is more than a stream needs to notice that it is over.
const patienceOfTests = 20 * time.Second

// listen follows what a page of b would follow.
func (w *world) listen(b *browser, address string, header ...string) *listener {
	w.t.Helper()
	server := httptest.NewServer(w.handler)
	ctx, cancel := context.WithCancel(w.t.Context())
	w.t.Cleanup(server.Close)
	w.t.Cleanup(cancel) // before
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, server.URL+address, nil)
	must(w.t, err)
	for name, value := range b.cookies {
		r.AddCookie(&http.Cookie{Name: name, Value: value})
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(r)
	must(w.t, err)
	l := &listener{t: w.t, frames: make(chan sent, 1000), status: resp.StatusCode, header: resp.Header, close: cancel}
	go func() {
		defer close(l.frames)
		defer resp.Body.Close()
		var f sent
		for scan := bufio.NewScanner(resp.Body); scan.Scan(); {
			name, value, _ := strings.Cut(scan.Text(), ": ")
			switch name {
			case "id":
				f.id = value
			case "event":
				f.event = value
			case "data":
				f.data = value
			case "":
				if value == "" && f.event != "" {
					l.frames <- f
					f = sent{}
				}
			}
		}
	}()
	return l
}

// next returns the next frame of one of these events.
func (l *listener) next(events ...string) sent {
	l.t.Helper()
	deadline := time.After(patienceOfTests)
	for {
		select {
		case f, ok := <-l.frames:
			if !ok {
				l.t.Fatalf("the stream ended before %v", events)
			}
			for _, e := range events {
				if f.event == e {
					return f
				}
			}
		case <-deadline:
			l.t.Fatalf("no %v came", events)
		}
	}
}

// ends fails unless the stream ends by itself.
func (l *listener) ends(what string) {
	l.t.Helper()
	deadline := time.After(patienceOfTests)
	for {
		select {
		case _, ok := <-l.frames:
			if !ok {
				return
			}
		case <-deadline:
			l.t.Fatalf("%s: the stream goes on", what)
		}
	}
}

// streamOf is the address that a page follows, as its script would make it.
func streamOf(t *testing.T, p page) string {
	t.Helper()
	found := regexp.MustCompile(`data-stream="([^"]+)" data-last="(\d+)"`).FindStringSubmatch(p.body)
	if found == nil {
		t.Fatal("the page follows nothing")
	}
	return strings.ReplaceAll(found[1], "&amp;", "&") + "&last=" + found[2]
}

func (w *world) publish(id app.ID, e app.Event) {
	s, _ := w.host.Find(id)
	e.App, e.Owner = id, s.Account
	if e.Kind == app.StateEvent {
		e.State = &app.StateChange{State: s.State, Running: s.Running, Name: s.Name, RAM: s.RAM}
	}
	w.hub.Publish(e)
}
