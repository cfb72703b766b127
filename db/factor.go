package db

import (
	"context"
	"errors"

	"berth/app"
)

// Factors returns the second factors of an account, and nothing for an account that does
// not exist.
func (s SignIns) Factors(ctx context.Context, account app.AccountID) (app.Factors, error) {
	return get(ctx, s.db, "look up the second factors", func(t tx) (app.Factors, error) { return factorsOf(t, account) })
}

func factorsOf(t tx, account app.AccountID) (f app.Factors, err error) {
	scan := func(row scanner) (f app.Factors, err error) {
		err = row.Scan(asBool(&f.TOTP), &f.Recovery, &f.Passkeys)
		return f, err
	}
	return one(t, scan, nil, `SELECT (SELECT count(*) FROM totp WHERE account = ?1 AND confirmed = 1),
		(SELECT count(*) FROM recovery_code WHERE account = ?1), (SELECT count(*) FROM passkey WHERE account = ?1)`, account)
}

// factorRule is the rule that everybody must have a second factor.
const factorRule = "factor"

// mustHaveFactor reports whether an account lacks a second factor that a rule demands.
func mustHaveFactor(t tx, account app.AccountID) (bool, error) {
	demanded, err := number(t, "SELECT count(*) FROM rule WHERE name = ?", factorRule)
	if err != nil || demanded == 0 {
		return false, err
	}
	f, err := factorsOf(t, account)
	return !f.Any(), err
}

// FactorRequired reports whether everybody must have a second factor.
func (s SignIns) FactorRequired(ctx context.Context) (bool, error) {
	return get(ctx, s.db, "look up the rules", func(t tx) (bool, error) {
		n, err := number(t, "SELECT count(*) FROM rule WHERE name = ?", factorRule)
		return n > 0, err
	})
}

// RequireFactor begins or ends the rule that everybody must have a second factor.
func (s SignIns) RequireFactor(ctx context.Context, required bool) error {
	if !required {
		return s.db.update(ctx, "change the rules", nil, "DELETE FROM rule WHERE name = ?", factorRule)
	}
	return s.db.update(ctx, "change the rules", nil, "INSERT OR IGNORE INTO rule (name) VALUES (?)", factorRule)
}

// OfferTOTP remembers from what an account's app will make codes, until ConfirmTOTP. It fails
// with app.Conflict when the account has an app already.
func (s SignIns) OfferTOTP(ctx context.Context, account app.AccountID, seed []byte) error {
	return s.db.write(ctx, "store the second factor", func(t tx) error {
		sealed, err := t.seal("totp.seed", account.String(), seed)
		if err != nil {
			return err
		}
		return t.change(app.Errorf(app.Conflict, "this account has an app for codes already; turn it off first"),
			`INSERT INTO totp (account, seed, step, confirmed) VALUES (?, ?, 0, 0)
			ON CONFLICT (account) DO UPDATE SET seed = excluded.seed, step = 0 WHERE confirmed = 0`, account, sealed)
	})
}

// OfferedTOTP returns the seed that OfferTOTP has remembered, and app.NotFound when there is
// none, or when it is confirmed.
func (s SignIns) OfferedTOTP(ctx context.Context, account app.AccountID) ([]byte, error) {
	return get(ctx, s.db, "look up the second factor", func(t tx) ([]byte, error) { return seedOf(t, account, false) })
}

func seedOf(t tx, account app.AccountID, confirmed bool) ([]byte, error) {
	sealed, err := one(t, value[[]byte], app.Errorf(app.NotFound, "there is no app for codes"),
		"SELECT seed FROM totp WHERE account = ? AND confirmed = ?", account, confirmed)
	if err != nil {
		return nil, err
	}
	seed, err := t.unseal("totp.seed", account.String(), sealed)
	if errors.Is(err, ErrKeyMissing) {
		err = app.Errorf(app.Unavailable, "codes cannot be checked: the key that seals their secret is not on this host; use a recovery code, or ask the host's owner to put the key back (berth key add)")
	}
	return seed, err
}

// UseTOTP uses a code up: match gets the seed and returns the step of the code, 0 for a wrong
// one. It fails with app.Unauthorized for a wrong code and for one whose step, or a later
// one, was used before: of two at once one wins. It fails with app.NotFound when the
// account has no confirmed app.
func (s SignIns) UseTOTP(ctx context.Context, account app.AccountID, match func(seed []byte) int64) error {
	return s.db.write(ctx, "use a code", func(t tx) error { return useTOTP(t, account, true, match) })
}

func useTOTP(t tx, account app.AccountID, confirmed bool, match func(seed []byte) int64) error {
	seed, err := seedOf(t, account, confirmed)
	if err != nil {
		return err
	}
	wrong, step := app.Errorf(app.Unauthorized, "the code is wrong"), match(seed)
	if step <= 0 {
		return wrong
	}
	return t.change(wrong, "UPDATE totp SET step = ?1, confirmed = 1 WHERE account = ?2 AND step < ?1", step, account)
}

// ConfirmTOTP is UseTOTP for the first code of an app, which from now on is a second factor.
// It replaces the recovery codes of the account by those with the hashes.
func (s SignIns) ConfirmTOTP(ctx context.Context, account app.AccountID, match func(seed []byte) int64, codes [][32]byte) error {
	return s.db.write(ctx, "store the second factor", func(t tx) error {
		if err := useTOTP(t, account, false, match); err != nil {
			return err
		}
		return setRecovery(t, account, codes)
	})
}

// RemoveTOTP removes the app of an account, and with its last second factor the recovery
// codes. It fails with app.NotFound.
func (s SignIns) RemoveTOTP(ctx context.Context, account app.AccountID) error {
	return s.db.write(ctx, "remove the second factor", func(t tx) error {
		if err := t.change(app.Errorf(app.NotFound, "there is no app for codes"), "DELETE FROM totp WHERE account = ?", account); err != nil {
			return err
		}
		return dropIdleRecovery(t, account)
	})
}

// dropIdleRecovery removes the recovery codes of an account without a second factor.
func dropIdleRecovery(t tx, account app.AccountID) error {
	f, err := factorsOf(t, account)
	if err != nil || f.Any() {
		return err
	}
	return setRecovery(t, account, nil)
}

// SetRecovery replaces the recovery codes of an account. It fails with app.Conflict when it
// has no second factor.
func (s SignIns) SetRecovery(ctx context.Context, account app.AccountID, codes [][32]byte) error {
	return s.db.write(ctx, "store the recovery codes", func(t tx) error {
		f, err := factorsOf(t, account)
		if err == nil && !f.Any() {
			err = app.Errorf(app.Conflict, "recovery codes stand in for a second factor; set one up first")
		}
		if err != nil {
			return err
		}
		return setRecovery(t, account, codes)
	})
}

func setRecovery(t tx, account app.AccountID, codes [][32]byte) error {
	if err := t.exec("DELETE FROM recovery_code WHERE account = ?", account); err != nil {
		return err
	}
	for _, hash := range codes {
		if err := t.exec("INSERT INTO recovery_code (account, hash) VALUES (?, ?)", account, hash[:]); err != nil {
			return err
		}
	}
	return nil
}

// UseRecovery uses a recovery code up. It fails with app.Unauthorized for one that is none,
// or was used: of two at once one wins.
func (s SignIns) UseRecovery(ctx context.Context, account app.AccountID, hash [32]byte) error {
	return s.db.update(ctx, "use a code", app.Errorf(app.Unauthorized, "the code is wrong"),
		"DELETE FROM recovery_code WHERE account = ? AND hash = ?", account, hash[:])
}

// Reset removes what an account signs in with, its password and every second factor, and ends
// its sessions: only a new one-time link lets it in. It fails with app.NotFound when there is no
// such account.
func (s SignIns) Reset(ctx context.Context, account app.AccountID) error {
	return s.db.write(ctx, "remove the second factors", func(t tx) error {
		if _, err := findAccount(t, account); err != nil {
			return err
		}
		for _, table := range []string{"password", "totp", "passkey", "identity", "recovery_code", "session", "invitation"} {
			if err := t.exec("DELETE FROM "+table+" WHERE account = ?", account); err != nil {
				return err
			}
		}
		return nil
	})
}
