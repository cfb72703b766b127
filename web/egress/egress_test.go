package egress

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"berth/test/dns"
)

// listening is a server on loopback and where it is.
func listening(t *testing.T, handle http.HandlerFunc) (*httptest.Server, netip.AddrPort) {
	t.Helper()
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return s, netip.MustParseAddrPort(s.Listener.Addr().String())
}

func get(t *testing.T, c *http.Client, address string) (status int, body string, err error) {
	t.Helper()
	response, err := c.Get(address)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	b, err := io.ReadAll(response.Body)
	return response.StatusCode, string(b), err
}

// Whatever leads to this host, an account's request does not get there: not by any spelling, and before a byte
// is sent. The owner's gets to what was allowed, and nowhere else. Addresses of others are for TestControl: a
// guard that does not hold would connect to them.
func TestRequestsStayOutside(t *testing.T) {
	var asked atomic.Int32
	_, at := listening(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, r.UserAgent())
	})
	port := fmt.Sprint(at.Port())
	c := New(Options{Version: "1.2.3", Allow: []netip.AddrPort{at}})
	if status, body, err := get(t, c.For(true), "http://"+at.String()); err != nil || status != 200 || body != "berth/1.2.3" {
		t.Errorf("the owner's request: %d, %q, %v", status, body, err)
	}
	if _, _, err := get(t, c.For(true), "http://[::ffff:127.0.0.1]:"+port); err != nil {
		t.Errorf("the owner's request, written otherwise: %v", err)
	}
	asked.Store(0)
	for _, host := range []string{
		"127.0.0.1:" + port, "[::1]:" + port, "[::ffff:127.0.0.1]:" + port, "[::ffff:7f00:1]:" + port, "localhost:" + port, "0.0.0.0:" + port, "[::]:" + port,
		"127.0.0.1", "127.0.0.1:443", "localhost", "[::1]", "127.0.0.1:22", "127.0.0.1:25", "[::ffff:7f00:1]:25", "127.8.8.8:80",
	} {
		_, _, err := get(t, c.For(false), "http://"+host)
		if _, denied := errors.AsType[*Denied](err); !denied || !strings.HasPrefix(Explain(err).String(), "berth does not connect to it") {
			t.Errorf("%s: %v, %v", host, err, Explain(err))
		}
	}
	// The owner's own exception is that port alone.
	for _, host := range []string{"127.0.0.1:22", "127.0.0.1", "127.0.0.2:" + port, "[::1]:" + port} {
		_, _, err := get(t, c.For(true), "http://"+host)
		if _, denied := errors.AsType[*Denied](err); !denied {
			t.Errorf("the owner's request for %s: %v", host, err)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests arrived", n)
	}
}

// A name may lead elsewhere at each question: what counts is where the connection goes.
func TestNameThatLeadsInside(t *testing.T) {
	server := dns.Start(t)
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, server.Addr())
	}}
	c := New(Options{Resolver: resolver, Timeout: 10 * time.Second})
	for _, to := range []string{"127.0.0.1", "::1", "127.8.8.8", "::ffff:127.0.0.1"} {
		server.SetHost("hook.example.org", netip.MustParseAddr(to))
		_, _, err := get(t, c.For(false), "http://hook.example.org/")
		if _, denied := errors.AsType[*Denied](err); !denied {
			t.Errorf("a name that leads to %s: %v", to, err)
		}
	}
	server.Fail("gone.example.org", dns.NXDomain)
	_, _, err := get(t, c.For(false), "http://gone.example.org/")
	if why := Explain(err); why.String() != "the DNS does not know its name" {
		t.Errorf("a name that is not there: %v, %v", why, err)
	}
	server.Fail("broken.example.org", dns.ServFail)
	_, _, err = get(t, c.For(false), "http://broken.example.org/")
	if why := Explain(err); why.String() != "the DNS does not answer for its name" {
		t.Errorf("a name that cannot be asked for: %v, %v", why, err)
	}
}

// What control answers, for it alone decides: nothing is sent to these addresses.
func TestControl(t *testing.T) {
	own := []net.Addr{ipNet("93.184.216.34"), ipNet("2606:2800:220:1::1"), ipNet("127.0.0.1"), &net.UnixAddr{}}
	g := &guard{given: []netip.Addr{netip.MustParseAddr("8.8.4.4")}, read: func() ([]net.Addr, error) { return own, nil }}
	control := func(address string) error { return g.control(t.Context(), "tcp", address, nil) }
	for _, address := range []string{"8.8.8.8:443", "8.8.8.8:80", "[2606:4700:4700::1111]:443", "[64:ff9b::808:808]:443"} {
		if err := control(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
	for _, address := range []string{
		"93.184.216.34:443", "[::ffff:93.184.216.34]:443", "[64:ff9b::5db8:d822]:80", "[2606:2800:220:1::1]:443", "8.8.4.4:443", // this host
		"10.1.2.3:443", "169.254.169.254:80", "[fd00:ec2::254]:80", "[64:ff9b::7f00:1]:443", "[::ffff:10.0.0.1]:443", "[fe80::1%eth0]:443", // no host of the internet
		"8.8.8.8:22", "8.8.8.8:25", "8.8.8.8:0", "8.8.8.8:8443", "[2606:4700:4700::1111]:22", "10.0.0.1:443", "what", "",
	} {
		if _, denied := errors.AsType[*Denied](control(address)); !denied {
			t.Errorf("%q may be connected to", address)
		}
	}
}

// An address that the host gets later is its own soon, and one that cannot be read lets nothing pass.
func TestControlReadsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		own, failing := []net.Addr{ipNet("93.184.216.34")}, error(nil)
		g := &guard{read: func() ([]net.Addr, error) { return own, failing }}
		control := func(address string) error { return g.control(t.Context(), "tcp", address, nil) }
		if control("8.8.8.8:443") != nil || control("93.184.216.34:443") == nil {
			t.Error("the addresses are not those of the interfaces")
		}
		own = []net.Addr{ipNet("8.8.8.8")}
		time.Sleep(freshness)
		if control("8.8.8.8:443") == nil || control("93.184.216.34:443") != nil {
			t.Error("the addresses are those of before")
		}
		failing = errors.New("no interfaces")
		time.Sleep(freshness)
		if err := control("93.184.216.34:443"); !errors.Is(err, failing) {
			t.Errorf("without the addresses of this host: %v", err)
		}
	})
}

func ipNet(text string) *net.IPNet {
	return &net.IPNet{IP: net.ParseIP(text), Mask: net.CIDRMask(24, 32)}
}

// No redirect is followed, to wherever it leads.
func TestRedirects(t *testing.T) {
	var inside atomic.Int32
	secret, _ := listening(t, func(http.ResponseWriter, *http.Request) { inside.Add(1) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		_, at := listening(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", secret.URL)
			w.WriteHeader(status)
		})
		c := New(Options{Allow: []netip.AddrPort{at, netip.MustParseAddrPort(secret.Listener.Addr().String())}})
		if got, _, err := get(t, c.For(true), "http://"+at.String()); got != status || err != nil {
			t.Errorf("%d: %d, %v", status, got, err)
		}
	}
	if n := inside.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
}

// A server that never comes to an end holds a request no longer than it may take, and no more of its
// answer than may be read.
func TestServersThatDoNotEnd(t *testing.T) {
	over := make(chan struct{})
	drip := func(w http.ResponseWriter, r *http.Request, every time.Duration, what string) {
		for {
			if _, err := io.WriteString(w, what); err != nil || http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-r.Context().Done():
				return
			case <-over:
				return
			case <-time.After(every):
			}
		}
	}
	_, at := listening(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			drip(w, r, 0, strings.Repeat("a", 8<<10))
		case "/byte":
			drip(w, r, 20*time.Millisecond, "a")
		case "/silent":
			select {
			case <-r.Context().Done():
			case <-over:
			}
		case "/header":
			w.Header().Set("X-Long", strings.Repeat("a", maxHeader))
		case "/whole":
			_, _ = io.WriteString(w, strings.Repeat("a", MaxBody))
		}
	})
	t.Cleanup(func() { close(over) })
	long := New(Options{Allow: []netip.AddrPort{at}, Timeout: time.Minute}).For(true)
	short := New(Options{Allow: []netip.AddrPort{at}, Timeout: 300 * time.Millisecond}).For(true)
	for _, c := range []struct {
		path   string
		client *http.Client
		bytes  int
		want   string
	}{
		{"whole", long, MaxBody, ""},
		{"endless", long, MaxBody, "its answer is too long"},
		{"header", long, 0, "the connection to it failed"},
		{"byte", short, -1, "it did not answer in time"},
		{"silent", short, 0, "it did not answer in time"},
	} {
		_, body, err := get(t, c.client, "http://"+at.String()+"/"+c.path)
		if why := ""; err != nil {
			why = Explain(err).String()
			if why != c.want {
				t.Errorf("%s: %q, %v", c.path, why, err)
			}
		} else if c.want != "" {
			t.Errorf("%s ended well", c.path)
		}
		if c.bytes >= 0 && len(body) != c.bytes {
			t.Errorf("%s: %d bytes", c.path, len(body))
		}
	}
}

// The environment's proxies would be a way around the guard; a certificate that nobody vouches for is none.
func TestTransport(t *testing.T) {
	proxy, _ := listening(t, func(http.ResponseWriter, *http.Request) { t.Error("the proxy was asked") })
	t.Setenv("HTTP_PROXY", proxy.URL)
	t.Setenv("HTTPS_PROXY", proxy.URL)
	secure := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	_, plain := listening(t, func(http.ResponseWriter, *http.Request) {})
	at := netip.MustParseAddrPort(secure.Listener.Addr().String())
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	nobody := netip.MustParseAddrPort(free.Addr().String())
	c := New(Options{Allow: []netip.AddrPort{at, plain, nobody}}).For(true)
	for address, want := range map[string]string{
		"https://" + at.String():     "its certificate cannot be verified",
		"https://" + plain.String():  "the TLS connection to it failed",
		"http://" + nobody.String():  "it refused the connection",
		"gopher://" + plain.String(): "the connection to it failed",
	} {
		if _, _, err := get(t, c, address); err == nil || Explain(err).String() != want {
			t.Errorf("%s: %v, want %s", address, err, want)
		}
	}
	if status, _, err := get(t, c, "http://"+plain.String()); status != 200 || err != nil {
		t.Errorf("past the proxy: %d, %v", status, err)
	}
}
