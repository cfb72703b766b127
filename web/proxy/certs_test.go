package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"
)

// What a file has by name, and valid, goes before what comes from elsewhere.
func TestCertificatesByName(t *testing.T) {
	dir := t.TempDir()
	certificate(t, dir, "a", 1, "*."+domain)
	certificate(t, dir, "b", 2, "example.com")
	c, err := LoadCertificates(dir, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	match := func(name string) *tls.Certificate {
		a, b := net.Pipe()
		defer a.Close()
		defer b.Close()
		found := make(chan *tls.Certificate, 1)
		go func() {
			_ = tls.Server(b, &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
				found <- c.Match(hello)
				return nil, nil
			}}).Handshake()
			_ = b.Close()
		}()
		_ = tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true}).Handshake()
		return <-found
	}
	for name, serial := range map[string]int64{shop: 1, "SHOP." + domain: 1, "example.com": 2, "www.example.com": 0, domain: 0, "a." + shop: 0} {
		pair := match(name)
		if got := pair != nil; got != (serial > 0) || got && pair.Leaf.SerialNumber.Int64() != serial || c.Covers(name) != got {
			t.Errorf("%s: %v, covered %v", name, pair != nil, c.Covers(name))
		}
	}
	list := c.List()
	if len(list) != 2 || list[1].Name != "example.com" || list[0].Path != dir || !list[0].Expires.After(time.Now()) {
		t.Errorf("listed are %+v", list)
	}
	all := *c.all.Load()
	old := tls.Certificate{Certificate: all[1].Certificate, PrivateKey: all[1].PrivateKey, Leaf: &x509.Certificate{}}
	*old.Leaf = *all[1].Leaf
	old.Leaf.NotAfter = time.Now().Add(-time.Second)
	c.all.Store(&[]tls.Certificate{all[0], old})
	if match("example.com") != nil || c.Covers("example.com") {
		t.Error("one that has expired goes before others")
	}
	if _, err := LoadCertificates(filepath.Join(dir, "a.crt"), filepath.Join(dir, "a.key"), nil); err != nil {
		t.Error(err)
	}
}
