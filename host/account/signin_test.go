package account

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

const secret = "correct horse"

var home = app.Visitor{Address: "192.0.2.7", Key: "192.0.2.7", Agent: "Firefox/1"}

func newSignIns(t *testing.T) (*SignIns, *desk) {
	t.Helper()
	d := newDesk()
	s := NewSignIns(d, time.Hour, []byte("key"))
	if err := s.SetPassword(t.Context(), d.account, secret, 0); err != nil {
		t.Fatal(err)
	}
	return s, d
}

// shipped is the cost of a hash. Tests have the least that there is, and sign in hundreds of times.
var shipped = today

func TestMain(m *testing.M) {
	today = cost{8, 1, 1}
	os.Exit(m.Run())
}

// The cost is that of OWASP's list.
func TestCost(t *testing.T) {
	if shipped != (cost{19456, 2, 1}) {
		t.Errorf("a hash costs %+v", shipped)
	}
}

func TestSignIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		in, err := s.SignIn(t.Context(), "ana", secret, home)
		key := in.Session
		if err != nil || in.Account.ID != 42 || key == "" || in.Pending != "" {
			t.Fatalf("got %+v, %v", in, err)
		}
		for hash, made := range d.sessions {
			if strings.Contains(string(hash[:]), key) || made.Agent != home.Agent || made.Address != home.Address {
				t.Errorf("the store has %+v", made)
			}
		}
		if strings.Contains(d.password, secret) || !strings.HasPrefix(d.password, "$argon2id$v=19$m=8,t=1,p=1$") {
			t.Errorf("the store has the password as %q", d.password)
		}
		if _, _, err := s.Session(t.Context(), key, home); err != nil {
			t.Error(err)
		}
		for _, wrong := range []string{"", key[1:], key + "x", strings.Repeat("x", maxToken+1)} {
			_, _, err := s.Session(t.Context(), wrong, home)
			wantKind(t, "session "+fmt.Sprintf("%.9q", wrong), err, app.Unauthorized)
		}
		time.Sleep(time.Hour + time.Second)
		_, _, err = s.Session(t.Context(), key, home)
		wantKind(t, "a session that nobody used", err, app.Unauthorized)
		d.account.Disabled = true
		_, err = s.SignIn(t.Context(), "ana", secret, home)
		wantKind(t, "a disabled account", err, app.Forbidden)
	})
}

// However often a session is used, it ends.
func TestSessionLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		in, err := s.SignIn(t.Context(), "ana", secret, home)
		if err != nil {
			t.Fatal(err)
		}
		for hash, made := range d.sessions {
			made.LastSeen = time.Now().Add(SessionLife) // used all the time
			d.sessions[hash] = made
		}
		time.Sleep(SessionLife - time.Second)
		if _, _, err := s.Session(t.Context(), in.Session, home); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		_, _, err = s.Session(t.Context(), in.Session, home)
		wantKind(t, "a session of a month", err, app.Unauthorized)
		if len(d.sessions) != 0 {
			t.Errorf("the store still has %v", d.sessions)
		}
	})
}

// Who signs in with the old password in the moment in which it is changed has no
// session afterwards: the change ends those that are there, and this one is not yet.
func TestSignInDuringAChange(t *testing.T) {
	s, d := newSignIns(t)
	d.meanwhile = func() {
		clear(d.sessions)
		d.password = "another"
	}
	in, err := s.SignIn(t.Context(), "ana", secret, home)
	wantKind(t, "the old password", err, app.Unauthorized)
	if in.Session != "" || len(d.sessions) != 0 {
		t.Errorf("there are %d sessions", len(d.sessions))
	}
}

// Neither the kind, nor the sentence, nor the time tells whether there is an
// account of a name, or one with a password.
func TestSignInTellsNothing(t *testing.T) {
	s, d := newSignIns(t)
	known, wrong := s.SignIn(t.Context(), "ana", "correct house", home)
	unknown, nobody := s.SignIn(t.Context(), "bea", secret, home)
	remembered := d.password
	d.password = ""
	_, none := s.SignIn(t.Context(), "ana", secret, home)
	d.password = remembered
	for what, err := range map[string]error{"a wrong password": wrong, "no such account": nobody, "no password": none} {
		wantKind(t, what, err, app.Unauthorized)
		if err.Error() != wrong.Error() {
			t.Errorf("%s: %q, want %q", what, err, wrong)
		}
	}
	if known.Account.ID != 42 || unknown.Account.ID != 0 {
		t.Errorf("for the audit log: %+v, %+v", known, unknown)
	}
	_, err := s.hasher.matches(t.Context(), "", "", false)
	if ok, err2 := s.hasher.matches(t.Context(), "", s.hasher.nobody, false); ok || err != nil || err2 != nil {
		t.Errorf("the empty password is somebody's: %v, %v, %v", ok, err, err2)
	}
}

func TestGuessesAreSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSignIns(t)
		try := func(name, password string, n int) error {
			from := app.Visitor{Key: fmt.Sprint("192.0.2.", n)}
			_, err := s.SignIn(t.Context(), name, password, from)
			return err
		}
		for i := range freeTries { // one name from many addresses
			wantKind(t, "a guess", try("ana", "wrong password", i), app.Unauthorized)
		}
		wantKind(t, "one too many, from anywhere", try("ana", secret, 99), app.Limited)
		time.Sleep(time.Second)
		if err := try("ana", secret, 98); err != nil {
			t.Errorf("after the wait: %v", err)
		}
		wantKind(t, "a right one has forgotten the wrong ones", try("ana", "wrong password", 97), app.Unauthorized)
		for i := range freeTries { // many names from one address
			wantKind(t, "a guess", try(fmt.Sprint("n", i), "wrong password", 50), app.Unauthorized)
		}
		wantKind(t, "one too many from there", try("bea", "x", 50), app.Limited)
		wantKind(t, "not from elsewhere", try("bea", "x", 51), app.Unauthorized)
		waited := time.Duration(0)
		for range 20 { // the waits double, and end at the longest
			left := s.addresses.try("192.0.2.50")
			if left > addressWait {
				t.Fatalf("a wait of %v", left)
			}
			waited += left
			time.Sleep(left)
			if s.addresses.try("192.0.2.50") != 0 {
				t.Fatal("the wait was not the wait")
			}
		}
		if waited < time.Hour {
			t.Errorf("20 guesses took %v", waited)
		}
	})
}

// Who has an account guesses no faster for it, and an address that many share is
// not held for ever.
func TestSignInsBetweenGuesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSignIns(t)
		try := func(name, password string) error {
			_, err := s.SignIn(t.Context(), name, password, home)
			return err
		}
		for range 3 * freeTries {
			if err := try("ana", secret); err != nil {
				t.Fatalf("right each time: %v", err)
			}
		}
		for i := range freeTries {
			wantKind(t, "a guess", try(fmt.Sprint("n", i), "wrong password"), app.Unauthorized)
			if err := try("ana", secret); err != nil && i < freeTries-1 {
				t.Errorf("between guesses: %v", err)
			}
		}
		wantKind(t, "one too many", try("ana", secret), app.Limited)
		time.Sleep(3 * addressWait)
		for i := range 3 {
			wantKind(t, "one is forgotten for each wait", try(fmt.Sprint("m", i), "wrong password"), app.Unauthorized)
		}
		wantKind(t, "and no more", try("bea", "wrong password"), app.Limited)
	})
}

// Guesses that come all at once are counted before it is known what they are.
func TestGuessesAtOnce(t *testing.T) {
	s, _ := newSignIns(t)
	var tried, slowed int
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 30 {
		wg.Go(func() {
			_, err := s.SignIn(context.Background(), "ana", "wrong password", home)
			mu.Lock()
			defer mu.Unlock()
			switch app.KindOf(err) {
			case app.Unauthorized:
				tried++
			case app.Limited:
				slowed++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if tried != freeTries || slowed != 30-freeTries {
		t.Errorf("%d were tried and %d slowed down", tried, slowed)
	}
}

func TestThrottleIsBounded(t *testing.T) {
	b := newThrottle(time.Minute)
	for i := range 3 * throttleSize {
		b.try(fmt.Sprint(i))
	}
	if n := len(b.young) + len(b.old); n > 2*throttleSize {
		t.Errorf("%d keys are kept", n)
	}
}

// One hash is made at a time, and who waits in a long queue is told so.
func TestHashesAreMadeInTurn(t *testing.T) {
	h := newHasher()
	leave, err := h.enter(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range maxHashing - 1 {
		wg.Go(func() {
			if _, err := h.matches(ctx, secret, "", false); err == nil {
				t.Error("two at a time")
			}
		})
	}
	for deadline := time.Now().Add(time.Minute); len(h.waiting) < maxHashing; {
		if time.Now().After(deadline) {
			t.Fatal("they do not wait")
		}
		time.Sleep(time.Millisecond)
	}
	_, err = h.matches(ctx, secret, "", false)
	wantKind(t, "one too many", err, app.Unavailable)
	var known sync.WaitGroup
	known.Go(func() {
		if _, err := h.matches(t.Context(), secret, "", true); err != nil {
			t.Errorf("somebody who is known: %v", err)
		}
	})
	for deadline := time.Now().Add(time.Minute); len(h.known) < 1; {
		if time.Now().After(deadline) {
			t.Fatal("who is known does not wait")
		}
		time.Sleep(time.Millisecond)
	}
	cancel()
	wg.Wait()
	leave()
	known.Wait()
	if _, err := h.hash(t.Context(), secret); err != nil || len(h.waiting)+len(h.known) != 0 || len(h.turn) != 0 {
		t.Errorf("afterwards: %v, %d wait", err, len(h.waiting))
	}
}

func TestCheckPassword(t *testing.T) {
	for password, good := range map[string]bool{
		secret: true, "ãõãéíóâôêç": true, strings.Repeat("correct horse ", maxPassword/14): true, " a b c d e f ": true,
		"": false, "123456789": false, "ããããã": false, strings.Repeat("x", maxPassword+1): false,
		"ãããããããããã": false, strings.Repeat("x", maxPassword): false, "anaanaanaana": false, " AnaAnaAnaAna ": false, "\xff123456789012": false,
	} {
		if err := CheckPassword("anaanaanaana", password); (err == nil) != good {
			t.Errorf("%.20q: %v", password, err)
		} else if err != nil {
			wantKind(t, password, err, app.Invalid)
		}
	}
}

// What people take who want something easy is easy to guess; what they take who think of
// something, or let a program do it, is not.
func TestCommonPasswords(t *testing.T) {
	for password, good := range map[string]bool{
		"password123": false, "P@ssw0rd2024!": false, "1234567890": false, "0987654321": false, "qwertyuiop": false, "1q2w3e4r5t": false, "qwerty123456": false,
		"iloveyou123": false, "michelle1987": false, "football2020": false, "abcdefghijkl": false, "aaaaaaaaaa": false, "abcabcabcabc": false, "123123123123": false,
		"senhasenha": false, "flamengo1981": false, "princesa123": false, "jesusteama": false, "liverpool123": false, "drowssap123": false, "йцукенгшщз": false,
		"carla": false, "carla12345": false, "Carla-berth-1": false, "carlacarlacarla": false, "berthberth": false, "2011199012": false,
		"correct horse": true, "battery staple": true, "eohq wiml cbd": true, "tr0ub4dor&3x": true, "vx7Kd93mQp": true, "Kühlschrank-Nebel": true,
		"my carla likes noodles": true, "guarda-chuva torto": true, strings.Repeat("1234567890", 6) + "zw": false,
	} {
		if err := CheckPassword("carla", password); (err == nil) != good {
			t.Errorf("%q: %v, %.1f", password, err, strength("carla", password))
		}
	}
	s, d := newSignIns(t)
	broken := errors.New("broken")
	s.KnownPassword = func(string) (bool, error) { return false, broken }
	before := d.password
	if err := s.SetPassword(t.Context(), d.account, "battery staple", 0); !errors.Is(err, broken) || d.password != before {
		t.Errorf("a list that cannot be read: %v", err)
	}
	s.KnownPassword = func(password string) (bool, error) { return password == "battery staple", nil }
	wantKind(t, "a listed one", s.SetPassword(t.Context(), d.account, "battery staple", 0), app.Invalid)
	if err := s.SetPassword(t.Context(), d.account, "another staple", 0); err != nil {
		t.Error(err)
	}
}

func TestBrokenHashes(t *testing.T) {
	h := newHasher()
	good, err := h.hash(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if ok, err := h.matches(t.Context(), secret, good, false); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
	for _, bad := range []string{"x", good[1:], good[:len(good)-1], good + "A", strings.Replace(good, "m=8,", "m=99999,", 1), strings.Replace(good, "$argon2id", "$argon2i", 1)} {
		if ok, err := h.matches(t.Context(), secret, bad, false); ok || err == nil {
			t.Errorf("%q: %v, %v", bad, ok, err)
		}
	}
}

// A password keeps the cost that it was set with, whatever today's is, within bounds.
func TestHashesOfAnotherCost(t *testing.T) {
	h, salt := newHasher(), make([]byte, saltBytes)
	for _, c := range []cost{{8 << 10, 1, 1}, {19 << 10, 3, 1}, {32 << 10, 2, 2}, most} {
		for password, want := range map[string]bool{secret: true, secret + "x": false} {
			if ok, err := h.matches(t.Context(), password, written(c, salt, derive(secret, c, salt)), false); ok != want || err != nil {
				t.Errorf("%+v: %v, %v", c, ok, err)
			}
		}
	}
	for _, c := range []cost{{}, {8 << 10, 0, 1}, {8 << 10, 1, 0}, {0, 1, 1}, {most.memory + 1, 1, 1}, {8 << 10, most.passes + 1, 1}, {8 << 10, 1, most.lanes + 1}} {
		if ok, err := h.matches(t.Context(), secret, written(c, salt, make([]byte, hashBytes)), false); ok || err == nil {
			t.Errorf("%+v: %v, %v", c, ok, err)
		}
	}
}

// A password counts as it was typed: to the byte, and to its end.
func TestPasswordsAreExact(t *testing.T) {
	long := strings.Repeat("correct horse ", 40) + "à"
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		must(t, s.SetPassword(t.Context(), d.account, long, 0))
		for _, wrong := range []string{strings.ToUpper(long), strings.TrimSuffix(long, "à"), long[:72], long + " ", " " + long, strings.TrimSuffix(long, "à") + "a\u0300", strings.ReplaceAll(long, " ", "")} {
			_, err := s.SignIn(t.Context(), "ana", wrong, home)
			wantKind(t, fmt.Sprintf("%.9q of %d bytes", wrong, len(wrong)), err, app.Unauthorized)
			time.Sleep(time.Hour) // what slows guesses down
		}
		if _, err := s.SignIn(t.Context(), "ana", long, home); err != nil {
			t.Error(err)
		}
	})
}

func TestChangePassword(t *testing.T) {
	s, d := newSignIns(t)
	const fresh = "battery staple"
	wantKind(t, "a wrong old one", s.ChangePassword(t.Context(), d.account, "wrong password", fresh, 7), app.Forbidden)
	wantKind(t, "a short new one", s.ChangePassword(t.Context(), d.account, secret, "short", 7), app.Invalid)
	if err := s.ChangePassword(t.Context(), d.account, secret, fresh, 7); err != nil || d.kept != 7 {
		t.Errorf("%v, kept session %d", err, d.kept)
	}
	if _, err := s.SignIn(t.Context(), "ana", fresh, home); err != nil {
		t.Error(err)
	}
}

func TestInvitations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		d.account = app.Account{}
		key, err := s.Invite(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for name, password := range map[string]string{"Ana": secret, "ana": "short"} {
			_, err := s.Redeem(t.Context(), key, name, password, 512, home)
			wantKind(t, name+" "+password, err, app.Invalid)
		}
		in, err := s.Redeem(t.Context(), key, "ana", secret, 512, home)
		if a := in.Account; err != nil || a.Name != "ana" || a.TotalRAM != 512 {
			t.Fatalf("%+v, %v", a, err)
		}
		if _, _, err := s.Session(t.Context(), in.Session, home); err != nil {
			t.Error(err)
		}
		_, err = s.Redeem(t.Context(), key, "ana", secret, 512, home)
		wantKind(t, "a second time", err, app.NotFound)
		if key, err = s.Invite(t.Context(), 42); err != nil {
			t.Fatal(err)
		}
		time.Sleep(InvitationTime)
		_, err = s.Invitation(t.Context(), key)
		wantKind(t, "too late", err, app.NotFound)
	})
}

// Strangers guess a name as fast as they may, from everywhere: who has signed in
// before in this browser waits for none of that, and for the own guesses alone.
func TestKnownBrowsersDoNotWaitForStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		known, err := s.Remember(t.Context(), d.account)
		if err != nil || known == "" {
			t.Fatalf("%q, %v", known, err)
		}
		try := func(password string, from app.Visitor) error {
			_, err := s.SignIn(t.Context(), "ana", password, from)
			return err
		}
		here := home
		here.Known = known
		guess := func() { // from many addresses, and from this one
			for i := range 3 * freeTries {
				_ = try("wrong password", app.Visitor{Key: fmt.Sprint("203.0.113.", i)})
				_ = try("wrong password", home)
			}
		}
		guess()
		wantKind(t, "another browser", try(secret, app.Visitor{Key: "198.51.100.1"}), app.Limited)
		for i := range 3 * freeTries {
			if err := try(secret, here); err != nil {
				t.Fatalf("the known one, time %d: %v", i, err)
			}
		}
		wantKind(t, "a right one here forgives strangers nothing", try(secret, app.Visitor{Key: "198.51.100.1"}), app.Limited)
		for range freeTries {
			wantKind(t, "a guess in the known one", try("wrong password", here), app.Unauthorized)
		}
		wantKind(t, "one too many in it", try(secret, here), app.Limited)
		time.Sleep(time.Second)
		guess()
		if err := try(secret, here); err != nil {
			t.Errorf("after its own wait: %v", err)
		}
		if err := s.ChangePassword(t.Context(), d.account, secret, "battery staple", 3); err != nil {
			t.Errorf("strangers keep the password from being changed: %v", err)
		}
		wantKind(t, "after the change it is unknown", try("battery staple", here), app.Limited)
	})
}

// What is no text of a known browser, or not for this account, is worth nothing.
func TestUnknownBrowsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, d := newSignIns(t)
		known, err := s.Remember(t.Context(), d.account)
		if err != nil {
			t.Fatal(err)
		}
		is := func(name, text string) bool {
			key, err := s.browser(t.Context(), name, text)
			if err != nil {
				t.Error(err)
			}
			return key != ""
		}
		if !is("ana", known) || is("bea", known) {
			t.Error("it is known to another account, or not to its own")
		}
		other := *s
		other.key = knownKey([]byte("another"))
		forged, _ := other.Remember(t.Context(), d.account)
		none := NewSignIns(d, time.Hour, nil)
		if text, err := none.Remember(t.Context(), d.account); text != "" || err != nil {
			t.Errorf("without a key: %q, %v", text, err)
		}
		if key, err := none.browser(t.Context(), "ana", known); key != "" || err != nil {
			t.Errorf("without a key: %q, %v", key, err)
		}
		b, _ := base64.RawURLEncoding.DecodeString(known)
		for _, at := range []int{0, knownNonce + 7, knownHead, len(b) - 1} {
			changed := append([]byte(nil), b...)
			changed[at] ^= 1
			if is("ana", base64.RawURLEncoding.EncodeToString(changed)) {
				t.Errorf("a change of byte %d does not matter", at)
			}
		}
		for _, text := range []string{"", known[1:], known + "A", strings.Repeat("x", len(known)), forged} {
			if is("ana", text) {
				t.Errorf("%q is known", text)
			}
		}
		d.account.ID++
		if is("ana", known) {
			t.Error("it is known to an account that has the name now")
		}
		d.account.ID--
		time.Sleep(KnownTime - time.Minute)
		if !is("ana", known) {
			t.Error("it is forgotten too early")
		}
		time.Sleep(time.Minute)
		if is("ana", known) {
			t.Error("it is known for ever")
		}
		fresh, _ := s.Remember(t.Context(), d.account)
		d.password = ""
		if is("ana", fresh) {
			t.Error("it is known to an account without a password")
		}
	})
}
