package certs

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"berth/app"
)

const (
	maxOrders = 2         // at a time
	window    = time.Hour // of PerHour
	maxSleep  = time.Hour // at the latest, after what nobody tells: files
	// forgetAfter is how long a name is remembered that is not wanted and has nothing.
	forgetAfter = 24 * time.Hour
)

// The sentences for names that wait.
const (
	manyNew = "this host has begun with as many new names as it may in an hour (proxy.acme_per_hour); its turn comes"
	manyOwn = "the account has begun with as many new names as one may in an hour (half of proxy.acme_per_hour); its turn comes"
	manyAll = "this host has certificates for as many names as it may (proxy.acme_names)"
	silent  = "the certificate authority does not work, or cannot be reached; it is asked again and again"
)

// backoff is how long a name waits that was refused so often: 10 minutes, then
// an hour, four, and a day, and a tenth of it by chance.
func backoff(failures int) time.Duration {
	steps := []time.Duration{10 * time.Minute, time.Hour, 4 * time.Hour, 24 * time.Hour}
	d := steps[min(max(failures, 1), len(steps))-1]
	return d + rand.N(d/10)
}

// pause is how long an authority is left alone that has not answered so often:
// two seconds, then twice as long each time, half an hour at most.
func pause(times int) time.Duration {
	d := min(time.Second<<min(times, 20), 30*time.Minute)
	return d + rand.N(d/10)
}

// shortLife is the life below which a certificate counts as short-lived.
const shortLife = 10 * 24 * time.Hour

// renewal is when a certificate is renewed, within a twentieth of its life by chance: as
// soon as half of a short life is over, or at the latest when a third of a longer one is left.
func renewal(begins, expires time.Time) time.Time {
	life := max(expires.Sub(begins), time.Second)
	left := life / 3
	if life < shortLife {
		left = life/2 - life/20
	}
	return expires.Add(-left - rand.N(life/20))
}

// retry is when a name is tried again after a failure: as backoff says, but not
// so late that a certificate expires meanwhile.
func retry(now time.Time, c app.Certificate) time.Time {
	wait := backoff(c.Failures)
	if left := c.Expires.Sub(now); len(c.Chain) > 0 && left > 0 {
		wait = min(wait, max(left/4, minRetry))
	}
	return now.Add(wait)
}

// agenda is what is to be done now.
type agenda struct {
	orders []*entry
	save   []app.Certificate // to be stored
	drop   []string          // to be forgotten
	sleep  time.Duration     // until something may be due
}

// fresh reports whether an order of e is one of a new name.
func (e *entry) fresh(now time.Time) bool {
	return e.pair == nil && now.Sub(e.Ordered) >= window
}

// quota are the new names that were begun within the window.
type quota struct {
	most, each int // for all, and for one account
	all        []time.Time
	of         map[app.AccountID][]time.Time
}

// quota counts them. While names of several accounts are wanted, none begins with more
// than half of all, or one that has many at once would keep the others waiting for an
// hour.
func (m *Manager) quota(now time.Time) *quota {
	t := &quota{most: m.PerHour, each: m.PerHour, of: map[app.AccountID][]time.Time{}}
	owners := map[app.AccountID]bool{}
	for _, e := range m.names {
		if e.wanted && e.owner != 0 {
			owners[e.owner] = true
		}
		if now.Sub(e.Ordered) < window {
			t.add(cmp.Or(e.orderedBy, e.owner), e.Ordered)
		}
	}
	if len(owners) > 1 {
		t.each = (m.PerHour + 1) / 2
	}
	return t
}

// add counts another one.
func (t *quota) add(by app.AccountID, at time.Time) {
	t.all = append(t.all, at)
	t.of[by] = append(t.of[by], at)
}

// check tells why a name of an account cannot be begun yet, and until when; "" if it can.
func (t *quota) check(by app.AccountID) (why string, opens time.Time) {
	if len(t.all) >= t.most {
		return manyNew, resetAt(t.all, t.most)
	}
	if own := t.of[by]; by != 0 && len(own) >= t.each {
		return manyOwn, resetAt(own, t.each)
	}
	return "", time.Time{}
}

// resetAt is when fewer than most of some were begun within the window.
func resetAt(begun []time.Time, most int) time.Time {
	slices.SortFunc(begun, time.Time.Compare)
	return begun[len(begun)-most].Add(window)
}

// agenda begins what is due.
func (m *Manager) agenda(now time.Time) agenda {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := agenda{sleep: maxSleep}
	var due []*entry
	busy, have := 0, 0
	for name, e := range m.names {
		if e.wanted && (e.pair != nil || e.busy) {
			have++
		}
		at := later(e.Next, m.paused)
		switch {
		case e.busy:
			busy++
		case !e.wanted:
			if now.Sub(e.Ordered) > forgetAfter && (e.pair == nil || now.After(e.Expires)) {
				delete(m.names, name)
				p.drop = append(p.drop, name)
			}
		case at.After(now):
			p.sleep = min(p.sleep, at.Sub(now))
		default:
			due = append(due, e)
		}
	}
	slices.SortFunc(due, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.rank(), b.rank()), cmp.Compare(a.place, b.place)) })
	quota := m.quota(now)
	for _, e := range due {
		e.covered = m.Covered(e.Name)
		fresh := e.fresh(now)
		why, opens := quota.check(e.owner)
		switch {
		case e.covered:
			e.Problem = ""
		case fresh && have >= m.Most:
			e.waits(manyAll)
		case fresh && why != "":
			e.waits(why)
			p.sleep = min(p.sleep, max(opens.Sub(now), time.Second))
		case busy < maxOrders:
			busy++
			if fresh {
				quota.add(e.owner, now)
				have++
			}
			e.busy, e.dirty, e.orderedBy = true, false, e.owner
			p.orders = append(p.orders, e)
		}
	}
	for _, e := range m.names {
		if e.dirty && e.wanted && !e.busy && !e.covered {
			e.dirty = false
			p.save = append(p.save, e.Certificate)
		}
	}
	return p
}

// rank is the order in which names have their turn: what would expire, what a
// visitor asks for, what was not refused yet.
func (e *entry) rank() int {
	switch {
	case e.pair != nil:
		return 0
	case e.Failures > 0:
		return 3
	case e.requested:
		return 1
	}
	return 2
}

func (e *entry) waits(why string) {
	e.dirty = e.dirty || e.Problem != why
	e.Problem = why
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// finish takes what came of an order and returns what is to be stored. ctx is
// the order's, before what bounds it.
func (m *Manager) finish(ctx context.Context, e *entry, before app.Certificate, chain, key []byte, err error) app.Certificate {
	var pair tls.Certificate
	if err == nil {
		pair, err = tls.X509KeyPair(chain, key)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	now, c := time.Now(), &e.Certificate
	var no *refusal
	switch {
	case err == nil:
		e.pair, e.requested, m.pauses = &pair, false, 0
		*c = app.Certificate{Name: c.Name, Chain: chain, Key: key, Begins: pair.Leaf.NotBefore, Expires: pair.Leaf.NotAfter, Ordered: c.Ordered}
		c.Next = renewal(c.Begins, c.Expires)
		m.Log.Info("a certificate was obtained", "name", c.Name, "expires", c.Expires.UTC().Format(time.RFC3339), "renewed after", c.Next.UTC().Format(time.RFC3339))
	case ctx.Err() != nil: // berth stops
		c.Next = before.Next
	case errors.As(err, &no):
		m.pauses = 0
		c.Failures++
		if c.Problem = no.Error(); c.Problem != before.Problem {
			m.Log.Warn("no certificate was obtained", "name", c.Name, "why", c.Problem, "certificate", c.Status(now))
		}
		c.Next = later(retry(now, *c), now.Add(no.after))
	default:
		if m.pauses++; m.pauses == 1 {
			m.Log.Error("the certificate authority does not work, or cannot be reached", "directory", m.CA.Directory, "name", c.Name, "error", err)
		}
		m.paused = now.Add(pause(m.pauses))
		c.Ordered, c.Next, c.Problem = before.Ordered, before.Next, silent
	}
	return *c
}
