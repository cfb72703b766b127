package panel

import (
	"berth/app"
	"berth/app/text"
)

// appBar is what the pages of one application have in common: the part "appbar",
// which their templates begin with. render fills it whenever the route's pattern
// has {app}.
type appBar struct {
	app.Snapshot
	standing
	Owner string          // of the application, "" for one's own
	Can   app.Permissions // what the person may do with it
	Own   bool            // it is the person's own
	May   actions
	Tabs  []tab
}

// CanCommit reports whether the person may send new versions.
func (b *appBar) CanCommit() bool { return b.Can.Has(app.CommitApp) }

// tab leads to one page of an application.
type tab struct {
	Word, Path string
	Here       bool
}

// tabs are the pages of an application in their order, by the name of the page
// (its template) and what a member of the team needs to see it.
func tabs(l text.Language) []struct {
	page, path, word string
	team             team
} {
	return []struct {
		page, path, word string
		team             team
	}{
		{"app", "", l.Say("Overview"), app.StatusApp},
		{"logs", "/logs", l.Say("Logs"), app.LogsApp},
		{"env", "/env", l.Say("Environment"), ownerOnly},
		{"files", "/files", l.Say("Files"), app.BackupApp},
		{"domains", "/domains", l.Say("Domains"), ownerOnly},
		{"backups", "/backups", l.Say("Backups"), app.BackupApp},
		{"deploys", "/deploys", l.Say("Deploys"), ownerOnly},
		{"settings", "/settings", l.Say("Settings"), app.EditRAM},
	}
}

// bar is that of the application of the call; nil when it has none, or the page is
// not about it.
func (s *server) bar(c *call, page string) (*appBar, error) {
	if c.app.Account == 0 || page == "apps" || page == "error" {
		return nil, nil
	}
	can, owner, err := s.can(c)
	if err != nil {
		return nil, err
	}
	b := &appBar{
		Snapshot: c.app, standing: standingOf(c.lang, c.app, s.Now()), Owner: owner,
		Can: can, Own: c.owner == c.account.ID, May: actionsOf(c.app, can),
	}
	for _, t := range tabs(c.lang) {
		if b.Own || can.Has(t.team) {
			b.Tabs = append(b.Tabs, tab{t.word, "/apps/" + string(c.app.ID) + t.path, t.page == page || t.page == "files" && page == "file"})
		}
	}
	return b, nil
}

// can is what the person may do with the application of the call, and whose it is,
// "" for one's own.
func (s *server) can(c *call) (app.Permissions, string, error) {
	if c.owner == c.account.ID {
		return app.AllPermissions, "", nil
	}
	all, err := s.Teams.Memberships(c.Request.Context(), c.account.ID)
	for _, m := range all {
		if m.App == c.app.ID && !m.Owner.Disabled {
			return m.Permissions, m.Owner.Name, nil
		}
	}
	return 0, "", err // it ended just now
}
