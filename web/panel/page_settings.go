package panel

import (
	"slices"
	"strings"

	"berth/app"
)

// settingsPage is the data of settings.html.
type settingsPage struct {
	Own         bool
	Name        string // as typed
	AvatarURL   string
	RAM         string
	Free        app.MB // of the account, beside what this application has
	Members     []member
	Permissions []permission
}

// member is one member of the team with the choices for it.
type member struct {
	app.Member
	Permissions []permission
}

// permission is one of the eight.
type permission struct {
	Name, Word string
	On         bool
}

// settings shows what can be changed. A member that may set the RAM sees nothing
// else.
func (s *server) settings(c *call) (answer, error) {
	page := settingsPage{Own: c.own(), Name: c.app.Name, AvatarURL: c.app.AvatarURL, RAM: c.app.RAM.String(), Permissions: s.permissions(c, 0)}
	if !page.Own {
		return show("settings", page)
	}
	page.Free = c.account.TotalRAM
	for _, snap := range s.Applications.Apps(c.account.ID) {
		page.Free -= snap.RAM
	}
	members, err := s.Teams.Members(c.Request.Context(), c.owner)
	if err != nil {
		return answer{}, err
	}
	for _, m := range members {
		if m.App == c.app.ID {
			page.Members = append(page.Members, member{m, s.permissions(c, m.Permissions)})
		}
	}
	return show("settings", page)
}

// permissions are the eight in words, those of has being on.
func (s *server) permissions(c *call, has app.Permissions) []permission {
	l := c.lang
	words := []string{
		l.Say("start"), l.Say("stop"), l.Say("restart"), l.Say("read the log"), l.Say("deploy new versions"),
		l.Say("set the RAM"), l.Say("make backups and read files"), l.Say("see state and usage"),
	}
	all := make([]permission, len(words))
	for i, name := range app.AllPermissions.Names() {
		p, _ := app.ParsePermission(name) // it is one
		all[i] = permission{name, words[i], has.Has(p)}
	}
	return all
}

func (s *server) setProfile(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	name, avatar := strings.TrimSpace(f.Get("name")), strings.TrimSpace(f.Get("avatar"))
	if !app.ValidName(name) {
		return answer{}, app.Errorf(app.Invalid, "the name must have 1 to 30 characters and no control characters")
	}
	if !app.ValidAvatar(avatar) {
		return answer{}, app.Errorf(app.Invalid, "the avatar must be an http or https address of at most 512 characters, or empty")
	}
	c.audit.Note("name=%q avatarURL=%q", name, avatar)
	if err := s.Settings.SetProfile(c.Request.Context(), c.owner, c.app.ID, app.Profile{Name: &name, AvatarURL: &avatar}); err != nil {
		return answer{}, err
	}
	return done(c.at("settings"), c.lang.Say("Name and avatar were changed."))
}

func (s *server) setRAM(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	mb := whole(f.Get("ram"))
	if mb < 1 {
		return answer{}, app.Errorf(app.Invalid, "the RAM must be a whole number of MB")
	}
	c.audit.Note("ramMB=%d", mb)
	if err := s.Settings.SetRAM(c.Request.Context(), c.owner, c.app.ID, app.MB(mb)); err != nil {
		return answer{}, err
	}
	to := c.at("settings")
	if back := local(f.Get("back")); back != "/" {
		to = back
	}
	return done(to, c.lang.Say("%s has %d MB of RAM now.", c.app.Name, mb))
}

func (s *server) setAutoRestart(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	on := f.Get("on") == "true"
	c.audit.Note("autoRestart=%t", on)
	if err := s.Settings.SetAutoRestart(c.Request.Context(), c.owner, c.app.ID, on); err != nil {
		return answer{}, err
	}
	if on {
		return done(c.at("settings"), c.lang.Say("It is restarted when it fails."))
	}
	return done(c.at("settings"), c.lang.Say("It stays offline when it fails."))
}

// deleteApp needs the name, so that nobody deletes by a slip.
func (s *server) deleteApp(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if strings.TrimSpace(f.Get("name")) != strings.TrimSpace(c.app.Name) {
		return answer{}, app.Errorf(app.Invalid, "type the name of the application exactly as it is, then it is deleted")
	}
	if err := s.Settings.Delete(c.Request.Context(), c.owner, c.app.ID); err != nil {
		return answer{}, err
	}
	return done("/", c.lang.Say("%s was deleted.", c.app.Name))
}

// memberOf reads which account a form of the team means, and with which permissions.
func (c *call) memberOf() (app.AccountID, []string, error) {
	f, err := c.form()
	if err != nil {
		return 0, nil, err
	}
	text := f.Get("account")
	if c.Request.PathValue("member") != "" {
		text = c.Request.PathValue("member")
	}
	id := app.AccountID(whole(text))
	if id < 1 {
		return 0, nil, app.Errorf(app.Invalid, "name the member by the number of the account, which stands on its account page")
	}
	perms := f["permission"]
	slices.Sort(perms)
	c.audit.Note("member=%d permissions=%.200s", id, strings.Join(perms, ","))
	return id, perms, nil
}

func (s *server) addMember(c *call) (answer, error) {
	id, perms, err := c.memberOf()
	if err != nil {
		return answer{}, err
	}
	m, err := s.Teams.AddMember(c.Request.Context(), c.owner, c.app.ID, id, perms)
	if err != nil {
		return answer{}, err
	}
	return done(c.at("settings"), c.lang.Say("%s is in the team now.", m.Name))
}

func (s *server) setMember(c *call) (answer, error) {
	id, perms, err := c.memberOf()
	if err != nil {
		return answer{}, err
	}
	m, err := s.Teams.SetMember(c.Request.Context(), c.owner, c.app.ID, id, perms)
	if err != nil {
		return answer{}, err
	}
	return done(c.at("settings"), c.lang.Say("%s has other permissions now.", m.Name))
}

func (s *server) removeMember(c *call) (answer, error) {
	id, _, err := c.memberOf()
	if err != nil {
		return answer{}, err
	}
	if err := s.Teams.RemoveMember(c.Request.Context(), c.owner, c.app.ID, id); err != nil {
		return answer{}, err
	}
	return done(c.at("settings"), c.lang.Say("The account is no longer in the team."))
}
