package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/web"
)

const (
	domain = "apps.example.org"
	shop   = "shop." + domain
)

// world is a proxy that listens, and the sites behind it.
type world struct {
	t       *testing.T
	proxy   *Proxy
	address string

	mu    sync.Mutex
	sites map[string]Site
	lines []string // of access logs
}

func newWorld(t *testing.T, trusted ...string) *world {
	t.Helper()
	before := runtime.NumGoroutine()
	w := &world{t: t, sites: map[string]Site{}}
	c := Config{
		Domain: domain, Names: &Names{}, Log: slog.New(slog.DiscardHandler), Look: w.look,
		Access: func(id, line string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.lines = append(w.lines, id+": "+line)
		},
	}
	for _, n := range trusted {
		c.Trusted = append(c.Trusted, netip.MustParsePrefix(n))
	}
	w.proxy = New(c)
	w.proxy.startTimeout = 50 * time.Millisecond
	l := listen(t)
	w.address = l.Addr().String()
	life, end := context.WithCancel(context.Background())
	server, limited := limit(life, w.proxy, l, 1000)
	served := make(chan error)
	go func() { served <- server.Serve(limited) }()
	t.Cleanup(func() { // after the sites' own, which were added later
		end()
		_ = server.Close()
		<-served
		w.proxy.Close()
		http.DefaultClient.CloseIdleConnections()
		eventually(t, "the goroutines end", func() bool { return runtime.NumGoroutine() <= before })
	})
	return w
}

// limit is a server for h and a listener for all connections, as the daemon makes them.
func limit(life context.Context, h http.Handler, l net.Listener, all int) (*http.Server, *Listener) {
	server, limited := Server(life, h, slog.New(slog.DiscardHandler)), Listen(l, web.Limits{All: all})
	limited.Guard(server)
	return server, limited
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("it never came that %s", what)
		}
	}
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// addressOf is where a listener is.
func addressOf(l net.Listener) netip.AddrPort { return l.Addr().(*net.TCPAddr).AddrPort() }

func (w *world) look(id string) (Site, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sites[id]
	return s, ok
}

func (w *world) set(s Site) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sites[s.ID] = s
}

// serve makes a site of a handler.
func (w *world) serve(id string, h http.HandlerFunc) {
	w.t.Helper()
	s := httptest.NewServer(h)
	w.t.Cleanup(s.Close)
	w.set(Site{ID: id, At: addressOf(s.Listener)})
}

// run makes a site of a real program, which is told its port.
func (w *world) run(id, program, file, code string) {
	w.t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		w.t.Skipf("needs %s", program)
	}
	main := filepath.Join(w.t.TempDir(), file)
	if err := os.WriteFile(main, []byte(code), 0o600); err != nil {
		w.t.Fatal(err)
	}
	l := listen(w.t)
	at := addressOf(l)
	_ = l.Close()
	c := exec.Command(path, main)
	c.Env = append(os.Environ(), fmt.Sprintf("PORT=%d", at.Port()))
	if err := c.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	w.set(Site{ID: id, At: at})
	eventually(w.t, program+" listens", func() bool {
		c, err := net.Dial("tcp", at.String())
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

// ask sends one request and returns the answer and its body.
func (w *world) ask(method, host, path string, body io.Reader, header ...string) (*http.Response, string) {
	w.t.Helper()
	r, err := http.NewRequestWithContext(w.t.Context(), method, "http://"+w.address+path, body)
	if err != nil {
		w.t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Accept-Encoding", "identity") // or Go asks for gzip and unpacks it
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Accept-Encoding" {
			r.Header.Del(header[i])
		}
		r.Header.Add(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return resp, string(text)
}

// raw sends bytes as they are and returns everything that comes back.
func (w *world) raw(text string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", w.address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	go func() { _, _ = io.WriteString(c, text) }() // an answer may come before the end
	all, _ := io.ReadAll(bufio.NewReader(c))
	return string(all)
}

// echo answers with the request as the program got it, line by line.
func echo(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s\nHost: %s\nLength: %d %v\nBody: %q %v\nTrailer: %v\n", r.Method, r.RequestURI, r.Host, r.ContentLength, r.TransferEncoding, body, err, r.Trailer)
	for name, values := range r.Header {
		fmt.Fprintf(w, "%s: %s\n", name, strings.Join(values, "|"))
	}
}
