package httpapi

import (
	"context"
	"slices"

	"berth/app"
)

// team is what a world knows of teams.
type team struct {
	members     []app.Member     // of all applications of the world
	memberships []app.Membership // of the account
}

// bob is who joins teams; the applications of a world are ada's.
var (
	ada = app.Account{ID: 7, Name: "ada", TotalRAM: 1024, Plan: "Diamond", Locale: "en-US"}
	bob = app.Account{ID: 8, Name: "bob", TotalRAM: 64, Plan: "Gold", Locale: "en-US"}
)

// join makes bob ask, a member of the team of every application there is.
func (w *world) join(set app.Permissions) {
	w.account = bob
	w.team.memberships = nil
	for _, s := range w.apps {
		w.team.memberships = append(w.team.memberships, app.Membership{App: s.ID, Owner: ada, Permissions: set})
	}
}

// helped puts bob and another into the team of an application of ada's.
func helped(w *world) {
	w.team.members = []app.Member{
		{App: "1745338954955", Account: 11, Name: "eve", Permissions: app.AllPermissions},
		{App: "bot-one", Account: 8, Name: "bob", Permissions: app.Permissions(0).With(app.StatusApp).With(app.StartApp)},
		{App: "bot-one", Account: 11, Name: "eve", Permissions: app.AllPermissions},
	}
}

func (w *world) Members(_ context.Context, owner app.AccountID) ([]app.Member, error) {
	return slices.DeleteFunc(slices.Clone(w.team.members), func(m app.Member) bool {
		return !slices.ContainsFunc(w.Apps(owner), func(s app.Snapshot) bool { return s.ID == m.App })
	}), w.call("Members")
}

func (w *world) AddMember(_ context.Context, owner app.AccountID, id app.ID, member app.AccountID, names []string) (app.Member, error) {
	return w.setMember(w.call("AddMember", id, member, names), owner, id, member, names)
}

func (w *world) AddNamed(_ context.Context, owner app.AccountID, id app.ID, name string, names []string) (app.Member, error) {
	return w.setMember(w.call("AddNamed", id, name, names), owner, id, bob.ID, names)
}

func (w *world) SetMember(_ context.Context, owner app.AccountID, id app.ID, member app.AccountID, names []string) (app.Member, error) {
	return w.setMember(w.call("SetMember", id, member, names), owner, id, member, names)
}

func (w *world) RemoveMember(_ context.Context, owner app.AccountID, id app.ID, member app.AccountID) error {
	return w.change(w.call("RemoveMember", id, member), owner, id)
}

func (w *world) setMember(err error, owner app.AccountID, id app.ID, member app.AccountID, names []string) (app.Member, error) {
	var set app.Permissions
	for _, name := range names {
		p, _ := app.ParsePermission(name) // the rule is behind the interface
		set = set.With(p)
	}
	return app.Member{App: id, Account: member, Name: "bob", Permissions: set}, w.change(err, owner, id)
}

func (w *world) Memberships(context.Context, app.AccountID) ([]app.Membership, error) {
	return w.team.memberships, w.call("Memberships")
}

func (w *world) Authorize(_ context.Context, member app.AccountID, id app.ID, p app.Permission) (app.AccountID, error) {
	if err := w.call("Authorize", member, id, p); err != nil {
		return 0, err
	}
	for _, m := range w.team.memberships {
		switch {
		case m.App != id || member != w.account.ID:
		case !m.Permissions.Has(p):
			return 0, app.Errorf(app.Forbidden, "This needs the permission %v.", p)
		default:
			return m.Owner.ID, nil
		}
	}
	return 0, app.Errorf(app.NotFound, "You are not in the team of an application with this ID.")
}
