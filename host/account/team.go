package account

import (
	"context"

	"berth/app"
)

// TeamStore is what the teams need to have remembered.
type TeamStore interface {
	// UpdateMember stores what change makes of a member's permissions, in one
	// transaction; none means that the account is no member. change gets the
	// member's account, and 0 when it is no member so far. It fails with
	// app.NotFound when owner has no such application or there is no such
	// account, and app.Conflict while the application comes to be or goes.
	UpdateMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID,
		change func(a app.Account, before app.Permissions) (app.Permissions, error)) (app.Member, error)
	// AccountByName returns app.NotFound for a name that no account has.
	AccountByName(ctx context.Context, name string) (app.Account, error)
	// Members returns the members of all applications of owner, by application
	// and account.
	Members(ctx context.Context, owner app.AccountID) ([]app.Member, error)
	// Membership returns what one account may do with one application of
	// another, or app.NotFound.
	Membership(ctx context.Context, member app.AccountID, id app.ID) (app.Membership, error)
	// Memberships returns all of an account, the oldest application first.
	Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error)
}

// Teams decides who may do what with an application that is not their own. It
// is safe for concurrent use and keeps no team in memory, so that a change
// counts from the next question on; it blocks as long as its store does. It slows down
// an account that tries which others there are.
type Teams struct {
	store  TeamStore
	misses *throttle // by the account that adds members
}

// NewTeams returns the teams on store.
func NewTeams(store TeamStore) *Teams { return &Teams{store, newThrottle(addressWait)} }

// Authorize returns the account on whose behalf member may do what p names
// with an application of another account; every edge asks it before it does
// that. It fails with app.NotFound for an application that member is no member
// of, one's own included, and app.Forbidden without the permission, or while
// the owner's account is disabled.
func (t *Teams) Authorize(ctx context.Context, member app.AccountID, id app.ID, p app.Permission) (app.AccountID, error) {
	m, err := t.store.Membership(ctx, member, id)
	if app.KindOf(err) == app.NotFound {
		return 0, app.Errorf(app.NotFound, "you are not in the team of an application %q", id)
	}
	if err != nil {
		return 0, err
	}
	return m.Owner.ID, may(m, p)
}

// may is the one rule: who is in a team may do what the permissions name and
// nothing else, while the owner may.
func may(m app.Membership, p app.Permission) error {
	switch {
	case m.Owner.Suspended.On:
		return app.Errorf(app.Forbidden, "the account that owns %q is suspended; ask the owner of the server", m.App)
	case m.Owner.Disabled:
		return app.Errorf(app.Forbidden, "the account that owns %q is disabled; ask the owner of the server", m.App)
	case !m.Permissions.Has(p):
		return app.Errorf(app.Forbidden, "this needs the permission %v for %q, which you do not have; ask its owner, %s", p, m.App, m.Owner.Name)
	}
	return nil
}

// Members returns the members of all applications of owner, by application
// and account.
func (t *Teams) Members(ctx context.Context, owner app.AccountID) ([]app.Member, error) {
	return t.store.Members(ctx, owner)
}

// Memberships returns the applications of others that an account may use, the
// oldest first.
func (t *Teams) Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error) {
	return t.store.Memberships(ctx, member)
}

// AddMember lets an account use an application of owner. It fails with
// app.Invalid for permissions that are none, app.NotFound when there is no such
// application or account, app.Unusable for owner's own account and one that is
// disabled, app.Conflict when it is a member already, and app.Limited after many
// accounts that there are not.
func (t *Teams) AddMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, names []string) (app.Member, error) {
	set, err := app.ParsePermissions(names)
	if err != nil {
		return app.Member{}, err
	}
	return t.counted(owner, func() (app.Member, error) { return t.add(ctx, owner, id, member, set) })
}

// AddNamed is AddMember for an account that owner knows by its name. A disabled account is
// app.NotFound, as one that there is not: owner learns no name by trying.
func (t *Teams) AddNamed(ctx context.Context, owner app.AccountID, id app.ID, name string, names []string) (app.Member, error) {
	set, err := app.ParsePermissions(names)
	if err != nil {
		return app.Member{}, err
	}
	return t.counted(owner, func() (app.Member, error) {
		a, err := t.store.AccountByName(ctx, cutText(name, maxAgent))
		if app.KindOf(err) == app.NotFound || err == nil && a.Disabled {
			err = app.Errorf(app.NotFound, "no account that could become a member is called %.40q; ask for the name or the number on its account page", name)
		}
		if err != nil {
			return app.Member{}, err
		}
		return t.add(ctx, owner, id, a.ID, set)
	})
}

// counted lets an account add a member unless too many of its tries have lately found none.
func (t *Teams) counted(owner app.AccountID, add func() (app.Member, error)) (app.Member, error) {
	if err := tooMany(t.misses.try(owner.String())); err != nil {
		return app.Member{}, err
	}
	m, err := add()
	if app.KindOf(err) != app.NotFound {
		t.misses.undo(owner.String())
	}
	return m, err
}

func (t *Teams) add(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, set app.Permissions) (app.Member, error) {
	return t.store.UpdateMember(ctx, owner, id, member, func(a app.Account, before app.Permissions) (app.Permissions, error) {
		switch {
		case a.ID == owner:
			return 0, app.Errorf(app.Unusable, "account %d is your own; you may do everything with your application", member)
		case before != 0:
			return 0, app.Errorf(app.Conflict, "account %d is a member of the team already; change its permissions with PUT", member)
		case a.Suspended.On:
			return 0, app.Errorf(app.Unusable, "account %d is suspended and cannot become a member", member)
		case a.Disabled:
			return 0, app.Errorf(app.Unusable, "account %d is disabled and cannot become a member", member)
		}
		return set, nil
	})
}

// SetMember replaces the permissions of a member. It fails with app.Invalid for
// permissions that are none, and app.NotFound when there is no such
// application, account or member. A member whose account is disabled can be
// changed: it may do nothing meanwhile.
func (t *Teams) SetMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID, names []string) (app.Member, error) {
	set, err := app.ParsePermissions(names)
	if err != nil {
		return app.Member{}, err
	}
	return t.store.UpdateMember(ctx, owner, id, member, replace(set))
}

// RemoveMember ends a membership. It fails with app.NotFound when there is no
// such application, account or member.
func (t *Teams) RemoveMember(ctx context.Context, owner app.AccountID, id app.ID, member app.AccountID) error {
	_, err := t.store.UpdateMember(ctx, owner, id, member, replace(0))
	return err
}

func replace(set app.Permissions) func(app.Account, app.Permissions) (app.Permissions, error) {
	return func(a app.Account, before app.Permissions) (app.Permissions, error) {
		if before == 0 {
			return 0, app.Errorf(app.NotFound, "account %d is not a member of the team", a.ID)
		}
		return set, nil
	}
}
