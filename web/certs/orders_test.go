package certs

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"time"

	"berth/app"
)

// Those who come for the first certificate get it.
func TestVisitorsWait(t *testing.T) {
	within(t, func(w *world) {
		w.Want([]string{shop})
		begun := time.Now()
		w.shown(shop)
		if d := time.Since(begun); d != 3*time.Second {
			t.Errorf("the visitor waited %s", d)
		}
		w.set(func(ctx context.Context, _ string) error { // slow
			<-ctx.Done()
			return ctx.Err()
		})
		w.Want([]string{shop, blog})
		begun = time.Now()
		if _, err := w.visit(blog); err == nil || time.Since(begun) != visitorTimeout {
			t.Errorf("%v after %s", err, time.Since(begun))
		}
		w.mu.Lock()
		waiting := w.waiting
		w.mu.Unlock()
		if waiting != 0 {
			t.Errorf("%d still wait", waiting)
		}
	})
}

// Who is first in the list, or has a visitor, is first.
func TestTheOrderOfNames(t *testing.T) {
	within(t, func(w *world) {
		w.set(nil)
		names := append([]string{shop}, many(25)...)
		w.Want(names)
		w.after(time.Minute)
		if n := w.have(names[:10]); n != 10 {
			t.Errorf("%d of the first have one", n)
		}
		w.refused(names[25])
		w.after(time.Hour)
		if n := w.have(names[25:]); n != 1 {
			t.Error("the one with a visitor has none")
		}
		if n := w.have(names[10:19]); n != 9 {
			t.Errorf("%d of the next have one", n)
		}
	})
}

// A name that comes and goes is asked for once.
func TestANameThatComesAndGoes(t *testing.T) {
	within(t, func(w *world) {
		for range 100 {
			w.Want([]string{shop})
			w.after(100 * time.Millisecond)
			w.Want(nil)
			w.refused(shop)
		}
		w.after(time.Minute)
		w.wantTries(shop, 1, 1)
		w.refused(shop)
		w.Want([]string{shop})
		w.shown(shop)
		w.set(no)
		for range 100 {
			w.Want([]string{blog})
			w.after(100 * time.Millisecond)
			w.Want(nil)
		}
		w.wantTries(blog, 1, 1)
	})
}

// What is asked for when berth stops is no failure.
func TestOrdersThatAreCalledOff(t *testing.T) {
	within(t, func(w *world) {
		w.Want([]string{shop})
		w.after(time.Second)
		w.stop()
		if c := w.stored[shop]; c.Failures != 0 || c.Problem != "" || time.Since(c.Ordered) > time.Minute {
			t.Errorf("stored is %+v", c)
		}
		w.open()
		w.Want([]string{shop})
		w.after(5 * time.Second)
		w.shown(shop)
		if w.log.count("level=WARN")+w.log.count("level=ERROR") > 0 {
			t.Error(w.log.b.String())
		}
	})
}

// A daemon that is killed in an order does not ask at once when it is back.
func TestACrashDuringAnOrder(t *testing.T) {
	within(t, func(w *world) {
		w.Want([]string{shop})
		w.after(time.Second)
		w.mu.Lock()
		left := w.stored[shop]
		w.mu.Unlock()
		if wait := time.Until(left.Next); wait < 9*time.Minute || left.Ordered.IsZero() {
			t.Errorf("left was %+v", left)
		}
	})
}

func TestAStoreThatIsFull(t *testing.T) {
	within(t, func(w *world) {
		w.mu.Lock()
		w.full = errors.New("disk full")
		w.mu.Unlock()
		w.Want([]string{shop})
		w.after(time.Hour)
		w.wantTries(shop, 0, 0) // what cannot be remembered is not asked for
		w.mu.Lock()
		w.full = nil
		w.mu.Unlock()
		w.after(35 * time.Minute)
		w.shown(shop)
	})
}

func TestAStoredCertificateThatIsBroken(t *testing.T) {
	within(t, func(w *world) {
		w.stop()
		w.stored[shop] = app.Certificate{Name: shop, Chain: []byte("x"), Key: []byte("y"), Expires: time.Now().Add(life), Next: time.Now().Add(life)}
		w.open()
		w.Want([]string{shop})
		w.after(time.Minute)
		w.shown(shop)
	})
}

// An account with many names leaves half of an hour's for the others, also one that comes
// later, after a restart, and when its names leave and come back. One that is alone has
// them all.
func TestNoAccountTakesAllTurns(t *testing.T) {
	within(t, func(w *world) {
		names := many(26)
		greedy, late, own := names[:20], names[20:25], names[25:]
		w.owners = map[string]app.AccountID{shop: 3}
		for _, name := range greedy {
			w.owners[name] = 1
		}
		for _, name := range late {
			w.owners[name] = 2
		}
		w.Want(append([]string{shop}, greedy...))
		w.after(time.Minute)
		if n := w.have(greedy); n != 5 || w.have([]string{shop}) != 1 {
			t.Errorf("%d names of one account have one", n)
		}
		if c, _ := w.Status(greedy[19]); c.Status(time.Now()) != app.CertificatePending || c.Problem != manyOwn {
			t.Errorf("it is told as %+v", c)
		}
		w.Want([]string{shop})
		w.after(time.Minute)
		w.stop()
		w.open()
		w.Want(append([]string{shop}, greedy...))
		w.after(time.Minute)
		w.Want(append(append([]string{shop}, greedy...), append(late, own...)...))
		w.after(time.Minute)
		if n := w.have(greedy); n != 5 || w.have(late) != 4 {
			t.Errorf("%d names of one account have one, and %d of the next", n, w.have(late))
		}
		w.after(time.Hour)
		if n := w.have(greedy); n != 10 || w.have(late) != 5 || w.have(own) != 1 {
			t.Errorf("an hour later %d, %d and %d have one", n, w.have(late), w.have(own))
		}
		w.Want(greedy) // the others have gone
		w.after(2 * time.Hour)
		if n := w.have(greedy); n != 20 {
			t.Errorf("alone, %d have one", n)
		}
	})
}

// Who names no name gets the certificate of the address that was reached, or else, behind a
// router, of the first that is wanted.
func TestAddresses(t *testing.T) {
	m := &Manager{}
	local := func(text string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(text)) }
	m.names = map[string]*entry{}
	m.wake = make(chan struct{}, 1)
	for _, tt := range []struct {
		wanted      []string
		local, want string
	}{
		{[]string{shop}, "192.0.2.1:443", ""},
		{[]string{shop, "192.0.2.1", "2001:db8::1"}, "192.0.2.1:443", "192.0.2.1"},
		{[]string{shop, "192.0.2.1", "2001:db8::1"}, "[::ffff:192.0.2.1]:443", "192.0.2.1"},
		{[]string{shop, "192.0.2.1", "2001:db8::1"}, "[2001:db8::1%eth0]:443", "2001:db8::1"},
		{[]string{shop, "192.0.2.1", "2001:db8::1"}, "10.0.0.5:443", "192.0.2.1"},
	} {
		m.Want(tt.wanted, nobodys)
		if got := m.addressOf(local(tt.local)); got != tt.want {
			t.Errorf("%v at %s: %q, want %q", tt.wanted, tt.local, got, tt.want)
		}
	}
}
