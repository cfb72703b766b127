package certs

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

const (
	shop = "shop.example.org"
	blog = "blog.example.org"
	life = 90 * 24 * time.Hour
)

// world is a manager with an authority and a store in memory, in virtual time.
type world struct {
	*Manager
	t    *testing.T
	log  *text
	stop func()

	mu      sync.Mutex
	stored  map[string]app.Certificate
	keys    map[string][]byte
	full    error // of the store
	tries   map[string][]time.Time
	answer  func(ctx context.Context, name string) error // nil: every name gets one
	life    time.Duration
	at      int // orders under way
	most    int
	covered map[string]bool
	owners  map[string]app.AccountID
}

// Want is that of the manager, whose names belong to those that owners names.
func (w *world) Want(names []string) {
	w.Manager.Want(names, func(name string) app.AccountID { return w.owners[name] })
}

type text struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (x *text) Write(p []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.b.Write(p)
}

func (x *text) count(s string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return strings.Count(x.b.String(), s)
}

func nobodys(string) app.AccountID { return 0 }

// within runs a test in virtual time, with a manager that runs.
func within(t *testing.T, test func(w *world)) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{
			t: t, stored: map[string]app.Certificate{}, keys: map[string][]byte{}, tries: map[string][]time.Time{},
			life: life, covered: map[string]bool{},
		}
		w.open()
		test(w)
		w.stop()
	})
}

// open starts a manager of what is stored, as after a restart.
func (w *world) open() {
	w.t.Helper()
	w.log = &text{}
	var err error
	w.Manager, err = New(w.t.Context(), Config{
		CA: CA{Directory: "https://ca.example/"}, Store: w, PerHour: 10, Most: 50, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		Covered: func(name string) bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.covered[name]
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.issue = w.give
	ctx, cancel := context.WithCancel(w.t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx)
	}()
	w.stop = func() { cancel(); <-done }
}

// give is the authority.
func (w *world) give(ctx context.Context, name string) (chain, key []byte, err error) {
	w.mu.Lock()
	w.tries[name] = append(w.tries[name], time.Now())
	answer := w.answer
	w.at++
	w.most = max(w.most, w.at)
	w.mu.Unlock()
	defer func() { w.mu.Lock(); w.at--; w.mu.Unlock() }()
	select {
	case <-time.After(3 * time.Second):
	case <-ctx.Done():
		return nil, nil, ctx.Err()
	}
	if answer != nil {
		if err := answer(ctx, name); err != nil {
			return nil, nil, err
		}
	}
	return made(w.t, name, w.life)
}

// made is a certificate that begins now.
func made(t *testing.T, name string, life time.Duration) (chain, text []byte, err error) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	c := &x509.Certificate{SerialNumber: big.NewInt(now.UnixNano()), DNSNames: []string{name}, NotBefore: now, NotAfter: now.Add(life)}
	der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	private, err := x509.MarshalECPrivateKey(key)
	block := func(kind string, b []byte) []byte { return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}) }
	return block("CERTIFICATE", der), block("EC PRIVATE KEY", private), err
}

func (w *world) Certificates(context.Context, string) ([]app.Certificate, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.stored)), nil
}

func (w *world) SaveCertificate(ctx context.Context, _ string, c app.Certificate) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := errors.Join(ctx.Err(), w.full); err != nil {
		return err
	}
	w.stored[c.Name] = c
	return nil
}

func (w *world) DropCertificate(_ context.Context, _, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.stored, name)
	return nil
}

func (w *world) ACMEKey(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.New("nobody asks for it here")
}

// set changes how the authority answers.
func (w *world) set(answer func(ctx context.Context, name string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = answer
}

// after lets time pass.
func (w *world) after(d time.Duration) {
	time.Sleep(d) // virtual
	synctest.Wait()
}

// tried is how often a name was asked for.
func (w *world) tried(name string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.tries[name])
}

// all is how often the authority was asked.
func (w *world) all() (n int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, times := range w.tries {
		n += len(times)
	}
	return n
}

// visit makes a handshake and returns the certificate that was shown.
func (w *world) visit(name string) (*x509.Certificate, error) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	server := make(chan error, 1)
	go func() {
		server <- tls.Server(b, &tls.Config{GetCertificate: w.Find, GetConfigForClient: w.ConfigFor}).HandshakeContext(w.t.Context())
		_ = b.Close()
	}()
	c := tls.Client(a, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	err := c.Handshake()
	_ = a.Close()
	<-server
	if err != nil {
		return nil, err
	}
	return c.ConnectionState().PeerCertificates[0], nil
}

// shown visits a name that must have a certificate.
func (w *world) shown(name string) *x509.Certificate {
	w.t.Helper()
	c, err := w.visit(name)
	if err != nil {
		w.t.Fatalf("%s is shown no certificate: %v", name, err)
	}
	if err := c.VerifyHostname(name); err != nil || !time.Now().Before(c.NotAfter) {
		w.t.Errorf("%s is shown one until %s: %v", name, c.NotAfter, err)
	}
	return c
}

// refused visits a name that must have none.
func (w *world) refused(name string) {
	w.t.Helper()
	begun := time.Now()
	if c, err := w.visit(name); err == nil || !strings.Contains(err.Error(), "unrecognized name") || time.Since(begun) != 0 {
		w.t.Errorf("%q is shown %v, %v after %s", name, c, err, time.Since(begun))
	}
}

func (w *world) wantTries(name string, least, most int) {
	w.t.Helper()
	if n := w.tried(name); n < least || n > most {
		w.t.Errorf("%s was asked for %d times, want %d to %d", name, n, least, most)
	}
}

func many(n int) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf("site-%02d.example.org", i))
	}
	return names
}

// have is how many of some names have a certificate.
func (w *world) have(names []string) (n int) {
	for _, name := range names {
		if c, ok := w.Status(name); ok && c.Status(time.Now()) == app.CertificateIssued {
			n++
		}
	}
	return n
}
