package certs

import (
	"crypto/tls"
	"slices"
	"strings"
	"time"
)

const (
	visit    = 8 * time.Second // that a visitor waits for an order
	visitors = 64              // that may
)

// Find implements tls.Config.GetCertificate, for names that are wanted: others
// get none, which is the alert unrecognized_name. While a name's first
// certificate is asked for, its visitor waits a few seconds.
func (k *Keeper) Find(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.names[strings.ToLower(strings.TrimSuffix(hello.ServerName, "."))]
	if e == nil || !e.wanted {
		return nil, nil
	}
	e.asked = e.pair == nil
	if e.pair != nil || !k.soon(e) || k.waiting >= visitors {
		return e.pair, nil
	}
	k.waiting++
	ended := e.ended
	k.poke()
	k.mu.Unlock()
	timer := time.NewTimer(visit)
	select {
	case <-ended:
	case <-timer.C:
	case <-hello.Context().Done():
	}
	timer.Stop()
	k.mu.Lock()
	if k.waiting--; !e.wanted {
		return nil, nil
	}
	return e.pair, nil
}

// soon reports whether an order of e is under way, or begins when there is room.
// The caller holds mu.
func (k *Keeper) soon(e *entry) bool {
	now := time.Now()
	if e.busy {
		return true
	}
	why, _ := k.turns(now).wait(e.owner)
	return !e.covered && !later(e.Next, k.paused).After(now) && (why == "" || !e.fresh(now))
}

// ConfigFor implements tls.Config.GetConfigForClient: it is nil for visitors,
// and for an authority that looks at a name what it expects.
func (k *Keeper) ConfigFor(hello *tls.ClientHelloInfo) (*tls.Config, error) {
	if !slices.Equal(hello.SupportedProtos, []string{protocol}) {
		return nil, nil
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{protocol},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return k.proofs.certificate(hello.ServerName), nil
		},
	}, nil
}
