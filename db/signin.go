package db

import (
	"context"
	"database/sql"
	"time"

	"berth/app"
)

// SignIns remembers what people sign in with: passwords, one-time links and sessions.
type SignIns struct{ db *DB }

// PasswordByName returns the account of that name and what proves its password,
// "" when it has none. It fails with app.NotFound when there is no such account.
func (s SignIns) PasswordByName(ctx context.Context, name string) (app.Account, string, error) {
	var a app.Account
	hash, err := get(ctx, s.db, "read the password", func(t tx) (hash string, err error) {
		if a, err = findAccountByName(t, name); err != nil {
			return "", err
		}
		return one(t, value[string], nil, "SELECT hash FROM password WHERE account = ?", a.ID)
	})
	return a, hash, err
}

// SetPassword stores what proves the new password of an account and ends its
// sessions, but for the one with the id keep. It fails with app.NotFound.
func (s SignIns) SetPassword(ctx context.Context, account app.AccountID, hash string, keep int64) error {
	return s.db.write(ctx, "store the password", func(t tx) error { return setPassword(t, account, hash, keep, s.db.now()) })
}

func setPassword(t tx, account app.AccountID, hash string, keep int64, now time.Time) error {
	if _, err := findAccount(t, account); err != nil {
		return err
	}
	if err := t.exec(
		"INSERT INTO password (account, hash, changed_at) VALUES (?, ?, ?) ON CONFLICT (account) DO UPDATE SET hash = excluded.hash, changed_at = excluded.changed_at",
		account, hash, stamp(now)); err != nil {
		return err
	}
	// A link that was made before must not undo what was set since.
	if err := t.exec("DELETE FROM invitation WHERE account = ?", account); err != nil {
		return err
	}
	return t.exec("DELETE FROM session WHERE account = ? AND id <> ?", account, keep)
}

// InsertInvitation remembers a one-time link by the hash of what it holds. Account
// 0 is for the first of all accounts: app.Conflict when there is one. It fails with
// app.NotFound when there is no such account. Links that have expired are forgotten,
// and others to the same: the newest one counts.
func (s SignIns) InsertInvitation(ctx context.Context, hash [32]byte, account app.AccountID, expires time.Time) error {
	return s.db.write(ctx, "store the link", func(t tx) error {
		to := sql.NullInt64{Int64: int64(account), Valid: account != 0}
		if to.Valid {
			if _, err := findAccount(t, account); err != nil {
				return err
			}
		} else if err := refuseSecond(t); err != nil {
			return err
		}
		if err := t.exec("DELETE FROM invitation WHERE expires_at <= ? OR account IS ?", stamp(s.db.now()), to); err != nil {
			return err
		}
		return t.exec("INSERT INTO invitation (hash, account, expires_at) VALUES (?, ?, ?)", hash[:], to, stamp(expires))
	})
}

// refuseSecond fails with app.Conflict when there is an account.
func refuseSecond(t tx) error {
	accounts, err := number(t, "SELECT count(*) FROM account")
	if err == nil && accounts > 0 {
		return app.Errorf(app.Conflict, "there is an account already")
	}
	return err
}

// Invitation returns the one-time link with that hash, or app.NotFound, also for
// one that has expired.
func (s SignIns) Invitation(ctx context.Context, hash [32]byte) (app.Invitation, error) {
	return get(ctx, s.db, "look up the link", func(t tx) (app.Invitation, error) { return findInvitation(t, hash, s.db.now()) })
}

func findInvitation(t tx, hash [32]byte, now time.Time) (app.Invitation, error) {
	scan := func(row scanner) (i app.Invitation, err error) {
		err = row.Scan(asNumber(&i.Account.ID), asTime(&i.Expires))
		return i, err
	}
	i, err := one(t, scan, app.Errorf(app.NotFound, "there is no such link, or it has expired"),
		"SELECT account, expires_at FROM invitation WHERE hash = ? AND expires_at > ?", hash[:], stamp(now))
	if err == nil && i.Account.ID != 0 {
		i.Account, err = findAccount(t, i.Account.ID)
	}
	return i, err
}

// Redeem uses a one-time link up: its account gets the password, and its sessions
// end. A link to the first account makes first, as administrator. It fails with app.NotFound
// as Invitation does, and app.Conflict when there is an account meanwhile.
func (s SignIns) Redeem(ctx context.Context, hash [32]byte, first app.Account, password string) (app.Account, error) {
	return put(ctx, s.db, "use the link", func(t tx) (a app.Account, err error) {
		now := s.db.now()
		i, err := findInvitation(t, hash, now)
		if err != nil {
			return a, err
		}
		if a = i.Account; a.ID == 0 {
			if err := refuseSecond(t); err != nil {
				return a, err
			}
			first.Admin = true
			if a, err = createAccount(t, first, now); err != nil {
				return a, err
			}
		}
		if err := setPassword(t, a.ID, password, 0, now); err != nil {
			return a, err
		}
		return a, t.exec("DELETE FROM invitation WHERE hash = ?", hash[:])
	})
}

const sessionColumns = "session.id, session.account, session.created_at, session.seen_at, session.agent, session.address, session.proved_at, session.proved_from"

// InsertSession remembers a browser that signed in, by the hash of what its
// cookie holds. Those not seen since old are forgotten, of all accounts, and of
// this account all but the newest keep. It fails with app.NotFound when there is
// no such account, and app.Forbidden when that is closed.
func (s SignIns) InsertSession(ctx context.Context, made app.Session, hash [32]byte, old time.Time, keep int) (app.Session, error) {
	return put(ctx, s.db, "store the session", func(t tx) (app.Session, error) {
		made.CreatedAt = stored(s.db.now())
		made.LastSeen, made.ProvedAt = made.CreatedAt, made.CreatedAt
		a, err := findAccount(t, made.Account)
		if err != nil {
			return made, err
		}
		if err := a.Closed(); err != nil {
			return made, err
		}
		if made.ID, err = t.insert(
			"INSERT INTO session (account, hash, created_at, seen_at, agent, address, proved_at, proved_from) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
			made.Account, hash[:], stamp(made.CreatedAt), stamp(made.LastSeen), made.Agent, made.Address,
			stamp(made.ProvedAt), made.ProvedFrom); err != nil {
			return made, err
		}
		if made.New {
			if err := noteSignIn(t, made); err != nil {
				return made, err
			}
		}
		return made, t.exec(
			"DELETE FROM session WHERE seen_at < ?1 OR account = ?2 AND id NOT IN (SELECT id FROM session WHERE account = ?2 ORDER BY seen_at DESC, id DESC LIMIT ?3)",
			stamp(old), made.Account, keep)
	})
}

// AccountBySession returns the session with that hash and its account, or
// app.NotFound, also for one that was not seen since old. It notes that the
// session was seen and from where, at most once a minute; that the note cannot be
// written (a full disk) does not make the call fail.
func (s SignIns) AccountBySession(ctx context.Context, hash [32]byte, address string, old time.Time) (app.Account, app.Session, error) {
	var session app.Session
	a, err := get(ctx, s.db, "look up the session", func(t tx) (a app.Account, err error) {
		session, err = one(t, scanSession, app.Errorf(app.NotFound, "no such session"),
			"SELECT "+sessionColumns+" FROM session WHERE hash = ? AND seen_at >= ?", hash[:], stamp(old))
		if err != nil {
			return a, err
		}
		if session.Bare, err = mustHaveFactor(t, session.Account); err != nil {
			return a, err
		}
		return findAccount(t, session.Account)
	})
	if err != nil {
		return app.Account{}, app.Session{}, err
	}
	if now := s.db.now(); now.Sub(session.LastSeen) >= useEvery {
		_ = s.db.update(ctx, "note the use of a session", nil, "UPDATE session SET seen_at = ?, address = ? WHERE id = ? AND seen_at <= ?",
			stamp(now), address, session.ID, stamp(now.Add(-useEvery)))
	}
	return a, session, nil
}

// Sessions returns the sessions of an account that were seen since old, the one
// that was seen last first.
func (s SignIns) Sessions(ctx context.Context, account app.AccountID, old time.Time) ([]app.Session, error) {
	return getAll(ctx, s.db, "list the sessions", scanSession,
		"SELECT "+sessionColumns+" FROM session WHERE account = ? AND seen_at >= ? ORDER BY seen_at DESC, id DESC", account, stamp(old))
}

// DeleteSession ends a session of an account. It fails with app.NotFound, also
// for the session of another account.
func (s SignIns) DeleteSession(ctx context.Context, account app.AccountID, id int64) error {
	return s.db.update(ctx, "end the session", app.Errorf(app.NotFound, "there is no session %d", id),
		"DELETE FROM session WHERE id = ? AND account = ?", id, account)
}

// ProveSession notes that the owner of a session has proved who they are, from where key
// says, and gives the session the hash of a new cookie: the old one is of no use any more. It
// fails with app.NotFound.
func (s SignIns) ProveSession(ctx context.Context, account app.AccountID, id int64, hash [32]byte, key string) error {
	return s.db.update(ctx, "renew the session", app.Errorf(app.NotFound, "there is no session %d", id),
		"UPDATE session SET hash = ?, proved_at = ?, proved_from = ? WHERE id = ? AND account = ?", hash[:], stamp(s.db.now()), key, id, account)
}

// DeleteOtherSessions ends the sessions of an account but for the one with the id keep.
func (s SignIns) DeleteOtherSessions(ctx context.Context, account app.AccountID, keep int64) error {
	return s.db.update(ctx, "end the sessions", nil, "DELETE FROM session WHERE account = ? AND id <> ?", account, keep)
}

func scanSession(row scanner) (s app.Session, err error) {
	err = row.Scan(&s.ID, &s.Account, asTime(&s.CreatedAt), asTime(&s.LastSeen), &s.Agent, &s.Address, asTime(&s.ProvedAt), &s.ProvedFrom)
	return s, err
}
