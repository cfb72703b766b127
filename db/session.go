package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"berth/app"
)

const sessionColumns = "session.id, session.account, session.created_at, session.seen_at, session.agent, session.address"

// InsertSession remembers a browser that signed in, by the hash of what its
// cookie holds. Those not seen since old are forgotten, of all accounts, and of
// this account all but the newest keep. It fails with app.NotFound when there is
// no such account.
func (db *DB) InsertSession(ctx context.Context, s app.Session, hash [32]byte, old time.Time, keep int) (app.Session, error) {
	s.CreatedAt = moment(stamp(db.now()))
	s.LastSeen = s.CreatedAt
	err := db.write(ctx, "store the session", func(tx *sql.Tx) error {
		if _, err := findAccount(ctx, tx, s.Account); err != nil {
			return err
		}
		result, err := tx.ExecContext(ctx,
			"INSERT INTO session (account, hash, created_at, seen_at, agent, address) VALUES (?, ?, ?, ?, ?, ?)",
			s.Account, hash[:], stamp(s.CreatedAt), stamp(s.LastSeen), s.Agent, s.Address)
		if err != nil {
			return err
		}
		if s.ID, err = result.LastInsertId(); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			"DELETE FROM session WHERE seen_at < ?1 OR account = ?2 AND id NOT IN (SELECT id FROM session WHERE account = ?2 ORDER BY seen_at DESC, id DESC LIMIT ?3)",
			stamp(old), s.Account, keep)
		return err
	})
	if err != nil {
		return app.Session{}, err
	}
	return s, nil
}

// AccountBySession returns the session with that hash and its account, or
// app.NotFound, also for one that was not seen since old. It notes that the
// session was seen and from where, at most once a minute; that the note cannot be
// written (a full disk) does not make the call fail.
func (db *DB) AccountBySession(ctx context.Context, hash [32]byte, address string, old time.Time) (app.Account, app.Session, error) {
	var a app.Account
	var s app.Session
	err := db.read(ctx, "look up the session", func(tx *sql.Tx) error {
		row := tx.QueryRowContext(ctx, "SELECT "+sessionColumns+" FROM session WHERE hash = ? AND seen_at >= ?", hash[:], stamp(old))
		var err error
		if s, err = scanSession(row); errors.Is(err, sql.ErrNoRows) {
			return app.Errorf(app.NotFound, "no such session")
		}
		if err == nil {
			a, err = findAccount(ctx, tx, s.Account)
		}
		return err
	})
	if err != nil {
		return app.Account{}, app.Session{}, err
	}
	if now := db.now(); now.Sub(s.LastSeen) >= useEvery {
		_ = db.write(ctx, "note the use of a session", func(tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "UPDATE session SET seen_at = ?, address = ? WHERE id = ? AND seen_at <= ?",
				stamp(now), address, s.ID, stamp(now.Add(-useEvery)))
			return err
		})
	}
	return a, s, nil
}

// Sessions returns the sessions of an account that were seen since old, the one
// that was seen last first.
func (db *DB) Sessions(ctx context.Context, account app.AccountID, old time.Time) ([]app.Session, error) {
	var all []app.Session
	err := db.read(ctx, "list the sessions", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx,
			"SELECT "+sessionColumns+" FROM session WHERE account = ? AND seen_at >= ? ORDER BY seen_at DESC, id DESC", account, stamp(old))
		if err != nil {
			return err
		}
		all, err = collect(rows, scanSession)
		return err
	})
	return all, err
}

// DeleteSession ends a session of an account. It fails with app.NotFound, also
// for the session of another account.
func (db *DB) DeleteSession(ctx context.Context, account app.AccountID, id int64) error {
	return db.write(ctx, "end the session", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM session WHERE id = ? AND account = ?", id, account)
		return mustChange(result, err, app.Errorf(app.NotFound, "there is no session %d", id))
	})
}

func scanSession(row scanner) (app.Session, error) {
	var s app.Session
	var created, seen int64
	err := row.Scan(&s.ID, &s.Account, &created, &seen, &s.Agent, &s.Address)
	s.CreatedAt, s.LastSeen = moment(created), moment(seen)
	return s, err
}
