package daemon

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/daemon/settings"
	"berth/web/proxy"
)

func TestSiteOf(t *testing.T) {
	soon := time.Now().Add(time.Minute)
	oom, crash := &app.Exit{Code: 137, OOM: true}, &app.Exit{Code: 1}
	for name, tt := range map[string]struct {
		state  app.State
		reach  int
		silent bool
		wanted app.Wanted
		exit   *app.Exit
		want   proxy.State
	}{
		"online":                {app.Online, 20007, false, app.WantOnline, nil, proxy.Up},
		"starting":              {app.Starting, 20007, false, app.WantOnline, crash, proxy.Up},
		"no port yet":           {app.Starting, 0, false, app.WantOnline, crash, proxy.Starting},
		"no port after its ok":  {app.Online, 0, false, app.WantOnline, nil, proxy.Starting},
		"no port for long":      {app.Online, 0, true, app.WantOnline, nil, proxy.Silent},
		"deployed":              {app.Preparing, 0, false, app.WantOnline, nil, proxy.Deploying},
		"never started":         {app.Stopped, 0, false, app.WantStopped, nil, proxy.Offline},
		"stopped by its owner":  {app.Stopped, 0, false, app.WantStopped, &app.Exit{Code: 143, Asked: true}, proxy.Stopped},
		"ended well":            {app.Stopped, 0, false, app.WantStopped, &app.Exit{}, proxy.Ended},
		"ended unseen":          {app.Stopped, 0, false, app.WantStopped, &app.Exit{Code: app.UnknownCode}, proxy.Crashed},
		"crashed":               {app.Stopped, 0, false, app.WantStopped, crash, proxy.Crashed},
		"out of memory":         {app.Stopped, 0, false, app.WantStopped, oom, proxy.OutOfMemory},
		"waiting after a crash": {app.Waiting, 0, false, app.WantOnline, crash, proxy.Crashed},
		"waiting after its RAM": {app.Waiting, 0, false, app.WantOnline, oom, proxy.OutOfMemory},
		"waiting, ended well":   {app.Waiting, 0, false, app.WantOnline, &app.Exit{}, proxy.Starting},
		"waiting for the host":  {app.Waiting, 0, false, app.WantOnline, nil, proxy.Starting},
		"restarted":             {app.Stopping, 0, false, app.WantOnline, nil, proxy.Starting},
		"being stopped":         {app.Stopping, 0, false, app.WantStopped, nil, proxy.Stopped},
	} {
		running := tt.state == app.Online || tt.state == app.Starting
		var reach netip.AddrPort
		if tt.reach > 0 {
			reach = netip.AddrPortFrom(netip.IPv6Loopback(), uint16(tt.reach))
		}
		s := siteOf(app.Snapshot{App: app.App{ID: "shop", Port: 20006, Wanted: tt.wanted, LastExit: tt.exit}, State: tt.state, Running: running, Reach: reach, Silent: tt.silent, RetryAt: soon})
		if s.ID != "shop" || s.State != tt.want || s.At != reach || (s.Retry > 0) != (tt.state == app.Waiting) {
			t.Errorf("%s: %+v", name, s)
		}
	}
}

func TestNamesThatAreShown(t *testing.T) {
	domains := map[string]string{"www.example.com": "shop", "example.com": "blog"}
	for name, tt := range map[string]struct {
		names, sites, base, want string
	}{
		"no domain":        {"", "", "", "example.com www.example.com"},
		"of names":         {"apps.example.org", "", "", "blog.apps.example.org example.com shop.apps.example.org www.example.com"},
		"of the proxy":     {"apps.example.org", "sites.example.org", "", "blog.sites.example.org example.com shop.sites.example.org www.example.com"},
		"berth itself":     {"", "", "https://Host.example.org:8443/api", "host.example.org example.com www.example.com"},
		"twice":            {"", "", "https://example.com", "example.com www.example.com"},
		"without TLS":      {"", "", "http://host.example.org", "example.com www.example.com"},
		"at an IP address": {"", "", "https://192.0.2.1", "192.0.2.1 example.com www.example.com"},
	} {
		var s settings.Settings
		s.Names.Domain, s.Proxy.Domain, s.BaseURL = tt.names, tt.sites, tt.base
		if got := strings.Join(namesOfSites(s, map[app.ID]app.AccountID{"shop": 1, "blog": 2}, domains), " "); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

// servingFrom starts a daemon and returns it, with the end of it.
func servingFrom(t *testing.T, s settings.Settings) *daemon {
	t.Helper()
	d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", s.Listen)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- d.serve(ctx, context.Background(), l, &upgrader{}) }()
	t.Cleanup(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
		if err := d.undo.close(); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
	})
	return d
}

// Redirects to HTTPS are for sites that there are, and nothing is left open.
func TestTheEdge(t *testing.T) {
	s := testSettings(t)
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	pair := server.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	both := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key}))
	s.Proxy.Mode, s.Proxy.HTTP, s.Proxy.HTTPS, s.Proxy.Domain = settings.ProxyEdge, "127.0.0.1:0", "127.0.0.1:0", "apps.example.org"
	s.Proxy.Cert = filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(s.Proxy.Cert, both, 0o600); err != nil {
		t.Fatal(err)
	}
	d := servingFrom(t, s)
	client := server.Client()
	defer client.CloseIdleConnections()
	for i, scheme := range []string{"https", "http"} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://"+d.sites.listen[i].Addr().String()+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "shop.apps.example.org"
		resp, err := client.Do(r)
		if err != nil || resp.StatusCode != http.StatusNotFound || (resp.TLS != nil) != (scheme == "https") {
			t.Fatalf("%s: %v, %v", scheme, resp, err)
		}
		_ = resp.Body.Close()
	}
	handshake := func(c *tls.Config) error {
		c.InsecureSkipVerify = true
		conn, err := (&tls.Dialer{Config: c}).DialContext(t.Context(), "tcp", d.sites.listen[0].Addr().String())
		if err == nil {
			_ = conn.Close()
		}
		return err
	}
	if err := handshake(&tls.Config{MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}); err == nil {
		t.Error("the edge speaks TLS 1.1")
	}
	if err := handshake(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{tls.TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA, tls.TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA}}); err == nil {
		t.Error("the edge encrypts with CBC")
	}
	if err := handshake(&tls.Config{MaxVersion: tls.VersionTLS12, CipherSuites: suites}); err != nil {
		t.Errorf("the edge does not speak TLS 1.2: %v", err)
	}
}

func TestAProxyThatCannotServe(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for says, edit := range map[string]func(*settings.Settings){
		"cannot serve the sites: cannot listen on " + l.Addr().String(): func(s *settings.Settings) { s.Proxy.Mode, s.Proxy.Listen = settings.ProxyBehind, l.Addr().String() },
		"cannot read proxy.acme_roots": func(s *settings.Settings) {
			s.Proxy.Mode, s.Proxy.TLS, s.Proxy.ACME.Roots = settings.ProxyEdge, settings.TLSACME, "/nowhere.pem"
		},
		"cannot read the certificate": func(s *settings.Settings) { s.Proxy.Mode, s.Proxy.Cert = settings.ProxyEdge, "/nowhere.crt" },
	} {
		s := testSettings(t)
		edit(&s)
		if _, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// What visitors type, by what the settings say.
func TestAddressOfASite(t *testing.T) {
	domains := map[string]string{"www.example.com": "shop", "example.com": "shop", "blog.example.com": "blog"}
	for name, tt := range map[string]struct {
		mode          string
		domain, https string
		base          string
		domains       map[string]string
		want          string
	}{
		"edge":             {settings.ProxyEdge, "apps.example.org", ":443", "", domains, "https://shop.apps.example.org https://example.com https://www.example.com"},
		"edge, other port": {settings.ProxyEdge, "apps.example.org", ":8443", "", nil, "https://shop.apps.example.org:8443"},
		"edge, own alone":  {settings.ProxyEdge, "", "[::]:443", "", domains, "https://example.com https://www.example.com"},
		"edge, no domain":  {settings.ProxyEdge, "", ":443", "", nil, ""},
		"behind":           {settings.ProxyBehind, "apps.example.org", "", "", nil, "http://shop.apps.example.org"},
		"behind, by TLS":   {settings.ProxyBehind, "apps.example.org", "", "https://host.example.org", domains, "https://shop.apps.example.org https://example.com https://www.example.com"},
	} {
		e := &sites{}
		e.settings.Proxy.Mode, e.settings.Proxy.Domain, e.settings.Proxy.HTTPS, e.settings.BaseURL = tt.mode, tt.domain, tt.https, tt.base
		e.names.Set(tt.domains)
		if at := e.address("shop"); strings.Join(at.URLs, " ") != tt.want || at.Why.IsZero() != (tt.want != "") {
			t.Errorf("%s: %q, %s", name, at.URLs, at.Why)
		}
	}
	if at := (*sites)(nil).address("shop"); len(at.URLs) != 0 || !strings.Contains(at.Why.String(), "this host serves no sites") {
		t.Errorf("without a proxy: %+v", at)
	}
}
