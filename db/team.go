package db

import (
	"context"
	"database/sql"
	"errors"

	"berth/app"
)

// UpdateMember lets change decide what an account may do with an application
// of owner and stores it; an empty set ends the membership. change gets the
// account, and the empty set when it is no member; its error is returned as it
// is. It fails with app.NotFound when owner has no such application or there
// is no such account, and app.Conflict while the application has a place but
// no row: it is being deployed for the first time, or removed.
func (db *DB) UpdateMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID,
	change func(a app.Account, before app.Permissions) (app.Permissions, error),
) (app.Member, error) {
	m := app.Member{App: id, Account: member}
	err := db.write(ctx, "change a team", func(tx *sql.Tx) error {
		if _, err := typeOf(ctx, tx, owner, id); err != nil {
			return err
		}
		a, err := findAccount(ctx, tx, member)
		if err != nil {
			return err
		}
		m.Name = a.Name
		before, err := permissions(ctx, tx, id, member)
		if err != nil {
			return err
		}
		if m.Permissions, err = change(a, before); err != nil {
			return err
		}
		if m.Permissions == 0 {
			_, err = tx.ExecContext(ctx, "DELETE FROM member WHERE app = ? AND account = ?", id, member)
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT OR REPLACE INTO member (app, account, permissions) VALUES (?, ?, ?)", id, member, m.Permissions)
		return err
	})
	if err != nil {
		return app.Member{}, err
	}
	return m, nil
}

// permissions are those of one member, none of an account that is no member.
func permissions(ctx context.Context, tx *sql.Tx, id app.ID, member app.AccountID) (app.Permissions, error) {
	var set app.Permissions
	err := tx.QueryRowContext(ctx, "SELECT permissions FROM member WHERE app = ? AND account = ?", id, member).Scan(&set)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return set, err
}

// Members returns the members of all applications of an account, by
// application and account.
func (db *DB) Members(ctx context.Context, owner app.AccountID) ([]app.Member, error) {
	var all []app.Member
	err := db.read(ctx, "list the members of teams", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT member.app, account.id, account.name, member.permissions
			FROM place JOIN member ON member.app = place.id JOIN account ON account.id = member.account
			WHERE place.account = ? ORDER BY member.app, account.id`, owner)
		if err != nil {
			return err
		}
		all, err = collect(rows, func(row scanner) (m app.Member, err error) {
			err = row.Scan(&m.App, &m.Account, &m.Name, &m.Permissions)
			return m, err
		})
		return err
	})
	return all, err
}

// selectMemberships is in the order of scanMembership. Nobody is in the team of
// an own application: UpdateMember lets its caller refuse that, and an
// application never changes hands.
const selectMemberships = "SELECT member.app, member.permissions, " + accountColumns + `
FROM member
JOIN app ON app.id = member.app
JOIN place ON place.id = member.app
JOIN account ON account.id = place.account
WHERE member.account = ?`

// Memberships returns the applications in whose teams an account is, the
// oldest first.
func (db *DB) Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error) {
	var all []app.Membership
	err := db.read(ctx, "list the memberships", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, selectMemberships+" ORDER BY app.created_at, app.id", member)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanMembership)
		return err
	})
	return all, err
}

// Membership returns what an account may do with one application of another,
// or app.NotFound.
func (db *DB) Membership(ctx context.Context, member app.AccountID, id app.ID) (app.Membership, error) {
	var m app.Membership
	err := db.read(ctx, "look up a membership", func(tx *sql.Tx) (err error) {
		m, err = scanMembership(tx.QueryRowContext(ctx, selectMemberships+" AND member.app = ?", member, id))
		if errors.Is(err, sql.ErrNoRows) {
			return app.Errorf(app.NotFound, "account %d is not in the team of %q", member, id)
		}
		return err
	})
	return m, err
}

func scanMembership(row scanner) (app.Membership, error) {
	var m app.Membership
	var created int64
	o := &m.Owner
	err := row.Scan(&m.App, &m.Permissions, &o.ID, &o.Name, &o.TotalRAM, &o.Plan, &o.Locale, &o.Disabled, &o.Admin, &created)
	o.CreatedAt = moment(created)
	return m, err
}
