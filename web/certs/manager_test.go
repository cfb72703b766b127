package certs

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/app"
)

func no(context.Context, string) error { return &refusal{says: []string{"http-01: no address"}} }

func down(context.Context, string) error { return errors.New("connection refused") }

func TestCertificatesAreObtainedAndRenewed(t *testing.T) {
	within(t, func(w *world) {
		w.Want([]string{shop, blog})
		w.after(time.Minute)
		first := w.shown(shop)
		w.shown("SHOP.example.org")
		if c, ok := w.Status(shop); !ok || c.Status(time.Now()) != app.CertificateIssued || c.Key != nil || !c.Expires.Equal(first.NotAfter) {
			t.Errorf("it is told as %+v, %v", c, ok)
		}
		w.after(life*2/3 - life/10)
		w.wantTries(shop, 1, 1)
		w.after(life / 10) // nobody comes
		w.wantTries(shop, 2, 2)
		w.after(life / 3)
		for _, name := range []string{shop, blog} {
			if c := w.shown(name); !c.NotAfter.After(first.NotAfter) {
				t.Errorf("%s is still shown the first", name)
			}
		}
		if n := w.log.count("a certificate was obtained"); n != 4 {
			t.Errorf("it was told %d times:\n%s", n, w.log.b.String())
		}
	})
}

// A name that nobody has costs nothing, before and after it was somebody's.
func TestNamesThatAreNotWanted(t *testing.T) {
	within(t, func(w *world) {
		w.Want([]string{shop})
		w.after(time.Minute)
		for _, name := range []string{"x.example.org", "example.org", "a." + shop, "*.example.org", "localhost", ""} {
			w.refused(name)
		}
		w.shown(shop)
		w.Want(nil)
		w.refused(shop)
		if _, ok := w.Status(shop); ok {
			t.Error("it is still told of")
		}
		w.after(life / 2)
		w.Want([]string{shop})
		w.shown(shop) // the same name has come back
		if n := w.all(); n != 1 {
			t.Errorf("the authority was asked %d times", n)
		}
		w.Want(nil)
		w.after(life)
		w.wantTries(shop, 1, 1) // none is renewed for nobody
		if len(w.stored) > 0 {
			t.Errorf("stored is still %v", w.stored)
		}
	})
}

// However many visitors come, a name that is refused is asked for ever less.
func TestANameThatIsRefused(t *testing.T) {
	within(t, func(w *world) {
		w.set(no)
		w.Want([]string{shop})
		for range 24 * 60 {
			w.after(time.Minute)
			if c, err := w.visit(shop); err == nil {
				t.Fatalf("it is shown %v", c)
			}
		}
		w.wantTries(shop, 4, 5) // at once, after 10 minutes, an hour, four, and a day
		if c, _ := w.Status(shop); c.Status(time.Now()) != app.CertificateFailed || c.Problem != "the certificate authority refused: http-01: no address" {
			t.Errorf("it is told as %+v", c)
		}
		if n := w.log.count("no certificate was obtained"); n != 1 {
			t.Errorf("it was told %d times", n)
		}
		before := w.tried(shop)
		w.stop()
		w.open() // a restart changes nothing
		w.Want([]string{shop})
		w.after(time.Hour)
		w.wantTries(shop, before, before)
		// The owner has mended the DNS, and says so again and again.
		w.set(nil)
		for range 100 {
			w.Retry(shop)
			w.after(time.Second)
		}
		w.shown(shop)
		w.wantTries(shop, before+1, before+1)
	})
}

func TestAnOwnerWhoAsksAgainAndAgain(t *testing.T) {
	within(t, func(w *world) {
		w.set(no)
		w.Want([]string{shop})
		for range 120 {
			w.Retry(shop)
			w.Retry("nobodys.example.org")
			w.after(time.Minute)
		}
		w.wantTries(shop, 4, 5) // in two hours
	})
}

// An authority that says when to come again is asked then.
func TestAnAuthorityThatNamesATime(t *testing.T) {
	within(t, func(w *world) {
		w.set(func(context.Context, string) error { return &refusal{[]string{"too many"}, 48 * time.Hour} })
		w.Want([]string{shop})
		w.after(47 * time.Hour)
		w.wantTries(shop, 1, 1)
		w.after(2 * time.Hour)
		w.wantTries(shop, 2, 2)
	})
}

// A renewal that fails is tried until it is too late, and the old certificate is
// shown meanwhile.
func TestARenewalThatFails(t *testing.T) {
	within(t, func(w *world) {
		w.life = 24 * time.Hour
		w.Want([]string{shop})
		w.after(time.Hour)
		w.set(no)
		w.after(22 * time.Hour)
		w.shown(shop)
		w.wantTries(shop, 4, 14) // from half of its life
		if c, _ := w.Status(shop); c.Status(time.Now()) != app.CertificateIssued || c.Problem == "" {
			t.Errorf("it is told as %+v", c)
		}
		w.set(nil)
		w.after(time.Hour)
		w.shown(shop)
		w.set(no)
		w.after(48 * time.Hour) // it has expired
		before := w.tried(shop)
		w.after(48 * time.Hour)
		w.wantTries(shop, before+1, before+2)
		if c, _ := w.Status(shop); c.Status(time.Now()) != app.CertificateExpired {
			t.Errorf("it is told as %+v", c)
		}
	})
}

func TestAnAuthorityThatIsDown(t *testing.T) {
	within(t, func(w *world) {
		names := many(8)
		w.set(down)
		w.Want(names)
		w.after(24 * time.Hour)
		if n := w.all(); n < 40 || n > 150 { // two at a time, half an hour apart in the end
			t.Errorf("it was asked %d times in a day", n)
		}
		if c, _ := w.Status(names[0]); c.Status(time.Now()) != app.CertificatePending {
			t.Errorf("it is told as %+v", c)
		}
		if n := w.log.count("level=ERROR"); n != 1 {
			t.Errorf("it was told %d times", n)
		}
		w.set(nil)
		w.after(35 * time.Minute)
		if n := w.have(names); n != 8 { // what never was an order counts for no limit
			t.Errorf("%d have one", n)
		}
	})
}

func TestNewNamesInAnHour(t *testing.T) {
	within(t, func(w *world) {
		names := many(25)
		w.Want(names)
		w.after(30 * time.Minute)
		if n := w.have(names); n != 10 {
			t.Errorf("%d have one", n)
		}
		w.refused(names[24])
		w.stop()
		w.open() // which is no way to have more
		w.Want(names)
		w.after(25 * time.Minute)
		if n := w.all(); n != 10 {
			t.Errorf("%d were asked for in an hour", n)
		}
		// Nor is to leave and come back.
		w.Want(nil)
		w.after(time.Minute)
		w.Want(names)
		w.after(time.Minute)
		if n := w.all(); n != 10 {
			t.Errorf("%d were asked for in an hour", n)
		}
		if c, _ := w.Status(names[24]); c.Status(time.Now()) != app.CertificatePending || c.Problem != manyNew {
			t.Errorf("it is told as %+v", c)
		}
		for _, want := range []int{20, 25, 25} {
			w.after(time.Hour)
			if n := w.have(names); n != want {
				t.Errorf("%d have one, want %d", n, want)
			}
		}
		if w.most != maxOrders {
			t.Errorf("%d orders at once", w.most)
		}
		if c, _ := w.Status(names[24]); c.Problem != "" {
			t.Errorf("it is told as %+v", c)
		}
	})
}

// Names that are refused do not take the turns of those that wait.
func TestNamesThatAreRefusedWaitBehind(t *testing.T) {
	within(t, func(w *world) {
		w.set(no)
		w.Want(many(10))
		w.after(5 * time.Hour)
		w.set(nil)
		all := append(many(10), shop, blog)
		w.Want(all)
		w.after(time.Minute)
		if n := w.have(all[10:]); n != 2 {
			t.Errorf("%d of the new ones have one", n)
		}
	})
}

func TestAsManyNamesAsThereMayBe(t *testing.T) {
	within(t, func(w *world) {
		w.Most = 3
		names := many(5)
		w.Want(names)
		w.after(5 * time.Hour)
		if n := w.have(names); n != 3 {
			t.Errorf("%d have one", n)
		}
		if c, _ := w.Status(names[4]); c.Problem != manyAll {
			t.Errorf("it is told as %+v", c)
		}
		w.Want(names[2:]) // two are gone
		w.after(time.Minute)
		if n := w.have(names); n != 3 {
			t.Errorf("%d have one", n)
		}
	})
}

func TestNamesThatAFileHas(t *testing.T) {
	within(t, func(w *world) {
		w.covered[shop] = true
		w.Want([]string{shop, blog})
		w.after(time.Minute)
		w.wantTries(shop, 0, 0)
		w.refused(shop) // the daemon asks the files first
		if _, ok := w.Status(shop); ok {
			t.Error("it is told of")
		}
		w.mu.Lock()
		w.covered = map[string]bool{}
		w.mu.Unlock()
		w.after(maxSleep + time.Minute)
		w.shown(shop)
	})
}
