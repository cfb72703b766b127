package proxy

import (
	"context"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
)

// A site whose places are taken, by a WebSocket, a stream and a request that
// waits, takes none of the others, and its own are free again one by one.
func TestPlacesOfOneSite(t *testing.T) {
	w := newWorld(t)
	w.proxy.PerSite = 3
	w.serve("blog", echo)
	come, leave := make(chan struct{}, 8), make(chan struct{})
	w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/socket":
			c, err := websocket.Accept(out, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			come <- struct{}{}
			_, _, _ = c.Read(r.Context())
			_ = c.CloseNow()
		case "/stream":
			out.Header().Set("Content-Type", "text/event-stream")
			_ = http.NewResponseController(out).Flush()
			come <- struct{}{}
			<-r.Context().Done()
		case "/wait":
			come <- struct{}{}
			<-leave
		}
	})
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, w.address)
	}, DisableKeepAlives: true}}
	socket, _, err := websocket.Dial(t.Context(), "ws://"+shop+"/socket", &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	stream, err := client.Get("http://" + shop + "/stream")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	waited := make(chan error, 1)
	go func() {
		resp, err := client.Get("http://" + shop + "/wait")
		if err == nil {
			_, _ = io.ReadAll(resp.Body)
			err = resp.Body.Close()
		}
		waited <- err
	}()
	for range 3 {
		<-come
	}
	full := func(want bool) {
		t.Helper()
		eventually(t, "the places are as they should be", func() bool {
			resp, text := w.ask("GET", shop, "/", nil)
			if resp.StatusCode == 503 && (resp.Header.Get("Retry-After") != "10" || !strings.Contains(text, "more visitors at once")) {
				t.Errorf("%v %s", resp.Header, text)
			}
			return (resp.StatusCode == 503) == want
		})
	}
	full(true)
	if resp, _ := w.ask("GET", "blog."+domain, "/", nil); resp.StatusCode != 200 {
		t.Errorf("another site: %d", resp.StatusCode)
	}
	for _, end := range []func(){
		func() { close(leave) }, func() { _ = socket.CloseNow() }, func() { _ = stream.Body.Close() },
	} {
		end()
		full(false)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}
	eventually(t, "no place is taken", func() bool {
		w.proxy.perSite.mu.Lock()
		defer w.proxy.perSite.mu.Unlock()
		return len(w.proxy.perSite.of) == 0
	})
	w.mu.Lock()
	defer w.mu.Unlock()
	// The line of the stream may come after it, for it is written when that has ended.
	if !slices.ContainsFunc(w.lines, func(line string) bool { return strings.Contains(line, `"GET / HTTP/1.1"`) }) {
		t.Errorf("the access log has %q", w.lines)
	}
}

// A WebSocket whose program has ended holds no place, also when its visitor says nothing.
func TestASocketEndsWithItsProgram(t *testing.T) {
	w := newWorld(t)
	w.program("shop", func(c net.Conn, _, _ int) bool {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nbye")
		return false
	})
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+shop+"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if got, err := io.ReadAll(c); err != nil || !strings.HasSuffix(string(got), "\r\n\r\nbye") {
		t.Errorf("%q, %v", got, err)
	}
	eventually(t, "no place is taken", func() bool {
		w.proxy.perSite.mu.Lock()
		defer w.proxy.perSite.mu.Unlock()
		return len(w.proxy.perSite.of) == 0
	})
}
