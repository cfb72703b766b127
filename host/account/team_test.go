package account

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// memberKey names one possible membership.
type memberKey struct {
	app    app.ID
	member app.AccountID
}

// roster is a TeamStore in memory. Account 1, ana, owns "bot".
type roster struct {
	accounts map[app.AccountID]app.Account
	members  map[memberKey]app.Permissions
	broken   error // what every call fails with, if set
}

func newRoster() *roster {
	return &roster{
		accounts: map[app.AccountID]app.Account{
			1: {ID: 1, Name: "ana"}, 2: {ID: 2, Name: "bob"}, 3: {ID: 3, Name: "carl", Disabled: true},
		},
		members: map[memberKey]app.Permissions{},
	}
}

func (r *roster) UpdateMember(_ context.Context, owner app.AccountID, id app.ID, member app.AccountID,
	change func(app.Account, app.Permissions) (app.Permissions, error),
) (app.Member, error) {
	a, known := r.accounts[member]
	switch {
	case r.broken != nil:
		return app.Member{}, r.broken
	case owner != 1 || id != "bot":
		return app.Member{}, app.Errorf(app.NotFound, "no application")
	case !known:
		return app.Member{}, app.Errorf(app.NotFound, "no account")
	}
	set, err := change(a, r.members[memberKey{id, member}])
	if err != nil {
		return app.Member{}, err
	}
	r.members[memberKey{id, member}] = set
	return app.Member{App: id, Account: member, Name: a.Name, Permissions: set}, nil
}

func (r *roster) AccountByName(_ context.Context, name string) (app.Account, error) {
	for _, a := range r.accounts {
		if a.Name == name {
			return a, r.broken
		}
	}
	return app.Account{}, app.Errorf(app.NotFound, "no account")
}

func (r *roster) Members(_ context.Context, owner app.AccountID) ([]app.Member, error) {
	var all []app.Member
	for k, set := range r.members {
		if set != 0 && owner == 1 {
			all = append(all, app.Member{App: k.app, Account: k.member, Name: r.accounts[k.member].Name, Permissions: set})
		}
	}
	return all, r.broken
}

func (r *roster) Membership(_ context.Context, member app.AccountID, id app.ID) (app.Membership, error) {
	set := r.members[memberKey{id, member}]
	if r.broken == nil && set == 0 {
		return app.Membership{}, app.Errorf(app.NotFound, "no membership")
	}
	return app.Membership{App: id, Owner: r.accounts[1], Permissions: set}, r.broken
}

func (r *roster) Memberships(ctx context.Context, member app.AccountID) ([]app.Membership, error) {
	m, err := r.Membership(ctx, member, "bot")
	if app.KindOf(err) == app.NotFound {
		return nil, nil
	}
	return []app.Membership{m}, err
}

// each calls do for every permission.
func each(do func(p app.Permission)) {
	for _, name := range app.AllPermissions.Names() {
		p, _ := app.ParsePermission(name) // it is one of them
		do(p)
	}
}

// wantSentence is wantKind, and that a person is told all of these.
func wantSentence(t *testing.T, what string, err error, kind app.Kind, parts ...string) {
	t.Helper()
	wantKind(t, what, err, kind)
	for _, part := range parts {
		if err != nil && !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %q does not say %q", what, err, part)
		}
	}
}

// TestAuthorize holds every set of permissions against every permission.
func TestAuthorize(t *testing.T) {
	store := newRoster()
	teams := NewTeams(store)
	for set := app.Permissions(1); set != 0; set++ {
		store.members[memberKey{"bot", 2}] = set
		each(func(p app.Permission) {
			owner, err := teams.Authorize(t.Context(), 2, "bot", p)
			if slices.Contains(set.Names(), p.String()) {
				if err != nil || owner != 1 {
					t.Errorf("%v with %v: %d, %v", p, set.Names(), owner, err)
				}
				return
			}
			wantSentence(t, p.String(), err, app.Forbidden, p.String(), `"bot"`, "ana")
		})
	}
	for what, who := range map[string]app.AccountID{"the owner": 1, "a stranger": 3, "nobody": 9} {
		_, err := teams.Authorize(t.Context(), who, "bot", app.StartApp)
		wantSentence(t, what, err, app.NotFound, `"bot"`)
	}
	_, err := teams.Authorize(t.Context(), 2, "other", app.StartApp)
	wantSentence(t, "another application", err, app.NotFound, `"other"`)

	store.members[memberKey{"bot", 2}] = app.AllPermissions
	store.accounts[1] = app.Account{ID: 1, Name: "ana", Disabled: true}
	each(func(p app.Permission) {
		_, err := teams.Authorize(t.Context(), 2, "bot", p)
		wantSentence(t, "a disabled owner", err, app.Forbidden, `"bot"`, "disabled")
	})
	store.broken = errors.New("disk on fire")
	if _, err := teams.Authorize(t.Context(), 2, "bot", app.StartApp); !errors.Is(err, store.broken) {
		t.Errorf("a broken store: %v", err)
	}
}

func TestTeamOfAnApplication(t *testing.T) {
	store := newRoster()
	teams, ctx := NewTeams(store), t.Context()
	add := func(member app.AccountID, names ...string) error {
		m, err := teams.AddMember(ctx, 1, "bot", member, names)
		if err == nil && (m.Account != member || m.App != "bot" || m.Name != store.accounts[member].Name) {
			t.Errorf("added %+v", m)
		}
		return err
	}
	set := func(member app.AccountID, names ...string) error {
		_, err := teams.SetMember(ctx, 1, "bot", member, names)
		return err
	}
	wantSentence(t, "changing one that is none", set(2, "logs_app"), app.NotFound, "account 2", "not a member")
	wantSentence(t, "removing one that is none", teams.RemoveMember(ctx, 1, "bot", 2), app.NotFound, "account 2", "not a member")
	wantSentence(t, "oneself", add(1, "logs_app"), app.Unusable, "account 1", "your own")
	wantSentence(t, "a disabled account", add(3, "logs_app"), app.Unusable, "account 3", "disabled")
	wantKind(t, "no account", add(9, "logs_app"), app.NotFound)
	if len(store.members) != 0 {
		t.Fatalf("refused, and stored %v", store.members)
	}

	if err := add(2, "status_app", "logs_app", "status_app"); err != nil {
		t.Fatal(err)
	}
	wantSentence(t, "a member", add(2, "logs_app"), app.Conflict, "account 2", "already")
	m, err := teams.SetMember(ctx, 1, "bot", 2, []string{"backup_app", "start_app"})
	if err != nil || !slices.Equal(m.Permissions.Names(), []string{"start_app", "backup_app"}) {
		t.Errorf("set %+v, %v", m, err)
	}
	store.accounts[2] = app.Account{ID: 2, Name: "bob", Disabled: true}
	if err := set(2, "logs_app"); err != nil {
		t.Errorf("a member that was disabled since: %v", err)
	}
	wantKind(t, "another's application", teams.RemoveMember(ctx, 2, "bot", 2), app.NotFound)
	if err := teams.RemoveMember(ctx, 1, "bot", 2); err != nil {
		t.Error(err)
	}
	if all, err := teams.Members(ctx, 1); err != nil || len(all) != 0 {
		t.Errorf("left are %+v, %v", all, err)
	}
	if mine, err := teams.Memberships(ctx, 2); err != nil || len(mine) != 0 {
		t.Errorf("still in %+v, %v", mine, err)
	}
}

func TestParsePermissions(t *testing.T) {
	for _, names := range [][]string{nil, {}, {""}, {"logs_app", "delete_app"}, {"Logs_App"}, {strings.Repeat("x", 1000)}} {
		_, err := app.ParsePermissions(names)
		wantSentence(t, strings.Join(names, " "), err, app.Invalid, app.AllPermissions.Names()...)
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("the refusal has %d characters", len(err.Error()))
		}
		for _, change := range []func(context.Context, app.AccountID, app.ID, app.AccountID, []string) (app.Member, error){
			NewTeams(newRoster()).AddMember, NewTeams(newRoster()).SetMember,
		} {
			_, err := change(t.Context(), 1, "bot", 2, names)
			wantKind(t, "a change to no permissions", err, app.Invalid)
		}
	}
	if set, err := app.ParsePermissions(app.AllPermissions.Names()); err != nil || set != app.AllPermissions {
		t.Errorf("all of them are %v, %v", set.Names(), err)
	}
}

// A stranger learns from no answer which accounts there are: one that is disabled is as good as
// none, and who tries many names waits.
func TestMembersByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newRoster()
		teams, ctx := NewTeams(store), t.Context()
		add := func(name string) error {
			_, err := teams.AddNamed(ctx, 1, "bot", name, []string{"logs_app"})
			return err
		}
		if err := add("bob"); err != nil || store.members[memberKey{"bot", 2}] == 0 {
			t.Fatal(err, store.members)
		}
		for range 10 {
			wantSentence(t, "a member", add("bob"), app.Conflict, "account 2", "already")
		}
		wantSentence(t, "oneself", add("ana"), app.Unusable, "your own")
		unknown, disabled := add("nobody"), add("carl")
		wantSentence(t, "unknown", unknown, app.NotFound, "no account")
		if strings.ReplaceAll(unknown.Error(), "nobody", "carl") != disabled.Error() {
			t.Errorf("%v, but %v", unknown, disabled)
		}
		for range 3 {
			wantKind(t, "another one", add("dora"), app.NotFound)
		}
		wantKind(t, "the sixth", add("dora"), app.Limited)
		wantKind(t, "one that there is", add("bob"), app.Limited)
		_, err := teams.AddMember(ctx, 1, "bot", 2, []string{"logs_app"})
		wantKind(t, "by number", err, app.Limited)
		_, err = teams.AddMember(ctx, 2, "bot", 3, []string{"logs_app"})
		wantKind(t, "another account", err, app.NotFound)
		time.Sleep(time.Second)
		wantKind(t, "a second later", add("bob"), app.Conflict)
		store.broken = errors.New("broken")
		if _, err := teams.AddNamed(ctx, 3, "bot", "bob", []string{"logs_app"}); !errors.Is(err, store.broken) {
			t.Errorf("the store fails, and %v", err)
		}
		_, err = teams.AddNamed(ctx, 4, "bot", "bob", nil)
		wantKind(t, "no permission", err, app.Invalid)
	})
}
