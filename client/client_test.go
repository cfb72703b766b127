package client

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	before := runtime.NumGoroutine()
	code := m.Run()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before && code == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			buf := make([]byte, 1<<20)
			fmt.Fprintf(os.Stderr, "goroutines are left:\n%s\n", buf[:runtime.Stack(buf, true)])
			code = 1
		}
	}
	os.Exit(code)
}

// answers is a server that always answers the same.
func answers(t *testing.T, status int, header map[string]string, body string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		for name, value := range header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return s
}

// to is a client of a server; it closes its connections when the test ends.
func to(t *testing.T, c Config) *Client {
	t.Helper()
	if c.Token == "" {
		c.Token = "secret-token"
	}
	if c.Wait == nil {
		c.Wait = func(ctx context.Context, _ time.Duration) error { return ctx.Err() }
	}
	made := New(c)
	t.Cleanup(made.Close)
	return made
}

const user = `{"status":"ok","message":"m","user":{"userID":"1","username":"ana","totalRamMb":512}}`

func TestCall(t *testing.T) {
	var seen http.Header
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Clone()
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, user)
	}))
	defer s.Close()
	u, err := to(t, Config{URL: s.URL, UserAgent: "berth/1.2"}).User(t.Context())
	if err != nil || u.Name != "ana" || u.TotalRAM != 512 {
		t.Errorf("got %+v, %v", u, err)
	}
	if seen.Get("api-token") != "secret-token" || seen.Get("User-Agent") != "berth/1.2" || seen.Get("Berth-Account") != "" {
		t.Errorf("sent %v", seen)
	}
}

// Each failure has its kind, and a sentence for the person who typed the command.
func TestFailures(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	foreign := httptest.NewTLSServer(nil) // signed by nobody that the system knows
	defer foreign.Close()
	foreign.Config.ErrorLog = nil
	elsewhere := answers(t, 200, nil, user)
	for _, tt := range []struct {
		name string
		url  string
		kind error
		says string
	}{
		{"nobody listens", closed.URL, ErrNoServer, "cannot reach " + closed.URL + ": dial tcp"},
		{"no such host", "https://berth.invalid", ErrNoServer, "cannot reach https://berth.invalid: "},
		{"a certificate of nobody", foreign.URL, ErrCertificate, "its certificate is signed by no authority that this system trusts"},
		{"no TLS", strings.Replace(elsewhere.URL, "http:", "https:", 1), ErrNotBerth, "it answers without TLS"},
		{"TLS alone", strings.Replace(foreign.URL, "https:", "http:", 1), ErrNotBerth, "something that says 400 Bad Request"},
		{"a web site", answers(t, 200, map[string]string{"Content-Type": "text/html"}, "<html>").URL, ErrNotBerth, "no berth answers there, but something that says 200 OK"},
		{"another API", answers(t, 404, nil, `{"error":"no"}`).URL, ErrNotBerth, "something that says 404 Not Found"},
		{"another form", answers(t, 200, nil, `{"status":"ok","user":[1]}`).URL, ErrNotBerth, "another form"},
		{"an empty answer", answers(t, 200, nil, `{}`).URL, ErrNotBerth, "names no account"},
		{"a redirect", answers(t, 307, map[string]string{"Location": elsewhere.URL}, "").URL, ErrNotBerth, "it redirects to \"" + elsewhere.URL},
		{"plain HTTP", "http://203.0.113.7", ErrPlain, "cannot send the token to http://203.0.113.7: everybody on the way would read it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := to(t, Config{URL: tt.url}).User(t.Context())
			if !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%v, want %v with %q", err, tt.kind, tt.says)
			}
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("%v tells the token", err)
			}
		})
	}
}

// A certificate of another name, and one that has expired, are said apart.
func TestCertificateOfAnotherName(t *testing.T) {
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	trusting := s.Client()
	trusting.Transport.(*http.Transport).TLSClientConfig.ServerName = "other.test"
	_, err := to(t, Config{URL: s.URL, HTTP: trusting}).User(t.Context())
	if !errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), "its certificate is not valid: certificate is valid for") {
		t.Errorf("got %v", err)
	}
	trusting.Transport.(*http.Transport).TLSClientConfig.ServerName = "example.com"
	trusting.Transport.(*http.Transport).TLSClientConfig.Time = func() time.Time { return time.Now().AddDate(200, 0, 0) }
	trusting.CloseIdleConnections()
	_, err = to(t, Config{URL: s.URL, HTTP: trusting}).User(t.Context())
	if !errors.Is(err, ErrCertificate) || !strings.Contains(err.Error(), "expired") {
		t.Errorf("got %v", err)
	}
}

// A token goes to the address of the Config and nowhere else.
func TestRedirectsGetNoToken(t *testing.T) {
	var asked atomic.Int32
	thief := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer thief.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		s := answers(t, status, map[string]string{"Location": thief.URL + "/v2/user"}, "")
		c := to(t, Config{URL: s.URL})
		_, err := c.User(t.Context())
		_, sendErr := c.Send(t.Context(), http.MethodPost, "/v2/upload", "text/plain", strings.NewReader("x"), 1, nil)
		_, streamErr := c.Stream(t.Context(), "/v2/events", "")
		for _, err := range []error{err, sendErr, streamErr} {
			if !errors.Is(err, ErrNotBerth) {
				t.Errorf("%d: %v", status, err)
			}
		}
	}
	if asked.Load() != 0 {
		t.Errorf("%d redirects were followed", asked.Load())
	}
}

func TestRefusals(t *testing.T) {
	body := func(status int) string {
		return fmt.Sprintf(`{"status":"error","statusCode":%d,"code":%d,"message":"The server's own sentence.","requestId":"R1","logs":"last words"}`, status, status)
	}
	for _, status := range []int{200, 400, 401, 403, 404, 409, 413, 422, 429, 500, 503} {
		err := to(t, Config{URL: answers(t, status, nil, body(status)).URL}).Call(t.Context(), http.MethodGet, "/v2/user", nil, nil)
		refused, is := errors.AsType[*Error](err)
		if !is || refused.Status != status || refused.Message != "The server's own sentence." || refused.RequestID != "R1" || refused.Logs != "last words" || StatusOf(err) != status {
			t.Errorf("%d: %#v", status, err)
		}
		if says := strings.Contains(err.Error(), "(request R1)"); says != (status >= 500) {
			t.Errorf("%d: %v", status, err)
		}
	}
	for status, says := range map[int]string{502: "answered 502 Bad Gateway", 504: "answered 504", 413: "answered 413", 429: "answered 429"} { // a proxy's
		err := to(t, Config{URL: answers(t, status, map[string]string{"Content-Type": "text/html"}, "<h1>").URL}).Call(t.Context(), http.MethodGet, "/v2/user", nil, nil)
		if StatusOf(err) != status || !strings.Contains(err.Error(), says) {
			t.Errorf("%d: %v", status, err)
		}
	}
}

// A server that is busy is waited for as it says, and no longer.
func TestWaits(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		header map[string]string
		busy   int32 // answers before the good one
		waits  []time.Duration
		fails  bool
	}{
		{"429", 429, map[string]string{"Retry-After": "7"}, 2, []time.Duration{7 * time.Second, 7 * time.Second}, false},
		{"429 by the quota", 429, map[string]string{"ratelimit-reset": "40"}, 1, []time.Duration{40 * time.Second}, false},
		{"429 without end", 429, map[string]string{"Retry-After": "1"}, 99, []time.Duration{time.Second, time.Second, time.Second}, true},
		{"429 for an hour", 429, map[string]string{"Retry-After": "3600"}, 1, nil, true},
		{"429 that does not say", 429, nil, 1, nil, true},
		{"503", 503, map[string]string{"Retry-After": "5"}, 1, []time.Duration{5 * time.Second}, false},
		{"503 at once", 503, map[string]string{"Retry-After": "0"}, 1, []time.Duration{time.Second}, false},
		{"500", 500, map[string]string{"Retry-After": "5"}, 1, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var asked atomic.Int32
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				w.Header().Set("Content-Type", "application/json")
				if asked.Add(1) > tt.busy {
					_, _ = io.WriteString(w, `{"status":"ok","message":`+string(body)+`}`)
					return
				}
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, `{"status":"error","message":"Too busy."}`)
			}))
			defer s.Close()
			var waits []time.Duration
			var notices []string
			c := to(t, Config{
				URL: s.URL, Notice: func(text string) { notices = append(notices, text) },
				Wait: func(_ context.Context, d time.Duration) error { waits = append(waits, d); return nil },
			})
			var answer Outcome
			err := c.Call(t.Context(), http.MethodPut, "/v2/app/a/start", "the body again", &answer)
			if (err != nil) != tt.fails || err == nil && answer.Message != "the body again" {
				t.Errorf("%v, %q", err, answer.Message)
			}
			if !slices.Equal(waits, tt.waits) || len(notices) != len(waits) {
				t.Errorf("waited %v, want %v; said %q", waits, tt.waits, notices)
			}
			for i, text := range notices {
				if want := fmt.Sprintf("Too busy. Trying again in %d s.", tt.waits[i]/time.Second); text != want {
					t.Errorf("said %q, want %q", text, want)
				}
			}
		})
	}
}

// Only a question is asked again after its connection was lost.
func TestLostConnections(t *testing.T) {
	for method, want := range map[string]int32{http.MethodGet: 3, http.MethodPut: 1, http.MethodPost: 1, http.MethodDelete: 1} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var asked atomic.Int32
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				if _, err := c.Read(make([]byte, 4096)); err == nil {
					asked.Add(1)
				}
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{\"status\"")
				_ = c.Close()
			}
		}()
		err = to(t, Config{URL: "http://" + l.Addr().String()}).Call(t.Context(), method, "/v2/user", nil, nil)
		if !errors.Is(err, ErrNoServer) || !strings.Contains(err.Error(), "the connection was lost") || asked.Load() != want {
			t.Errorf("%s: asked %d times, want %d: %v", method, asked.Load(), want, err)
		}
		_ = l.Close()
		<-done
	}
}

func TestInterruptedCall(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
	}))
	defer s.Close()
	if err := to(t, Config{URL: s.URL}).Call(ctx, http.MethodGet, "/v2/user", nil, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func TestParseURL(t *testing.T) {
	for text, want := range map[string]string{
		"berth.example.org": "https://berth.example.org", "https://B.example.org/": "https://b.example.org", "http://127.0.0.1:8080/v2": "http://127.0.0.1:8080",
		"https://example.org/berth/": "https://example.org/berth", "[::1]:8080": "https://[::1]:8080",
		"": "", "ftp://x": "", "https://": "", "https://u:p@x": "", "https://x?y": "", "https://x#y": "", "https://x y": "", "http://%zz": "",
	} {
		got, err := ParseURL(text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	for address, want := range map[string]bool{
		"http://localhost:8080": true, "http://127.9.0.1": true, "http://[::1]:1": true, "http://[::ffff:127.0.0.1]": true,
		"http://localhost.example.org": false, "http://10.0.0.1": false, "http://127.0.0.1.example.org": false, "%": false,
	} {
		if got := Loopback(address); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
}

// The connection of a server with a certificate that is good is used, HTTP/2 too.
func TestGoodCertificate(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"ok","message":%q}`, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	var o Outcome
	if err := to(t, Config{URL: s.URL, HTTP: s.Client()}).Call(t.Context(), http.MethodGet, "/v2/user", nil, &o); err != nil || o.Message != "HTTP/2.0" {
		t.Errorf("%q, %v", o.Message, err)
	}
}
