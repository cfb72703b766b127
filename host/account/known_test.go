package account

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

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
			_, _, err := s.SignIn(t.Context(), "ana", password, from)
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
