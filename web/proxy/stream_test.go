package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

type (
	httpResponse = http.ResponseWriter
	httpRequest  = http.Request
)

const node = `
const http = require('http'), crypto = require('crypto');
http.createServer((q, s) => {
  if (q.url == '/events') {
    s.writeHead(200, {'Content-Type': 'text/event-stream'});
    s.write('data: one\n\n');
    q.on('close', () => console.log('gone'));
    return;
  }
  let n = 0; const h = crypto.createHash('sha256');
  q.on('data', d => { n += d.length; h.update(d); });
  q.on('end', () => s.end(n + ' ' + h.digest('hex')));
}).listen(process.env.PORT, '127.0.0.1');
`

// Real programs: an event arrives while the answer goes on, and a long upload
// goes through as it came.
func TestNode(t *testing.T) {
	w := newWorld(t)
	w.run("shop", "node", "index.js", node)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", "http://"+w.address+"/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = shop
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || line != "data: one\n" {
		t.Errorf("%q, %v", line, err)
	}
	cancel()
	_ = resp.Body.Close()
	const size = 64 << 20
	_, text := w.ask("POST", shop, "/", io.LimitReader(zeros{}, size), "Expect", "100-continue")
	if !strings.HasPrefix(text, strconv.Itoa(size)+" 3b6a07d0d404fab4e23b6d34bc6696a6a312dd92821332385e5af7c01c421351") {
		t.Errorf("the upload arrived as %q", text)
	}
}

// zeros is a long upload.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestPython(t *testing.T) {
	w := newWorld(t)
	w.run("shop", "python3", "main.py", `
import http.server, os, socket
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
        self.wfile.write((self.headers['Host'] + ' ' + self.headers['X-Forwarded-Proto']).encode())
class S(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6
    def server_bind(self):
        self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()
S(('::', int(os.environ['PORT'])), H).serve_forever()
`)
	for range 20 { // it closes each connection
		if resp, text := w.ask("GET", shop, "/", nil); resp.StatusCode != 200 || text != shop+" http" {
			t.Fatalf("%d %q", resp.StatusCode, text)
		}
	}
}

// A program that serves IPv6 alone is found there.
func TestIPv6Alone(t *testing.T) {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skip("needs IPv6")
	}
	s := &http.Server{Handler: http.HandlerFunc(echo)}
	go func() { _ = s.Serve(l) }()
	defer s.Close()
	w := newWorld(t)
	w.set(Site{ID: "shop", At: addressOf(l)})
	if resp, text := w.ask("GET", shop, "/six", nil); resp.StatusCode != 200 || !strings.HasPrefix(text, "GET /six\n") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
}

func TestWebSocket(t *testing.T) {
	w := newWorld(t)
	ended := make(chan struct{})
	w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
		defer close(ended)
		c, err := websocket.Accept(out, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.CloseNow()
		for {
			kind, text, err := c.Read(r.Context())
			if err != nil {
				return
			}
			_ = c.Write(r.Context(), kind, bytes.ToUpper(text))
		}
	})
	client := &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, w.address)
	}}}
	c, _, err := websocket.Dial(t.Context(), "ws://"+shop+"/", &websocket.DialOptions{HTTPClient: client, HTTPHeader: http.Header{"Origin": {"http://" + shop}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	for _, text := range []string{"hello", strings.Repeat("x", 20_000)} {
		if err := c.Write(t.Context(), websocket.MessageText, []byte(text)); err != nil {
			t.Fatal(err)
		}
		_, got, err := c.Read(t.Context())
		if err != nil || string(got) != strings.ToUpper(text) {
			t.Fatalf("%.20q, %v", got, err)
		}
	}
	_ = c.CloseNow()
	<-ended // the program hears that its visitor has gone
}

// The program decides about a body before it is sent.
func TestExpectContinue(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/no" {
			out.WriteHeader(http.StatusForbidden)
			return
		}
		echo(out, r)
	})
	for path, want := range map[string]string{"/no": "HTTP/1.1 403", "/": "HTTP/1.1 100"} {
		c, err := net.Dial("tcp", w.address)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "PUT "+path+" HTTP/1.1\r\nHost: "+shop+"\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n")
		in := bufio.NewReader(c)
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, want) {
			t.Errorf("%s: %q, %v", path, line, err)
		}
		if path == "/" {
			_, _ = io.WriteString(c, "hello")
			_, _ = in.ReadString('\n')
			resp, err := http.ReadResponse(in, nil)
			for err == nil && resp.StatusCode == http.StatusContinue { // there may be several (RFC 9110, section 15.2)
				resp, err = http.ReadResponse(in, nil)
			}
			if err != nil || resp.StatusCode != http.StatusOK {
				t.Errorf("%v, %v", resp, err)
			} else if text, _ := io.ReadAll(io.LimitReader(resp.Body, 1000)); !strings.Contains(string(text), `Body: "hello" <nil>`) {
				t.Errorf("%s", text)
			}
		}
		_ = c.Close()
	}
}

// certificate writes NAME.crt and NAME.key for some names.
func certificate(t *testing.T, dir, name string, serial int64, names ...string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	about := &x509.Certificate{SerialNumber: big.NewInt(serial), DNSNames: names, NotAfter: time.Now().Add(time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, about, about, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	for ext, block := range map[string]*pem.Block{".crt": {Type: "CERTIFICATE", Bytes: der}, ".key": {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(filepath.Join(dir, name+ext), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, name)
}

func TestCertificates(t *testing.T) {
	dir := t.TempDir()
	log := slog.New(slog.DiscardHandler)
	if _, err := LoadCertificates(dir, "", log); err == nil || !strings.Contains(err.Error(), "there is no NAME.crt") {
		t.Errorf("an empty directory: %v", err)
	}
	one := certificate(t, dir, "a", 1, "*."+domain)
	certificate(t, dir, "b", 2, "example.com")
	c, err := LoadCertificates(dir, "", log)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := LoadCertificates(one+".crt", one+".key", log); err != nil {
		t.Error(err)
	}
	if _, err := LoadCertificates(one+".crt", filepath.Join(dir, "b.key"), log); err == nil {
		t.Error("the key of another is taken")
	}
	if _, err := LoadCertificates(filepath.Join(dir, "none"), "", log); err == nil {
		t.Error("no file is taken")
	}
	w := newWorld(t)
	w.serve("shop", echo)
	l := listen(t)
	server := Server(t.Context(), w.proxy, log)
	server.TLSConfig = &tls.Config{GetCertificate: c.Find, MinVersion: tls.VersionTLS12}
	served := make(chan error)
	go func() { served <- server.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	serial := func(name string) int64 {
		conn, err := tls.Dial("tcp", l.Addr().String(), &tls.Config{ServerName: name, InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	for name, want := range map[string]int64{shop: 1, "example.com": 2, "other.example": 1} {
		if got := serial(name); got != want {
			t.Errorf("%s has certificate %d, want %d", name, got, want)
		}
	}
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", "https://"+l.Addr().String()+"/two", strings.NewReader("hello"))
	r.Host = shop
	r.Header.Set("Te", "trailers")
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.Proto != "HTTP/2.0" || !strings.Contains(string(text), "X-Forwarded-Proto: https\n") || !strings.Contains(string(text), `Body: "hello"`) {
		t.Errorf("%s %s", resp.Proto, text)
	}

	// A bad file changes nothing, a good one counts when it is time to look.
	look := func() {
		c.mu.Lock()
		c.next = time.Time{}
		c.mu.Unlock()
	}
	if err := os.WriteFile(filepath.Join(dir, "a.crt"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	look()
	if got := serial(shop); got != 1 {
		t.Errorf("beside a bad file: %d", got)
	}
	certificate(t, dir, "a", 3, "*."+domain)
	if got := serial(shop); got != 1 {
		t.Errorf("before it is time: %d", got)
	}
	look()
	if got := serial(shop); got != 3 {
		t.Errorf("after a renewal: %d", got)
	}
}
