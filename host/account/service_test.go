package account

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"berth/app"
)

// memory is a Store of one account.
type memory struct {
	Store   // what no test of the service asks for
	account app.Account
	hashes  map[[32]byte]string
	broken  error // what every call fails with, if set
}

func (m *memory) InsertToken(_ context.Context, hash [32]byte, wanted app.Token) (app.Token, error) {
	if wanted.Account != m.account.ID {
		return app.Token{}, app.Errorf(app.NotFound, "no account")
	}
	m.hashes[hash] = wanted.Label
	return app.Token{}, m.broken
}

func (m *memory) AccountByToken(_ context.Context, hash [32]byte) (app.Account, app.Token, error) {
	if _, ok := m.hashes[hash]; !ok && m.broken == nil {
		return app.Account{}, app.Token{}, app.Errorf(app.NotFound, "no token")
	}
	return m.account, app.Token{ID: 3, Account: m.account.ID, Label: m.hashes[hash]}, m.broken
}

func (m *memory) UpdateAccount(_ context.Context, id app.AccountID, change func(*app.Account, app.MB) error) (app.Account, error) {
	if id != m.account.ID {
		return app.Account{}, app.Errorf(app.NotFound, "no account")
	}
	return m.account, change(&m.account, 0)
}

func newMemory() *memory {
	return &memory{account: app.Account{ID: 42, Name: "ana"}, hashes: map[[32]byte]string{}}
}

func TestIssuedTokenAuthenticates(t *testing.T) {
	store := newMemory()
	s := New(store)
	one, _, err := s.IssueToken(t.Context(), app.Token{Account: 42, Label: "laptop"})
	if err != nil {
		t.Fatal(err)
	}
	two, _, err := s.IssueToken(t.Context(), app.Token{Account: 42})
	if err != nil || one == two {
		t.Fatalf("two tokens are alike, or %v", err)
	}
	for token, label := range map[string]string{one: "laptop", two: ""} {
		got, with, err := s.Authenticate(t.Context(), token)
		if err != nil || got != store.account || with != (app.Token{ID: 3, Account: 42, Label: label}) {
			t.Errorf("got %+v, %+v, %v", got, with, err)
		}
	}
	for hash, label := range store.hashes {
		if strings.Contains(string(hash[:])+label, one[:20]) {
			t.Error("the store saw the text of the token")
		}
	}
	_, _, err = s.IssueToken(t.Context(), app.Token{Account: 7})
	wantKind(t, "a token for nobody", err, app.NotFound)
	_, _, err = s.IssueToken(t.Context(), app.Token{Account: 42, Label: strings.Repeat("x", 101)})
	wantKind(t, "a label that is too long", err, app.Invalid)
}

// TestTokenShape is what clients require: they split at the dots, decode the
// middle and look for two fields.
func TestTokenShape(t *testing.T) {
	token := newToken(42)
	parts := strings.Split(token, ".")
	if len(parts) != 3 || len(token) > maxToken {
		t.Fatalf("%d parts in %d characters", len(parts), len(token))
	}
	var header struct{ Alg, Typ string }
	var payload map[string]string
	for i, into := range []any{&header, &payload} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatalf("part %d is %q: %v", i, text, err)
		}
	}
	if header.Alg != "HS256" || header.Typ != "JWT" {
		t.Errorf("header %+v", header)
	}
	if len(payload) != 2 || payload["id"] != "42" || !regexp.MustCompile(`^[A-Za-z0-9_-]{32,}$`).MatchString(payload["key"]) {
		t.Errorf("payload %v", payload)
	}
	if secret, err := base64.RawURLEncoding.DecodeString(parts[2]); err != nil || len(secret) != 32 {
		t.Errorf("the last part has %d bytes, %v; want 32", len(secret), err)
	}
}

func TestAuthenticateRefuses(t *testing.T) {
	store := newMemory()
	s := New(store)
	good, _, err := s.IssueToken(t.Context(), app.Token{Account: 42})
	if err != nil {
		t.Fatal(err)
	}
	for name, token := range map[string]string{
		"empty": "", "unknown": newToken(42), "huge": strings.Repeat("a", maxToken+1),
		"cut": good[:len(good)-1], "longer": good + "a", "space": " " + good,
	} {
		_, _, err := s.Authenticate(t.Context(), token)
		wantKind(t, name, err, app.Unauthorized)
	}

	store.account.Disabled = true
	_, _, err = s.Authenticate(t.Context(), good)
	wantKind(t, "disabled", err, app.Forbidden)
	if got, want := err.Error(), "this account is disabled; ask the owner of the server"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}

	store.broken = errors.New("the disk is gone")
	_, _, err = s.Authenticate(t.Context(), good)
	if !errors.Is(err, store.broken) || app.KindOf(err) != app.Internal {
		t.Errorf("a broken store: got %v, want its error", err)
	}
	if _, _, err := s.IssueToken(t.Context(), app.Token{Account: 42}); !errors.Is(err, store.broken) {
		t.Errorf("a broken store: got %v, want its error", err)
	}
}

func TestSetLocale(t *testing.T) {
	store := newMemory()
	s := New(store)
	if err := s.SetLocale(t.Context(), 42, "pt-BR"); err != nil || store.account.Locale != "pt-BR" {
		t.Errorf("locale is %q, %v", store.account.Locale, err)
	}
	wantKind(t, "an unknown locale", s.SetLocale(t.Context(), 42, "xx"), app.NotFound)
	wantKind(t, "an unknown account", s.SetLocale(t.Context(), 7, "pt-BR"), app.NotFound)
	if store.account.Locale != "pt-BR" {
		t.Errorf("a refusal changed the locale to %q", store.account.Locale)
	}
}

func FuzzToken(f *testing.F) {
	store := newMemory()
	s := New(store)
	good, _, err := s.IssueToken(context.Background(), app.Token{Account: 42})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"", "a.b.c", tokenHeader + "..", "\x00\xff", strings.Repeat("x", maxToken+1)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, token string) {
		a, _, err := s.Authenticate(t.Context(), token)
		if token == good {
			return
		}
		if app.KindOf(err) != app.Unauthorized || a != (app.Account{}) {
			t.Errorf("got %+v, %v", a, err)
		}
		if len(token) >= 16 && strings.Contains(err.Error(), token) {
			t.Error("the error repeats the token")
		}
	})
}
