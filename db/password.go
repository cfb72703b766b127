package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"berth/app"
)

// PasswordByName returns the account of that name and what proves its password,
// "" when it has none. It fails with app.NotFound when there is no such account.
func (db *DB) PasswordByName(ctx context.Context, name string) (app.Account, string, error) {
	var a app.Account
	var hash string
	err := db.read(ctx, "read the password", func(tx *sql.Tx) (err error) {
		a, err = scanAccount(tx.QueryRowContext(ctx, "SELECT "+accountColumns+" FROM account WHERE name = ?", name))
		if errors.Is(err, sql.ErrNoRows) {
			return app.Errorf(app.NotFound, "no account is called %q", name)
		}
		if err != nil {
			return err
		}
		err = tx.QueryRowContext(ctx, "SELECT hash FROM password WHERE account = ?", a.ID).Scan(&hash)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	return a, hash, err
}

// SetPassword stores what proves the new password of an account and ends its
// sessions, but for the one with the id keep. It fails with app.NotFound.
func (db *DB) SetPassword(ctx context.Context, account app.AccountID, hash string, keep int64) error {
	return db.write(ctx, "store the password", func(tx *sql.Tx) error {
		return db.setPassword(ctx, tx, account, hash, keep)
	})
}

func (db *DB) setPassword(ctx context.Context, tx *sql.Tx, account app.AccountID, hash string, keep int64) error {
	if _, err := findAccount(ctx, tx, account); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx,
		"INSERT INTO password (account, hash, changed_at) VALUES (?, ?, ?) ON CONFLICT (account) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at",
		account, hash, stamp(db.now())); err != nil {
		return err
	}
	// A link that was made before must not undo what was set since.
	if _, err := tx.ExecContext(ctx, "DELETE FROM invitation WHERE account = ?", account); err != nil {
		return err
	}
	_, err := tx.ExecContext(ctx, "DELETE FROM session WHERE account = ? AND id <> ?", account, keep)
	return err
}

// InsertInvitation remembers a one-time link by the hash of what it holds. Account
// 0 is for the first of all accounts: app.Conflict when there is one. It fails with
// app.NotFound when there is no such account. Links that have expired are forgotten,
// and others to the same: the newest one counts.
func (db *DB) InsertInvitation(ctx context.Context, hash [32]byte, account app.AccountID, expires time.Time) error {
	return db.write(ctx, "store the link", func(tx *sql.Tx) error {
		to := sql.NullInt64{Int64: int64(account), Valid: account != 0}
		if to.Valid {
			if _, err := findAccount(ctx, tx, account); err != nil {
				return err
			}
		} else if err := none(ctx, tx); err != nil {
			return err
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM invitation WHERE expires_at <= ? OR account IS ?", stamp(db.now()), to); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT INTO invitation (hash, account, expires_at) VALUES (?, ?, ?)", hash[:], to, stamp(expires))
		return err
	})
}

// none fails with app.Conflict when there is an account.
func none(ctx context.Context, tx *sql.Tx) error {
	var accounts int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM account").Scan(&accounts)
	if err == nil && accounts > 0 {
		return app.Errorf(app.Conflict, "there is an account already")
	}
	return err
}

// Invitation returns the one-time link with that hash, or app.NotFound, also for
// one that has expired.
func (db *DB) Invitation(ctx context.Context, hash [32]byte) (app.Invitation, error) {
	var i app.Invitation
	err := db.read(ctx, "look up the link", func(tx *sql.Tx) (err error) {
		i, err = db.invitation(ctx, tx, hash)
		return err
	})
	return i, err
}

func (db *DB) invitation(ctx context.Context, tx *sql.Tx, hash [32]byte) (app.Invitation, error) {
	var i app.Invitation
	var account sql.NullInt64
	var expires int64
	err := tx.QueryRowContext(ctx, "SELECT account, expires_at FROM invitation WHERE hash = ? AND expires_at > ?",
		hash[:], stamp(db.now())).Scan(&account, &expires)
	if errors.Is(err, sql.ErrNoRows) {
		return i, app.Errorf(app.NotFound, "there is no such link, or it has expired")
	}
	if i.Expires = moment(expires); err == nil && account.Valid {
		i.Account, err = findAccount(ctx, tx, app.AccountID(account.Int64))
	}
	return i, err
}

// Redeem uses a one-time link up: its account gets the password, and its sessions
// end. A link to the first account makes first, as administrator. It fails with app.NotFound
// as Invitation does, and app.Conflict when there is an account meanwhile.
func (db *DB) Redeem(ctx context.Context, hash [32]byte, first app.Account, password string) (app.Account, error) {
	var a app.Account
	err := db.write(ctx, "use the link", func(tx *sql.Tx) error {
		i, err := db.invitation(ctx, tx, hash)
		if err != nil {
			return err
		}
		if a = i.Account; a.ID == 0 {
			if err := none(ctx, tx); err != nil {
				return err
			}
			first.Admin = true
			if a, err = db.createAccount(ctx, tx, first); err != nil {
				return err
			}
		}
		if err := db.setPassword(ctx, tx, a.ID, password, 0); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM invitation WHERE hash = ?", hash[:])
		return err
	})
	if err != nil {
		return app.Account{}, err
	}
	return a, nil
}
