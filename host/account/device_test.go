package account

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// shelf is a Store that keeps the tokens of any account.
type shelf struct {
	Store
	mu     sync.Mutex
	made   []app.Token
	broken error
}

func (s *shelf) InsertToken(_ context.Context, _ [32]byte, t app.Token) (app.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return app.Token{}, s.broken
	}
	t.ID, t.CreatedAt = int64(len(s.made)+1), time.Now()
	s.made = append(s.made, t)
	return t, nil
}

func (s *shelf) Tokens(context.Context, app.AccountID) ([]app.Token, error) { return nil, nil }

// newDevices returns devices of the accounts 42 and 43; the second is disabled while the
// switch is on.
func newDevices() (s *Devices, kept *shelf, disabled *bool) {
	kept, disabled = &shelf{}, new(bool)
	return NewDevices(New(kept), func(_ context.Context, id app.AccountID) (app.Account, error) {
		if id != 42 && id != 43 {
			return app.Account{}, app.Errorf(app.NotFound, "no account")
		}
		return app.Account{ID: id, Name: "ana", Disabled: id == 43 && *disabled}, nil
	}), kept, disabled
}

var laptop = app.Device{Client: "berth", Machine: "laptop", From: home}

// begun is a device that has a code.
func begun(t *testing.T, s *Devices, d app.Device) (string, app.Device) {
	t.Helper()
	secret, d, err := s.Begin(d)
	if err != nil {
		t.Fatal(err)
	}
	return secret, d
}

func (s *Devices) wantState(t *testing.T, what, secret string, want app.DeviceState) app.DeviceGrant {
	t.Helper()
	g, err := s.Token(t.Context(), "berth", secret)
	if err != nil || g.State != want || (g.Token != "") != (want == app.DeviceAllowed) {
		t.Errorf("%s: state %d, token %v, %v; want state %d", what, g.State, g.Token != "", err, want)
	}
	return g
}

func TestDeviceGetsItsTokenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kept, _ := newDevices()
		secret, d := begun(t, s, laptop)
		if !regexp.MustCompile(`^[BCDFGHJKLMNPQRSTVWXZ]{4}-[BCDFGHJKLMNPQRSTVWXZ]{4}$`).MatchString(d.Code) {
			t.Errorf("the code is %q", d.Code)
		}
		if len(secret) != 43 || d.Expires.Sub(d.Asked) != 10*time.Minute || d.Lasts != 90*24*time.Hour {
			t.Errorf("a secret of %d characters, and %+v", len(secret), d)
		}
		s.wantState(t, "at once", secret, app.DevicePending)
		time.Sleep(5 * time.Second)
		s.wantState(t, "in time", secret, app.DevicePending)
		for _, typed := range []string{d.Code, strings.ToLower(d.Code), " " + strings.ReplaceAll(d.Code, "-", "") + "\n", strings.ReplaceAll(d.Code, "-", "–"), strings.ReplaceAll(d.Code, "-", " ")} {
			if found, err := s.Find(42, typed); err != nil || found.Machine != "laptop" || found.From != home {
				t.Errorf("%q finds %+v, %v", typed, found, err)
			}
		}
		if _, err := s.Decide(42, d.Code, true); err != nil {
			t.Fatal(err)
		}
		if len(kept.made) != 0 {
			t.Error("a token was made before its device asked")
		}
		_, err := s.Decide(42, d.Code, true)
		wantKind(t, "a code that is allowed twice", err, app.NotFound)
		_, err = s.Find(42, d.Code)
		wantKind(t, "a code that is typed again", err, app.NotFound)
		g := s.wantState(t, "allowed", secret, app.DeviceAllowed)
		if g.Account.ID != 42 || g.Known.Label != "laptop" || !g.Known.Expires.Equal(time.Now().Add(DeviceLasts)) {
			t.Errorf("got %+v", g)
		}
		s.wantState(t, "a second time", secret, app.DeviceEnded)
		if len(kept.made) != 1 {
			t.Errorf("%d tokens were made", len(kept.made))
		}
	})
}

// Of many who ask at once with one secret, one gets a token.
func TestDeviceAsksManyTimesAtOnce(t *testing.T) {
	s, kept, _ := newDevices()
	secret, d := begun(t, s, laptop)
	if _, err := s.Decide(42, d.Code, true); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() { _, _ = s.Token(context.Background(), "berth", secret) })
	}
	all.Wait()
	if len(kept.made) != 1 {
		t.Errorf("%d tokens were made", len(kept.made))
	}
}

func TestDeviceIsDenied(t *testing.T) {
	s, kept, disabled := newDevices()
	secret, d := begun(t, s, laptop)
	_, err := s.Decide(42, d.Code, false)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Decide(42, d.Code, true)
	wantKind(t, "allowed after it was denied", err, app.NotFound)
	s.wantState(t, "denied", secret, app.DeviceDenied)

	secret, d = begun(t, s, laptop)
	if _, err := s.Decide(43, d.Code, true); err != nil {
		t.Fatal(err)
	}
	*disabled = true
	s.wantState(t, "the account was disabled meanwhile", secret, app.DeviceDenied)

	secret, d = begun(t, s, laptop)
	if _, err := s.Decide(44, d.Code, true); err != nil {
		t.Fatal(err)
	}
	s.wantState(t, "the account was deleted meanwhile", secret, app.DeviceDenied)
	if len(kept.made) != 0 {
		t.Errorf("tokens were made: %v", kept.made)
	}
}

// A database that fails costs the device nothing: it asks again.
func TestDeviceAsksAgainAfterAFault(t *testing.T) {
	s, kept, _ := newDevices()
	secret, d := begun(t, s, laptop)
	if _, err := s.Decide(42, d.Code, true); err != nil {
		t.Fatal(err)
	}
	kept.broken = errors.New("disk")
	if g, err := s.Token(t.Context(), "berth", secret); !errors.Is(err, kept.broken) || g.Token != "" {
		t.Errorf("got %+v, %v", g, err)
	}
	kept.broken = nil
	s.wantState(t, "after the fault", secret, app.DeviceAllowed)
}

func TestDeviceSecretIsOneClients(t *testing.T) {
	s, kept, _ := newDevices()
	secret, d := begun(t, s, laptop)
	if _, err := s.Decide(42, d.Code, true); err != nil {
		t.Fatal(err)
	}
	for client, want := range map[string]app.DeviceState{"other": app.DeviceOther, "": app.DeviceOther} {
		if g, err := s.Token(t.Context(), client, secret); err != nil || g.State != want || g.Token != "" {
			t.Errorf("the client %q: %+v, %v", client, g, err)
		}
	}
	for _, wrong := range []string{"", secret[1:], secret + "x", d.Code} {
		s.wantState(t, "a wrong secret", wrong, app.DeviceEnded)
	}
	if len(kept.made) != 0 {
		t.Error("a token was made for another")
	}
	s.wantState(t, "its own client", secret, app.DeviceAllowed)
}

// Who asks too often waits five seconds longer each time, a minute at most.
func TestDeviceSlowsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newDevices()
		secret, _ := begun(t, s, laptop)
		s.wantState(t, "the first", secret, app.DevicePending)
		for i, want := range []time.Duration{10, 15, 20} {
			if g := s.wantState(t, fmt.Sprint("hasty ", i), secret, app.DeviceHasty); g.Interval != want*time.Second {
				t.Errorf("the interval is %v, want %d s", g.Interval, want)
			}
		}
		time.Sleep(18 * time.Second)
		s.wantState(t, "before its time", secret, app.DeviceHasty)
		time.Sleep(24*time.Second + 10*time.Millisecond) // a second early is a network's
		s.wantState(t, "in its time", secret, app.DevicePending)
		for range 40 {
			if g := s.wantState(t, "without end", secret, app.DeviceHasty); g.Interval > time.Minute {
				t.Fatalf("the interval is %v", g.Interval)
			}
		}
	})
}

func TestDeviceExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, kept, _ := newDevices()
		typed, d := begun(t, s, laptop)
		allowed, d2 := begun(t, s, laptop)
		time.Sleep(DeviceTime - time.Second)
		if _, err := s.Decide(42, d2.Code, true); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		_, err := s.Find(42, d.Code)
		wantKind(t, "a code after ten minutes", err, app.NotFound)
		_, err = s.Decide(42, d.Code, true)
		wantKind(t, "a decision after ten minutes", err, app.NotFound)
		s.wantState(t, "nobody decided", typed, app.DeviceEnded)
		s.wantState(t, "allowed, and never fetched", allowed, app.DeviceEnded)
		begun(t, s, laptop)
		if len(s.bySecret) != 1 || len(s.byCode) != 1 || len(kept.made) != 0 {
			t.Errorf("%d and %d devices are left, %d tokens", len(s.bySecret), len(s.byCode), len(kept.made))
		}
	})
}

// Five codes that nobody has close the page to an account, from wherever it types them,
// and to nobody else; no code ends by that.
func TestWrongCodesCloseThePageToTheirAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newDevices()
		_, d := begun(t, s, laptop)
		for i := range 5 {
			_, err := s.Find(42, fmt.Sprintf("BBBB-BBB%c", codeLetters[i]))
			wantKind(t, "a wrong code", err, app.NotFound)
			if i < 4 {
				if _, err := s.Find(42, d.Code); err != nil { // does not buy more guesses
					t.Error(err)
				}
			}
		}
		_, err := s.Find(42, d.Code)
		wantKind(t, "after five wrong ones", err, app.Limited)
		_, err = s.Decide(42, d.Code, true)
		wantKind(t, "a decision after five wrong ones", err, app.Limited)
		if _, err := s.Find(43, d.Code); err != nil {
			t.Errorf("another account: %v", err)
		}
		time.Sleep(codePause - time.Second)
		_, err = s.Find(42, d.Code)
		wantKind(t, "before the pause is over", err, app.Limited)
		time.Sleep(time.Second)
		_, d = begun(t, s, laptop)
		if _, err := s.Find(42, d.Code); err != nil {
			t.Errorf("after the pause: %v", err)
		}
		_, err = s.Find(42, "wrong")
		wantKind(t, "one wrong code more", err, app.NotFound)
		_, err = s.Find(42, d.Code)
		wantKind(t, "after that", err, app.Limited)
	})
}

func TestDevicesThatCannotBe(t *testing.T) {
	s, _, _ := newDevices()
	for what, change := range map[string]func(*app.Device){
		"no client":              func(d *app.Device) { d.Client = "" },
		"a long client":          func(d *app.Device) { d.Client = strings.Repeat("x", 65) },
		"a long machine":         func(d *app.Device) { d.Machine = strings.Repeat("ã", 33) },
		"an escape":              func(d *app.Device) { d.Machine = "a\x1b]0;b\a" },
		"a C1 control":           func(d *app.Device) { d.Machine = "a\u009b31m" },
		"a line":                 func(d *app.Device) { d.Client = "a\nb" },
		"a turn of direction":    func(d *app.Device) { d.Machine = "a\u202eb" },
		"a space that is none":   func(d *app.Device) { d.Machine = "a\u00a0b" },
		"a mark of zero width":   func(d *app.Device) { d.Machine = "a\u200bb" },
		"no UTF-8":               func(d *app.Device) { d.Machine = "a\xffb" },
		"a life of a minute":     func(d *app.Device) { d.Lasts = time.Minute },
		"a life before it begun": func(d *app.Device) { d.Lasts = -time.Hour },
		"a life of two years":    func(d *app.Device) { d.Lasts = 2 * 365 * 24 * time.Hour },
	} {
		d := laptop
		change(&d)
		_, _, err := s.Begin(d)
		wantKind(t, what, err, app.Invalid)
	}
	d := laptop
	d.Machine, d.Lasts = "", time.Hour
	if _, made := begun(t, s, d); made.Label() != "berth" || made.Lasts != time.Hour {
		t.Errorf("got %+v", made)
	}
	for _, typed := range []string{"", "BBBB", strings.Repeat("B", 100), "ßßßßßßßß", "BBBB-BBBB-BBBB"} {
		if got := codeOf(typed); got != "" && s.byCode[got] != nil {
			t.Errorf("%q is %q", typed, got)
		}
	}
}

// visitorAt is a visitor of an address.
func visitorAt(key string) app.Visitor { return app.Visitor{Address: key, Key: key} }

// An address has ten places. A network that fills the table loses its newest to those who
// come from elsewhere, and takes nobody else's.
func TestStrangersFillNoTableForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, _ := newDevices()
		mine := laptop
		_, early := begun(t, s, mine) // from 192.0
		one := laptop
		one.From = visitorAt("2001:db8::/64")
		for range ownDevices {
			begun(t, s, one)
		}
		_, _, err := s.Begin(one)
		wantKind(t, "an eleventh of an address", err, app.Limited)
		time.Sleep(time.Second)
		full := 0
		for i := range maxDevices { // of one customer with a /48
			flood := laptop
			flood.From = visitorAt(fmt.Sprintf("2001:db8:0:%x::/64", i+1))
			if _, _, err := s.Begin(flood); err != nil {
				wantKind(t, "the flood", err, app.Limited)
				full++
			}
		}
		if full == 0 || len(s.bySecret) != maxDevices {
			t.Errorf("%d devices wait, %d were refused", len(s.bySecret), full)
		}
		for i := range 50 {
			other := laptop
			other.From = visitorAt(fmt.Sprintf("198.51.100.%d", i))
			_, d := begun(t, s, other)
			if _, err := s.Find(42, d.Code); err != nil {
				t.Errorf("a visitor of elsewhere: %v", err)
			}
		}
		if _, err := s.Find(42, early.Code); err != nil || len(s.bySecret) != maxDevices {
			t.Errorf("who was there before: %v; %d devices wait", err, len(s.bySecret))
		}
		if s.byCode[early.Code] == nil || len(s.byCode) > len(s.bySecret) {
			t.Error("the tables differ")
		}
	})
}

func TestNetworks(t *testing.T) {
	for key, want := range map[string]string{
		"192.0.2.7": "192.0.0.0/16", "2001:db8:1:2::/64": "2001:db8::/32", "": "", "@": "@",
	} {
		if got := network(key); got != want {
			t.Errorf("network of %q is %q, want %q", key, got, want)
		}
	}
}

// The password of who is signed in is asked as often as the sign-in's, by session.
func TestConfirm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		for range 5 {
			wantKind(t, "a wrong password", s.Confirm(t.Context(), d.account, "wrong", 1), app.Forbidden)
		}
		wantKind(t, "after five", s.Confirm(t.Context(), d.account, secret, 1), app.Limited)
		if err := s.Confirm(t.Context(), d.account, secret, 2); err != nil {
			t.Errorf("another session: %v", err)
		}
		time.Sleep(time.Second)
		if err := s.Confirm(t.Context(), d.account, secret, 1); err != nil {
			t.Errorf("a second later: %v", err)
		}
	})
}
