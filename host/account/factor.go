package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"time"

	"berth/app"
)

// FactorStore is what second factors need to have remembered.
type FactorStore interface {
	Factors(ctx context.Context, account app.AccountID) (app.Factors, error)
	// OfferTOTP returns app.Conflict when the account has a confirmed app.
	OfferTOTP(ctx context.Context, account app.AccountID, seed []byte) error
	// OfferedTOTP returns app.NotFound when nothing was offered.
	OfferedTOTP(ctx context.Context, account app.AccountID) ([]byte, error)
	// UseTOTP lets match find the step of a code, 0 for a wrong one. app.Unauthorized: it is
	// wrong, or was used; app.NotFound: there is no app.
	UseTOTP(ctx context.Context, account app.AccountID, match func(seed []byte) int64) error
	// ConfirmTOTP is UseTOTP for an app that is not confirmed, and sets the recovery codes.
	ConfirmTOTP(ctx context.Context, account app.AccountID, match func(seed []byte) int64, codes [][32]byte) error
	RemoveTOTP(ctx context.Context, account app.AccountID) error
	// SetRecovery returns app.Conflict when the account has no second factor.
	SetRecovery(ctx context.Context, account app.AccountID, codes [][32]byte) error
	// UseRecovery returns app.Unauthorized for a code that is none any more.
	UseRecovery(ctx context.Context, account app.AccountID, hash [32]byte) error
	FactorRequired(ctx context.Context) (bool, error)
	RequireFactor(ctx context.Context, required bool) error
}

const (
	// recoveryCodes is how many an account gets at once.
	recoveryCodes = 10
	// recoveryLetters of base32 are 120 bits: such a code needs no slow hash.
	recoveryLetters = 24
	recoveryGroup   = 4
)

// Factors returns the second factors of an account.
func (s *SignIns) Factors(ctx context.Context, id app.AccountID) (app.Factors, error) {
	return s.factors.Factors(ctx, id)
}

// OfferTOTP makes the seed of a new app and returns it as text and as the address that an app
// reads from a QR code, in which issuer names the panel. It is no second factor before
// ConfirmTOTP. It fails with app.Conflict when the account has an app already.
func (s *SignIns) OfferTOTP(ctx context.Context, a app.Account, issuer string) (seed, uri string, err error) {
	made := newSeed()
	return seedText.EncodeToString(made), totpURI(issuer, a.Name, made), s.factors.OfferTOTP(ctx, a.ID, made)
}

// OfferedTOTP returns what OfferTOTP has returned last, and fails with app.NotFound when the
// account has no app that waits to be confirmed.
func (s *SignIns) OfferedTOTP(ctx context.Context, a app.Account, issuer string) (seed, uri string, err error) {
	made, err := s.factors.OfferedTOTP(ctx, a.ID)
	return seedText.EncodeToString(made), totpURI(issuer, a.Name, made), err
}

// ConfirmTOTP makes the app that was offered the second factor of an account, when code is one
// of it, and returns new recovery codes, which nobody can read again. It fails with
// app.Forbidden for a wrong code, app.Limited after many, and app.NotFound when none was
// offered.
func (s *SignIns) ConfirmTOTP(ctx context.Context, a app.Account, code string) ([]string, error) {
	if err := tooMany(s.codes.try(a.ID.String() + " offered")); err != nil {
		return nil, err
	}
	codes, hashes := newRecovery(a.ID)
	err := s.factors.ConfirmTOTP(ctx, a.ID, matching(code), hashes)
	if app.KindOf(err) == app.Unauthorized {
		return nil, app.Errorf(app.Forbidden, "the code is wrong; check the clock of the device, and type the code that the app shows now")
	}
	if err != nil {
		return nil, err
	}
	s.codes.forget(a.ID.String() + " offered")
	return codes, nil
}

// matching finds the step of a code as people type it.
func matching(code string) func(seed []byte) int64 {
	return func(seed []byte) int64 { return totpMatch(seed, strings.Join(strings.Fields(code), ""), time.Now()) }
}

// RemoveTOTP removes the app of an account, and with the last second factor its recovery
// codes. It fails with app.NotFound.
func (s *SignIns) RemoveTOTP(ctx context.Context, id app.AccountID) error {
	return s.factors.RemoveTOTP(ctx, id)
}

// RenewRecovery replaces the recovery codes of an account and returns the new ones, which
// nobody can read again. It fails with app.Conflict when the account has no second factor.
func (s *SignIns) RenewRecovery(ctx context.Context, id app.AccountID) ([]string, error) {
	codes, hashes := newRecovery(id)
	return codes, s.factors.SetRecovery(ctx, id, hashes)
}

func newRecovery(id app.AccountID) (codes []string, hashes [][32]byte) {
	for range recoveryCodes {
		letters := rand.Text()[:recoveryLetters]
		groups := []string{}
		for at := 0; at < len(letters); at += recoveryGroup {
			groups = append(groups, letters[at:at+recoveryGroup])
		}
		codes, hashes = append(codes, strings.Join(groups, "-")), append(hashes, recoveryHash(id, letters))
	}
	return codes, hashes
}

// recoveryHash is what is remembered of a recovery code. Each account has hashes of its own.
func recoveryHash(id app.AccountID, letters string) [32]byte {
	return sha256.Sum256([]byte("berth: a recovery code\x00" + id.String() + "\x00" + letters))
}

// SecondStep takes the second step of a pending sign-in by a code of the app or a recovery
// code, and begins its session. It fails as second does.
func (s *SignIns) SecondStep(ctx context.Context, key, code string, from app.Visitor) (app.SignedIn, error) {
	return s.second(ctx, key, from, func(a app.Account) error {
		err := s.useCode(ctx, a.ID, code)
		if app.KindOf(err) == app.NotFound {
			return app.Errorf(app.Unauthorized, "the code is wrong")
		}
		return err
	})
}

func (s *SignIns) useCode(ctx context.Context, id app.AccountID, code string) error {
	typed := strings.Map(func(r rune) rune {
		if r == '-' || r == ' ' || r == '\t' {
			return -1
		}
		return r
	}, cutText(code, maxToken))
	if len(typed) == totpDigits {
		return s.factors.UseTOTP(ctx, id, matching(typed))
	}
	return s.factors.UseRecovery(ctx, id, recoveryHash(id, strings.ToUpper(typed)))
}

// FactorRequired reports whether everybody must have a second factor.
func (s *SignIns) FactorRequired(ctx context.Context) (bool, error) {
	return s.factors.FactorRequired(ctx)
}

// RequireFactor begins or ends that everybody must have a second factor. Somebody who has none
// then reaches only the page that sets one up.
func (s *SignIns) RequireFactor(ctx context.Context, required bool) error {
	return s.factors.RequireFactor(ctx, required)
}
