package httpapi

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"berth/app"
)

type teamAnswer struct {
	Status  string   `json:"status"`
	Message string   `json:"message"`
	Team    []member `json:"team"`
}

type member struct {
	ModID    string   `json:"modID"`
	Perms    []string `json:"perms"`
	Avatar   *string  `json:"avatar"` // accounts have none here
	Username *string  `json:"username"`
}

type memberAnswer struct {
	Status  string   `json:"status"`
	Message string   `json:"message"`
	App     memberOf `json:"app"`
}

type memberOf struct {
	ModID string   `json:"modID"`
	AppID app.ID   `json:"appID"`
	Perms []string `json:"perms"`
}

type teamApp struct {
	ID        app.ID    `json:"id"`
	Name      string    `json:"name"`
	Type      app.Type  `json:"type"`
	RAM       app.MB    `json:"ram"`
	Online    bool      `json:"online"`
	RAMKilled bool      `json:"ramKilled"`
	ExitCode  int       `json:"exitCode"`
	Lang      string    `json:"lang"`
	Perms     []string  `json:"perms"`
	Owner     teamOwner `json:"owner"`
}

type teamOwner struct {
	Name   string `json:"name"`
	Avatar string `json:"avatar"` // accounts have none here; a text, for clients in typed languages
}

// asMember wraps a handler of one application for the members of its team. Who
// has the permission acts for the owner; limits of requests stay the member's.
func (s *server) asMember(p app.Permission, h handler) handler {
	return one(func(c *call) (response, error) {
		ctx := context.WithoutCancel(c.Request.Context()) // who hangs up is a member all the same
		ask := func() (app.AccountID, error) { return s.Teams.Authorize(ctx, c.account.ID, c.id, p) }
		owner, err := ask()
		if err != nil {
			return response{}, err
		}
		c.actsFor = owner
		c.mayStill = func() error {
			_, err := ask()
			return err
		}
		return h(c)
	})
}

// asMemberOfAll is asMember, and oneOrAll: for a member "all" are the
// applications of others for which it has the permission.
func (s *server) asMemberOfAll(p app.Permission, forOne, forAll handler) handler {
	forOne = s.asMember(p, forOne)
	return func(c *call) (response, error) {
		if app.ID(c.params.ByName("appID")) != app.All {
			return forOne(c)
		}
		all, err := s.Teams.Memberships(c.Request.Context(), c.account.ID)
		if err != nil {
			return response{}, err
		}
		c.shared = []app.Snapshot{}
		for _, m := range all {
			owner, err := s.Teams.Authorize(c.Request.Context(), c.account.ID, m.App, p)
			var snap app.Snapshot
			if err == nil {
				snap, err = s.Applications.App(owner, m.App)
			}
			switch kind := app.KindOf(err); {
			case err == nil:
				c.shared = append(c.shared, snap)
			case kind != app.NotFound && kind != app.Forbidden:
				return response{}, err
			}
		}
		return forAll(c)
	}
}

// meant are the applications that "all" stands for.
func (s *server) meant(c *call) []app.Snapshot {
	if c.shared != nil {
		return c.shared
	}
	return s.Applications.Apps(c.owner())
}

// memberships lists the applications of others that the account may use.
func (s *server) memberships(c *call) (response, error) {
	list, err := s.teamApps(c)
	if err != nil {
		return response{}, err
	}
	return ok(appsAnswer{statusOK, c.say("The applications that you help with have been loaded."), list})
}

// membership shows one of them.
func (s *server) membership(c *call) (response, error) {
	list, err := s.teamApps(c)
	if err != nil {
		return response{}, err
	}
	i := slices.IndexFunc(list, func(a teamApp) bool { return a.ID == c.id })
	if i < 0 {
		return response{}, app.Errorf(app.NotFound, "you are not in the team of an application %q", string(c.id))
	}
	return ok(appsAnswer{statusOK, c.say("The application that you help with has been loaded."), list[i]})
}

// teamApps are the applications of others that the account may use.
func (s *server) teamApps(c *call) ([]teamApp, error) {
	all, err := s.Teams.Memberships(c.Request.Context(), c.account.ID)
	if err != nil {
		return nil, err
	}
	list := []teamApp{}
	for _, m := range all {
		snap, err := s.Applications.App(m.Owner.ID, m.App)
		if app.KindOf(err) == app.NotFound {
			continue // it was deleted meanwhile
		}
		if err != nil {
			return nil, err
		}
		list = append(list, teamApp{
			ID: snap.ID, Name: snap.Name, Type: snap.Type, RAM: snap.RAM,
			Online: snap.Running, RAMKilled: snap.RAMKilled(), ExitCode: snap.ExitCode(), Lang: snap.Code.Lang,
			Perms: m.Permissions.Names(), Owner: teamOwner{Name: m.Owner.Name},
		})
	}
	return list, nil
}

// team lists the members of one application.
func (s *server) team(c *call) (response, error) {
	if _, err := s.Applications.App(c.owner(), c.id); err != nil {
		return response{}, err
	}
	all, err := s.Teams.Members(c.Request.Context(), c.owner())
	if err != nil {
		return response{}, err
	}
	list := []member{}
	for _, m := range all {
		if m.App == c.id {
			list = append(list, member{ModID: m.Account.String(), Perms: m.Permissions.Names(), Username: &m.Name})
		}
	}
	return ok(teamAnswer{statusOK, c.say("The team of your application has been loaded."), list})
}

// mods are the members of each application of the account.
func (s *server) mods(c *call) (map[app.ID][]string, error) {
	all, err := s.Teams.Members(c.Request.Context(), c.owner())
	mods := map[app.ID][]string{}
	for _, m := range all {
		mods[m.App] = append(mods[m.App], m.Account.String())
	}
	return mods, err
}

func (s *server) addMember(c *call) (response, error) {
	return changeTeam(c, s.Teams.AddMember, func(name string) app.Text {
		return app.Textf("%s is now in the team of your application.", name)
	})
}

func (s *server) setMember(c *call) (response, error) {
	return changeTeam(c, s.Teams.SetMember, func(name string) app.Text {
		return app.Textf("%s has other permissions now.", name)
	})
}

// changeTeam runs a method of Teams with the account and the permissions that
// the body names.
func changeTeam(
	c *call, do func(context.Context, app.AccountID, app.ID, app.AccountID, []string) (app.Member, error), done func(name string) app.Text,
) (response, error) {
	f, err := c.fields()
	if err != nil {
		return response{}, err
	}
	id, err := f.modID()
	if err != nil {
		return response{}, err
	}
	perms, err := f.texts("perms")
	if err != nil {
		return response{}, err
	}
	c.audit.Note("member=%d permissions=%s", id, strings.Join(perms, ","))
	m, err := do(c.Request.Context(), c.owner(), c.id, id, perms)
	if err != nil {
		return response{}, err
	}
	return ok(memberAnswer{statusOK, c.tell(done(m.Name)), memberOf{m.Account.String(), m.App, m.Permissions.Names()}})
}

func (s *server) removeMember(c *call) (response, error) {
	text := c.params.ByName("modID")
	id, known := accountID(text)
	if !known {
		return response{}, app.Errorf(app.NotFound, "%.40q is not a member of the team: a member is named by the number of the account.", text)
	}
	c.audit.Note("member=%d", id)
	if err := s.Teams.RemoveMember(c.Request.Context(), c.owner(), c.id, id); err != nil {
		return response{}, err
	}
	return ok(plain{statusOK, c.say("Account %d is no longer in the team of your application.", id)})
}

// modID returns the account that a body names, by a text or a number.
func (f fields) modID() (app.AccountID, error) {
	text := string(f["modID"])
	var unquoted string
	if json.Unmarshal(f["modID"], &unquoted) == nil {
		text = unquoted
	}
	id, known := accountID(text)
	if !known {
		return 0, app.Errorf(app.Invalid, `The field modID must be the number of an account, such as "42".`)
	}
	return id, nil
}

// accountID takes only the one spelling that accounts are told by.
func accountID(s string) (id app.AccountID, known bool) {
	n, err := strconv.ParseInt(s, 10, 64)
	id = app.AccountID(n)
	return id, err == nil && n > 0 && id.String() == s
}

// texts returns a required array of strings.
func (f fields) texts(name string) ([]string, error) {
	list := []*string{} // null is no string
	if err := json.Unmarshal(f[name], &list); err != nil || !f.has(name) {
		return nil, app.Errorf(app.Invalid, "The field %s must be an array of texts.", name)
	}
	texts := make([]string, 0, len(list))
	for _, s := range list {
		if s == nil {
			return nil, app.Errorf(app.Invalid, "The field %s must be an array of texts.", name)
		}
		texts = append(texts, *s)
	}
	return texts, nil
}
