package proxy

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"
)

// A WebSocket that the program refuses is no tunnel: what comes behind it is a
// request as any other, and is looked at as such.
func TestSmugglingBehindAnUpgrade(t *testing.T) {
	const upgrade = "Host: " + shop + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	const second = "GET /second HTTP/1.1\r\nHost: " + shop + "\r\nX-Forwarded-For: 1.2.3.4\r\nApi-Token: secret\r\nConnection: close\r\n\r\n"
	for name, tt := range map[string]struct{ first, answer string }{
		"a version nobody knows": {"GET /first HTTP/1.1\r\n" + upgrade + "Sec-WebSocket-Version: 777\r\n\r\n", "HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n"},
		"an answer":              {"GET /first HTTP/1.1\r\n" + upgrade + "Sec-WebSocket-Version: 13\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"a body":                 {"POST /first HTTP/1.1\r\n" + upgrade + "Sec-WebSocket-Version: 13\r\nContent-Length: 4\r\n\r\nbody", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"},
		"an early answer":        {"GET /first HTTP/1.1\r\n" + upgrade + "Sec-WebSocket-Version: 13\r\n\r\n", "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			seen := make(chan *http.Request, 8)
			l := listen(t)
			t.Cleanup(func() { _ = l.Close() })
			go func() {
				for {
					c, err := l.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						in := bufio.NewReader(c)
						for {
							r, err := http.ReadRequest(in)
							if err != nil {
								return
							}
							_, _ = io.Copy(io.Discard, r.Body)
							seen <- r
							_, _ = io.WriteString(c, tt.answer)
						}
					}()
				}
			}()
			w.set(Site{ID: "shop", At: addressOf(l)})
			got := w.raw(tt.first + second)
			first := <-seen
			select {
			case r := <-seen:
				if r.URL.Path != "/second" || r.Header.Get("X-Forwarded-For") != "127.0.0.1" || r.Header.Get("Api-Token") != "" {
					t.Errorf("the program was asked for %s with %v", r.URL.Path, r.Header)
				}
			case <-time.After(time.Minute):
				t.Errorf("the second request was lost: %s", got)
			}
			if first.URL.Path != "/first" || strings.Contains(got, "1.2.3.4") {
				t.Errorf("%s: %s", first.URL, got)
			}
		})
	}
}

// A program that says 101 to a WebSocket with another protocol gets no tunnel,
// and keeps no connection open, of which the daemon has a number.
func TestUpgradeToSomethingElse(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1)) // the collector would close it
	w := newWorld(t)
	n := w.program("shop", func(c net.Conn, _, _ int) bool {
		_, err := io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")
		return err == nil
	})
	got := w.raw("GET / HTTP/1.1\r\nHost: " + shop + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\nGET /second HTTP/1.1\r\nHost: none.example\r\nConnection: close\r\n\r\n")
	if !strings.HasPrefix(got, "HTTP/1.1 502 ") || !strings.Contains(got, "HTTP/1.1 404 ") {
		t.Errorf("%s", got)
	}
	eventually(t, "its connection is closed", func() bool { return n.gone.Load() == n.come.Load() })
}

// A visitor who never ends a body or never reads an answer has its own
// connection, and nobody else's.
func TestSlowBodies(t *testing.T) {
	w := newWorld(t)
	w.serve("shop", func(out http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			_, _ = io.Copy(out, io.LimitReader(zeros{}, 64<<20))
			return
		}
		echo(out, r)
	})
	for _, text := range []string{"POST / HTTP/1.1\r\nHost: " + shop + "\r\nContent-Length: 100\r\n\r\nx", "GET /large HTTP/1.1\r\nHost: " + shop + "\r\n\r\n", "GET /", ""} {
		for range 50 {
			c, err := net.Dial("tcp", w.address)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			_, _ = io.WriteString(c, text)
		}
	}
	began := time.Now() // after ten seconds the first of them are cut off
	if resp, _ := w.ask("GET", shop, "/", nil); resp.StatusCode != 200 || time.Since(began) > 9*time.Second {
		t.Errorf("%d after %v", resp.StatusCode, time.Since(began))
	}
}

// A file that a program swaps for a link out of its directory, again and again, is
// never what the link leads to.
func TestLinksThatAreSwapped(t *testing.T) {
	w := newWorld(t)
	dir := w.files("index.html", false, map[string]string{"index.html": "first", "page.txt": "mine", "sub/page.txt": "mine"})
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			next := filepath.Join(dir, "next")
			if i%2 == 0 {
				_ = os.Symlink("../secret.txt", next)
				_ = os.Rename(next, filepath.Join(dir, "page.txt"))
				_ = os.Rename(filepath.Join(dir, "sub"), filepath.Join(dir, "kept"))
				_ = os.Symlink("..", filepath.Join(dir, "sub"))
			} else {
				_ = os.WriteFile(next, []byte("mine"), 0o600)
				_ = os.Rename(next, filepath.Join(dir, "page.txt"))
				_ = os.Remove(filepath.Join(dir, "sub"))
				_ = os.Rename(filepath.Join(dir, "kept"), filepath.Join(dir, "sub"))
			}
		}
	}()
	served := 0
	for range 500 {
		for _, path := range []string{"/page.txt", "/sub/page.txt", "/sub/secret.txt"} {
			resp, text := w.ask("GET", shop, path, nil)
			if resp.StatusCode == 200 {
				served++
			}
			if strings.Contains(text, "secret") {
				t.Fatalf("%s: %s", path, text)
			}
		}
	}
	close(stop)
	<-ended
	if served == 0 {
		t.Error("nothing was served at all")
	}
}

// Other ways to write a path that goes up, or a hidden file's name.
func TestPathsWrittenOtherwise(t *testing.T) {
	w := newWorld(t)
	w.files("index.html", false, map[string]string{"index.html": "first", ".env": "secret", "docs/index.html": "docs", "node_modules/x.js": "secret"})
	for _, path := range []string{
		"/%252e%252e/secret.txt", "/%252e%252e%252fsecret.txt", "/..%252fsecret.txt", "/..%c0%afsecret.txt", "/%c0%ae%c0%ae/secret.txt", "/.%2e/secret.txt", "/%2e./secret.txt",
		"/docs/%2e%2e/%2e%2e/secret.txt", "/docs//../..//secret.txt", "/....//secret.txt", "/..;/secret.txt", "/%5c..%5csecret.txt", `/docs\..\..\secret.txt`, "/docs/..%5c..%5csecret.txt",
		"/secret.txt%00", "/%00/../secret.txt", "/.%65nv", "/%2Eenv", "/docs/../.env", "/docs/%2e%2e/.env", "/./.env", "//.env", "/.env/", "/.env?x=1", "/.ENV", "/node%5fmodules/x.js",
		"/docs/../node_modules/x.js", "/%6eode_modules/x.js", "/~root", "/C:/secret.txt", "/file:///etc/passwd", "http://" + shop + "/../secret.txt", "http://" + shop + "/.env",
	} {
		text := w.raw("GET " + path + " HTTP/1.1\r\nHost: " + shop + "\r\nConnection: close\r\n\r\n")
		if !strings.HasPrefix(text, "HTTP/1.1 404 ") && !strings.HasPrefix(text, "HTTP/1.1 400 ") || strings.Contains(text, "secret") {
			t.Errorf("%s: %s", path, text)
		}
	}
}
