package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// counts are of the connections to a program.
type counts struct{ come, gone atomic.Int64 }

// program is a site whose answers are written byte by byte: speak gets each
// request of each connection, and ends the connection when it is false.
func (w *world) program(id string, speak func(c net.Conn, connection, request int) bool) *counts {
	l, connections := listen(w.t), &counts{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n := int(connections.come.Add(1))
			go func() {
				defer connections.gone.Add(1)
				defer c.Close()
				in := bufio.NewReader(c)
				for i := 1; ; i++ {
					if r, err := http.ReadRequest(in); err != nil || !speak(c, n, i) {
						return
					} else if r.URL.Path == "/last" {
						return
					}
				}
			}()
		}
	}()
	w.t.Cleanup(func() { _ = l.Close(); <-ended })
	w.set(Site{ID: id, At: addressOf(l)})
	return connections
}

// What programs answer decides whether their connection is used again, and what
// visitors get of it.
func TestAnswersOfPrograms(t *testing.T) {
	log.SetOutput(io.Discard) // net/http prints what came unasked
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	for name, tt := range map[string]struct {
		says        string // to each request
		ends        bool   // the connection after each answer
		status      int
		text        string
		connections int // for three requests
	}{
		"a length":               {ok, false, 200, "ok", 1},
		"chunks":                 {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", false, 200, "ok", 1},
		"nothing":                {"HTTP/1.1 204 No Content\r\n\r\n", false, 204, "", 1},
		"an empty answer":        {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", false, 200, "", 1},
		"hints before":           {"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok, false, 200, "ok", 1},
		"until the end":          {"HTTP/1.1 200 OK\r\n\r\nok", true, 200, "ok", 3},
		"closed, and it says so": {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true, 200, "ok", 3},
		"closed, and it is mute": {ok, true, 200, "ok", 3},
		"of the old protocol":    {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true, 200, "ok", 3},
		"too much":               {ok + "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled", false, 200, "ok", 3},
		"too much, later":        {ok + strings.Repeat("x", 8<<10), false, 200, "ok", 3},
		"another protocol":       {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: tcp\r\nConnection: Upgrade\r\n\r\n", false, 502, "No answer", 3},
		"no status":              {"HTTP/1.1 099 No\r\nContent-Length: 2\r\n\r\nok", false, 502, "No answer", 3},
		"no HTTP":                {"hello\r\n\r\n", true, 502, "No answer", 3},
		"a head without an end":  {"HTTP/1.1 200 OK\r\n" + strings.Repeat("A: b\r\n", 40_000), true, 502, "No answer", 3},
		"nothing, and the end":   {"", true, 502, "No answer", 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			n := w.program("shop", func(c net.Conn, _, _ int) bool {
				_, err := io.WriteString(c, tt.says)
				return err == nil && !tt.ends
			})
			for range 3 {
				resp, text := w.ask("GET", shop, "/", nil)
				if resp.StatusCode != tt.status || !strings.Contains(text, tt.text) || tt.status == 200 && text != tt.text {
					t.Errorf("%d %q, want %d %q", resp.StatusCode, text, tt.status, tt.text)
				}
			}
			if got := int(n.come.Load()); got != tt.connections {
				t.Errorf("%d connections, want %d", got, tt.connections)
			}
		})
	}
}

// Bytes behind an answer are the answer to nobody, however fast the next request comes.
func TestBytesBehindAnAnswer(t *testing.T) {
	log.SetOutput(io.Discard) // net/http prints what came unasked
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	w := newWorld(t)
	w.program("shop", func(c net.Conn, _, _ int) bool {
		_, err := io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nokHTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nsmuggled")
		return err == nil
	})
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 200 {
				method := []string{"GET", "DELETE"}[i%2] // over lines, and over http.Transport
				if _, text := w.ask(method, shop, "/", nil); text == "smuggled" {
					t.Errorf("a visitor gets %q", text)
					return
				}
			}
		})
	}
	all.Wait()
}

// A status that is none reaches no visitor over the Transport's connections either.
func TestStatusThatIsNone(t *testing.T) {
	w := newWorld(t)
	w.program("shop", func(c net.Conn, _, _ int) bool {
		_, err := io.WriteString(c, "HTTP/1.1 042 No\r\nContent-Length: 2\r\n\r\nok")
		return err == nil
	})
	if resp, text := w.ask("POST", shop, "/last", strings.NewReader("x")); resp.StatusCode != 502 || !strings.Contains(text, "No answer") {
		t.Errorf("%d %q", resp.StatusCode, text)
	}
}

// A program that closes a connection while it is used again: what may be sent
// twice is, everything else is not.
func TestConnectionsThatBreak(t *testing.T) {
	w := newWorld(t)
	w.program("shop", func(c net.Conn, connection, request int) bool {
		if request == 2 {
			return false // after it has read the request
		}
		text := strconv.Itoa(connection)
		_, err := fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
		return err == nil
	})
	for want := 1; want <= 3; want++ {
		if _, text := w.ask("GET", shop, "/", nil); text != strconv.Itoa(want) {
			t.Errorf("got %s, want %d", text, want)
		}
	}
	if resp, text := w.ask("POST", shop, "/", strings.NewReader("x")); resp.StatusCode != 200 || text != "4" { // its own, unused connection
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	if resp, _ := w.ask("POST", shop, "/", strings.NewReader("x")); resp.StatusCode != 502 {
		t.Errorf("%d: a body was sent twice", resp.StatusCode)
	}
}

// A visitor who goes ends what the program does for it, before and in the answer.
func TestVisitorsWhoGo(t *testing.T) {
	for _, begins := range []bool{false, true} {
		w := newWorld(t)
		asked, gone := make(chan struct{}), make(chan struct{})
		w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
			if begins {
				_, _ = io.WriteString(out, "begun")
				_ = http.NewResponseController(out).Flush()
			}
			close(asked)
			<-r.Context().Done()
			close(gone)
		})
		ctx, cancel := context.WithCancel(t.Context())
		r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+w.address+"/", nil)
		r.Host = shop
		go func() { <-asked; cancel() }()
		if resp, err := http.DefaultTransport.RoundTrip(r); err == nil {
			_, _ = io.ReadAll(resp.Body)
			_ = resp.Body.Close()
		}
		select {
		case <-gone:
		case <-time.After(time.Minute):
			t.Errorf("begun %t: the program still works for nobody", begins)
		}
	}
}

// Connections that nobody uses are closed before programs close them.
func TestConnectionsThatAreIdle(t *testing.T) {
	w := newWorld(t)
	closed := make(chan time.Time, 1)
	s := &http.Server{
		Handler: http.HandlerFunc(echo), ReadHeaderTimeout: time.Minute,
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateClosed {
				closed <- time.Now()
			}
		},
	}
	l := listen(t)
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	w.set(Site{ID: "shop", At: addressOf(l)})
	began := time.Now()
	w.ask("GET", shop, "/", nil)
	select {
	case at := <-closed:
		if took := at.Sub(began); took < idleUpstream/2 || took > 20*idleUpstream {
			t.Errorf("closed after %v", took)
		}
	case <-time.After(time.Minute):
		t.Error("it stays open")
	}
}

// departing is a connection whose visitor goes while the request is written.
type departing struct {
	*net.TCPConn
	leave       func()
	interrupted chan struct{}
}

func (d departing) Write(p []byte) (int, error) {
	n, err := d.TCPConn.Write(p)
	d.leave()
	<-d.interrupted
	return n, err
}

func (d departing) SetDeadline(at time.Time) error {
	defer close(d.interrupted)
	return d.TCPConn.SetDeadline(at)
}

// What ends a request may come before the deadline of its answer is set: it still
// ends it.
func TestLinesOfVisitorsWhoGoEarly(t *testing.T) {
	l := listen(t)
	defer l.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	line, err := newLine(departing{c.(*net.TCPConn), cancel, make(chan struct{})}, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	u := newUpstream(plainDial)
	defer u.close()
	r, _ := http.NewRequestWithContext(ctx, "GET", "http://"+l.Addr().String()+"/", nil)
	began := time.Now()
	if resp, err := u.exchange(line, r); !errors.Is(err, context.Canceled) || time.Since(began) > answerTimeout/2 {
		t.Errorf("%v, %v after %v", resp, err, time.Since(began))
	}
}

// What a line end in a header would smuggle is never sent.
func TestLinesSendNoLineEnds(t *testing.T) {
	u := newUpstream(plainDial)
	defer u.close()
	l := listen(t)
	defer l.Close()
	for name, change := range map[string]func(*http.Request){
		"value": func(r *http.Request) { r.Header.Set("A", "b\r\nC: d") }, "host": func(r *http.Request) { r.Host = "a\r\nB: c" },
		"target": func(r *http.Request) { r.URL.Opaque = "/ HTTP/1.1\r\nA: b\r\n\r\n" },
	} {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+"/", nil)
		change(r)
		if resp, err := u.RoundTrip(r); err == nil || !strings.Contains(err.Error(), "line end") {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}

// plainDial is that of a proxy whose programs have ports of their own.
func plainDial(ctx context.Context, network, address string) (net.Conn, error) {
	return (&Proxy{}).dial(ctx, network, address)
}

// broken is a connection that the program closes between the look at it and the request.
type broken struct{ *net.TCPConn }

func (broken) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A used line that takes no request any more is as one that gives no answer: another
// takes its place.
func TestLinesThatTakeNothing(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(echo))
	defer s.Close()
	address := s.Listener.Addr().String()
	c, err := plainDial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	l, err := newLine(broken{c.(*programConn).TCPConn}, address)
	if err != nil {
		t.Fatal(err)
	}
	l.heard = true // of the answer before
	u := newUpstream(plainDial)
	defer u.close()
	u.give(l)
	r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL, nil)
	resp, err := u.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
}

// A port that is not a site's own may become another's: each site has its own connections,
// made as the host makes them.
func TestSitesThatAreDialed(t *testing.T) {
	w := newWorld(t)
	at := netip.MustParseAddrPort("127.0.0.1:3000") // of both, one after the other
	programs, dials := map[string]string{}, map[string]int{}
	var mu sync.Mutex
	w.proxy.Dial = func(ctx context.Context, id string, to netip.AddrPort) (net.Conn, error) {
		mu.Lock()
		defer mu.Unlock()
		dials[id]++
		if programs[id] == "" || to != at {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the port is not the program's any more")}
		}
		return (&net.Dialer{}).DialContext(ctx, "tcp", programs[id])
	}
	for _, id := range []string{"shop", "blog"} {
		w.serve(id, func(rw http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(rw, id) })
		s, _ := w.look(id)
		programs[id] = s.At.String()
		w.set(Site{ID: id, At: at, Dial: true})
	}
	for _, method := range []string{"GET", "POST"} { // by a line and by the Transport
		for range 2 {
			for _, id := range []string{"shop", "blog"} {
				if resp, text := w.ask(method, id+"."+domain, "/", nil); resp.StatusCode != 200 || text != id {
					t.Errorf("%s of %s: %d %s", method, id, resp.StatusCode, text)
				}
			}
		}
	}
	if dials["shop"] > 2 || dials["blog"] > 2 {
		t.Errorf("connections are not kept: %v", dials)
	}
	w.proxy.upstream.close() // nothing is kept
	mu.Lock()
	programs["blog"] = ""
	mu.Unlock()
	if resp, text := w.ask("GET", "blog."+domain, "/", nil); resp.StatusCode != 502 || !strings.Contains(text, "does not listen") {
		t.Errorf("a program that has left its port: %d %s", resp.StatusCode, text)
	}
	if _, err := w.proxy.dial(t.Context(), "tcp", "shop:3001"); err == nil || !strings.Contains(err.Error(), "has moved") {
		t.Errorf("where a site was: %v", err)
	}
	if _, err := w.proxy.dial(t.Context(), "tcp", "gone:3000"); err == nil || !strings.Contains(err.Error(), "has moved") {
		t.Errorf("a site that is gone: %v", err)
	}
}
