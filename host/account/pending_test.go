package account

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// The values of RFC 6238, appendix B, for SHA-1, of which six digits are shown.
func TestTOTPCodes(t *testing.T) {
	seed := []byte("12345678901234567890")
	for unix, want := range map[int64]string{
		59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130",
	} {
		if got := totpCode(seed, unix/30); got != want {
			t.Errorf("at %d: %s, want %s", unix, got, want)
		}
	}
	now := time.Unix(1111111109, 0)
	step := now.Unix() / 30
	for drift := int64(-3); drift <= 3; drift++ {
		got, want := totpMatch(seed, totpCode(seed, step+drift), now), step+drift
		if drift < -1 || drift > 1 {
			want = 0
		}
		if got != want {
			t.Errorf("a code %d steps off is of step %d, want %d", drift, got, want)
		}
	}
	for _, bad := range []string{"", "081804 ", "81804", "0818040"} {
		if totpMatch(seed, bad, now) != 0 {
			t.Errorf("%q is taken", bad)
		}
	}
	const uri = "otpauth://totp/panel.example.org:ana?issuer=panel.example.org&secret=GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"
	if got := totpURI("panel.example.org", "ana", seed); got != uri {
		t.Errorf("the address is %s", got)
	}
}

// newSecond is sign-ins of an account that has an app.
func newSecond(t *testing.T) (s *SignIns, d *desk, pending func(from app.Visitor) string) {
	s, d = newSignIns(t)
	d.factors, d.seed = app.Factors{TOTP: true}, newSeed()
	return s, d, func(from app.Visitor) string {
		t.Helper()
		in, err := s.SignIn(t.Context(), "ana", secret, from)
		if err != nil || in.Session != "" || in.Pending == "" || !in.Factors.TOTP {
			t.Fatalf("the first step: %+v, %v", in, err)
		}
		return in.Pending
	}
}

func (d *desk) code() string { return totpCode(d.seed, time.Now().Unix()/30) }

func TestPendingOpensNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d, pending := newSecond(t)
		key := pending(home)
		if len(d.sessions) != 0 {
			t.Fatal("the password alone has made a session")
		}
		_, _, err := s.Session(t.Context(), key, home)
		wantKind(t, "a pending key as a session", err, app.Unauthorized)
		second := func(key, code string, from app.Visitor) error {
			t.Helper()
			_, err := s.SecondStep(t.Context(), key, code, from)
			return err
		}
		elsewhere := home
		elsewhere.Agent = "Chrome/1"
		wantKind(t, "in another browser", second(key, d.code(), elsewhere), app.Unauthorized)
		wantKind(t, "made up", second("x", d.code(), home), app.Unauthorized)
		wantKind(t, "empty", second("", d.code(), home), app.Unauthorized)
		wantKind(t, "a wrong code", second(key, "000000", home), app.Unauthorized)
		in, err := s.SecondStep(t.Context(), key, " "+d.code()[:3]+" "+d.code()[3:], home)
		if err != nil || in.Session == "" || in.Session == key || in.Account.ID != 42 {
			t.Fatalf("the second step: %+v, %v", in, err)
		}
		wantKind(t, "a session as a pending key", second(in.Session, d.code(), home), app.Unauthorized)
		wantKind(t, "a second time", second(key, d.code(), home), app.Unauthorized)
		if again, err := s.SecondStep(t.Context(), pending(home), d.code(), home); app.KindOf(err) != app.Unauthorized || again.Session != "" {
			t.Errorf("a replayed code: %+v, %v", again, err)
		}

		time.Sleep(time.Minute)
		key = pending(home)
		time.Sleep(PendingTime)
		wantKind(t, "after ten minutes", second(key, d.code(), home), app.Unauthorized)

		key = pending(home)
		s.Abandon(key)
		wantKind(t, "an abandoned one", second(key, d.code(), home), app.Unauthorized)

		key = pending(home)
		must(t, s.SetPassword(t.Context(), d.account, "another password", 0))
		wantKind(t, "the password was changed", second(key, d.code(), home), app.Unauthorized)
		must(t, s.SetPassword(t.Context(), d.account, secret, 0))

		time.Sleep(time.Minute)
		before := len(d.sessions)
		key = pending(home)
		d.account.Disabled = true
		wantKind(t, "the account was disabled", second(key, d.code(), home), app.Forbidden)
		if len(d.sessions) != before {
			t.Error("a refused second step has left a session")
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Two right codes of one pending sign-in begin one session.
func TestSecondStepsAtOnce(t *testing.T) {
	s, d, pending := newSecond(t)
	key := pending(home)
	var all sync.WaitGroup
	for _, step := range []int64{0, 1} {
		code := totpCode(d.seed, time.Now().Unix()/30+step)
		all.Go(func() { _, _ = s.SecondStep(t.Context(), key, code, home) })
	}
	all.Wait()
	if len(d.sessions) != 1 {
		t.Errorf("%d sessions", len(d.sessions))
	}
}

// Somebody with the password guesses codes no faster from many addresses, or by many sign-ins;
// a known browser of the account, and other accounts, do not wait for it.
func TestGuessesOfCodesAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d, pending := newSecond(t)
		known := home
		var err error
		known.Known, err = s.Remember(t.Context(), d.account)
		must(t, err)
		guesses := 0
		for i := range 100 {
			from := app.Visitor{Key: fmt.Sprint("192.0.2.", i), Agent: "thief"}
			if _, err := s.SecondStep(t.Context(), pending(from), "000000", from); app.KindOf(err) == app.Unauthorized {
				guesses++
			}
		}
		if guesses > freeTries {
			t.Errorf("%d guesses at once", guesses)
		}
		if _, err := s.SecondStep(t.Context(), pending(known), d.code(), known); err != nil {
			t.Errorf("the known browser: %v", err)
		}
		time.Sleep(time.Minute)
		key := pending(known)
		for range pendingTries {
			_, err = s.SecondStep(t.Context(), key, "000000", known)
			wantKind(t, "a wrong code", err, app.Unauthorized)
		}
		_, err = s.SecondStep(t.Context(), key, d.code(), known)
		wantKind(t, "one too many", err, app.Limited)
		time.Sleep(time.Minute)
		_, err = s.SecondStep(t.Context(), key, d.code(), known)
		wantKind(t, "a sign-in with many wrong codes", err, app.Unauthorized)
	})
}

// The table is bounded for each account. Another account, and what the owner does in a known
// browser, are not pushed out.
func TestPendingsAreBounded(t *testing.T) {
	ps := pendings{all: map[[32]byte]*pending{}}
	known := ps.put(pending{browser: "b", owner: "known"})
	other := ps.put(pending{account: app.Account{ID: 7}, owner: "other"})
	for i := range 2 * maxPendings {
		ps.put(pending{owner: fmt.Sprint(i)})
	}
	if len(ps.all) != maxPendings+2 {
		t.Errorf("%d wait", len(ps.all))
	}
	for what, key := range map[string]string{"that of the known browser": known, "that of another account": other} {
		if _, ok := ps.find(key, app.Visitor{}); !ok {
			t.Errorf("%s is gone", what)
		}
	}
	keys := []string{}
	for range ownPendings + 1 {
		keys = append(keys, ps.put(pending{owner: "one"}))
	}
	for i, key := range keys {
		if _, ok := ps.find(key, app.Visitor{}); ok != (i > 0) {
			t.Errorf("number %d: %v", i, ok)
		}
	}
}

// A cookie that turns up in another browser, or on another system, ends its session; an update of
// the browser does not.
func TestSessionsStayInTheirBrowser(t *testing.T) {
	s, d := newSignIns(t)
	const linux = "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Firefox/128.0"
	from := home
	from.Agent = linux
	in, err := s.SignIn(t.Context(), "ana", secret, from)
	must(t, err)
	from.Agent = "Mozilla/5.0 (X11; Linux x86_64; rv:129.0) Gecko/20100101 Firefox/129.0"
	if _, _, err := s.Session(t.Context(), in.Session, from); err != nil {
		t.Errorf("after an update: %v", err)
	}
	from.Agent = "Mozilla/5.0 (Windows NT 10.0; rv:128.0) Gecko/20100101 Firefox/128.0"
	_, taken, err := s.Session(t.Context(), in.Session, from)
	wantKind(t, "on another system", err, app.Unauthorized)
	if taken.ID == 0 || len(d.sessions) != 0 {
		t.Errorf("%+v, and %d sessions are left", taken, len(d.sessions))
	}
	from.Agent = linux
	_, _, err = s.Session(t.Context(), in.Session, from)
	wantKind(t, "in the first browser again", err, app.Unauthorized)
}
