package proxy

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often certificates are looked at, when somebody connects.
const lookEvery = 10 * time.Second

// Certificates are those of some files, read again when the files change. They
// are safe for concurrent use.
type Certificates struct {
	cert, key string
	log       *slog.Logger

	mu    sync.Mutex
	stamp string
	next  time.Time
	all   atomic.Pointer[[]tls.Certificate]
}

// LoadCertificates reads the certificate in the file cert with the key in the
// file key; or, when cert is a directory, that of every NAME.crt in it with the
// key in NAME.key. It fails when there is none, or one cannot be used. Later
// changes that cannot be used are told in the log, and what was there before
// goes on.
func LoadCertificates(cert, key string, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{cert: cert, key: key, log: log}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next = time.Now().Add(lookEvery)
	return c, c.read()
}

// Find implements tls.Config.GetCertificate.
func (c *Certificates) Find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.refresh()
	all := *c.all.Load()
	for i := range all {
		if hello.SupportsCertificate(&all[i]) == nil {
			return &all[i], nil
		}
	}
	return &all[0], nil
}

// Match returns a certificate for the very name that a visitor asks for, one
// that is valid now; nil when there is none.
func (c *Certificates) Match(hello *tls.ClientHelloInfo) *tls.Certificate {
	c.refresh()
	all, now := *c.all.Load(), time.Now()
	for i := range all {
		if now.Before(all[i].Leaf.NotAfter) && hello.SupportsCertificate(&all[i]) == nil {
			return &all[i]
		}
	}
	return nil
}

// Covers reports whether there is a certificate for a name which is valid now.
func (c *Certificates) Covers(name string) bool {
	c.refresh()
	now := time.Now()
	return slices.ContainsFunc(*c.all.Load(), func(pair tls.Certificate) bool {
		return now.Before(pair.Leaf.NotAfter) && pair.Leaf.VerifyHostname(name) == nil
	})
}

// Loaded is one certificate of the files.
type Loaded struct {
	Path    string
	Name    string // the first of its names, and how many more
	Expires time.Time
}

// List tells of every certificate, in the order in which they are tried.
func (c *Certificates) List() []Loaded {
	var list []Loaded
	for _, pair := range *c.all.Load() {
		leaf := pair.Leaf
		one := Loaded{Path: c.cert, Name: leaf.Subject.CommonName, Expires: leaf.NotAfter}
		if n := len(leaf.DNSNames); n > 0 {
			if one.Name = leaf.DNSNames[0]; n > 1 {
				one.Name += fmt.Sprintf(" and %d more", n-1)
			}
		}
		list = append(list, one)
	}
	return list
}

// refresh reads what has changed, if it is time to look and nobody else does.
func (c *Certificates) refresh() {
	if !c.mu.TryLock() {
		return
	}
	defer c.mu.Unlock()
	if now := time.Now(); now.After(c.next) {
		c.next = now.Add(lookEvery)
		if err := c.read(); err != nil {
			c.log.Error("the certificates have changed and cannot be used; those from before still are", "error", err)
		}
	}
}

// read reads the files if they are not those that were read last. The caller
// holds mu.
func (c *Certificates) read() error {
	pairs, err := c.pairs()
	if err != nil {
		return err
	}
	stamp := ""
	for _, file := range pairs {
		for _, name := range file {
			st, err := os.Stat(name)
			if err != nil {
				return fmt.Errorf("cannot read the certificate: %w", err)
			}
			stamp += fmt.Sprintf("%s %d %d\n", name, st.Size(), st.ModTime().UnixNano())
		}
	}
	if stamp == c.stamp {
		return nil
	}
	c.stamp = stamp // of bad ones too: they are told once
	all := make([]tls.Certificate, 0, len(pairs))
	for _, file := range pairs {
		pair, err := tls.LoadX509KeyPair(file[0], file[1])
		if err != nil {
			return fmt.Errorf("cannot use the certificate %s: %w", file[0], err)
		}
		all = append(all, pair)
	}
	c.all.Store(&all)
	return nil
}

func (c *Certificates) pairs() ([][2]string, error) {
	st, err := os.Stat(c.cert)
	if err != nil {
		return nil, fmt.Errorf("cannot read the certificate: %w", err)
	}
	if !st.IsDir() {
		return [][2]string{{c.cert, cmp.Or(c.key, c.cert)}}, nil
	}
	names, err := filepath.Glob(filepath.Join(c.cert, "*.crt"))
	if err == nil && len(names) == 0 {
		err = errors.New("there is no NAME.crt in the directory " + c.cert)
	}
	var all [][2]string
	for _, name := range names {
		all = append(all, [2]string{name, strings.TrimSuffix(name, ".crt") + ".key"})
	}
	return all, err
}
