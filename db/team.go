package db

import (
	"context"

	"berth/app"
)

// Teams remembers who may use the applications of others.
type Teams struct{ db *DB }

// UpdateMember lets change decide what an account may do with an application
// of owner and stores it; an empty set ends the membership. change gets the
// account, and the empty set when it is no member; its error is returned as it
// is. It fails with app.NotFound when owner has no such application or there
// is no such account, and app.Conflict while the application has an allocation but
// no row: it is being deployed for the first time, or removed.
func (s Teams) UpdateMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID,
	change func(a app.Account, before app.Permissions) (app.Permissions, error),
) (app.Member, error) {
	return put(ctx, s.db, "change a team", func(t tx) (m app.Member, err error) {
		if _, err := typeOf(t, owner, id); err != nil {
			return m, err
		}
		a, err := findAccount(t, member)
		if err != nil {
			return m, err
		}
		before, err := one(t, value[app.Permissions], nil, "SELECT permissions FROM member WHERE app = ? AND account = ?", id, member)
		if err != nil {
			return m, err
		}
		m = app.Member{App: id, Account: member, Name: a.Name}
		if m.Permissions, err = change(a, before); err != nil {
			return m, err
		}
		if m.Permissions == 0 {
			return m, t.exec("DELETE FROM member WHERE app = ? AND account = ?", id, member)
		}
		return m, t.exec("INSERT OR REPLACE INTO member (app, account, permissions) VALUES (?, ?, ?)", id, member, m.Permissions)
	})
}

// AccountByName is that of Accounts.
func (s Teams) AccountByName(ctx context.Context, name string) (app.Account, error) {
	return Accounts(s).AccountByName(ctx, name)
}

// Members returns the members of all applications of an account, by
// application and account.
func (s Teams) Members(ctx context.Context, owner app.AccountID) ([]app.Member, error) {
	scan := func(row scanner) (m app.Member, err error) {
		err = row.Scan(&m.App, &m.Account, &m.Name, &m.Permissions)
		return m, err
	}
	return getAll(ctx, s.db, "list the members of teams", scan, `SELECT member.app, account.id, account.name, member.permissions
		FROM place JOIN member ON member.app = place.id JOIN account ON account.id = member.account
		WHERE place.account = ? ORDER BY member.app, account.id`, owner)
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
func (s Teams) Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error) {
	return getAll(ctx, s.db, "list the memberships", scanMembership, selectMemberships+" ORDER BY app.created_at, app.id", member)
}

// Membership returns what an account may do with one application of another,
// or app.NotFound.
func (s Teams) Membership(ctx context.Context, member app.AccountID, id app.ID) (app.Membership, error) {
	return get(ctx, s.db, "look up a membership", func(t tx) (app.Membership, error) {
		return one(t, scanMembership, app.Errorf(app.NotFound, "account %d is not in the team of %q", member, id),
			selectMemberships+" AND member.app = ?", member, id)
	})
}

func scanMembership(row scanner) (m app.Membership, err error) {
	err = row.Scan(append([]any{&m.App, &m.Permissions}, accountInto(&m.Owner)...)...)
	return m, err
}
