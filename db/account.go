package db

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

// Accounts remembers accounts and their tokens.
type Accounts struct{ db *DB }

// accountColumns are in the order of accountInto.
const accountColumns = "account.id, account.name, account.total_ram, account.plan, account.locale, account.disabled, account.suspended, account.suspended_why, account.admin, " +
	"account.disk_max, account.apps_max, account.cpu_max, account.builds_max, account.backups_max, account.external_id, account.created_at"

const selectAccounts = "SELECT " + accountColumns + " FROM account"

// CreateAccount makes an account like a and returns it with its ID and
// creation time. It fails with app.Conflict when the name is taken.
func (s Accounts) CreateAccount(ctx context.Context, a app.Account) (app.Account, error) {
	return put(ctx, s.db, "create the account", func(t tx) (app.Account, error) { return createAccount(t, a, s.db.now()) })
}

func createAccount(t tx, a app.Account, now time.Time) (app.Account, error) {
	a.CreatedAt = stored(now)
	l := a.Limits
	id, err := t.insert(`INSERT INTO account
		(name, total_ram, plan, locale, disabled, admin, disk_max, apps_max, cpu_max, builds_max, backups_max, external_id, created_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		a.Name, a.TotalRAM, a.Plan, a.Locale, a.Disabled, a.Admin, l.Disk, l.Apps, l.CPU, l.Builds, l.Backups,
		a.External, stamp(a.CreatedAt))
	a.ID = app.AccountID(id)
	return a, nameError(a.Name, err)
}

// Accounts returns all accounts, oldest first.
func (s Accounts) Accounts(ctx context.Context) ([]app.Account, error) {
	return getAll(ctx, s.db, "list the accounts", scanAccount, selectAccounts+" ORDER BY id")
}

// Account returns one account, or app.NotFound.
func (s Accounts) Account(ctx context.Context, id app.AccountID) (app.Account, error) {
	return get(ctx, s.db, "read the account", func(t tx) (app.Account, error) { return findAccount(t, id) })
}

// AccountByName returns one account, or app.NotFound.
func (s Accounts) AccountByName(ctx context.Context, name string) (app.Account, error) {
	return get(ctx, s.db, "read the account", func(t tx) (app.Account, error) { return findAccountByName(t, name) })
}

// AccountByExternal returns the account that a program calls so, or app.NotFound.
func (s Accounts) AccountByExternal(ctx context.Context, external string) (app.Account, error) {
	return get(ctx, s.db, "read the account", func(t tx) (app.Account, error) {
		return one(t, scanAccount, app.Errorf(app.NotFound, "no account has the external id %q", external), selectAccounts+" WHERE external_id = ? AND external_id <> ''", external)
	})
}

// Find returns the account that a person means by a name or a number, or app.NotFound. A
// name begins with a letter, so that the two are never confused.
func (s Accounts) Find(ctx context.Context, nameOrID string) (app.Account, error) {
	if id, err := strconv.ParseInt(nameOrID, 10, 64); err == nil {
		return s.Account(ctx, app.AccountID(id))
	}
	return s.AccountByName(ctx, nameOrID)
}

// UpdateAccount lets change alter an account and stores the result, unless
// change returns an error, which is then returned as it is. assigned is the
// RAM its applications have, those being deployed included. ID and CreatedAt
// stay; the sessions of one that is closed end. It fails with app.NotFound, and
// app.Conflict when a new name is taken.
func (s Accounts) UpdateAccount(
	ctx context.Context, id app.AccountID, change func(a *app.Account, assigned app.MB) error,
) (app.Account, error) {
	return put(ctx, s.db, "change the account", func(t tx) (a app.Account, err error) {
		before, err := findAccount(t, id)
		if err != nil {
			return a, err
		}
		used, err := useOf(t, id)
		if err != nil {
			return a, err
		}
		a = before
		if err := change(&a, used.RAM); err != nil {
			return a, err
		}
		a.ID, a.CreatedAt = before.ID, before.CreatedAt
		l := a.Limits
		err = t.exec(`UPDATE account SET name = ?, total_ram = ?, plan = ?, locale = ?, disabled = ?, suspended = ?, suspended_why = ?, admin = ?,
			disk_max = ?, apps_max = ?, cpu_max = ?, builds_max = ?, backups_max = ? WHERE id = ?`,
			a.Name, a.TotalRAM, a.Plan, a.Locale, a.Disabled, a.Suspended.On, a.Suspended.Why, a.Admin,
			l.Disk, l.Apps, l.CPU, l.Builds, l.Backups, id)
		if err != nil || a.Closed() == nil {
			return a, nameError(a.Name, err)
		}
		return a, t.exec("DELETE FROM session WHERE account = ?", id)
	})
}

// DeleteAccount removes an account, its tokens and its memberships. It fails
// with app.NotFound, and with app.Conflict while the account has allocations:
// applications, and those being deployed or removed. An allocation that went early
// could be given to somebody else, whose files the end of that deployment would
// take for its own.
func (s Accounts) DeleteAccount(ctx context.Context, id app.AccountID) error {
	return s.db.write(ctx, "delete the account", func(t tx) error {
		if _, err := findAccount(t, id); err != nil {
			return err
		}
		var apps, others int
		err := t.QueryRowContext(ctx, "SELECT count(app.id), count(*) - count(app.id) FROM place LEFT JOIN app USING (id) WHERE place.account = ?", id).Scan(&apps, &others)
		switch {
		case err != nil:
			return err
		case apps == 1:
			return app.Errorf(app.Conflict, "the account owns 1 application")
		case apps > 1:
			return app.Errorf(app.Conflict, "the account owns %d applications", apps)
		case others > 0:
			return app.Errorf(app.Conflict, "an application of the account is being deployed or removed; try again when that is over, and berth runs")
		}
		return t.exec("DELETE FROM account WHERE id = ?", id)
	})
}

// SumRAM returns the RAM that the applications of an account have, those being
// deployed included; 0 for an account that does not exist.
func (s Accounts) SumRAM(ctx context.Context, id app.AccountID) (app.MB, error) {
	used, err := get(ctx, s.db, "add up the RAM", func(t tx) (app.Use, error) { return useOf(t, id) })
	return used.RAM, err
}

// useOf counts an application as long as its files may be there: its place says so.
func useOf(t tx, id app.AccountID) (app.Use, error) {
	return one(t, func(row scanner) (u app.Use, err error) {
		err = row.Scan(&u.RAM, &u.Apps)
		return u, err
	}, nil, "SELECT coalesce(sum(CASE WHEN "+charged+" THEN ram END), 0), count(*) FROM place WHERE account = ?", id)
}

func findAccount(t tx, id app.AccountID) (app.Account, error) {
	return one(t, scanAccount, noAccount(id), selectAccounts+" WHERE id = ?", id)
}

func findAccountByName(t tx, name string) (app.Account, error) {
	return one(t, scanAccount, app.Errorf(app.NotFound, "no account is called %q", name), selectAccounts+" WHERE name = ?", name)
}

func scanAccount(row scanner) (a app.Account, err error) {
	err = row.Scan(accountInto(&a)...)
	return a, err
}

func accountInto(a *app.Account) []any {
	return []any{
		&a.ID, &a.Name, &a.TotalRAM, &a.Plan, &a.Locale, &a.Disabled, &a.Suspended.On, &a.Suspended.Why, &a.Admin,
		&a.Limits.Disk, &a.Limits.Apps, &a.Limits.CPU, &a.Limits.Builds, &a.Limits.Backups, &a.External, asTime(&a.CreatedAt),
	}
}

func noAccount(id app.AccountID) error { return app.Errorf(app.NotFound, "there is no account %d", id) }

// nameError tells the user about a name that is taken.
func nameError(name string, err error) error {
	if isTaken(err) {
		return app.Errorf(app.Conflict, "an account called %q exists already", name)
	}
	return err
}

// useEvery is how exact LastUsed is: one write a minute, not one a request.
const useEvery = time.Minute

// tokenColumns are in the order of scanTokenInto.
const tokenColumns = `token.id, token.account, token.label, token.created_at, token.last_used, token.expires_at, token.may,
	CASE WHEN token.may IS NOT NULL THEN (SELECT group_concat(app, ' ') FROM token_app WHERE token_app.token = token.id) END`

// InsertToken remembers a token of wanted's account by the hash of its text, with the label,
// the end (the zero time for never) and the bounds of wanted. It fails with app.NotFound
// when there is no such account, or when the bounds hold an application that is neither
// the account's nor one whose team it is in.
func (s Accounts) InsertToken(ctx context.Context, hash [32]byte, wanted app.Token) (app.Token, error) {
	return put(ctx, s.db, "store the token", func(t tx) (token app.Token, err error) {
		token = app.Token{Account: wanted.Account, Label: wanted.Label, Bounds: wanted.Bounds}
		token.CreatedAt, token.Expires = stored(s.db.now()), stored(wanted.Expires)
		var may *app.Permissions
		if token.Bounds != nil {
			may = &token.Bounds.May
		}
		token.ID, err = t.insert("INSERT INTO token (account, hash, label, created_at, last_used, expires_at, may) VALUES (?, ?, ?, ?, 0, ?, ?)",
			token.Account, hash[:], token.Label, stamp(token.CreatedAt), stamp(token.Expires), may)
		if refusedBy(err, sqlite3.ErrConstraintForeignKey) {
			return token, noAccount(token.Account)
		}
		if err != nil {
			return token, err
		}
		made := app.Notice{Account: token.Account, At: token.CreatedAt, Kind: app.NoticeToken, Args: []string{token.Label}}
		if err := t.notice(made); err != nil {
			return token, err
		}
		if token.Bounds == nil {
			return token, nil
		}
		for _, id := range token.Bounds.Apps {
			err := t.change(app.Errorf(app.NotFound, "you have no application %q", id), `INSERT INTO token_app (token, app)
				SELECT ?1, app.id FROM app JOIN place ON place.id = app.id WHERE app.id = ?2 AND
				(place.account = ?3 OR EXISTS (SELECT 1 FROM member WHERE member.app = app.id AND member.account = ?3))`, token.ID, id, token.Account)
			if err != nil {
				return token, err
			}
		}
		return token, nil
	})
}

// Tokens returns the tokens of an account, oldest first.
func (s Accounts) Tokens(ctx context.Context, account app.AccountID) ([]app.Token, error) {
	return getAll(ctx, s.db, "list the tokens", scanToken, "SELECT "+tokenColumns+" FROM token WHERE account = ? ORDER BY id", account)
}

// Token returns one token of any account, or app.NotFound.
func (s Accounts) Token(ctx context.Context, id int64) (app.Token, error) {
	return get(ctx, s.db, "read the token", func(t tx) (app.Token, error) {
		return one(t, scanToken, noToken(id), "SELECT "+tokenColumns+" FROM token WHERE id = ?", id)
	})
}

// DeleteToken forgets a token of an account; whoever holds its text is a
// stranger from then on. It fails with app.NotFound, also for the token of
// another account.
func (s Accounts) DeleteToken(ctx context.Context, account app.AccountID, id int64) error {
	return s.db.update(ctx, "delete the token", noToken(id), "DELETE FROM token WHERE id = ? AND account = ?", id, account)
}

// ExpireToken lets a token of an account end at a time, unless it ends earlier
// anyway. It fails with app.NotFound, also for the token of another account.
func (s Accounts) ExpireToken(ctx context.Context, account app.AccountID, id int64, at time.Time) error {
	return s.db.update(ctx, "change the token", noToken(id),
		"UPDATE token SET expires_at = CASE WHEN expires_at BETWEEN 1 AND ?1 THEN expires_at ELSE ?1 END WHERE id = ?2 AND account = ?3",
		stamp(at), id, account)
}

// AccountByToken returns the token with that hash and its account, or
// app.NotFound. It notes the use of the token, at most once a minute; that the
// note cannot be written (a full disk) does not make the call fail.
func (s Accounts) AccountByToken(ctx context.Context, hash [32]byte) (app.Account, app.Token, error) {
	var a app.Account
	token, err := get(ctx, s.db, "look up the token", func(t tx) (app.Token, error) {
		both := func(row scanner) (token app.Token, err error) {
			err = scanTokenInto(row, &token, accountInto(&a)...)
			return token, err
		}
		return one(t, both, app.Errorf(app.NotFound, "no such token"),
			"SELECT "+tokenColumns+", "+accountColumns+" FROM token JOIN account ON account.id = token.account WHERE token.hash = ?", hash[:])
	})
	if err != nil {
		return app.Account{}, app.Token{}, err
	}
	if now := s.db.now(); now.Sub(token.LastUsed) >= useEvery {
		// Many requests find the same old time at once; the first of them writes.
		_ = s.db.update(ctx, "note the use of a token", nil, "UPDATE token SET last_used = ? WHERE id = ? AND last_used <= ?",
			stamp(now), token.ID, stamp(now.Add(-useEvery)))
	}
	return a, token, nil
}

func scanToken(row scanner) (token app.Token, err error) {
	err = scanTokenInto(row, &token)
	return token, err
}

// scanTokenInto reads tokenColumns, and more columns behind them.
func scanTokenInto(row scanner, t *app.Token, more ...any) error {
	var may *app.Permissions
	var ids *string
	columns := []any{&t.ID, &t.Account, &t.Label, asTime(&t.CreatedAt), asTime(&t.LastUsed), asTime(&t.Expires), &may, &ids}
	err := row.Scan(append(columns, more...)...)
	if err != nil || may == nil {
		return err
	}
	t.Bounds = &app.Bounds{May: *may}
	if ids != nil {
		for id := range strings.SplitSeq(*ids, " ") { // which no id holds
			t.Bounds.Apps = append(t.Bounds.Apps, app.ID(id))
		}
	}
	return nil
}

func noToken(id int64) error { return app.Errorf(app.NotFound, "there is no token %d", id) }
