package certs

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
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

// Config is what a Keeper is made of.
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

// Keeper has the certificates of the names that are wanted. It is safe for
// concurrent use.
type Keeper struct {
	Config
	issue  func(ctx context.Context, name string) (chain, key []byte, err error)
	proofs *proofs
	close  func()
	wake   chan struct{} // something may be due

	mu      sync.Mutex
	names   map[string]*entry
	paused  time.Time // the authority is asked for nothing before
	pauses  int       // since it last answered
	waiting int       // visitors
}

// entry is one name.
type entry struct {
	app.Certificate
	pair    *tls.Certificate // nil before there is one
	wanted  bool
	place   int           // among those that are wanted
	owner   app.AccountID // 0 for nobody's
	by      app.AccountID // whose it was when it was ordered last; 0 after a restart
	covered bool
	asked   bool // by a visitor
	dirty   bool // not stored as it is
	busy    bool
	ended   chan struct{} // closed at the end of the next order
}

// New returns a keeper of what is stored. It asks nobody: Run does.
func New(ctx context.Context, c Config) (*Keeper, error) {
	k := &Keeper{Config: c, proofs: newProofs(), wake: make(chan struct{}, 1), names: map[string]*entry{}}
	a := newAccount(c.CA, c.Store, k.proofs)
	k.issue, k.close = a.obtain, a.http.CloseIdleConnections
	all, err := c.Store.Certificates(ctx, c.CA.Directory)
	if err != nil {
		return nil, err
	}
	for _, stored := range all {
		e := &entry{Certificate: stored, ended: make(chan struct{})}
		if len(stored.Chain) > 0 {
			pair, err := tls.X509KeyPair(stored.Chain, stored.Key)
			if err != nil {
				c.Log.Error("a stored certificate cannot be used, another is asked for", "name", stored.Name, "error", err)
				e.Certificate = app.Certificate{Name: stored.Name, Ordered: stored.Ordered}
			} else {
				e.pair = &pair
			}
		}
		k.names[stored.Name] = e
	}
	return k, nil
}

// Want makes names, in lower case, those that are wanted, the first before others. owner
// tells whose a name is, 0 for the host's own. An order that is under
// way for another comes to its end, or who lets a name come and go could have any
// number of them.
func (k *Keeper) Want(names []string, owner func(name string) app.AccountID) {
	k.mu.Lock()
	defer k.mu.Unlock()
	wanted := make(map[string]bool, len(names))
	for i, name := range names {
		wanted[name] = true
		e := k.names[name]
		if e == nil {
			e = &entry{Certificate: app.Certificate{Name: name}, dirty: true, ended: make(chan struct{})}
			k.names[name] = e
		}
		e.wanted, e.place, e.owner = true, i, owner(name)
	}
	for name, e := range k.names {
		if !wanted[name] {
			e.wanted, e.asked = false, false
		}
	}
	k.poke()
}

// patience is how soon a name that was refused may be tried again because its
// owner asks: authorities allow some five failures of a name in an hour, and one
// try is two.
const patience = 30 * time.Minute

// Retry lets a name that was refused be tried again earlier, for something has
// changed.
func (k *Keeper) Retry(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.names[name]
	if e == nil || e.busy || e.Failures == 0 || e.pair != nil {
		return
	}
	if soon := e.Ordered.Add(patience); soon.Before(e.Next) {
		e.Next, e.dirty = soon, true
		k.poke()
	}
}

// Status is how the certificate of a name is, without its key. It is false for
// names that are not wanted, or need none.
func (k *Keeper) Status(name string) (app.Certificate, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	e := k.names[name]
	if e == nil || !e.wanted || e.covered {
		return app.Certificate{}, false
	}
	c := e.Certificate
	c.Key = nil
	return c, true
}

// poke lets Run look again.
func (k *Keeper) poke() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// Run orders and renews until ctx ends, and returns when nothing is under way.
func (k *Keeper) Run(ctx context.Context) {
	var work sync.WaitGroup
	defer k.close()
	defer work.Wait()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		p := k.pick(time.Now())
		for _, e := range p.due {
			work.Go(func() { k.order(ctx, e) })
		}
		k.store(ctx, p)
		timer.Reset(p.rest)
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
			return
		}
	}
}

// store brings the store up to date with what pick has changed.
func (k *Keeper) store(ctx context.Context, p picked) {
	for _, c := range p.changed {
		if err := k.Store.SaveCertificate(ctx, k.CA.Directory, c); err != nil && ctx.Err() == nil {
			k.Log.Error("cannot store how a certificate is", "name", c.Name, "error", err)
		}
	}
	for _, name := range p.gone {
		if err := k.Store.DropCertificate(ctx, k.CA.Directory, name); err != nil && ctx.Err() == nil {
			k.Log.Error("cannot remove a certificate that nobody needs", "name", name, "error", err)
		}
	}
}

// orderTime bounds one order. An authority looks at a name for some seconds.
const orderTime = 3 * time.Minute

// order asks for a certificate. What a crash in it would lead to is stored
// before.
func (k *Keeper) order(ctx context.Context, e *entry) {
	k.mu.Lock()
	before := e.Certificate
	begun := before
	begun.Ordered = time.Now()
	begun.Next = begun.Ordered.Add(backoff(begun.Failures + 1))
	if e.pair != nil {
		begun.Ordered = before.Ordered
	}
	e.Certificate = begun
	k.mu.Unlock()
	err := k.Store.SaveCertificate(ctx, k.CA.Directory, begun)
	var chain, key []byte
	if err != nil {
		err = fmt.Errorf("cannot store that it is asked for: %w", err)
	} else {
		limited, cancel := context.WithTimeout(ctx, orderTime)
		chain, key, err = k.issue(limited, begun.Name)
		cancel()
	}
	last := k.finish(ctx, e, before, chain, key, err)
	// Also when berth stops: what was got must not be asked for again.
	if err := k.Store.SaveCertificate(context.WithoutCancel(ctx), k.CA.Directory, last); err != nil {
		k.Log.Error("cannot store what came of an order; a restart forgets it", "name", last.Name, "error", err)
	}
	k.mu.Lock()
	e.busy = false
	close(e.ended)
	e.ended = make(chan struct{})
	k.mu.Unlock()
	k.poke()
}
