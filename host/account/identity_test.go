package account

import (
	"testing"
	"time"

	"berth/app"
)

// An identity that is removed, or an account that is reset, between the proof and the session lets
// nobody in.
func TestIdentityGoneMeanwhile(t *testing.T) {
	d := newDesk()
	s := NewSignIns(d, time.Hour, []byte("key"))
	d.identities = []app.Identity{{ID: 1, Account: d.account.ID}}
	if in, err := s.SignInByIdentity(t.Context(), app.Identity{}, home); err != nil || in.Session == "" {
		t.Fatalf("got %+v, %v", in, err)
	}
	before := len(d.sessions)
	d.meanwhile = func() { d.identities = []app.Identity{{ID: 2, Account: d.account.ID}} }
	in, err := s.SignInByIdentity(t.Context(), app.Identity{}, home)
	wantKind(t, "removed meanwhile", err, app.Unauthorized)
	if in.Session != "" || len(d.sessions) != before {
		t.Errorf("got %+v, and %d sessions", in, len(d.sessions))
	}
}

func TestNamesLikeThoseOfPeople(t *testing.T) {
	for text, want := range map[string]string{
		"Ana": "ana", "Ana Maria": "ana-maria", "  _Ana__": "ana", "3 Anas": "anas", "Ünal": "nal", "": "user", "日本": "user",
		"A" + string(make([]byte, 99)): "a", "abcdefghijklmnopqrstuvwxyz": "abcdefghijklmnopqrstuvwx",
	} {
		if got := nameLike(text); got != want || CheckName(got) != nil {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
