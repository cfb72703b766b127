package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/web"
)

const asUser = "GET /v2/user HTTP/1.1\r\nHost: a\r\nApi-Token: " + goodToken + "\r\n\r\n"

// What is not HTTP gets a status and a closed connection from net/http, and no
// handler sees it.
func TestWhatIsNotHTTP(t *testing.T) {
	w := newWorld(t)
	l, g := behind(t, w, 100)
	get := func(lines ...string) string {
		return "GET /v2/user HTTP/1.1\r\n" + strings.Join(lines, "\r\n") + "\r\n\r\n"
	}
	many := make([]string, 5000)
	for i := range many {
		many[i] = fmt.Sprintf("X-Header-%d: value", i)
	}
	for name, tt := range map[string]struct {
		text   string
		status int
	}{
		"bad escape in the path":  {"GET /v2/%zz HTTP/1.1\r\nHost: a\r\n\r\n", 400},
		"no host":                 {get("X: y"), 400},
		"two hosts":               {get("Host: a", "Host: b"), 400},
		"garbage":                 {"\x16\x03\x01\x02\x00\x01\x00\x01\r\n\r\n", 400},
		"space in a header":       {get("Host: a", "Api Token: x"), 400},
		"two lengths":             {get("Host: a", "Content-Length: 1", "Content-Length: 2"), 400},
		"another transfer coding": {get("Host: a", "Transfer-Encoding: gzip"), 501},
		"another version":         {"GET / HTTP/9.9\r\nHost: a\r\n\r\n", 505},
		"a huge header":           {get("Host: a", "X: "+strings.Repeat("x", 200<<10)), 431},
		"thousands of headers":    {get(append(many, "Host: a")...), 431},
		"a huge path":             {"GET /" + strings.Repeat("x", 200<<10) + " HTTP/1.1\r\nHost: a\r\n\r\n", 431},
		"an expectation":          {get("Host: a", "Expect: wonders"), 417},
	} {
		t.Run(name, func(t *testing.T) {
			c := call1(t, l)
			go c.say(tt.text) // more than the sockets hold, perhaps
			if resp, text := c.read(); resp.StatusCode != tt.status || !resp.Close || resp.Header.Get("X-Request-Id") != "" {
				t.Errorf("got %d %v %q", resp.StatusCode, resp.Header, text)
			}
			c.wantClosed()
		})
	}
	waitFor(t, func() bool { return g.Stats().Served == 0 })
}

func TestGarbageBehindARequest(t *testing.T) {
	l, _ := behind(t, newWorld(t), 100)
	c := call1(t, l)
	c.say(asUser + asUser + "\x00\x00nonsense\r\n\r\n" + asUser)
	for range 2 {
		if resp, _ := c.answer(); resp.StatusCode != http.StatusOK || resp.Header.Get("ratelimit-remaining") == "" {
			t.Errorf("status %d, %v", resp.StatusCode, resp.Header)
		}
	}
	if resp, text := c.read(); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("status %d: %q", resp.StatusCode, text)
	}
	c.wantClosed()
}

// Idle connections make room, the oldest first.
func TestIdleConnectionsMakeRoom(t *testing.T) {
	l, g := behind(t, newWorld(t), 8)
	idle := make([]*client, 8)
	for i := range idle {
		idle[i] = call1(t, l)
		idle[i].say(asUser)
		if resp, _ := idle[i].answer(); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
		waitFor(t, func() bool { return g.Stats().Idle == i+1 })
	}
	for range 3 {
		c := call1(t, l)
		c.say(asUser)
		if resp, _ := c.answer(); resp.StatusCode != http.StatusOK {
			t.Errorf("status %d", resp.StatusCode)
		}
		_ = c.Close()
		waitFor(t, func() bool { n := g.Stats(); return n.Served == 7 && n.Idle == 7 })
	}
	idle[0].wantClosed()
	idle[7].say(asUser)
	if resp, _ := idle[7].answer(); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
}

// Connections that never say anything are idle too: a few addresses with as many
// as each gets keep nobody out.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	l, g := behind(t, newWorld(t), web.AddressShare)
	silent := make([]*client, web.AddressShare)
	for i := range silent {
		l.set(fmt.Sprint("192.0.2.", i))
		silent[i] = call1(t, l)
		if i%2 == 0 {
			silent[i].say("GET /v2/user HTTP/1.1\r\n") // and never the rest
		}
		waitFor(t, func() bool { return g.Stats().Served == i+1 })
	}
	l.set("192.0.2.99")
	c := call1(t, l)
	c.say(asUser)
	if resp, _ := c.answer(); resp.StatusCode != http.StatusOK {
		t.Errorf("status %d", resp.StatusCode)
	}
	silent[0].wantClosed()
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for !done() {
		select {
		case <-ctx.Done():
			t.Fatal("it did not come about")
		case <-time.After(time.Millisecond):
		}
	}
}

// busy opens connections that wait in a handler until release.
func busy(t *testing.T, w *world, l net.Listener, n int) (all []*client, release func()) {
	t.Helper()
	began, end := make(chan struct{}), make(chan struct{})
	w.before = func(context.Context, string) { began <- struct{}{}; <-end }
	for range n {
		c := call1(t, l)
		c.say("PUT /v2/app/bot-one/stop HTTP/1.1\r\nHost: a\r\nApi-Token: " + goodToken + "\r\nContent-Length: 0\r\n\r\n")
		<-began
		all = append(all, c)
	}
	return all, func() {
		close(end)
		for _, c := range all {
			if resp, _ := c.answer(); resp.StatusCode != http.StatusOK {
				t.Errorf("a connection that was served: status %d", resp.StatusCode)
			}
			_ = c.Close()
		}
	}
}

func TestFullServerSaysSo(t *testing.T) {
	w := newWorld(t)
	l, g := behind(t, w, 4)
	_, release := busy(t, w, l, 4)
	silent := make([]*client, web.MaxRefused-1)
	for i := range silent {
		silent[i] = call1(t, l)
	}
	waitFor(t, func() bool { return g.Stats().Refused == len(silent) })
	c := call1(t, l)
	c.say(asUser)
	resp, body := c.answer()
	if resp.StatusCode != http.StatusServiceUnavailable || body.Message != "The server has as many connections as it takes. Try again in a few seconds." ||
		resp.Header.Get("Retry-After") != "5" || resp.Header.Get("ratelimit-remaining") == "0" || !resp.Close {
		t.Errorf("status %d %+v %v", resp.StatusCode, body, resp.Header)
	}
	c.wantClosed()
	waitFor(t, func() bool { return g.Stats().Refused == len(silent) })
	_ = call1(t, l) // takes the last of the spare places
	waitFor(t, func() bool { return g.Stats().Refused == web.MaxRefused })
	call1(t, l).wantClosed()
	release()
	waitFor(t, func() bool { return g.Stats().Served == 0 })
	c = call1(t, l)
	c.say(asUser)
	if resp, _ := c.answer(); resp.StatusCode != http.StatusOK {
		t.Errorf("after the end: status %d", resp.StatusCode)
	}
}

func TestOneAddressGetsItsShare(t *testing.T) {
	w := newWorld(t)
	l, g := behind(t, w, 2*web.AddressShare)
	l.set("2001:db8::1")
	_, release := busy(t, w, l, 2)
	l.set("2001:db8::ffff") // the same customer
	c := call1(t, l)
	c.say(strings.Replace(asUser, "\r\n\r\n", "\r\nAccept-Language: pt\r\n\r\n", 1))
	if resp, body := c.answer(); resp.StatusCode != http.StatusServiceUnavailable || body.Message != "Seu endereço tem 2 conexões abertas, o máximo por endereço. Feche algumas." {
		t.Errorf("status %d %+v", resp.StatusCode, body)
	}
	for _, other := range []string{"2001:db8:0:1::1", "192.0.2.1", ""} { // "" is this machine
		l.set(other)
		c := call1(t, l)
		c.say(asUser)
		if resp, _ := c.answer(); resp.StatusCode != http.StatusOK {
			t.Errorf("%q: status %d", other, resp.StatusCode)
		}
		_ = c.Close()
	}
	release()
	waitFor(t, func() bool { n := g.Stats(); return n.Served+n.Refused+n.Addresses == 0 })
}

// A WebSocket gives its place back too.
func TestWebSocketThroughAGate(t *testing.T) {
	w := newWorld(t)
	w.deployed.Snapshot = bot("bot-one")
	l, g := behind(t, w, 4)
	for range 6 {
		c := dial(t, http.DefaultClient, "http://"+l.Addr().String()+"/v2/ws/upload", nil)
		c.send(framesOf([]byte("PK content"), 100)...)
		if last := c.listen().last(); last.StatusCode != http.StatusOK {
			t.Errorf("it ended with %+v", last)
		}
	}
	waitFor(t, func() bool { return g.Stats().Served == 0 })
}
