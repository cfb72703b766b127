package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

// useEvery is how exact LastUsed is: one write a minute, not one a request.
const useEvery = time.Minute

const tokenColumns = "id, account, label, created_at, last_used, expires_at"

// InsertToken remembers a token by the hash of its text. The zero time for
// expires is never. It fails with app.NotFound when there is no such account.
func (db *DB) InsertToken(ctx context.Context, account app.AccountID, hash [32]byte, label string, expires time.Time) (app.Token, error) {
	t := app.Token{Account: account, Label: label, CreatedAt: moment(stamp(db.now())), Expires: moment(stamp(expires))}
	err := db.write(ctx, "store the token", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx,
			"INSERT INTO token (account, hash, label, created_at, last_used, expires_at) VALUES (?, ?, ?, ?, 0, ?)",
			account, hash[:], label, stamp(t.CreatedAt), stamp(expires))
		var e sqlite3.Error
		if errors.As(err, &e) && e.ExtendedCode == sqlite3.ErrConstraintForeignKey {
			return app.Errorf(app.NotFound, "there is no account %d", account)
		}
		if err != nil {
			return err
		}
		t.ID, err = result.LastInsertId()
		return err
	})
	if err != nil {
		return app.Token{}, err
	}
	return t, nil
}

// Tokens returns the tokens of an account, oldest first.
func (db *DB) Tokens(ctx context.Context, account app.AccountID) ([]app.Token, error) {
	var all []app.Token
	err := db.read(ctx, "list the tokens", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+tokenColumns+" FROM token WHERE account = ? ORDER BY id", account)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanToken)
		return err
	})
	return all, err
}

// Token returns one token of any account, or app.NotFound.
func (db *DB) Token(ctx context.Context, id int64) (app.Token, error) {
	var t app.Token
	err := db.read(ctx, "read the token", func(tx *sql.Tx) (err error) {
		t, err = scanToken(tx.QueryRowContext(ctx, "SELECT "+tokenColumns+" FROM token WHERE id = ?", id))
		if errors.Is(err, sql.ErrNoRows) {
			return noToken(id)
		}
		return err
	})
	return t, err
}

// DeleteToken forgets a token of an account; whoever holds its text is a
// stranger from then on. It fails with app.NotFound, also for the token of
// another account.
func (db *DB) DeleteToken(ctx context.Context, account app.AccountID, id int64) error {
	return db.write(ctx, "delete the token", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM token WHERE id = ? AND account = ?", id, account)
		return mustChange(result, err, noToken(id))
	})
}

// ExpireToken lets a token of an account end at a time, unless it ends earlier
// anyway. It fails with app.NotFound, also for the token of another account.
func (db *DB) ExpireToken(ctx context.Context, account app.AccountID, id int64, at time.Time) error {
	return db.write(ctx, "change the token", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx,
			"UPDATE token SET expires_at = CASE WHEN expires_at BETWEEN 1 AND ?1 THEN expires_at ELSE ?1 END WHERE id = ?2 AND account = ?3",
			stamp(at), id, account)
		return mustChange(result, err, noToken(id))
	})
}

// AccountByToken returns the token with that hash and its account, or
// app.NotFound. It notes the use of the token, at most once a minute; that the
// note cannot be written (a full disk) does not make the call fail.
func (db *DB) AccountByToken(ctx context.Context, hash [32]byte) (app.Account, app.Token, error) {
	var found tokenUse
	err := db.read(ctx, "look up the token", func(tx *sql.Tx) (err error) {
		found, err = scanUse(tx.QueryRowContext(ctx,
			"SELECT token.id, token.label, token.created_at, token.last_used, token.expires_at, "+accountColumns+" FROM token JOIN account ON account.id = token.account WHERE token.hash = ?",
			hash[:]))
		if errors.Is(err, sql.ErrNoRows) {
			return app.Errorf(app.NotFound, "no such token")
		}
		return err
	})
	if err != nil {
		return app.Account{}, app.Token{}, err
	}
	if now := db.now(); now.Sub(found.token.LastUsed) >= useEvery {
		_ = db.noteUse(ctx, found.token.ID, now)
	}
	return found.account, found.token, nil
}

func (db *DB) noteUse(ctx context.Context, token int64, now time.Time) error {
	return db.write(ctx, "note the use of a token", func(tx *sql.Tx) error {
		// Many requests find the same old time at once; the first of them writes.
		_, err := tx.ExecContext(ctx, "UPDATE token SET last_used = ? WHERE id = ? AND last_used <= ?",
			stamp(now), token, stamp(now.Add(-useEvery)))
		return err
	})
}

// tokenUse is what one look-up finds.
type tokenUse struct {
	token   app.Token
	account app.Account
}

func scanUse(row scanner) (tokenUse, error) {
	var u tokenUse
	var made, last, expires, created int64
	a := &u.account
	err := row.Scan(&u.token.ID, &u.token.Label, &made, &last, &expires,
		&a.ID, &a.Name, &a.TotalRAM, &a.Plan, &a.Locale, &a.Disabled, &a.Admin, &created)
	u.token.Account, u.token.CreatedAt, u.token.LastUsed, a.CreatedAt = a.ID, moment(made), moment(last), moment(created)
	u.token.Expires = moment(expires)
	return u, err
}

func scanToken(row scanner) (app.Token, error) {
	var t app.Token
	var created, used, expires int64
	err := row.Scan(&t.ID, &t.Account, &t.Label, &created, &used, &expires)
	t.CreatedAt, t.LastUsed, t.Expires = moment(created), moment(used), moment(expires)
	return t, err
}

func noToken(id int64) error { return app.Errorf(app.NotFound, "there is no token %d", id) }

// mustChange returns missing when a statement succeeded but touched no row.
func mustChange(result sql.Result, err, missing error) error {
	if err != nil {
		return err
	}
	n, err := result.RowsAffected()
	if err == nil && n == 0 {
		return missing
	}
	return err
}
