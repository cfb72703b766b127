package visit

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"berth/test/dns"
)

var teapot = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })

func TestAnswer(t *testing.T) {
	key := []byte("secret")
	h := Answer(key, teapot)
	ask := question(key)
	for path, code := range map[string]int{
		root + ask: 200, root: 418, root + ask + "00": 418, root + ask[2:]: 418, root + strings.Repeat("zz", 2*half): 418, "/": 418,
		root + strings.Repeat("0f", 2*half): 418, root + question([]byte("another")): 418,
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != code {
			t.Errorf("%s: %d, want %d", path, w.Code, code)
		}
		if want, _ := answer(key, ask); code == 200 && (w.Body.String() != want || len(want) != 64) {
			t.Errorf("%s: %q", path, w.Body)
		}
	}
}

// listen serves at port 80 of an address of loopback.
func listen(t *testing.T, address string, h http.Handler) {
	t.Helper()
	l, err := net.Listen("tcp", address+":80")
	if err != nil {
		t.Skipf("needs port 80 of %s: %v", address, err)
	}
	server := httptest.NewUnstartedServer(h)
	_ = server.Listener.Close()
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}

// The names of the DNS, and the hosts at them, as a stranger meets them.
func TestProve(t *testing.T) {
	t.Parallel()
	const mine, others, nobodys = "127.0.53.1", "127.0.53.2", "127.0.53.3"
	key := []byte("secret")
	var hosts []string
	here := Answer(key, teapot)
	listen(t, mine, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hosts = append(hosts, r.Host)
		here.ServeHTTP(w, r)
	}))
	listen(t, others, Answer([]byte("another berth"), teapot))
	names := dns.Start(t)
	set := func(name string, addresses ...string) {
		var all []netip.Addr
		for _, a := range addresses {
			all = append(all, netip.MustParseAddr(a))
		}
		names.SetHost(name, all...)
	}
	set("here.example.org", mine)
	set("there.example.org", others)
	set("both.example.org", mine, others)
	set("nobody.example.org", nobodys)
	set("empty.example.org")
	names.Fail("broken.example.org", dns.ServFail)
	p := &Prover{Secret: key, Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, names.Addr())
	}}}
	for name, says := range map[string]string{
		"here.example.org": "", mine: "",
		"there.example.org": "another web server answers at 127.0.53.2", "both.example.org": "another web server answers at 127.0.53.2",
		others: "another web server answers at 127.0.53.2", "nobody.example.org": "nobody answers at 127.0.53.3 on port 80: ",
		"empty.example.org": "the DNS has no address for it", "unknown.example.org": "the DNS has no address for it",
		"broken.example.org": "the DNS cannot be asked for it: ",
	} {
		_, err := p.Prove(t.Context(), name)
		if says == "" && err != nil || says != "" && (err == nil || !strings.HasPrefix(err.Error(), says)) {
			t.Errorf("%s: %v, want %q", name, err, says)
		}
	}
	if got := strings.Join(hosts, " "); !strings.Contains(got, "here.example.org") || !strings.Contains(got, mine) {
		t.Errorf("asked for %s", got)
	}
	if all, err := p.Prove(t.Context(), "both.example.org"); len(all) != 2 || err == nil {
		t.Errorf("led to %v, %v", all, err)
	}
}

// Strangers who answer at length, lead elsewhere or hold the line are not believed.
func TestHostileHosts(t *testing.T) {
	t.Parallel()
	const at = "127.0.53.4"
	key := []byte("secret")
	var do http.HandlerFunc
	listen(t, at, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { do(w, r) }))
	p := &Prover{Secret: key}
	for name, h := range map[string]http.HandlerFunc{
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://127.0.53.1/", http.StatusFound)
		},
		"endless": func(w http.ResponseWriter, r *http.Request) {
			for r.Context().Err() == nil {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		},
		"right, and more": func(w http.ResponseWriter, r *http.Request) {
			Answer(key, teapot).ServeHTTP(w, r)
			_, _ = w.Write([]byte("x"))
		},
		"an echo": func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.Path)) },
	} {
		do = h
		if _, err := p.Prove(t.Context(), at); !is[*Elsewhere](err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	do = func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := p.Prove(ctx, at); !is[*Unreachable](err) {
		t.Errorf("silence: %v", err)
	}
}

func is[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}
