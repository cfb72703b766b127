package proxy

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// asking sends a request that may wait; its status and text come later.
func (w *world) asking(ctx context.Context) <-chan string {
	w.t.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.address+"/", nil)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Host = shop
	done := make(chan string, 1)
	go func() {
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		done <- fmt.Sprintf("%d %s", resp.StatusCode, text)
	}()
	return done
}

func (w *world) held() int {
	w.proxy.waiting.mu.Lock()
	defer w.proxy.waiting.mu.Unlock()
	return w.proxy.waiting.all
}

// A visitor of a site that is starting waits for it, and not for one that
// nobody starts.
func TestRequestsWaitForASiteThatStarts(t *testing.T) {
	w := newWorld(t)
	w.proxy.startTimeout = time.Minute
	w.set(Site{ID: "shop", State: Starting})
	waiting := w.asking(t.Context())
	eventually(t, "it waits", func() bool { return w.held() == 1 })
	w.serve("shop", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "here") })
	if got := <-waiting; got != "200 here" {
		t.Errorf("the visitor got %q", got)
	}
	for _, c := range []struct {
		state State
		says  string
	}{{Stopped, "stopped by its owner"}, {Offline, "is not running"}, {Ended, "has ended by itself."}, {Crashed, "has ended with an error."}, {OutOfMemory, "more RAM"}, {Silent, "does not listen"}} {
		w.set(Site{ID: "shop", State: c.state})
		if got := <-w.asking(t.Context()); !strings.Contains(got, c.says) {
			t.Errorf("state %d: %q, want %q", c.state, got, c.says)
		}
	}
	w.set(Site{ID: "shop", State: Starting, Retry: time.Minute}) // later, and it is known when
	if got := <-w.asking(t.Context()); !strings.Contains(got, "is starting") {
		t.Errorf("with a restart in a minute: %q", got)
	}
	for name, then := range map[string]Site{"crashes": {ID: "shop", State: Crashed}, "goes": {}} {
		w.set(Site{ID: "shop", State: Starting})
		waiting = w.asking(t.Context())
		eventually(t, "it waits", func() bool { return w.held() == 1 })
		if then.ID == "" {
			w.mu.Lock()
			delete(w.sites, "shop")
			w.mu.Unlock()
		} else {
			w.set(then)
		}
		if got := <-waiting; !strings.HasPrefix(got, "50") {
			t.Errorf("a site that %s: %q", name, got)
		}
	}
}

// Nobody waits without end, for a full house, or behind a visitor who has gone.
func TestWaitingIsBounded(t *testing.T) {
	w := newWorld(t)
	w.set(Site{ID: "shop", State: Starting})
	if got := <-w.asking(t.Context()); !strings.HasPrefix(got, "503") || !strings.Contains(got, "is starting") {
		t.Errorf("after its time: %q", got)
	}
	w.proxy.startTimeout = time.Minute
	ctx, leave := context.WithCancel(t.Context())
	var all []<-chan string
	for range maxWaiting {
		all = append(all, w.asking(ctx))
	}
	eventually(t, "they wait", func() bool { return w.held() == maxWaiting })
	if got := <-w.asking(t.Context()); !strings.Contains(got, "is starting") {
		t.Errorf("one too many: %q", got)
	}
	leave()
	for _, one := range all {
		<-one
	}
	eventually(t, "their places are free", func() bool { return w.held() == 0 })

	h := &counter[string]{}
	for n := range maxWaitingInAll {
		if !h.add(fmt.Sprint(n/maxWaiting), maxWaiting, maxWaitingInAll) {
			t.Fatalf("number %d has no place", n)
		}
	}
	if h.add("another", maxWaiting, maxWaitingInAll) {
		t.Error("there are more places than there should be")
	}
	for n := range maxWaitingInAll {
		h.remove(fmt.Sprint(n / maxWaiting))
	}
	if h.all != 0 || len(h.of) != 0 {
		t.Errorf("%d and %v are left", h.all, h.of)
	}

	waiting := w.asking(t.Context())
	eventually(t, "it waits", func() bool { return w.held() == 1 })
	w.proxy.Release()
	w.proxy.Release()
	if got := <-waiting; !strings.Contains(got, "is starting") {
		t.Errorf("a visitor at the end: %q", got)
	}
}

// Requests are counted where they went, until they are answered; one that comes
// while the site moves goes where it is.
func TestDrain(t *testing.T) {
	w := newWorld(t)
	began, end := make(chan struct{}), make(chan struct{})
	w.serve("shop", func(rw http.ResponseWriter, r *http.Request) {
		began <- struct{}{}
		<-end
		_, _ = io.WriteString(rw, "old")
	})
	site, _ := w.look("shop")
	w.proxy.Drain(t.Context(), site.At, true) // nothing is under way
	slow := w.asking(t.Context())
	<-began
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w.proxy.Drain(short, site.At, false)
	if short.Err() == nil {
		t.Error("a request under way was not waited for")
	}
	w.serve("shop", func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, "new") })
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		w.proxy.Drain(t.Context(), site.At, false)
	}()
	if got := <-w.asking(t.Context()); got != "200 new" {
		t.Errorf("a new request got %q", got)
	}
	select {
	case <-drained:
		t.Error("it is drained with a request under way")
	default:
	}
	close(end)
	if got := <-slow; got != "200 old" {
		t.Errorf("the request under way got %q", got)
	}
	<-drained

	other := netip.MustParseAddrPort("127.0.0.1:1234")
	w.proxy.underway.add(destination{other, true}, 0, 0)
	w.proxy.Drain(t.Context(), other, false) // a WebSocket does not count
	short, cancel = context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	w.proxy.Drain(short, other, true)
	w.proxy.underway.remove(destination{other, true})
	if short.Err() == nil {
		t.Error("a WebSocket was not waited for")
	}
	eventually(t, "nothing is counted", func() bool {
		w.proxy.underway.mu.Lock()
		defer w.proxy.underway.mu.Unlock()
		return len(w.proxy.underway.of) == 0
	})
}

func TestHealthy(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", func(rw http.ResponseWriter, r *http.Request) {
		if r.Host != shop || r.Header.Get("User-Agent") != "berth-health" {
			t.Errorf("asked as %q by %q", r.Host, r.UserAgent())
		}
		switch r.URL.Path {
		case "/moved":
			http.Redirect(rw, r, "/500", http.StatusFound)
		case "/long":
			_, _ = rw.Write(make([]byte, 1<<20))
		case "/hang":
			<-r.Context().Done()
		case "/query":
			if r.URL.RawQuery != "a=b" {
				rw.WriteHeader(400)
			}
		case "/500":
			rw.WriteHeader(500)
		case "/404":
			rw.WriteHeader(404)
		}
	})
	site, _ := w.look("shop")
	nobody := listenOnce(t)
	for _, c := range []struct {
		path string
		at   netip.AddrPort
		says string
	}{
		{"/", site.At, ""},
		{"/moved", site.At, ""},
		{"/long", site.At, ""},
		{"/query?a=b", site.At, ""},
		{"/500", site.At, "GET /500 answered 500"},
		{"/404", site.At, "GET /404 answered 404"},
		{"/", nobody, "GET / gave no answer"},
		{"%", site.At, "it is no path"},
	} {
		err := w.proxy.Healthy(t.Context(), "shop", c.at, c.path)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", c.path, err, c.says)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := w.proxy.Healthy(ctx, "shop", site.At, "/hang"); err == nil || !strings.Contains(err.Error(), "gave no answer") {
		t.Errorf("a program that hangs: %v", err)
	}
}

// listenOnce returns an address at which nobody listens any more.
func listenOnce(t *testing.T) netip.AddrPort {
	l := listen(t)
	defer l.Close()
	return addressOf(l)
}
