package hosted

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/web/certs"
)

// PairFile writes a certificate of some names and its key into one file.
func PairFile(t *testing.T, path string, expires time.Time, names ...string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{SerialNumber: big.NewInt(1), DNSNames: names, NotBefore: time.Now().Add(-time.Hour), NotAfter: expires}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := append(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: private})...)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Certified makes a data directory with two sites and a domain, and what came of
// their certificates; a file has those below files.example.org.
func Certified(t *testing.T, ready bool) (env map[string]string, expires time.Time) {
	t.Helper()
	dir := t.TempDir()
	expires = time.Now().Add(60 * 24 * time.Hour).Truncate(time.Second)
	PairFile(t, filepath.Join(dir, "pair.pem"), expires, "*.files.example.org", "files.example.org")
	env = map[string]string{
		"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": filepath.Join(dir, "data"), "BERTH_PROXY_MODE": "edge", "BERTH_PROXY_TLS": "acme",
		"BERTH_PROXY_DOMAIN": "apps.example.org", "BERTH_PROXY_CERT": filepath.Join(dir, "pair.pem"), "BERTH_PROXY_HTTP": "127.0.0.1:0", "BERTH_PROXY_HTTPS": "127.0.0.1:0",
	}
	if !ready {
		return env, expires
	}
	Must(t, os.MkdirAll(env["BERTH_DATA_DIR"], 0o711))
	d, err := db.Open(t.Context(), filepath.Join(env["BERTH_DATA_DIR"], "berth.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	owner, err := d.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 1000})
	for _, id := range []app.ID{"shop", "blog"} {
		var a app.App
		if err == nil {
			allocations := d.Allocations(db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099})
			a, err = allocations.Reserve(t.Context(), app.App{ID: id, Account: owner.ID, Type: app.Site, RAM: 10, Wanted: app.WantStopped},
				func(app.Account, app.Use) error { return nil })
		}
		if err == nil {
			_, err = d.Apps.CreateApp(t.Context(), a, app.Deploy{By: owner.ID, Kind: app.DeployUpload})
		}
	}
	for _, name := range []string{"www.example.org", "x.files.example.org"} {
		var claim app.Domain
		if err == nil {
			claim = app.Domain{Name: name, Account: owner.ID, App: "shop", Status: app.DomainUnverified, Proof: "berth=" + name}
			claim, err = d.Names.AddDomain(t.Context(), claim, func(app.Type, int, []app.Domain) error { return nil })
		}
		if err == nil {
			_, err = d.Names.ProveDomain(t.Context(), claim, app.DomainVerified, time.Now())
		}
	}
	for _, c := range []app.Certificate{
		{Name: "shop.apps.example.org", Chain: []byte("x"), Key: []byte("secret"), Expires: expires.Add(time.Hour), Next: expires.Add(-time.Hour)},
		{Name: "www.example.org", Failures: 2, Problem: "the certificate authority refused: http-01: no address", Next: expires},
		{Name: "gone.apps.example.org", Chain: []byte("x"), Key: []byte("secret"), Expires: expires},
	} {
		if err == nil {
			err = d.Certificates.SaveCertificate(t.Context(), certs.LetsEncrypt, c)
		}
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return env, expires
}
