package certs

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"sync"
)

const (
	protocol = "acme-tls/1"                   // RFC 8737, 6.2
	wellKnow = "/.well-known/acme-challenge/" // RFC 8555, 8.3
)

// proofs are the answers to what an authority asks of names at the moment. They
// are safe for concurrent use.
type proofs struct {
	mu    sync.Mutex
	files map[string]string           // of HTTP-01, by path
	pairs map[string]*tls.Certificate // of TLS-ALPN-01, by name
}

func newProofs() *proofs {
	return &proofs{files: map[string]string{}, pairs: map[string]*tls.Certificate{}}
}

// file adds an answer and returns what removes it.
func (p *proofs) file(path, content string) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.files[path] = content
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.files, path)
	}
}

// pair adds an answer and returns what removes it.
func (p *proofs) pair(name string, c *tls.Certificate) (remove func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pairs[name] = c
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, name)
	}
}

// certificate is nil for names that nobody looks at.
func (p *proofs) certificate(name string) *tls.Certificate {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pairs[strings.ToLower(name)]
}

// Answer returns a handler that answers an authority's questions and leaves all
// others to next. Questions are never led elsewhere.
func (k *Keeper) Answer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, wellKnow) {
			next.ServeHTTP(w, r)
			return
		}
		k.proofs.mu.Lock()
		content, ok := k.proofs.files[r.URL.Path]
		k.proofs.mu.Unlock()
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "This method is not served.", http.StatusMethodNotAllowed)
		case !ok:
			http.Error(w, "Nobody asks for a certificate with this.", http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = io.WriteString(w, content) // an authority that is gone asks again
		}
	})
}
