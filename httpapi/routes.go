package httpapi

import (
	"context"
	"net/http"

	"berth/app"
)

// access is who may use a route.
type access int

const (
	byToken access = iota // the holder of a valid token; counted
	public                // anybody; not counted
)

// handler answers one call. It MUST NOT write to it.
type handler func(c *call) (response, error)

type route struct {
	Method  string
	Path    string
	access  access
	handler handler
	audit   string // the operation's name in the audit log; "" when it is not recorded
}

// routes is the whole API. HEAD and OPTIONS are added by newRouter.
func (s *server) routes() []route {
	apps, settings, teams := applications{s.Applications, s.Teams, s.Address}, settings{s.Settings}, teams{s.Teams, s.Applications}
	deploys, sockets := s.deployments, s.sockets
	downloads := downloads{s.Applications, s.Deployments, s.Contents, s.Links, s.BaseURL}
	records := records{s.Applications, s.Metrics}
	accounts := accounts{s.Accounts, s.Applications, s.Names, s.Teams}
	names := names{s.Names, s.Applications, s.Certificates}
	feed := feed{s.Feed}
	return []route{
		{http.MethodPost, "/v2/upload", byToken, deploys.upload, "app.upload"},
		{http.MethodGet, "/v2/app/:appID", byToken, s.owned(apps.information, apps.informationOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/status", byToken, s.owned(apps.status, apps.statusOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/logs", byToken, s.owned(downloads.logs, downloads.logsOfAll), "app.logs"},
		{http.MethodGet, "/v2/app/:appID/backup", byToken, s.owned(downloads.backup, downloads.backupOfAll), "app.backup"},
		{http.MethodPut, "/v2/app/:appID/start", byToken, s.owned(apps.start, apps.startAll), "app.start"},
		{http.MethodPut, "/v2/app/:appID/restart", byToken, s.owned(apps.restart, apps.restartAll), "app.restart"},
		{http.MethodPut, "/v2/app/:appID/stop", byToken, s.owned(apps.stop, apps.stopAll), "app.stop"},
		{http.MethodPut, "/v2/app/:appID/ram", byToken, one(settings.setRAM), "app.ram"},
		{http.MethodGet, "/v2/app/:appID/env", byToken, one(settings.variables), ""},
		{http.MethodPut, "/v2/app/:appID/env", byToken, one(settings.setVariables), "env.set"},
		{http.MethodDelete, "/v2/app/:appID/env/:name", byToken, one(settings.removeVariable), "env.remove"},
		{http.MethodPut, "/v2/app/:appID/apt", byToken, one(settings.addApts), "apt.add"},
		{http.MethodDelete, "/v2/app/:appID/apt", byToken, one(settings.dropApts), "apt.remove"},
		{http.MethodPut, "/v2/app/:appID/commit", byToken, one(deploys.commit), "app.commit"},
		{http.MethodPost, "/v2/app/:appID/restore", byToken, one(deploys.restore), "app.restore"},
		{http.MethodGet, "/v2/app/:appID/deploys", byToken, one(deploys.list), ""},
		{http.MethodPost, "/v2/app/:appID/rollback", byToken, one(deploys.rollback), "app.rollback"},
		{http.MethodPut, "/v2/app/:appID/console", byToken, one(apps.console), "app.console"},
		{http.MethodPut, "/v2/app/:appID/profile", byToken, one(settings.setProfile), "app.profile"},
		{http.MethodGet, "/v2/app/:appID/team", byToken, one(teams.members), ""},
		{http.MethodPost, "/v2/app/:appID/team", byToken, one(teams.add), "team.add"},
		{http.MethodPut, "/v2/app/:appID/team", byToken, one(teams.set), "team.set"},
		{http.MethodDelete, "/v2/app/:appID/team/:modID", byToken, one(teams.remove), "team.remove"},
		{http.MethodGet, "/v2/app/:appID/metrics", byToken, one(records.metrics), ""},
		{http.MethodGet, "/v2/app/:appID/events", byToken, one(records.events), ""},
		{http.MethodGet, "/v2/events", byToken, feed.stream, ""},
		{http.MethodGet, "/v2/team", byToken, teams.memberships, ""},
		{http.MethodGet, "/v2/team/:appID", byToken, oneOrAll(teams.membership, teams.memberships), ""},
		{http.MethodGet, "/v2/team/:appID/status", byToken, s.asMemberOfAll(app.StatusApp, apps.status, apps.statusOfAll), ""},
		{http.MethodGet, "/v2/team/:appID/logs", byToken, s.asMemberOfAll(app.LogsApp, downloads.logs, downloads.logsOfAll), "app.logs"},
		{http.MethodGet, "/v2/team/:appID/backup", byToken, s.asMemberOfAll(app.BackupApp, downloads.backup, downloads.backupOfAll), "app.backup"},
		{http.MethodPut, "/v2/team/:appID/start", byToken, s.asMemberOfAll(app.StartApp, apps.start, apps.startAll), "app.start"},
		{http.MethodPut, "/v2/team/:appID/restart", byToken, s.asMemberOfAll(app.RestartApp, apps.restart, apps.restartAll), "app.restart"},
		{http.MethodPut, "/v2/team/:appID/stop", byToken, s.asMemberOfAll(app.StopApp, apps.stop, apps.stopAll), "app.stop"},
		{http.MethodPut, "/v2/team/:appID/ram", byToken, s.asMember(app.EditRAM, settings.setRAM), "app.ram"},
		{http.MethodPut, "/v2/team/:appID/commit", byToken, s.asMember(app.CommitApp, deploys.commit), "app.commit"},
		{http.MethodDelete, "/v2/app/:appID/delete", byToken, s.owned(settings.delete, settings.deleteAll), "app.delete"},
		{http.MethodGet, "/v2/vscode", byToken, accounts.vscode, ""},
		{http.MethodGet, "/v2/ws/upload", byToken, sockets.upload, "app.upload"},
		{http.MethodGet, "/v2/ws/app/:appID/commit", byToken, one(sockets.commit), "app.commit"},
		{http.MethodGet, "/v2/ws/team/:appID/commit", byToken, s.asMember(app.CommitApp, sockets.commit), "app.commit"},
		{http.MethodGet, "/v2/user", byToken, accounts.user, ""},
		{http.MethodPut, "/v2/locale/:locale", byToken, accounts.setLocale, "account.locale"},
		{http.MethodGet, "/v2/subdomain/:subdomain", byToken, names.subdomain, ""},
		{http.MethodPost, "/v2/subdomain/:subdomain", byToken, names.reserveSubdomain, "subdomain.reserve"},
		{http.MethodDelete, "/v2/subdomain/:subdomain", byToken, names.releaseSubdomain, "subdomain.release"},
		{http.MethodGet, "/v2/customdomain/:domain", byToken, names.domain, ""},
		{http.MethodPost, "/v2/customdomain/create", byToken, names.claimDomain, "domain.claim"},
		{http.MethodPut, "/v2/customdomain/:domain/edit", byToken, names.assignDomain, "domain.assign"},
		{http.MethodDelete, "/v2/customdomain/:domain", byToken, names.removeDomain, "domain.remove"}, // clients disagree
		{http.MethodDelete, "/v2/customdomain/:domain/remove", byToken, names.removeDomain, "domain.remove"},
		{http.MethodGet, "/v2/customdomain/:domain/verify", byToken, names.verifyDomain, "domain.verify"},
		{http.MethodGet, "/v2/openapi.json", public, serveOpenAPI, ""},
		{http.MethodGet, "/d/:token/:name", public, downloads.serve, ""},
	}
}

// errNoApp is the answer where a request names no application that there can be.
var errNoApp = app.Errorf(app.NotFound, "You have no application with this ID.")

// one wraps a handler of one application.
func one(h handler) handler {
	return func(c *call) (response, error) {
		id := c.params.ByName("appID")
		if !app.ValidID(id) {
			return response{}, errNoApp
		}
		c.id = app.ID(id)
		return h(c)
	}
}

// oneOrAll wraps a pair of handlers: the second is for the word "all".
func oneOrAll(forOne, forAll handler) handler {
	forOne = one(forOne)
	return func(c *call) (response, error) {
		if app.ID(c.params.ByName("appID")) == app.All {
			return forAll(c)
		}
		return forOne(c)
	}
}

// owned is oneOrAll where "all" are the applications of the account.
func (s *server) owned(forOne, forAll handler) handler {
	return oneOrAll(forOne, func(c *call) (response, error) {
		c.all = s.Applications.Apps(c.account.ID)
		return forAll(c)
	})
}

// asMember wraps a handler of one application for the members of its team. Who
// has the permission acts for the owner; limits of requests stay the member's.
func (s *server) asMember(p app.Permission, h handler) handler {
	return one(func(c *call) (response, error) {
		ctx := context.WithoutCancel(c.Request.Context()) // who hangs up is a member all the same
		authorize := func() (app.AccountID, error) { return s.Teams.Authorize(ctx, c.account.ID, c.id, p) }
		owner, err := authorize()
		if err != nil {
			return response{}, err
		}
		c.asMember, c.actsFor = true, owner
		c.mayStill = func() error {
			_, err := authorize()
			return err
		}
		return h(c)
	})
}

// asMemberOfAll is oneOrAll for members: "all" are the applications of others for which
// the account has the permission.
func (s *server) asMemberOfAll(p app.Permission, forOne, forAll handler) handler {
	forOne = s.asMember(p, forOne)
	return func(c *call) (response, error) {
		if app.ID(c.params.ByName("appID")) != app.All {
			return forOne(c)
		}
		memberships, err := s.Teams.Memberships(c.Request.Context(), c.account.ID)
		if err != nil {
			return response{}, err
		}
		for _, m := range memberships {
			owner, err := s.Teams.Authorize(c.Request.Context(), c.account.ID, m.App, p)
			var snap app.Snapshot
			if err == nil {
				snap, err = s.Applications.App(owner, m.App)
			}
			switch kind := app.KindOf(err); {
			case err == nil:
				c.all = append(c.all, snap)
			case kind != app.NotFound && kind != app.Forbidden:
				return response{}, err
			}
		}
		c.asMember = true
		return forAll(c)
	}
}
