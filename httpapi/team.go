package httpapi

import (
	"context"
	"strconv"
	"strings"

	"berth/app"
)

// teams are the routes of who else may use the applications of an account.
type teams struct {
	app.Teams
	apps app.Applications
}

// memberships lists the applications of others that the account may use.
func (t teams) memberships(c *call) (response, error) {
	list, err := t.helped(c, "")
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The applications that you help with have been loaded."), member{"apps", list})
}

// membership shows one of them.
func (t teams) membership(c *call) (response, error) {
	list, err := t.helped(c, c.id)
	switch {
	case err != nil:
		return response{}, err
	case len(list) == 0:
		return response{}, app.Errorf(app.NotFound, "you are not in the team of an application %q", string(c.id))
	}
	return ok(c.say("The application that you help with has been loaded."), member{"apps", list[0]})
}

// helped are the applications of others that the account may use, only that named by id
// unless that is "".
func (t teams) helped(c *call, id app.ID) ([]object, error) {
	all, err := t.Memberships(c.Request.Context(), c.account.ID)
	if err != nil {
		return nil, err
	}
	list := []object{}
	for _, m := range all {
		snap, err := t.apps.App(m.Owner.ID, m.App)
		if app.KindOf(err) == app.NotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		if id != "" && id != snap.ID || !c.token.Bounds.Covers(snap.ID) {
			continue
		}
		list = append(list, object{
			{"id", snap.ID},
			{"name", snap.Name},
			{"type", snap.Type},
			{"ram", snap.RAM},
			{"online", snap.Running},
			{"ramKilled", snap.RAMKilled()},
			{"exitCode", snap.ExitCode()},
			{"lang", snap.Code.Lang},
			{"perms", m.Permissions.Names()},
			{"owner", object{{"name", m.Owner.Name}, {"avatar", ""}}}, // accounts have none; a text, for clients in typed languages
		})
	}
	return list, nil
}

// members lists the members of one application.
func (t teams) members(c *call) (response, error) {
	if _, err := t.apps.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	all, err := t.Members(c.Request.Context(), c.owner())
	if err != nil {
		return response{}, err
	}
	list := []object{}
	for _, m := range all {
		if m.App == c.id {
			list = append(list, object{{"modID", m.Account.String()}, {"perms", m.Permissions.Names()}, {"avatar", nil}, {"username", m.Name}})
		}
	}
	return ok(c.say("The team of your application has been loaded."), member{"team", list})
}

func (t teams) add(c *call) (response, error) {
	m, err := t.change(c, t.AddMember, t.AddNamed)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("%s is now in the team of your application.", m.Name), membershipOf(m))
}

func (t teams) set(c *call) (response, error) {
	m, err := t.change(c, t.SetMember, t.setNamed)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("%s has other permissions now.", m.Name), membershipOf(m))
}

// change runs a method of Teams with the account and the permissions that the body names: an
// account by its number, or by its name.
func (t teams) change(
	c *call, do func(context.Context, app.AccountID, app.ID, app.AccountID, []string) (app.Member, error),
	named func(context.Context, app.AccountID, app.ID, string, []string) (app.Member, error),
) (app.Member, error) {
	f := c.fields()
	name, perms := f.text("username"), f.texts("perms")
	if name != nil && f.has("modID") {
		f.wrong("Send the field modID or the field username, not both.")
	}
	if name == nil {
		id := f.modID()
		if f.err != nil {
			return app.Member{}, f.err
		}
		c.audit.Note("member=%d permissions=%s", id, strings.Join(perms, ","))
		return do(c.Request.Context(), c.owner(), c.id, id, perms)
	}
	if f.err != nil {
		return app.Member{}, f.err
	}
	c.audit.Note("name=%.40q permissions=%s", *name, strings.Join(perms, ","))
	return named(c.Request.Context(), c.owner(), c.id, *name, perms)
}

// setNamed is SetMember for the name of a member.
func (t teams) setNamed(ctx context.Context, owner app.AccountID, id app.ID, name string, perms []string) (app.Member, error) {
	all, err := t.Members(ctx, owner)
	if err != nil {
		return app.Member{}, err
	}
	for _, m := range all {
		if m.App == id && m.Name == name {
			return t.SetMember(ctx, owner, id, m.Account, perms)
		}
	}
	return app.Member{}, app.Errorf(app.NotFound, "nobody in the team of %q is called %.40q", id, name)
}

func membershipOf(m app.Member) member {
	return member{"app", object{{"modID", m.Account.String()}, {"appID", m.App}, {"perms", m.Permissions.Names()}}}
}

func (t teams) remove(c *call) (response, error) {
	text := c.params.ByName("modID")
	id, known := accountID(text)
	if !known {
		return response{}, app.Errorf(app.NotFound, "%.40q is not a member of the team: a member is named by the number of the account.", text)
	}
	c.audit.Note("member=%d", id)
	if err := t.RemoveMember(c.Request.Context(), c.owner(), c.id, id); err != nil {
		return response{}, err
	}
	return ok(c.say("Account %d is no longer in the team of your application.", id))
}

// accountID accepts only the one spelling that answers use.
func accountID(s string) (id app.AccountID, known bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	id = app.AccountID(n)
	return id, err == nil && n > 0 && id.String() == s
}
