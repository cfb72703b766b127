// Package ca is a certificate authority for tests: pebble, the one that the makers
// of Let's Encrypt test with, as a process on loopback. It looks at names as a
// real one does, asks a name server of the test where they are, and refuses a
// part of the requests for no reason but to see them repeated.
package ca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/test/harness"
)

// Config is how an authority behaves.
type Config struct {
	Resolver string        // HOST:PORT of a name server over TCP
	HTTP     int           // the port on which it looks for HTTP-01
	TLS      int           // that for TLS-ALPN-01
	Blocked  []string      // names that it gives nothing for
	Life     time.Duration // of what it gives, 90 days when 0
	Short    time.Duration // of the profile "shortlived"; 0: it has none
	Nonces   int           // percent of the requests whose nonce it refuses
	// Bindings are the MAC keys, in base64url, of those who may have an account,
	// by key id; when there are any, others may not.
	Bindings map[string]string
}

// Server is an authority that is not yet started, or was. Its methods are for the
// test's goroutine.
type Server struct {
	Directory string // the address of its directory
	Roots     string // a file with the certificate that its own is of

	t      testing.TB
	dir    string
	manage string
	cmd    *exec.Cmd
	out    *harness.Output
}

var build struct {
	once sync.Once
	path string
	why  string // it cannot be had
}

// program is the path of pebble. A machine on which it cannot be built skips the
// test, unless it is CI.
func program(t testing.TB) string {
	t.Helper()
	build.once.Do(func() {
		root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output() //nolint:noctx // it takes a moment
		if err != nil {
			build.why = "needs go, to build the certificate authority: " + err.Error()
			return
		}
		cmd := exec.Command(filepath.Join(strings.TrimSpace(string(root)), "test", "scripts", "pebble")) //nolint:noctx // go ends by itself
		var problems strings.Builder
		cmd.Stderr = &problems
		out, err := cmd.Output()
		if err != nil {
			build.why = "the certificate authority of the tests cannot be built: " + problems.String()
		}
		build.path = strings.TrimSpace(string(out))
	})
	harness.Ready(t, build.why)
	return build.path
}

// New prepares an authority that is at its address once it is started.
func New(t testing.TB, c Config) *Server {
	t.Helper()
	program(t)
	s := &Server{t: t, dir: t.TempDir()}
	listen := harness.Address(t)
	s.manage = harness.Address(t)
	s.Directory, s.Roots = "https://"+listen+"/dir", filepath.Join(s.dir, "roots.pem")
	Pair(t, s.Roots, "127.0.0.1")
	profile := map[string]any{"description": "what the tests need"}
	if c.Life > 0 {
		profile["validityPeriod"] = int(c.Life / time.Second)
	}
	profiles := map[string]any{"default": profile}
	if c.Short > 0 {
		profiles["shortlived"] = map[string]any{"description": "for addresses", "validityPeriod": int(c.Short / time.Second)}
	}
	text, err := json.Marshal(map[string]any{"pebble": map[string]any{
		"listenAddress": listen, "managementListenAddress": s.manage, "certificate": s.Roots, "privateKey": s.Roots + ".key",
		"httpPort": c.HTTP, "tlsPort": c.TLS, "domainBlocklist": c.Blocked, "keyAlgorithm": "ecdsa",
		"retryAfter": map[string]int{"authz": 1, "order": 1}, "profiles": profiles,
		"externalAccountBindingRequired": len(c.Bindings) > 0, "externalAccountMACKeys": c.Bindings,
	}})
	if err == nil {
		err = os.WriteFile(filepath.Join(s.dir, "config.json"), text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.cmd = exec.Command(program(t), "-config", filepath.Join(s.dir, "config.json"), "-dnsserver", c.Resolver) //nolint:noctx // the test ends it
	s.cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_AUTHZREUSE=0", "PEBBLE_WFE_NONCEREJECT="+strconv.Itoa(c.Nonces))
	return s
}

// Start starts it until the test ends.
func (s *Server) Start() {
	s.t.Helper()
	s.out = &harness.Output{}
	s.cmd.Stdout, s.cmd.Stderr = s.out, s.out
	if err := s.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(s.Stop)
	client := s.client()
	harness.Eventually(s.t, "the certificate authority answers", func() bool {
		resp, err := client.Get(s.Directory) //nolint:noctx // it has a timeout
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	client.CloseIdleConnections()
}

// Stop ends it, if it runs.
func (s *Server) Stop() {
	if s.cmd.Process == nil || s.cmd.ProcessState != nil {
		return
	}
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // the error says that it was killed
	if s.t.Failed() {
		said := s.out.String()
		s.t.Logf("the certificate authority said: %s", said[max(0, len(said)-4000):])
	}
}

// Said is how often it has said a text.
func (s *Server) Said(text string) int { return strings.Count(s.out.String(), text) }

// Pool trusts what it gives, which begins anew with each start.
func (s *Server) Pool() *x509.CertPool {
	s.t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(s.Given())) {
		s.t.Fatal("the certificate authority has no root")
	}
	return pool
}

// Given is the certificate, in PEM, of which all are that it gives.
func (s *Server) Given() string {
	s.t.Helper()
	client := s.client()
	defer client.CloseIdleConnections()
	resp, err := client.Get("https://" + s.manage + "/roots/0") //nolint:noctx // it has a timeout
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(text)
}

func (s *Server) client() *http.Client {
	text, err := os.ReadFile(s.Roots)
	if err != nil {
		s.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return &http.Client{
		Timeout:   10 * time.Second,
		Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}},
	}
}

// Pair writes a certificate of names, or IP addresses, which is its own root, to
// the file path, and its key to path.key.
func Pair(t testing.TB, path string, names ...string) {
	t.Helper()
	signer, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "of a test"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	for _, name := range names {
		if ip := net.ParseIP(name); ip != nil {
			c.IPAddresses = append(c.IPAddresses, ip)
		} else {
			c.DNSNames = append(c.DNSNames, name)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, signer.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(signer)
	if err != nil {
		t.Fatal(err)
	}
	for to, block := range map[string]*pem.Block{path: {Type: "CERTIFICATE", Bytes: der}, path + ".key": {Type: "EC PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(to, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Port is the port of an address.
func Port(t testing.TB, address string) int {
	t.Helper()
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
