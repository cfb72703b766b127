package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	"berth/app"
)

// Store remembers, across restarts. It MUST be safe for concurrent use. ca is the
// address of the authority's directory.
type Store interface {
	Certificates(ctx context.Context, ca string) ([]app.Certificate, error)
	SaveCertificate(ctx context.Context, ca string, c app.Certificate) error
	DropCertificate(ctx context.Context, ca, name string) error
	// ACMEKey returns the key of the account, made when there is none yet.
	ACMEKey(ctx context.Context, ca string, made []byte) ([]byte, error)
}

// Config is what a Manager is made of.
type Config struct {
	CA      CA
	Store   Store
	PerHour int // new names that are asked for
	Most    int // names that have a certificate
	// Covered reports whether a name needs no certificate, for it has another. It
	// MUST be safe for concurrent use.
	Covered func(name string) bool
	Log     *slog.Logger
}

// Manager has the certificates of the names that are wanted. It is safe for
// concurrent use.
type Manager struct {
	Config
	issue func(ctx context.Context, name string) (chain, key []byte, err error)
	close func()
	wake  chan struct{} // something may be due
	// responses are what the authority gets for its challenges at the moment: the text
	// of HTTP-01 by its path, the *tls.Certificate of TLS-ALPN-01 by its name.
	responses sync.Map

	mu        sync.Mutex
	names     map[string]*entry
	addresses []string  // those of the wanted names that are IP addresses
	paused    time.Time // the authority is asked for nothing before
	pauses    int       // since it last answered
	waiting   int       // visitors
}

// entry is one name.
type entry struct {
	app.Certificate
	pair      *tls.Certificate // nil before there is one
	wanted    bool
	place     int           // among those that are wanted
	owner     app.AccountID // 0 for nobody's
	orderedBy app.AccountID // whose it was when it was ordered last; 0 after a restart
	covered   bool
	requested bool // by a visitor
	dirty     bool // not stored as it is
	busy      bool
	done      chan struct{} // closed at the end of the next order
}

// New returns a manager of what is stored. It asks nobody: Run does.
func New(ctx context.Context, c Config) (*Manager, error) {
	m := &Manager{Config: c, wake: make(chan struct{}, 1), names: map[string]*entry{}}
	a := newAccount(c.CA, c.Store, &m.responses)
	m.issue, m.close = a.obtain, a.http.CloseIdleConnections
	all, err := c.Store.Certificates(ctx, c.CA.Directory)
	if err != nil {
		return nil, err
	}
	for _, stored := range all {
		e := &entry{Certificate: stored, done: make(chan struct{})}
		if len(stored.Chain) > 0 {
			pair, err := tls.X509KeyPair(stored.Chain, stored.Key)
			if err != nil {
				c.Log.Error("a stored certificate cannot be used, another is asked for", "name", stored.Name, "error", err)
				e.Certificate = app.Certificate{Name: stored.Name, Ordered: stored.Ordered}
			} else {
				e.pair = &pair
			}
		}
		m.names[stored.Name] = e
	}
	return m, nil
}

// Want makes names, in lower case, those that are wanted, the first before others. A name
// may be an IP address, as netip.Addr.String writes it. owner
// tells whose a name is, 0 for the host's own. An order that is under
// way for another comes to its end, or who lets a name come and go could have any
// number of them.
func (m *Manager) Want(names []string, owner func(name string) app.AccountID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	wanted := make(map[string]bool, len(names))
	m.addresses = nil
	for i, name := range names {
		if _, err := netip.ParseAddr(name); err == nil {
			m.addresses = append(m.addresses, name)
		}
		wanted[name] = true
		e := m.names[name]
		if e == nil {
			e = &entry{Certificate: app.Certificate{Name: name}, dirty: true, done: make(chan struct{})}
			m.names[name] = e
		}
		e.wanted, e.place, e.owner = true, i, owner(name)
	}
	for name, e := range m.names {
		if !wanted[name] {
			e.wanted, e.requested = false, false
		}
	}
	m.notify()
}

// minRetry is how soon a name that was refused may be tried again because its
// owner asks: authorities allow some five failures of a name in an hour, and one
// try is two.
const minRetry = 30 * time.Minute

// Retry lets a name that was refused be tried again earlier, for something has
// changed.
func (m *Manager) Retry(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.names[name]
	if e == nil || e.busy || e.Failures == 0 || e.pair != nil {
		return
	}
	if soon := e.Ordered.Add(minRetry); soon.Before(e.Next) {
		e.Next, e.dirty = soon, true
		m.notify()
	}
}

// Status is how the certificate of a name is, without its key. It is false for
// names that are not wanted, or need none.
func (m *Manager) Status(name string) (app.Certificate, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.names[name]
	if e == nil || !e.wanted || e.covered {
		return app.Certificate{}, false
	}
	c := e.Certificate
	c.Key = nil
	return c, true
}

// notify lets Run look again.
func (m *Manager) notify() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// Run orders and renews until ctx ends, and returns when nothing is under way.
func (m *Manager) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer m.close()
	defer work.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p := m.agenda(time.Now())
		for _, e := range p.orders {
			work.Go(func() { m.order(ctx, e) })
		}
		m.store(ctx, p)
		timer.Reset(p.sleep)
		select {
		case <-timer.C:
		case <-m.wake:
		case <-ctx.Done():
			return
		}
	}
}

// store brings the store up to date with what agenda has changed.
func (m *Manager) store(ctx context.Context, p agenda) {
	for _, c := range p.save {
		if err := m.Store.SaveCertificate(ctx, m.CA.Directory, c); err != nil && ctx.Err() == nil {
			m.Log.Error("cannot store how a certificate is", "name", c.Name, "error", err)
		}
	}
	for _, name := range p.drop {
		if err := m.Store.DropCertificate(ctx, m.CA.Directory, name); err != nil && ctx.Err() == nil {
			m.Log.Error("cannot remove a certificate that nobody needs", "name", name, "error", err)
		}
	}
}

// orderTime bounds one order. An authority looks at a name for some seconds.
const orderTime = 3 * time.Minute

// order asks for a certificate. What a crash in it would lead to is stored
// before.
func (m *Manager) order(ctx context.Context, e *entry) {
	m.mu.Lock()
	before := e.Certificate
	begun := before
	begun.Ordered = time.Now()
	begun.Next = begun.Ordered.Add(backoff(begun.Failures + 1))
	if e.pair != nil {
		begun.Ordered = before.Ordered
	}
	e.Certificate = begun
	m.mu.Unlock()
	err := m.Store.SaveCertificate(ctx, m.CA.Directory, begun)
	var chain, key []byte
	if err != nil {
		err = fmt.Errorf("cannot store that it is asked for: %w", err)
	} else {
		limited, cancel := context.WithTimeout(ctx, orderTime)
		chain, key, err = m.issue(limited, begun.Name)
		cancel()
	}
	last := m.finish(ctx, e, before, chain, key, err)
	// Also when berth stops: what was got must not be asked for again.
	if err := m.Store.SaveCertificate(context.WithoutCancel(ctx), m.CA.Directory, last); err != nil {
		m.Log.Error("cannot store what came of an order; a restart forgets it", "name", last.Name, "error", err)
	}
	m.mu.Lock()
	e.busy = false
	close(e.done)
	e.done = make(chan struct{})
	m.mu.Unlock()
	m.notify()
}
