package certs

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/test/ca"
	"berth/test/database"
	"berth/test/dns"
	"berth/test/harness"
	"berth/web/proxy"
)

// host is a manager with a database, on two ports, and a real authority.
type host struct {
	*Manager
	t        *testing.T
	ca       *ca.Server
	db       *db.DB
	names    *dns.Server
	config   Config
	https    net.Listener
	http     net.Listener
	log      *harness.Output
	stop     func()
	visitors *x509.CertPool
}

// newHost starts an authority and prepares a manager; change, which may be nil,
// makes them others.
func newHost(t *testing.T, change func(c *ca.Config, k *CA)) *host {
	t.Helper()
	h := &host{t: t, names: dns.Start(t), log: &harness.Output{}}
	for _, name := range []string{shop, blog, "blocked.example.org"} {
		h.names.SetHost(name, netip.MustParseAddr("127.0.0.1"))
	}
	h.http, h.https = h.listen(), h.listen()
	c := ca.Config{
		Resolver: h.names.Addr(), HTTP: ca.Port(t, h.http.Addr().String()), TLS: ca.Port(t, h.https.Addr().String()),
		Blocked: []string{"blocked.example.org"}, Nonces: 30,
	}
	h.config = Config{PerHour: 10, Most: 10, Covered: func(string) bool { return false }, Log: slog.New(slog.NewTextHandler(h.log, nil))}
	if change != nil {
		change(&c, &h.config.CA)
	}
	h.ca = ca.New(t, c)
	h.config.CA.Directory = h.ca.Directory
	text, err := os.ReadFile(h.ca.Roots)
	if err != nil {
		t.Fatal(err)
	}
	h.config.CA.Roots = x509.NewCertPool()
	h.config.CA.Roots.AppendCertsFromPEM(text)
	if h.db, err = db.Open(t.Context(), database.Path(t), time.Now); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.db.Close() })
	h.config.Store = h.db.Certificates
	return h
}

func (h *host) listen() net.Listener {
	h.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		h.t.Fatal(err)
	}
	return l
}

// start starts the authority and the manager, which end with the test.
func (h *host) start(names ...string) {
	h.t.Helper()
	h.ca.Start()
	h.visitors = h.ca.Pool()
	h.open(names...)
}

// open starts the manager, again if need be.
func (h *host) open(names ...string) {
	h.t.Helper()
	var err error
	if h.Manager, err = New(h.t.Context(), h.config); err != nil {
		h.t.Fatal(err)
	}
	h.Want(names, nobodys)
	if h.stop == nil {
		h.serve()
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	h.stop = func() { cancel(); <-done }
	h.t.Cleanup(h.stop)
}

// serve answers on both ports, for whichever manager there is.
func (h *host) serve() {
	visit := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("a site")) })
	secure := proxy.Server(h.t.Context(), visit, slog.New(slog.DiscardHandler))
	secure.TLSConfig = &tls.Config{
		GetCertificate:     func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) { return h.Find(hello) },
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) { return h.ConfigFor(hello) },
	}
	plain := proxy.Server(h.t.Context(), http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.Answer(http.RedirectHandler("https://elsewhere.example/", http.StatusPermanentRedirect)).ServeHTTP(w, r)
	}), slog.New(slog.DiscardHandler))
	done := make(chan error, 2)
	go func() { done <- secure.ServeTLS(h.https, "", "") }()
	go func() { done <- plain.Serve(h.http) }()
	h.t.Cleanup(func() { _ = secure.Close(); _ = plain.Close(); <-done; <-done })
}

// visit shakes hands as a browser that trusts the authority.
func (h *host) visit(name string) (*x509.Certificate, error) {
	d := tls.Dialer{Config: &tls.Config{ServerName: name, RootCAs: h.visitors}}
	c, err := d.DialContext(h.t.Context(), "tcp", h.https.Addr().String())
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// until waits for a status of a name.
func (h *host) until(name string, want app.CertificateStatus) app.Certificate {
	h.t.Helper()
	var c app.Certificate
	harness.Eventually(h.t, name+" is "+string(want), func() bool {
		c, _ = h.Status(name)
		return c.Status(time.Now()) == want
	})
	return c
}

func (h *host) shown(name string) *x509.Certificate {
	h.t.Helper()
	c, err := h.visit(name)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", name, err, h.log)
	}
	return c
}

// Both ways to prove a name, with an authority that refuses every third nonce.
func TestPebbleProofs(t *testing.T) {
	t.Parallel()
	for kind, change := range map[string]func(*ca.Config, *CA){
		"http-01":     func(c *ca.Config, _ *CA) { c.TLS = 1 },
		"tls-alpn-01": func(c *ca.Config, _ *CA) { c.HTTP = 1 }, // where nobody listens
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, change)
			h.start(shop)
			h.shown(shop) // the first visitor waits
			h.until(shop, app.CertificateIssued)
			if _, err := h.visit(blog); err == nil {
				t.Error("a name that nobody has is shown a certificate")
			}
			h.responses.Range(func(key, _ any) bool { t.Errorf("the answer to %v is left", key); return true })
			all, err := h.db.Certificates.Certificates(t.Context(), h.ca.Directory)
			if err != nil || len(all) != 1 || !strings.Contains(string(all[0].Chain), "CERTIFICATE") {
				t.Errorf("stored are %+v, %v", all, err)
			}
		})
	}
}

// An IP address has a certificate of the short-lived profile, by either proof. Those get it who
// name no name, wherever they come from; an unknown name still gets none.
func TestPebbleAddress(t *testing.T) {
	t.Parallel()
	const address, short = "127.0.0.1", 6 * 24 * time.Hour
	for kind, change := range map[string]func(c *ca.Config){
		"http-01":     func(c *ca.Config) { c.TLS = 1 },
		"tls-alpn-01": func(c *ca.Config) { c.HTTP = 1 },
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, func(c *ca.Config, _ *CA) { c.Short = short; change(c) })
			h.start(address, shop)
			c := h.shown(address) // the client sends no name for an address, and proves what it gets
			if d := c.NotAfter.Sub(c.NotBefore).Round(time.Hour); len(c.IPAddresses) != 1 || len(c.DNSNames) > 0 || d != short {
				t.Errorf("it is for %v and %v, and lives %s", c.IPAddresses, c.DNSNames, d)
			}
			is := h.until(address, app.CertificateIssued)
			if d := is.Next.Sub(is.Begins); d < short/2 || d > short*55/100+time.Second {
				t.Errorf("it is renewed after %s", d)
			}
			h.until(shop, app.CertificateIssued)
			if _, err := h.visit(blog); err == nil {
				t.Error("a name that nobody has is shown a certificate")
			}
			h.Want([]string{shop}, nobodys)
			if _, err := h.visit(address); err == nil {
				t.Error("an address that is not wanted is shown a certificate")
			}
		})
	}
}

// An authority without the profile gives what it gives.
func TestPebbleAddressWithoutProfile(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	h.start("127.0.0.1")
	if c := h.shown("127.0.0.1"); c.NotAfter.Sub(c.NotBefore) < 80*24*time.Hour {
		t.Errorf("it lives until %s", c.NotAfter)
	}
}

// A restart asks for nothing, without an authority too; and then with the account
// that it had, under another address.
func TestPebbleRestart(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(_ *ca.Config, k *CA) { k.Email = "ana@example.org" })
	h.start(shop)
	first := h.shown(shop)
	h.stop()
	h.config.CA.Email = "bob@example.org"
	h.open(shop)
	if c := h.shown(shop); c.SerialNumber.Cmp(first.SerialNumber) != 0 {
		t.Error("a restart has another certificate")
	}
	h.Want([]string{shop, blog}, nobodys)
	h.until(blog, app.CertificateIssued)
	if n := h.ca.Said("There are now 1 accounts in memory"); n != 1 || h.ca.Said("There are now 2 accounts") > 0 {
		t.Errorf("the authority has made %d accounts", n)
	}
}

// Certificates that live for seconds are renewed without a visitor.
func TestPebbleRenewal(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(c *ca.Config, _ *CA) { c.Life = 24 * time.Second })
	h.start(shop)
	first := h.shown(shop)
	harness.Eventually(t, "it is renewed", func() bool {
		c, _ := h.Status(shop)
		return c.Expires.After(first.NotAfter)
	})
	if time.Now().After(first.NotAfter) {
		t.Error("it had expired before")
	}
	if c := h.shown(shop); c.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the first is still shown")
	}
}

// What an authority says of a name is told, and it is not asked again.
func TestPebbleRefusals(t *testing.T) {
	t.Parallel()
	h := newHost(t, func(c *ca.Config, _ *CA) { c.HTTP, c.TLS = 1, 1 })
	h.start("blocked.example.org", "nowhere.example.org", shop)
	for name, says := range map[string][]string{
		"blocked.example.org": {"refused", "blocked.example.org"},
		"nowhere.example.org": {"http-01: ", "tls-alpn-01: "},
		shop:                  {"http-01: ", "refused"},
	} {
		c := h.until(name, app.CertificateFailed)
		for _, word := range says {
			if !strings.Contains(c.Problem, word) {
				t.Errorf("%s: %q does not say %q", name, c.Problem, word)
			}
		}
	}
	orders := h.ca.Said("POST /order-plz")
	for range 20 {
		for _, name := range []string{shop, "blocked.example.org", "x.example.org"} {
			if _, err := h.visit(name); err == nil {
				t.Errorf("%s is shown a certificate", name)
			}
		}
	}
	if n := h.ca.Said("POST /order-plz"); n != orders {
		t.Errorf("visitors made %d orders", n-orders)
	}
}

// An authority that is down when berth starts is asked again by itself.
func TestPebbleDownAndBack(t *testing.T) {
	t.Parallel()
	h := newHost(t, nil)
	h.open(shop)
	harness.Eventually(t, "it is told", func() bool { return strings.Contains(h.log.String(), "cannot be reached") })
	if c, _ := h.Status(shop); c.Problem != silent {
		t.Errorf("it is told as %+v", c)
	}
	h.ca.Start()
	h.visitors = h.ca.Pool()
	h.until(shop, app.CertificateIssued)
	h.shown(shop)
	if n := strings.Count(h.log.String(), "level=ERROR"); n != 1 {
		t.Errorf("it was told %d times:\n%s", n, h.log)
	}
}

func TestPebbleBinding(t *testing.T) {
	t.Parallel()
	mac := []byte("a key of thirty-two bytes, no less")
	bound := map[string]string{"kid-1": base64.RawURLEncoding.EncodeToString(mac)}
	for name, tt := range map[string]struct {
		id   string
		want app.CertificateStatus
	}{"with": {"kid-1", app.CertificateIssued}, "without": {"", app.CertificatePending}, "another": {"kid-2", app.CertificatePending}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, func(c *ca.Config, k *CA) {
				if c.Bindings = bound; tt.id != "" {
					k.KeyID, k.MAC = tt.id, mac
				}
			})
			h.start(shop)
			if tt.want == app.CertificatePending {
				harness.Eventually(t, "it is told", func() bool { return strings.Contains(h.log.String(), "cannot have an account") })
			}
			if c := h.until(shop, tt.want); tt.want == app.CertificatePending && c.Problem != silent {
				t.Errorf("it is told as %+v", c)
			}
		})
	}
}
