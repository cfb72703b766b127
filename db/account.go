package db

import (
	"context"
	"database/sql"
	"errors"

	"berth/app"
)

// accountColumns are in the order of scanAccount.
const accountColumns = "account.id, account.name, account.total_ram, account.plan, account.locale, account.disabled, account.admin, account.created_at"

// CreateAccount makes an account like a and returns it with its ID and
// creation time. It fails with app.Conflict when the name is taken.
func (db *DB) CreateAccount(ctx context.Context, a app.Account) (app.Account, error) {
	err := db.write(ctx, "create the account", func(tx *sql.Tx) (err error) {
		a, err = db.createAccount(ctx, tx, a)
		return err
	})
	if err != nil {
		return app.Account{}, err
	}
	return a, nil
}

func (db *DB) createAccount(ctx context.Context, tx *sql.Tx, a app.Account) (app.Account, error) {
	a.CreatedAt = moment(stamp(db.now()))
	result, err := tx.ExecContext(ctx,
		"INSERT INTO account (name, total_ram, plan, locale, disabled, admin, created_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
		a.Name, a.TotalRAM, a.Plan, a.Locale, a.Disabled, a.Admin, stamp(a.CreatedAt))
	if err != nil {
		return app.Account{}, nameError(a.Name, err)
	}
	id, err := result.LastInsertId()
	a.ID = app.AccountID(id)
	return a, err
}

// Accounts returns all accounts, oldest first.
func (db *DB) Accounts(ctx context.Context) ([]app.Account, error) {
	var all []app.Account
	err := db.read(ctx, "list the accounts", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+accountColumns+" FROM account ORDER BY id")
		if err != nil {
			return err
		}
		all, err = collect(rows, scanAccount)
		return err
	})
	return all, err
}

// Account returns one account, or app.NotFound.
func (db *DB) Account(ctx context.Context, id app.AccountID) (app.Account, error) {
	var a app.Account
	err := db.read(ctx, "read the account", func(tx *sql.Tx) (err error) {
		a, err = findAccount(ctx, tx, id)
		return err
	})
	return a, err
}

// AccountByName returns one account, or app.NotFound.
func (db *DB) AccountByName(ctx context.Context, name string) (app.Account, error) {
	var a app.Account
	err := db.read(ctx, "read the account", func(tx *sql.Tx) (err error) {
		a, err = scanAccount(tx.QueryRowContext(ctx, "SELECT "+accountColumns+" FROM account WHERE name = ?", name))
		if errors.Is(err, sql.ErrNoRows) {
			return app.Errorf(app.NotFound, "no account is called %q", name)
		}
		return err
	})
	return a, err
}

// UpdateAccount lets change alter an account and stores the result, unless
// change returns an error, which is then returned as it is. assigned is the
// RAM its applications have, those being deployed included. ID and CreatedAt
// stay; the sessions of one that is disabled end. It fails with app.NotFound, and
// app.Conflict when a new name is taken.
func (db *DB) UpdateAccount(
	ctx context.Context, id app.AccountID, change func(a *app.Account, assigned app.MB) error,
) (app.Account, error) {
	var a app.Account
	err := db.write(ctx, "change the account", func(tx *sql.Tx) error {
		before, err := findAccount(ctx, tx, id)
		if err != nil {
			return err
		}
		assigned, err := sumRAM(ctx, tx, id)
		if err != nil {
			return err
		}
		a = before
		if err := change(&a, assigned); err != nil {
			return err
		}
		a.ID, a.CreatedAt = before.ID, before.CreatedAt
		_, err = tx.ExecContext(ctx,
			"UPDATE account SET name = ?, total_ram = ?, plan = ?, locale = ?, disabled = ?, admin = ? WHERE id = ?",
			a.Name, a.TotalRAM, a.Plan, a.Locale, a.Disabled, a.Admin, id)
		if err != nil || !a.Disabled {
			return nameError(a.Name, err)
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM session WHERE account = ?", id)
		return err
	})
	if err != nil {
		return app.Account{}, err
	}
	return a, nil
}

// DeleteAccount removes an account, its tokens and its memberships. It fails
// with app.NotFound, and with app.Conflict while the account has places:
// applications, and those being deployed or removed. A place that went early
// could be given to somebody else, whose files the end of that deployment would
// take for its own.
func (db *DB) DeleteAccount(ctx context.Context, id app.AccountID) error {
	return db.write(ctx, "delete the account", func(tx *sql.Tx) error {
		if _, err := findAccount(ctx, tx, id); err != nil {
			return err
		}
		var apps, others int
		err := tx.QueryRowContext(ctx, "SELECT count(app.id), count(*) - count(app.id) FROM place LEFT JOIN app USING (id) WHERE place.account = ?", id).Scan(&apps, &others)
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
		_, err = tx.ExecContext(ctx, "DELETE FROM account WHERE id = ?", id)
		return err
	})
}

// SumRAM returns the RAM that the applications of an account have, those being
// deployed included; 0 for an account that does not exist.
func (db *DB) SumRAM(ctx context.Context, id app.AccountID) (app.MB, error) {
	var sum app.MB
	err := db.read(ctx, "add up the RAM", func(tx *sql.Tx) (err error) {
		sum, err = sumRAM(ctx, tx, id)
		return err
	})
	return sum, err
}

func sumRAM(ctx context.Context, tx *sql.Tx, id app.AccountID) (app.MB, error) {
	var sum app.MB
	err := tx.QueryRowContext(ctx, "SELECT coalesce(sum(ram), 0) FROM place WHERE account = ?", id).Scan(&sum)
	return sum, err
}

func findAccount(ctx context.Context, tx *sql.Tx, id app.AccountID) (app.Account, error) {
	a, err := scanAccount(tx.QueryRowContext(ctx, "SELECT "+accountColumns+" FROM account WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return app.Account{}, app.Errorf(app.NotFound, "there is no account %d", id)
	}
	return a, err
}

func scanAccount(row scanner) (app.Account, error) {
	var a app.Account
	var created int64
	err := row.Scan(&a.ID, &a.Name, &a.TotalRAM, &a.Plan, &a.Locale, &a.Disabled, &a.Admin, &created)
	a.CreatedAt = moment(created)
	return a, err
}

// nameError tells the user about a name that is taken.
func nameError(name string, err error) error {
	if isTaken(err) {
		return app.Errorf(app.Conflict, "an account called %q exists already", name)
	}
	return err
}
