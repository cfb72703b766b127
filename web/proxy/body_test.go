package proxy

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// slowBody is a client that sends bytes now and then, and a writer that has its
// deadlines.
type slowBody struct {
	http.ResponseWriter
	pause    time.Duration
	bytes    int
	left     int
	deadline time.Time
}

func (s *slowBody) SetReadDeadline(t time.Time) error { s.deadline = t; return nil }
func (s *slowBody) Close() error                      { return nil }

func (s *slowBody) Read(p []byte) (int, error) {
	if s.left == 0 {
		return 0, io.EOF
	}
	if left := time.Until(s.deadline); left < s.pause {
		time.Sleep(left)
		return 0, os.ErrDeadlineExceeded
	}
	time.Sleep(s.pause)
	n := min(s.bytes, s.left, len(p))
	s.left -= n
	return n, nil
}

// A body comes at a minimum rate or is given up; a program may take it as slowly as it
// likes.
func TestBodiesHaveAMinimumRate(t *testing.T) {
	for name, tt := range map[string]struct {
		body  slowBody
		takes time.Duration // of the program, between two parts
		late  bool
		after time.Duration // at most
	}{
		"nothing":                {slowBody{pause: time.Hour, bytes: 1, left: 1}, 0, true, bodyTimeout},
		"a byte now and then":    {slowBody{pause: bodyTimeout - time.Second, bytes: 1, left: 1000}, 0, true, bodyGrace + time.Second},
		"a long one, slowly":     {slowBody{pause: time.Second, bytes: 2 * bodyRate, left: 4000 * bodyRate}, 0, false, time.Hour},
		"a small one, very":      {slowBody{pause: 20 * time.Second, bytes: 1, left: 2}, 0, false, time.Minute},
		"one that is taken late": {slowBody{pause: time.Second, bytes: bodyRate, left: 20 * bodyRate}, 10 * time.Minute, false, 24 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := http.NewRequest(http.MethodPost, "/", nil)
				if err != nil {
					t.Fatal(err)
				}
				r.Body, r.ContentLength = &tt.body, int64(tt.body.left)
				p, began := timeBody(&tt.body, r), time.Now()
				for err == nil {
					_, err = p.Read(make([]byte, 32<<10))
					time.Sleep(tt.takes)
				}
				if late := errors.Is(err, errLate); late != tt.late || late != p.late.Load() || !late && !errors.Is(err, io.EOF) {
					t.Errorf("the end is %v", err)
				}
				if took := time.Since(began); took > tt.after {
					t.Errorf("it took %v", took)
				}
				if !tt.late && !tt.body.deadline.IsZero() {
					t.Error("the deadline of a body that came is still there")
				}
			})
		})
	}
	for _, r := range []*http.Request{{}, {Body: http.NoBody}, {Body: http.NoBody, ContentLength: -1}} {
		if timeBody(nil, r) != nil {
			t.Error("a request without a body has a rate")
		}
	}
}

// Visitors who wait for nothing, and bodies that do not come, make room for others.
// A WebSocket, which may be silent, does not.
func TestIdleVisitorsMakeRoom(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.Copy(out, r.Body)
			return
		}
		c, rw, err := http.NewResponseController(out).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		_, _ = io.Copy(c, rw)
	})
	l := listen(t)
	life, end := context.WithCancel(t.Context())
	server, b := limit(life, w.proxy, l, 4)
	served := make(chan error)
	go func() { served <- server.Serve(b) }()
	t.Cleanup(func() { end(); _ = server.Close(); <-served })
	open := func(text string) (net.Conn, *bufio.Reader) {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, text)
		return c, bufio.NewReader(c)
	}
	idle := func(want int) {
		t.Helper()
		eventually(t, "so many are idle", func() bool {
			n := b.Stats()
			return n.Idle == want && n.Served == want+1
		})
	}
	const head = " / HTTP/1.1\r\nHost: " + shop + "\r\n"
	socket, said := open("GET" + head + "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
	if line, err := said.ReadString('\n'); !strings.Contains(line, "101") {
		t.Fatal(line, err)
	}
	idle(0)
	_, silent := open("")
	idle(1)
	_, headless := open("POST / HTTP/1.1\r\nHo")
	idle(2)
	_, bodiless := open("POST" + head + "Content-Length: 5\r\n\r\n")
	idle(3)
	for range 5 {
		c, answer := open("GET" + head + "\r\n")
		if line, err := answer.ReadString('\n'); !strings.Contains(line, "200") {
			t.Fatal(line, err)
		}
		idle(3)
		_ = c // it is kept open
	}
	for name, r := range map[string]*bufio.Reader{"silent": silent, "without its headers": headless, "without its body": bodiless} {
		if text, err := io.ReadAll(r); len(text) > 0 && !strings.Contains(string(text), "408") {
			t.Errorf("the one that is %s got %q, %v", name, text, err)
		}
	}
	for _, line := range []string{"\r\n", "hello\n"} {
		if line == "hello\n" {
			_, _ = io.WriteString(socket, line)
		}
		for got := ""; got != line; {
			var err error
			if got, err = said.ReadString('\n'); err != nil {
				t.Fatalf("the WebSocket is closed: %v", err)
			}
		}
	}
}

// A body that nobody asks for yet, because the program takes no connection, makes room
// too: who sends none would hold a place. A visitor who waits for an answer keeps it.
func TestBodiesThatNobodyAsksForMakeRoom(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", func(http.ResponseWriter, *http.Request) {})
	w.set(Site{ID: "slow", State: Starting})
	w.proxy.startTimeout = time.Minute
	l := listen(t)
	life, end := context.WithCancel(t.Context())
	server, b := limit(life, w.proxy, l, 1)
	served := make(chan error)
	go func() { served <- server.Serve(b) }()
	t.Cleanup(func() { end(); w.proxy.Release(); _ = server.Close(); <-served })
	open := func(text string) *bufio.Reader {
		t.Helper()
		c, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, text)
		return bufio.NewReader(c)
	}
	waiting := 0
	held := func(busy bool) {
		t.Helper()
		waiting++ // the handler of a connection that was closed may wait on
		eventually(t, "the request waits for the site", func() bool { return w.proxy.waiting.count("slow") == waiting })
		if n := b.Stats(); n.Active != 1 || (n.Idle == 0) != busy {
			t.Errorf("%+v", n)
		}
	}
	slow := "slow." + domain
	open("POST / HTTP/1.1\r\nHost: " + slow + "\r\nContent-Length: 5\r\n\r\n")
	held(false)
	if line, err := open("GET / HTTP/1.1\r\nHost: " + shop + "\r\nConnection: close\r\n\r\n").ReadString('\n'); !strings.Contains(line, "200") {
		t.Errorf("a visitor beside a body that does not come gets %q, %v", line, err)
	}
	eventually(t, "the place is free", func() bool { return b.Stats().Served == 0 })
	open("GET / HTTP/1.1\r\nHost: " + slow + "\r\n\r\n")
	held(true)
	if line, err := open("GET / HTTP/1.1\r\nHost: " + shop + "\r\n\r\n").ReadString('\n'); err == nil {
		t.Errorf("a visitor who waits for a site lost the place: the next one got %q", line)
	}
}

// A visitor who takes nothing of an answer does not hold a place for ever.
func TestAnswersThatNobodyTakes(t *testing.T) {
	w := newWorld(t)
	ended := make(chan error, 1)
	w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
		var err error
		for part := make([]byte, 1<<20); err == nil; {
			_, err = out.Write(part)
		}
		ended <- err
	})
	l := listen(t)
	server, b := limit(t.Context(), w.proxy, l, 4)
	b.timeout = time.Second
	served := make(chan error)
	go func() { served <- server.Serve(b) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+shop+"\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Error("the answer is under way still")
	}
}

// A visitor whose headers are too long gets the answer, though nobody reads the rest of them.
func TestAnswerToHeadersThatAreTooLong(t *testing.T) {
	w := newWorld(t)
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "GET / HTTP/1.1\r\nHost: "+shop+"\r\nX: "+strings.Repeat("x", 128<<10))
	text, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 431 ") {
		t.Errorf("%.200q, %v", text, err)
	}
}
