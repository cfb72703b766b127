package panel

import (
	"net/url"
	"slices"
	"strings"

	"berth/app"
)

// settingsPages change an application: its RAM, its profile, its team.
type settingsPages struct {
	settings    app.Settings
	teams       app.Teams
	invitations Invitations
	apps        app.Applications
}

// settingsPage is the data of settings.html.
type settingsPage struct {
	Free        app.MB // of the account, beside what this application has
	Members     []app.Member
	Invitations []app.Offer     // to the team
	None        app.Permissions // what an account may that is no member yet
}

// show shows what can be changed. A member that may set the RAM sees nothing else.
func (p settingsPages) show(c *call) (answer, error) {
	page := settingsPage{Free: c.account.TotalRAM}
	if !c.own() {
		return show("settings", page), nil
	}
	for _, snap := range p.apps.Apps(c.account.ID) {
		page.Free -= snap.Charged()
	}
	all, err := p.teams.Members(c.ctx(), c.owner)
	for _, m := range all {
		if m.App == c.app.ID {
			page.Members = append(page.Members, m)
		}
	}
	if err != nil {
		return answer{}, err
	}
	offers, err := p.invitations.Invitations(c.ctx(), c.owner)
	for _, o := range offers {
		if slices.ContainsFunc(o.Grants, func(g app.Grant) bool { return g.App == c.app.ID }) {
			page.Invitations = append(page.Invitations, o)
		}
	}
	return show("settings", page), err
}

func (p settingsPages) setProfile(c *call, f url.Values) (answer, error) {
	name, avatar := strings.TrimSpace(f.Get("name")), strings.TrimSpace(f.Get("avatar"))
	if !app.ValidName(name) {
		return answer{}, app.Errorf(app.Invalid, "the name must have 1 to 30 characters and no control characters")
	}
	if !app.ValidAvatar(avatar) {
		return answer{}, app.Errorf(app.Invalid, "the avatar must be an http or https address of at most 512 characters, or empty")
	}
	c.audit.Note("name=%q avatarURL=%q", name, avatar)
	err := p.settings.SetProfile(c.ctx(), c.owner, c.app.ID, app.Profile{Name: &name, AvatarURL: &avatar})
	return done(c.at("settings"), c.lang.Say("Name and avatar were changed.")), err
}

// ramOf is the RAM that a form has.
func ramOf(f url.Values) (app.MB, error) {
	mb := whole(f.Get("ram"))
	if mb < 1 {
		return 0, app.Errorf(app.Invalid, "the RAM must be a whole number of MB")
	}
	return app.MB(mb), nil
}

func (p settingsPages) setRAM(c *call, f url.Values) (answer, error) {
	mb, err := ramOf(f)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("ramMB=%d", mb)
	err = p.settings.SetRAM(c.ctx(), c.owner, c.app.ID, mb)
	to := c.back()
	if to == "/" {
		to = c.at("settings")
	}
	return gotRAM(c, to, mb), err
}

// toldRAM are the languages whose programs hear at their start how much RAM they have, and keep to it.
var toldRAM = []string{"javascript", "typescript", "deno", "go", "java", "php"}

// gotRAM says that the application of the call has another amount of RAM.
func gotRAM(c *call, to string, mb app.MB) answer {
	said := c.lang.Say("%s has %d MB of RAM now.", c.app.Name, mb)
	if !slices.Contains(toldRAM, c.app.Code.Lang) {
		return done(to, said)
	}
	return changed(to, said+" "+c.lang.Say("Its program uses that from its next start on."))
}

func (p settingsPages) setAutoRestart(c *call, f url.Values) (answer, error) {
	on := f.Get("on") == "true"
	c.audit.Note("autoRestart=%t", on)
	said := c.lang.Say("It stays offline when it fails.")
	if on {
		said = c.lang.Say("It is restarted when it fails.")
	}
	return done(c.at("settings"), said), p.settings.SetAutoRestart(c.ctx(), c.owner, c.app.ID, on)
}

// remove needs the name, so that nobody deletes by a slip.
func (p settingsPages) remove(c *call, f url.Values) (answer, error) {
	if strings.TrimSpace(f.Get("name")) != strings.TrimSpace(c.app.Name) {
		return answer{}, app.Errorf(app.Invalid, "to delete the application, type its name exactly as it is")
	}
	err := p.settings.Delete(c.ctx(), c.owner, c.app.ID)
	return done("/", c.lang.Say("%s was deleted.", c.app.Name)), err
}

// member is a handler that gets which member of the team a form means, and with which
// permissions.
func member(h func(c *call, id app.AccountID, permissions []string) (answer, error)) handler {
	return form(func(c *call, f url.Values) (answer, error) {
		id, permissions := app.AccountID(c.number("member")), f["permission"]
		slices.Sort(permissions)
		c.audit.Note("member=%d permissions=%.200s", id, strings.Join(permissions, ","))
		return h(c, id, permissions)
	})
}

// addMember takes an account into the team, which a person knows by its name or its number.
func (p settingsPages) addMember(c *call, f url.Values) (answer, error) {
	who, permissions := strings.TrimSpace(f.Get("account")), f["permission"]
	slices.Sort(permissions)
	id := app.AccountID(whole(who))
	if id > 0 {
		c.audit.Note("member=%d", id)
	} else {
		c.audit.Note("name=%.40q", who)
	}
	c.audit.Note("permissions=%.200s", strings.Join(permissions, ","))
	if who == "" {
		return answer{}, app.Errorf(app.Invalid, "name the member by the name or the number of the account; its page Account shows both")
	}
	if err := noneChosen(permissions); err != nil {
		return answer{}, err
	}
	var m app.Member
	var err error
	if id > 0 {
		m, err = p.teams.AddMember(c.ctx(), c.owner, c.app.ID, id, permissions)
	} else {
		m, err = p.teams.AddNamed(c.ctx(), c.owner, c.app.ID, who, permissions)
	}
	return done(c.at("settings"), c.lang.Say("%s is in the team now.", m.Name)), err
}

func (p settingsPages) setMember(c *call, id app.AccountID, permissions []string) (answer, error) {
	if err := noneChosen(permissions); err != nil {
		return answer{}, err
	}
	m, err := p.teams.SetMember(c.ctx(), c.owner, c.app.ID, id, permissions)
	return done(c.at("settings"), c.lang.Say("%s has other permissions now.", m.Name)), err
}

func (p settingsPages) removeMember(c *call, id app.AccountID, _ []string) (answer, error) {
	err := p.teams.RemoveMember(c.ctx(), c.owner, c.app.ID, id)
	return done(c.at("settings"), c.lang.Say("The account is no longer in the team.")), err
}
