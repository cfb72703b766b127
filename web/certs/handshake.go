package certs

import (
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

const (
	protocol = "acme-tls/1"                   // RFC 8737, 6.2
	wellKnow = "/.well-known/acme-challenge/" // RFC 8555, 8.3
)

const (
	visitorTimeout = 8 * time.Second // that a visitor waits for an order
	maxVisitors    = 64              // that may wait
)

// Find implements tls.Config.GetCertificate, for names that are wanted: others
// get none, which is the alert unrecognized_name. A visitor who names nothing, as all do
// who come by an IP address, gets the certificate of an address that is wanted. While a
// name's first certificate is asked for, its visitor waits a few seconds.
func (m *Manager) Find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))
	if name == "" {
		name = m.addressOf(hello.Conn.LocalAddr())
	}
	e := m.names[name]
	if e == nil || !e.wanted {
		return nil, nil
	}
	e.requested = e.pair == nil
	if e.pair != nil || !m.orderSoon(e) || m.waiting >= maxVisitors {
		return e.pair, nil
	}
	m.waiting++
	done := e.done
	m.notify()
	m.mu.Unlock()
	timer := time.NewTimer(visitorTimeout)
	select {
	case <-done:
	case <-timer.C:
	case <-hello.Context().Done():
	}
	timer.Stop()
	m.mu.Lock()
	if m.waiting--; !e.wanted {
		return nil, nil
	}
	return e.pair, nil
}

// addressOf returns the wanted IP address to which a connection has come. Behind a router
// the local address is another, so then it is the first that is wanted; "" if none is.
// The caller holds mu.
func (m *Manager) addressOf(local net.Addr) string {
	if at, err := netip.ParseAddrPort(local.String()); err == nil {
		if name := at.Addr().Unmap().WithZone("").String(); slices.Contains(m.addresses, name) {
			return name
		}
	}
	if len(m.addresses) > 0 {
		return m.addresses[0]
	}
	return ""
}

// orderSoon reports whether an order of e is under way, or begins when there is room.
// The caller holds mu.
func (m *Manager) orderSoon(e *entry) bool {
	now := time.Now()
	if e.busy {
		return true
	}
	why, _ := m.quota(now).check(e.owner)
	return !e.covered && !later(e.Next, m.paused).After(now) && (why == "" || !e.fresh(now))
}

// ConfigFor implements tls.Config.GetConfigForClient: it is nil for visitors,
// and for an authority that looks at a name what it expects.
func (m *Manager) ConfigFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if !slices.Equal(hello.SupportedProtos, []string{protocol}) {
		return nil, nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{protocol},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			found, _ := m.responses.Load(strings.ToLower(hello.ServerName))
			c, _ := found.(*tls.Certificate)
			return c, nil
		},
	}, nil
}

// Answer returns a handler that answers an authority's questions and leaves all
// others to next. Questions are never led elsewhere.
func (m *Manager) Answer(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, wellKnow) {
			next.ServeHTTP(w, r)
			return
		}
		content, ok := m.responses.Load(r.URL.Path)
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			http.Error(w, "This method is not served.", http.StatusMethodNotAllowed)
		case !ok:
			http.Error(w, "Nobody asks for a certificate with this.", http.StatusNotFound)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = io.WriteString(w, content.(string)) // an authority that is gone asks again
		}
	})
}
