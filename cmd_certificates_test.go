package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/certs"
	"berth/db"
	"berth/proc"
)

// pairFile writes a certificate of some names and its key into one file.
func pairFile(t *testing.T, path string, expires time.Time, names ...string) {
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

// certified makes a data directory with two sites and a domain, and what came of
// their certificates; a file has those below files.example.org.
func certified(t *testing.T, ready bool) (env map[string]string, expires time.Time) {
	t.Helper()
	dir := t.TempDir()
	expires = time.Now().Add(60 * 24 * time.Hour).Truncate(time.Second)
	pairFile(t, filepath.Join(dir, "pair.pem"), expires, "*.files.example.org", "files.example.org")
	env = map[string]string{
		"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": filepath.Join(dir, "data"), "BERTH_PROXY_MODE": "edge", "BERTH_PROXY_TLS": "acme",
		"BERTH_PROXY_DOMAIN": "apps.example.org", "BERTH_PROXY_CERT": filepath.Join(dir, "pair.pem"), "BERTH_PROXY_HTTP": "127.0.0.1:0", "BERTH_PROXY_HTTPS": "127.0.0.1:0",
	}
	if !ready {
		return env, expires
	}
	d, err := openDatabase(t.Context(), env["BERTH_DATA_DIR"])
	if err != nil {
		t.Fatal(err)
	}
	owner, err := d.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 1000})
	for _, id := range []app.ID{"shop", "blog"} {
		var a app.App
		if err == nil {
			a, err = d.Reserve(t.Context(), app.App{ID: id, Account: owner.ID, Type: app.Site, RAM: 10, Wanted: app.WantStopped},
				db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099}, func(_, _ app.MB) error { return nil })
		}
		if err == nil {
			_, err = d.CreateApp(t.Context(), a, app.Deploy{By: owner.ID, Kind: app.DeployUpload})
		}
	}
	for _, name := range []string{"www.example.org", "x.files.example.org"} {
		var claim app.Domain
		if err == nil {
			claim, err = d.AddDomain(t.Context(), app.Domain{Name: name, Account: owner.ID, App: "shop", Status: app.DomainUnverified, Proof: "berth=" + name}, func(app.Type, int, []app.Domain) error { return nil })
		}
		if err == nil {
			_, err = d.ProveDomain(t.Context(), claim, app.DomainVerified, time.Now())
		}
	}
	for _, c := range []app.Certificate{
		{Name: "shop.apps.example.org", Chain: []byte("x"), Key: []byte("secret"), Expires: expires.Add(time.Hour), Next: expires.Add(-time.Hour)},
		{Name: "www.example.org", Failures: 2, Problem: "the certificate authority refused: http-01: no address", Next: expires},
		{Name: "gone.apps.example.org", Chain: []byte("x"), Key: []byte("secret"), Expires: expires},
	} {
		if err == nil {
			err = d.SaveCertificate(t.Context(), certs.LetsEncrypt, c)
		}
	}
	if err = errors.Join(err, d.Close()); err != nil {
		t.Fatal(err)
	}
	return env, expires
}

func TestProxyCertificates(t *testing.T) {
	env, expires := certified(t, true)
	code, stdout, stderr := start(t, env, "proxy", "certificates", "--json")
	var got []certificateView
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exitOK || stderr != "" {
		t.Fatalf("exit %d, %v: %s%s", code, err, stdout, stderr)
	}
	var lines []string
	for _, v := range got {
		line := v.Name + " " + filepath.Base(v.From) + " " + string(v.Status) + " " + v.Problem
		if v.Expires != nil {
			line += v.Expires.Sub(expires).String()
		}
		lines = append(lines, line)
	}
	want := []string{
		"*.files.example.org and 1 more pair.pem issued 0s",
		"blog.apps.example.org acme pending ", // nobody has looked yet
		"shop.apps.example.org acme issued 1h0m0s",
		"www.example.org acme failed the certificate authority refused: http-01: no address",
	}
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	code, stdout, stderr = start(t, env, "proxy", "certificates", "--proxy-mode", "behind")
	for _, says := range []string{"NAME ", "shop.apps.example.org", "refused: http-01: no address\n", " -\n"} {
		if !strings.Contains(stdout, says) {
			t.Errorf("exit %d: it does not say %q:\n%s", code, says, stdout)
		}
	}
	if !strings.Contains(stderr, `berth needs certificates when proxy.mode is "edge"; it is "behind" now.`) || strings.Contains(stdout, "secret") {
		t.Errorf("it says %s%s", stdout, stderr)
	}
	// Another authority's are its own.
	_, stdout, _ = start(t, env, "proxy", "certificates", "--proxy-acme-directory", "staging")
	if strings.Contains(stdout, "failed") || strings.Count(stdout, "pending") != 3 {
		t.Error(stdout)
	}
	code, _, stderr = start(t, env, "proxy", "certificates", "--proxy-cert", "/nowhere")
	if code != exitConfig || !strings.Contains(stderr, "cannot read the certificate") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func TestDoctorCertificates(t *testing.T) {
	look := func(env map[string]string, args ...string) finding {
		t.Helper()
		var got finding
		s := mustLoad(t, "", env, args...)
		for _, f := range checkSites(t.Context(), s) {
			if f.Name == "certificates" {
				got = f
			} else if f.Verdict != good {
				t.Errorf("%+v", f)
			}
		}
		return got
	}
	env, expires := certified(t, true)
	if f := look(env); f.Verdict != dubious || !strings.Contains(f.Text, "2 are valid, the first until "+expires.UTC().Format(time.DateOnly)+" (*.files.example.org and 1 more); 2 names have none: blog.apps.example.org: its turn comes") {
		t.Errorf("%+v", f)
	}
	if f := look(env, "--proxy-tls=files"); f.Verdict != good || !strings.HasPrefix(f.Text, "1 are valid") {
		t.Errorf("%+v", f)
	}
	for says, args := range map[string][]string{
		"cannot read the certificate":    {"--proxy-cert=/nowhere"},
		"cannot read proxy.acme_roots: ": {"--proxy-acme-roots=/nowhere"},
	} {
		if f := look(env, args...); f.Verdict != bad || !strings.Contains(f.Text, says) {
			t.Errorf("%+v", f)
		}
	}
	pairFile(t, env["BERTH_PROXY_CERT"], time.Now().Add(24*time.Hour), "a.example.org")
	if f := look(env, "--proxy-tls=files"); f.Verdict != dubious || !strings.Contains(f.Fix, "put a new one") {
		t.Errorf("%+v", f)
	}
	pairFile(t, env["BERTH_PROXY_CERT"], time.Now().Add(-time.Minute), "a.example.org")
	if f := look(env, "--proxy-tls=files"); f.Verdict != dubious || !strings.Contains(f.Text, "a.example.org: it has expired") {
		t.Errorf("%+v", f)
	}
	// Before the first start; and nothing is made by looking.
	env, _ = certified(t, false)
	if f := look(env); f.Verdict != good || !strings.Contains(f.Text, "will come from "+certs.LetsEncrypt) {
		t.Errorf("%+v", f)
	}
	if _, err := os.Stat(env["BERTH_DATA_DIR"]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("doctor made a data directory: %v", err)
	}
	if list := checkSites(t.Context(), mustLoad(t, "", nil)); len(list) > 0 {
		t.Errorf("where there are no sites: %+v", list)
	}
}

func TestDoctorPorts(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	f := checkPort(t.Context(), address)
	if f.Verdict != bad || !strings.Contains(f.Text, address+" is in use by ") || !strings.Contains(f.Text, "(pid ") || !strings.Contains(f.Fix, "behind") {
		t.Errorf("%+v", f)
	}
	for says, f := range map[string]finding{
		":80 is served by berth (pid 7)":                          portFinding(":80", []proc.Listener{{Pid: 7, Name: "berth"}}),
		":80 is in use by nginx (pid 8), nginx (pid 9)":           portFinding(":80", []proc.Listener{{Pid: 8, Name: "nginx"}, {Pid: 9, Name: "nginx"}}),
		":80 is in use by a process that cannot be seen":          portFinding(":80", nil),
		"127.0.0.1:0 is free for the sites":                       checkPort(t.Context(), "127.0.0.1:0"),
		"192.0.2.1:1 cannot be used: listen tcp4 192.0.2.1:1: bi": checkPort(t.Context(), "192.0.2.1:1"),
	} {
		if !strings.HasPrefix(f.Text, says) || (f.Verdict == good) != (f.Fix == "") {
			t.Errorf("%+v does not say %q", f, says)
		}
	}
}
