package proxy

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Frames and flags of RFC 9113, section 6.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway, frameContinuation = 0, 1, 3, 4, 7, 9
	endStream, endHeaders                                                              = 1, 4
)

// two is a connection in HTTP/2 whose frames are made by hand.
type two struct {
	*tls.Conn
	t *testing.T
}

// secure serves the world by TLS and returns its address.
func (w *world) secure() string {
	w.t.Helper()
	dir, log := w.t.TempDir(), slog.New(slog.DiscardHandler)
	certificate(w.t, dir, "a", 1, "*."+domain)
	c, err := LoadCertificates(dir, "", log)
	if err != nil {
		w.t.Fatal(err)
	}
	l := listen(w.t)
	life, end := context.WithCancel(context.Background())
	server := Server(life, w.proxy, log)
	server.TLSConfig = &tls.Config{GetCertificate: c.Find, MinVersion: tls.VersionTLS12}
	served := make(chan error)
	go func() { served <- server.ServeTLS(l, "", "") }()
	w.t.Cleanup(func() { end(); _ = server.Close(); <-served })
	return l.Addr().String()
}

func dialTwo(t *testing.T, address string) *two {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{ServerName: shop, InsecureSkipVerify: true, NextProtos: []string{"h2"}})
	if err != nil || c.ConnectionState().NegotiatedProtocol != "h2" {
		t.Fatalf("no HTTP/2: %v", err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	h := &two{c, t}
	_, _ = io.WriteString(c, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	_ = h.frame(frameSettings, 0, 0, nil)
	return h
}

func (h *two) frame(kind, flags byte, stream uint32, payload []byte) error {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	head = binary.BigEndian.AppendUint32(append(head, flags), stream)
	_, err := h.Write(append(head, payload...))
	return err
}

// block writes headers without a table and without Huffman (RFC 7541, 6.2.2).
func block(pairs ...string) []byte {
	var b []byte
	text := func(s string) {
		if n := len(s); n < 127 {
			b = append(b, byte(n))
		} else {
			b = append(b, 127)
			for n -= 127; n >= 128; n >>= 7 {
				b = append(b, byte(n)|128)
			}
			b = append(b, byte(n))
		}
		b = append(b, s...)
	}
	for i := 0; i < len(pairs); i += 2 {
		b = append(b, 0)
		text(pairs[i])
		text(pairs[i+1])
	}
	return b
}

func get(more ...string) []byte {
	return block(append([]string{":method", "GET", ":scheme", "https", ":authority", shop, ":path", "/"}, more...)...)
}

// outcome reads until a stream or the connection ends, and tells how: the body,
// "reset" or "gone"; before the body the head's first byte is 0x88 for 200.
func (h *two) outcome(stream uint32) (good bool, text string) {
	in := bufio.NewReader(h)
	var body strings.Builder
	for {
		head := make([]byte, 9)
		if _, err := io.ReadFull(in, head); err != nil {
			return false, "gone"
		}
		payload := make([]byte, binary.BigEndian.Uint32(head)>>8)
		if _, err := io.ReadFull(in, payload); err != nil {
			return false, "gone"
		}
		kind, flags, of := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == frameGoAway:
			return false, "gone"
		case of != stream:
			continue
		case kind == frameReset:
			return false, "reset"
		case kind == frameHeaders:
			good = payload[0] == 0x88
		case kind == frameData:
			body.Write(payload)
		}
		if flags&endStream != 0 && (kind == frameData || kind == frameHeaders) {
			return good, body.String()
		}
	}
}

// What HTTP/2 can say and HTTP/1.1 cannot: nothing of it becomes another request
// of the program, or another's site.
func TestAttacksInHTTP2(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", echo)
	w.serve("blog", echo)
	address := w.secure()
	big := strings.Repeat("x", 4000)
	for name, tt := range map[string]struct {
		headers []byte
		says    string // "" for a refusal
		never   string
	}{
		"a plain request":           {get(), "Host: " + shop + "\n", ""},
		"two names of the host":     {get("host", "blog."+domain), "Host: " + shop + "\n", "blog"},
		"a host alone":              {block(":method", "GET", ":scheme", "https", ":path", "/", "host", shop), "Host: " + shop + "\n", ""},
		"a user in the authority":   {block(":method", "GET", ":scheme", "https", ":authority", "u:p@"+shop, ":path", "/"), "", "Host"},
		"a path with a line end":    {block(":method", "GET", ":scheme", "https", ":authority", shop, ":path", "/ HTTP/1.1\r\nX: y"), "", "X: y"},
		"a path that is a site":     {block(":method", "GET", ":scheme", "https", ":authority", shop, ":path", "http://blog."+domain+"/"), "GET /\nHost: " + shop + "\n", "blog"},
		"a path without a slash":    {block(":method", "GET", ":scheme", "https", ":authority", shop, ":path", "x"), "", "Host"},
		"a method with a line end":  {block(":method", "GET / HTTP/1.1\r\nX: y\r\n\r\nGET", ":scheme", "https", ":authority", shop, ":path", "/"), "", "X: y"},
		"a header with a line end":  {get("a", "b\r\nx-injected: 1"), "", "Injected"},
		"a name with a line end":    {get("a: b\r\nx-injected", "1"), "", "Injected"},
		"a name in capitals":        {get("Api-Token", "secret"), "", "secret"},
		"a length of the old kind":  {get("transfer-encoding", "chunked"), "", "Body"},
		"a connection of that kind": {get("connection", "upgrade"), "", "Body"},
		"an upgrade":                {get("upgrade", "h2c"), "", "Host"},
		"a wrong length":            {get("content-length", "5"), "Length: 0 []\nBody: \"\"", "Content-Length"},
		"a name twice":              {block(":method", "GET", ":method", "POST", ":scheme", "https", ":authority", shop, ":path", "/"), "", "Host"},
		"a name that is none":       {get(":status", "200"), "", "Host"},
		"what is berth's alone":     {get("api-token", "secret", "cookie", "a=b", "cookie", "__Host-berth=secret", "x-forwarded-for", "1.2.3.4"), "Cookie: a=b\n", "secret"},
		"a long list":               {get("a", big, "b", big, "c", big, "d", big, "e", big, "f", big, "g", big, "h", big, "i", big, "j", big)[:16<<10], "", "Body"},
		"a small bomb":              {append(append(get(), 0x40), append(block("a", big)[1:], []byte(strings.Repeat("\xbe", 2000))...)...), "", "Body"}, // 8 MB when unpacked
	} {
		t.Run(name, func(t *testing.T) {
			h := dialTwo(t, address)
			_ = h.frame(frameHeaders, endStream|endHeaders, 1, tt.headers)
			good, text := h.outcome(1)
			if good != (tt.says != "") || !strings.Contains(text, tt.says) || tt.never != "" && strings.Contains(text, tt.never) {
				t.Errorf("%v: %.1000s", good, text)
			}
		})
	}
}

// Headers without an end: the connection ends before they fill the memory.
func TestEndlessHeadersInHTTP2(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", echo)
	h := dialTwo(t, w.secure())
	sent := 0
	go func() { _, _ = io.Copy(io.Discard, h) }()
	if err := h.frame(frameHeaders, endStream, 1, get()); err != nil {
		t.Fatal(err)
	}
	for part := block("a", strings.Repeat("x", 16000)); sent < 64<<20; sent += len(part) {
		if h.frame(frameContinuation, 0, 1, part) != nil {
			break
		}
	}
	if sent > 16<<20 { // what the sockets hold included
		t.Errorf("%d bytes of one request's headers were taken", sent)
	}
}

// Requests that are taken back at once (CVE-2023-44487): the program never sees
// more of them at a time than one connection may have, others are served
// meanwhile, and nothing is left.
func TestRapidResetsInHTTP2(t *testing.T) {
	w := newWorld(t)
	var now, most atomic.Int64
	w.serve("shop", func(_ http.ResponseWriter, r *http.Request) {
		n := now.Add(1)
		defer now.Add(-1)
		for old := most.Load(); n > old && !most.CompareAndSwap(old, n); old = most.Load() {
		}
		<-r.Context().Done()
	})
	w.serve("blog", echo)
	h := dialTwo(t, w.secure())
	go func() { _, _ = io.Copy(io.Discard, h) }()
	for stream := uint32(1); stream < 8001; stream += 2 {
		if h.frame(frameHeaders, endStream|endHeaders, stream, get()) != nil || h.frame(frameReset, 0, stream, []byte{0, 0, 0, 8}) != nil {
			break // its connection was ended: as good
		}
		if stream%1001 == 0 {
			if resp, _ := w.ask("GET", "blog."+domain, "/", nil); resp.StatusCode != 200 {
				t.Errorf("another site: %d", resp.StatusCode)
			}
		}
	}
	_ = h.Close()
	if n := most.Load(); n > 200 { // those that just end beside the 100 that may be there
		t.Errorf("the program had %d requests of one connection at once", n)
	}
	eventually(t, "nothing is left", func() bool {
		w.proxy.perSite.mu.Lock()
		defer w.proxy.perSite.mu.Unlock()
		return now.Load() == 0 && len(w.proxy.perSite.of) == 0
	})
}
