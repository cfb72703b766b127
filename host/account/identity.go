package account

import (
	"context"
	"crypto/rand"
	"strconv"
	"strings"

	"berth/app"
)

// IdentityStore is what sign-ins by providers need to have remembered.
type IdentityStore interface {
	Identities(ctx context.Context, account app.AccountID) ([]app.Identity, error)
	// UseIdentity returns the account that an issuer and a subject sign in to, what is remembered
	// of its password, and the number of the identity: app.NotFound.
	UseIdentity(ctx context.Context, who app.Identity) (a app.Account, password string, id int64, err error)
	// LinkIdentity returns app.Conflict for an identity that signs in to an account already.
	LinkIdentity(ctx context.Context, who app.Identity) error
	// UnlinkIdentity returns app.Conflict for all that the account signs in with.
	UnlinkIdentity(ctx context.Context, account app.AccountID, id int64) error
	// SignUp creates the account that build makes, which who signs in to. build gets the RAM that
	// all accounts but those of administrators may give to applications. It returns app.Conflict when the name is taken.
	SignUp(ctx context.Context, who app.Identity, build func(promised app.MB) (app.Account, error)) (app.Account, error)
	// SetFirstPassword returns app.Conflict for an account that has a password.
	SetFirstPassword(ctx context.Context, account app.AccountID, hash string, keep int64) error
}

// SignUp bounds accounts that people make by themselves.
type SignUp struct {
	RAM      app.MB        // of each; 0: nobody makes one
	Capacity func() app.MB // that all accounts but those of administrators may have together
}

// Identities returns those by which an account signs in, oldest first.
func (s *SignIns) Identities(ctx context.Context, id app.AccountID) ([]app.Identity, error) {
	return s.identities.Identities(ctx, id)
}

// SignInByIdentity goes on as SignIn does for somebody who a provider has proved to be who. An
// identity that signs in to no account makes one where SignUp lets it. It fails with app.NotFound
// where it does not, app.Exhausted when the host has no room for another account, and app.Forbidden
// for a disabled account.
func (s *SignIns) SignInByIdentity(ctx context.Context, who app.Identity, from app.Visitor) (app.SignedIn, error) {
	a, password, id, err := s.identities.UseIdentity(ctx, who)
	if app.KindOf(err) == app.NotFound {
		if s.SignUp.RAM == 0 {
			return app.SignedIn{}, app.Errorf(app.NotFound,
				"nobody signs in by this identity; sign in with your password and add it on the page Account, or ask for an invitation")
		}
		if err = s.signUp(ctx, who); err == nil {
			a, password, id, err = s.identities.UseIdentity(ctx, who)
		}
	}
	if err != nil {
		return app.SignedIn{}, err
	}
	return s.proceed(ctx, a, proof{password, id}, s.knownTo(a.ID, password, from.Known), from)
}

// signUp makes an account for who, with a name like theirs.
func (s *SignIns) signUp(ctx context.Context, who app.Identity) error {
	var err error
	base := nameLike(who.Name)
	for _, end := range []string{"", "-2", "-3", "-" + strings.ToLower(rand.Text()[:6])} {
		_, err = s.identities.SignUp(ctx, who, func(promised app.MB) (app.Account, error) {
			if promised+s.SignUp.RAM > s.SignUp.Capacity() {
				return app.Account{}, app.Errorf(app.Exhausted, "this host has no room for another account; ask its owner")
			}
			return NewAccount(base+end, s.SignUp.RAM)
		})
		if app.KindOf(err) != app.Conflict {
			break
		}
	}
	return err
}

// nameLike is a name of an account that is like the one of a person.
func nameLike(text string) string {
	var b strings.Builder
	for _, r := range strings.ToLower(text) {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9' && b.Len() > 0:
			b.WriteRune(r)
		case b.Len() > 0 && !strings.HasSuffix(b.String(), "-"):
			b.WriteByte('-')
		}
		if b.Len() == 24 { // leaves room for an ending
			break
		}
	}
	if name := strings.TrimRight(b.String(), "-"); CheckName(name) == nil {
		return name
	}
	return "user"
}

// ProveByIdentity is Prove for the owner of a session who a provider has just asked again. It fails
// with app.Forbidden for an identity that does not sign in to the account, and for an account with
// a password, which proves more than a browser that a provider knows.
func (s *SignIns) ProveByIdentity(ctx context.Context, a app.Account, who app.Identity, session int64, from app.Visitor) (string, error) {
	if err := tooMany(s.confirms.try(strconv.FormatInt(session, 10))); err != nil {
		return "", err
	}
	owner, password, _, err := s.identities.UseIdentity(ctx, who)
	switch {
	case app.KindOf(err) == app.NotFound || err == nil && owner.ID != a.ID:
		return "", app.Errorf(app.Forbidden, "this identity does not sign in to your account; choose the one that does")
	case err != nil:
		return "", err
	case password != "":
		return "", app.Errorf(app.Forbidden, "your account has a password; confirm with it, or with a passkey, that it is you")
	}
	s.confirms.forget(strconv.FormatInt(session, 10))
	return s.proved(ctx, a.ID, session, from)
}

// LinkIdentity lets who, as a provider has just proved them, sign in to an account. It fails with
// app.Conflict when they sign in to one already, and app.Exhausted for one identity too many.
func (s *SignIns) LinkIdentity(ctx context.Context, account app.AccountID, who app.Identity) error {
	who.Account = account
	return s.identities.LinkIdentity(ctx, who)
}

// UnlinkIdentity removes an identity of an account: app.NotFound, and app.Conflict when nobody could
// sign in to the account without it.
func (s *SignIns) UnlinkIdentity(ctx context.Context, account app.AccountID, id int64) error {
	return s.identities.UnlinkIdentity(ctx, account, id)
}

// HasPassword reports whether somebody can sign in to an account with a password.
func (s *SignIns) HasPassword(ctx context.Context, a app.Account) (bool, error) {
	_, password, err := s.store.PasswordByName(ctx, a.Name)
	return password != "", err
}

// SetFirstPassword gives an account without a password one, and ends its sessions but for the one
// with the id keep. It fails with app.Invalid for a bad one, and app.Conflict when there is one.
func (s *SignIns) SetFirstPassword(ctx context.Context, a app.Account, password string, keep int64) error {
	if err := s.check(a.Name, password); err != nil {
		return err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return s.identities.SetFirstPassword(ctx, a.ID, hash, keep)
}
