package db

import (
	"context"
	"crypto/rand"
	"time"

	"berth/app"
)

// maxPasskeys is how many an account has at most.
const maxPasskeys = 20

const selectPasskeys = "SELECT id, account, credential, record, count, name, rp, created_at, last_used FROM passkey"

func scanPasskey(row scanner) (p app.Passkey, err error) {
	err = row.Scan(&p.ID, &p.Account, &p.Credential, &p.Record, &p.Count, &p.Name, &p.RP, asTime(&p.CreatedAt), asTime(&p.LastUsed))
	return p, err
}

// PasskeyUser returns the 64 random bytes by which authenticators know an account, the same
// for its life. The first call makes them. It fails with app.NotFound.
func (s SignIns) PasskeyUser(ctx context.Context, account app.AccountID) ([]byte, error) {
	return put(ctx, s.db, "store by what passkeys know the account", func(t tx) ([]byte, error) {
		if _, err := findAccount(t, account); err != nil {
			return nil, err
		}
		handle, err := one(t, value[[]byte], nil, "SELECT handle FROM passkey_user WHERE account = ?", account)
		if err != nil || handle != nil {
			return handle, err
		}
		handle = make([]byte, 64)
		rand.Read(handle) // never fails, see crypto/rand
		return handle, t.exec("INSERT INTO passkey_user (account, handle) VALUES (?, ?)", account, handle)
	})
}

// Passkeys returns those of an account, oldest first; of account 0 those of all.
func (s SignIns) Passkeys(ctx context.Context, account app.AccountID) ([]app.Passkey, error) {
	return getAll(ctx, s.db, "list the passkeys", scanPasskey, selectPasskeys+" WHERE account = ?1 OR ?1 = 0 ORDER BY id", account)
}

// AccountByPasskeyUser returns the account that authenticators know by a handle, and its
// passkeys. It fails with app.NotFound.
func (s SignIns) AccountByPasskeyUser(ctx context.Context, handle []byte) (app.Account, []app.Passkey, error) {
	var a app.Account
	found, err := get(ctx, s.db, "look up the passkeys", func(t tx) (found []app.Passkey, err error) {
		missing := app.Errorf(app.NotFound, "nobody has this passkey")
		if a, err = one(t, scanAccount, missing, selectAccounts+" JOIN passkey_user ON passkey_user.account = account.id WHERE passkey_user.handle = ?", handle); err != nil {
			return nil, err
		}
		return all(t, scanPasskey, selectPasskeys+" WHERE account = ? ORDER BY id", a.ID)
	})
	return a, found, err
}

// AddPasskey remembers a passkey, and with the first second factor of the account the recovery
// codes with the hashes; it reports whether it did. It fails with app.Conflict for a passkey that
// is there already, and app.Exhausted for one too many.
func (s SignIns) AddPasskey(ctx context.Context, p app.Passkey, codes [][32]byte) (first bool, err error) {
	return put(ctx, s.db, "store the passkey", func(t tx) (first bool, err error) {
		f, err := factorsOf(t, p.Account)
		if err == nil && f.Passkeys >= maxPasskeys {
			err = app.Errorf(app.Exhausted, "this account has %d passkeys already; remove one first", f.Passkeys)
		}
		if err != nil {
			return false, err
		}
		if err := insertPasskey(t, p, s.db.now()); err != nil || f.Any() {
			return false, err
		}
		return true, setRecovery(t, p.Account, codes)
	})
}

func insertPasskey(t tx, p app.Passkey, now time.Time) error {
	_, err := t.insert("INSERT INTO passkey (account, credential, record, count, name, rp, created_at, last_used) VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
		p.Account, p.Credential, p.Record, p.Count, p.Name, p.RP, stamp(now))
	if isTaken(err) {
		err = app.Errorf(app.Conflict, "this passkey is there already")
	}
	return err
}

// UsePasskey remembers the use of a passkey with what its authenticator has counted, which MUST be
// more than before, or 0 as before: app.Unauthorized is a copy of it, or one that is gone.
func (s SignIns) UsePasskey(ctx context.Context, p app.Passkey) error {
	return s.db.update(ctx, "use the passkey", app.Errorf(app.Unauthorized, "this passkey was copied, or is gone"),
		"UPDATE passkey SET record = ?1, count = ?2, last_used = ?3 WHERE id = ?4 AND (count < ?2 OR count = 0 AND ?2 = 0)",
		p.Record, p.Count, stamp(s.db.now()), p.ID)
}

// RenamePasskey gives a passkey of an account another name. It fails with app.NotFound.
func (s SignIns) RenamePasskey(ctx context.Context, account app.AccountID, id int64, name string) error {
	return s.db.update(ctx, "rename the passkey", noPasskey(id), "UPDATE passkey SET name = ? WHERE id = ? AND account = ?", name, id, account)
}

// RemovePasskey removes a passkey of an account, and with its last second factor the recovery
// codes. It fails with app.NotFound, and app.Conflict for all that the account signs in with.
func (s SignIns) RemovePasskey(ctx context.Context, account app.AccountID, id int64) error {
	return s.db.write(ctx, "remove the passkey", func(t tx) error {
		if err := t.change(noPasskey(id), "DELETE FROM passkey WHERE id = ? AND account = ?", id, account); err != nil {
			return err
		}
		if err := hasEntrance(t, account); err != nil {
			return err
		}
		return dropIdleRecovery(t, account)
	})
}

func noPasskey(id int64) error { return app.Errorf(app.NotFound, "there is no passkey %d", id) }
