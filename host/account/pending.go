package account

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"berth/app"
)

const (
	// PendingTime is how long a sign-in waits for its second step.
	PendingTime  = 10 * time.Minute
	pendingTries = 5  // of the second step; then the sign-in begins anew
	ownPendings  = 3  // of an account in a known browser, or from one address
	maxPendings  = 64 // of an account in known browsers, and as many in others
)

// pending is a sign-in that has passed its first step.
type pending struct {
	account app.Account
	proof   proof  // another one ends the pending sign-in
	browser string // that is known, "" for one that is not
	agent   string
	owner   string // counts towards ownPendings with the others of the same
	until   time.Time
	tries   int
}

// proof is what the first step of a sign-in has shown.
type proof struct {
	password string // what was remembered of it at that moment
	identity int64  // by which it was; 0 for none
}

// pendings are in memory: what waits here has opened nothing. Only somebody with the
// password of an account puts something in. It is safe for concurrent use.
type pendings struct {
	mu  sync.Mutex
	all map[[32]byte]*pending // by the hash of the cookie's text
}

// put keeps p and returns the text of its cookie. When there are too many it drops the oldest of
// the same owner, or of the same account: nobody ends what another account does, and a thief of a
// password does not end what its owner does in a known browser.
func (ps *pendings) put(p pending) string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	now := time.Now()
	for hash, old := range ps.all {
		if !now.Before(old.until) {
			delete(ps.all, hash)
		}
	}
	ps.keep(ownPendings-1, func(old *pending) bool { return old.owner == p.owner })
	ps.keep(maxPendings-1, func(old *pending) bool {
		return old.account.ID == p.account.ID && (old.browser == "") == (p.browser == "")
	})
	p.until = now.Add(PendingTime)
	key := random()
	ps.all[sha256.Sum256([]byte(key))] = &p
	return key
}

// keep drops the oldest of some until at most that many are left of them.
func (ps *pendings) keep(most int, some func(*pending) bool) {
	for {
		count, oldest := 0, [32]byte{}
		for hash, p := range ps.all {
			if !some(p) {
				continue
			}
			if count++; count == 1 || p.until.Before(ps.all[oldest].until) {
				oldest = hash
			}
		}
		if count <= most {
			return
		}
		delete(ps.all, oldest)
	}
}

// find returns a copy of what waits behind a cookie. Another browser has no use of it.
func (ps *pendings) find(key string, from app.Visitor) (pending, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.all[sha256.Sum256([]byte(cutText(key, maxToken+1)))]
	if p == nil || !time.Now().Before(p.until) || p.agent != cutText(from.Agent, maxAgent) {
		return pending{}, false
	}
	return *p, true
}

// try counts a try, before it is known what comes of it, and reports whether it may be made.
func (ps *pendings) try(key string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	hash := sha256.Sum256([]byte(cutText(key, maxToken+1)))
	p := ps.all[hash]
	if p == nil {
		return false
	}
	if p.tries++; p.tries > pendingTries {
		delete(ps.all, hash)
		return false
	}
	return true
}

// take ends a pending sign-in, and reports whether it was there: of two at once one has it.
func (ps *pendings) take(key string) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	hash := sha256.Sum256([]byte(cutText(key, maxToken+1)))
	p := ps.all[hash]
	delete(ps.all, hash)
	return p != nil
}

func errNoPending() error {
	return app.Errorf(app.Unauthorized, "this sign-in has ended; begin again")
}

// proceed goes on after a right first step: with a session, or with a pending sign-in
// when the account has a second factor. browser is what the known browser is slowed down under.
func (s *SignIns) proceed(ctx context.Context, a app.Account, by proof, browser string, from app.Visitor) (app.SignedIn, error) {
	if err := a.Closed(); err != nil {
		return app.SignedIn{Account: a}, err
	}
	factors, err := s.factors.Factors(ctx, a.ID)
	if err != nil {
		return app.SignedIn{Account: a}, err
	}
	if !factors.Any() {
		return s.beginWith(ctx, a, by, from)
	}
	p := pending{account: a, proof: by, browser: browser, agent: cutText(from.Agent, maxAgent)}
	p.owner = p.brake(from)
	return app.SignedIn{Account: a, Pending: s.pendings.put(p), Factors: factors}, nil
}

// brake is what wrong second steps are slowed down under: those of a known browser hold
// nobody else, and only somebody with the password makes any.
func (p pending) brake(from app.Visitor) string {
	account := strconv.FormatInt(int64(p.account.ID), 10)
	if p.browser != "" {
		return account + " browser " + p.browser
	}
	return account + " address " + from.Key
}

// Pending returns what a pending sign-in waits for. It fails with app.Unauthorized when it is
// none, has ended, or began in another browser.
func (s *SignIns) Pending(ctx context.Context, key string, from app.Visitor) (app.SignedIn, error) {
	p, ok := s.pendings.find(key, from)
	if !ok {
		return app.SignedIn{}, errNoPending()
	}
	factors, err := s.factors.Factors(ctx, p.account.ID)
	return app.SignedIn{Account: p.account, Pending: key, Factors: factors}, err
}

// Abandon ends a pending sign-in, if it is one.
func (s *SignIns) Abandon(key string) { s.pendings.take(key) }

// second takes the second step of a pending sign-in and begins its session. check gets the
// account; its app.Unauthorized is a wrong step. It fails with app.Unauthorized as Pending
// does, and for a wrong step, with the account; with app.Limited after many of those; and
// with app.Forbidden for an account that was disabled meanwhile.
func (s *SignIns) second(ctx context.Context, key string, from app.Visitor, check func(a app.Account) error) (app.SignedIn, error) {
	p, ok := s.pendings.find(key, from)
	if !ok {
		return app.SignedIn{}, errNoPending()
	}
	in := app.SignedIn{Account: p.account}
	if err := s.countCode(p, from); err != nil {
		return in, err
	}
	if !s.pendings.try(key) {
		return in, errNoPending()
	}
	if err := check(p.account); err != nil {
		return in, err
	}
	if !s.pendings.take(key) {
		return in, errNoPending()
	}
	s.codes.forget(p.brake(from))
	if p.browser == "" {
		s.codes.undo(p.account.ID.String())
	}
	return s.beginWith(ctx, p.account, p.proof, from)
}

// countCode counts a try of a second step: of a known browser as its own, else as one from
// the address and one for the account, that many addresses guess no faster.
func (s *SignIns) countCode(p pending, from app.Visitor) error {
	wait := s.codes.try(p.brake(from))
	if wait == 0 && p.browser == "" {
		wait = s.codes.try(p.account.ID.String())
	}
	return tooMany(wait)
}

// beginWith is begin for somebody who has shown a proof. One that counts no more, because the
// password was changed or the identity removed since, has ended the sessions of that moment, and not
// this one.
func (s *SignIns) beginWith(ctx context.Context, a app.Account, by proof, from app.Visitor) (app.SignedIn, error) {
	in, made, err := s.begin(ctx, a, from)
	if err != nil {
		return app.SignedIn{Account: a}, err
	}
	if err := s.counts(ctx, a, by); err != nil {
		return app.SignedIn{Account: a}, errors.Join(err, s.EndSession(context.WithoutCancel(ctx), a.ID, made.ID))
	}
	return in, nil
}

// counts fails with app.Unauthorized for a proof that counts no more.
func (s *SignIns) counts(ctx context.Context, a app.Account, by proof) error {
	_, now, err := s.store.PasswordByName(ctx, a.Name)
	if err == nil && now != by.password {
		err = app.Errorf(app.Unauthorized, "the name or the password is wrong")
	}
	if err != nil || by.identity == 0 {
		return err
	}
	left, err := s.identities.Identities(ctx, a.ID)
	if err == nil && !slices.ContainsFunc(left, func(i app.Identity) bool { return i.ID == by.identity }) {
		err = errNoPending()
	}
	return err
}
