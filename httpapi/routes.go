package httpapi

import (
	"context"
	"net/http"
	"slices"

	"berth/app"
)

// access is who may use a route.
type access int

const (
	byToken access = iota // the holder of a valid token; counted
	public                // anybody; not counted
	byHost                // the holder of a token of the host; counted
)

// handler answers one call. It MUST NOT write to it.
type handler func(c *call) (response, error)

type route struct {
	Method  string
	Path    string
	access  access
	bounds  need
	handler handler
	audit   string // the operation's name in the audit log; "" when it is not recorded
}

// routes is the whole API. HEAD and OPTIONS are added by newRouter.
func (s *server) routes() []route {
	apps, settings, teams := applications{s.Applications, s.Type, s.Teams, s.Address}, settings{s.Settings}, teams{s.Teams, s.Applications}
	deploys, sockets := s.deployments, s.sockets
	downloads := downloads{s.Applications, s.Deployments, s.Contents, s.Links, s.BaseURL, s.BackupTTL}
	records := records{s.Applications, s.Metrics, s.RightSize}
	accounts := accounts{s.Accounts, s.Applications, s.Names, s.Teams}
	names := names{s.Names, s.Applications, s.Certificates}
	feed, tokens := feed{s.Feed}, tokenRoutes{s.Tokens}
	return slices.Concat(s.hostedRoutes(), s.channelRoutes(), []route{
		{http.MethodPost, "/v2/upload", byToken, unbounded, deploys.upload, "app.upload"},
		{http.MethodGet, "/v2/app/:appID", byToken, covered, s.owned(apps.information, apps.informationOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/status", byToken, may(app.StatusApp), s.owned(apps.status, apps.statusOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/logs", byToken, may(app.LogsApp), s.owned(downloads.logs, downloads.logsOfAll), "app.logs"},
		{http.MethodGet, "/v2/app/:appID/backup", byToken, may(app.BackupApp), s.owned(downloads.backup, downloads.backupOfAll), "app.backup"},
		{http.MethodGet, "/v2/app/:appID/backups", byToken, unbounded, one(downloads.kept), ""},
		{http.MethodPut, "/v2/app/:appID/start", byToken, may(app.StartApp), s.owned(apps.start, apps.startAll), "app.start"},
		{http.MethodPut, "/v2/app/:appID/restart", byToken, may(app.RestartApp), s.owned(apps.restart, apps.restartAll), "app.restart"},
		{http.MethodPut, "/v2/app/:appID/stop", byToken, may(app.StopApp), s.owned(apps.stop, apps.stopAll), "app.stop"},
		{http.MethodPut, "/v2/app/:appID/ram", byToken, may(app.EditRAM), one(settings.setRAM), "app.ram"},
		{http.MethodGet, "/v2/app/:appID/env", byToken, unbounded, one(settings.variables), ""},
		{http.MethodGet, "/v2/app/:appID/env/values", byToken, unbounded, one(settings.revealVariables), "env.reveal"},
		{http.MethodPut, "/v2/app/:appID/env", byToken, unbounded, one(settings.setVariables), "env.set"},
		{http.MethodDelete, "/v2/app/:appID/env/:name", byToken, unbounded, one(settings.removeVariable), "env.remove"},
		{http.MethodPut, "/v2/app/:appID/apt", byToken, unbounded, one(settings.addApts), "apt.add"},
		{http.MethodDelete, "/v2/app/:appID/apt", byToken, unbounded, one(settings.dropApts), "apt.remove"},
		{http.MethodPut, "/v2/app/:appID/commit", byToken, may(app.CommitApp), one(deploys.commit), "app.commit"},
		{http.MethodPost, "/v2/app/:appID/restore", byToken, unbounded, one(deploys.restore), "app.restore"},
		{http.MethodGet, "/v2/app/:appID/snapshots", byToken, may(app.BackupApp), one(deploys.listSnapshots), ""},
		{http.MethodPost, "/v2/app/:appID/copy", byToken, unbounded, one(deploys.copySnapshot), "app.copy"},
		{http.MethodGet, "/v2/app/:appID/deploys", byToken, may(app.CommitApp), one(deploys.list), ""},
		{http.MethodPost, "/v2/app/:appID/rollback", byToken, may(app.CommitApp), one(deploys.rollback), "app.rollback"},
		{http.MethodPut, "/v2/app/:appID/console", byToken, unbounded, one(apps.console), "app.console"},
		{http.MethodPost, "/v2/app/:appID/input", byToken, unbounded, one(apps.input), "app.input"},
		{http.MethodPut, "/v2/app/:appID/profile", byToken, unbounded, one(settings.setProfile), "app.profile"},
		{http.MethodGet, "/v2/app/:appID/team", byToken, unbounded, one(teams.members), ""},
		{http.MethodPost, "/v2/app/:appID/team", byToken, unbounded, one(teams.add), "team.add"},
		{http.MethodPut, "/v2/app/:appID/team", byToken, unbounded, one(teams.set), "team.set"},
		{http.MethodDelete, "/v2/app/:appID/team/:modID", byToken, unbounded, one(teams.remove), "team.remove"},
		{http.MethodGet, "/v2/app/:appID/metrics", byToken, may(app.StatusApp), one(records.metrics), ""},
		{http.MethodGet, "/v2/app/:appID/ram", byToken, may(app.StatusApp), s.owned(records.size, records.sizeOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/events", byToken, may(app.StatusApp), one(records.events), ""},
		{http.MethodGet, "/v2/events", byToken, listed, feed.stream, ""},
		{http.MethodGet, "/v2/team", byToken, listed, teams.memberships, ""},
		{http.MethodGet, "/v2/team/:appID", byToken, covered, oneOrAll(teams.membership, teams.memberships), ""},
		{http.MethodGet, "/v2/team/:appID/status", byToken, may(app.StatusApp), s.asMemberOfAll(app.StatusApp, apps.status, apps.statusOfAll), ""},
		{http.MethodGet, "/v2/team/:appID/logs", byToken, may(app.LogsApp), s.asMemberOfAll(app.LogsApp, downloads.logs, downloads.logsOfAll), "app.logs"},
		{http.MethodGet, "/v2/team/:appID/backup", byToken, may(app.BackupApp), s.asMemberOfAll(app.BackupApp, downloads.backup, downloads.backupOfAll), "app.backup"},
		{http.MethodPut, "/v2/team/:appID/start", byToken, may(app.StartApp), s.asMemberOfAll(app.StartApp, apps.start, apps.startAll), "app.start"},
		{http.MethodPut, "/v2/team/:appID/restart", byToken, may(app.RestartApp), s.asMemberOfAll(app.RestartApp, apps.restart, apps.restartAll), "app.restart"},
		{http.MethodPut, "/v2/team/:appID/stop", byToken, may(app.StopApp), s.asMemberOfAll(app.StopApp, apps.stop, apps.stopAll), "app.stop"},
		{http.MethodPut, "/v2/team/:appID/ram", byToken, may(app.EditRAM), s.asMember(app.EditRAM, settings.setRAM), "app.ram"},
		{http.MethodGet, "/v2/team/:appID/ram", byToken, may(app.StatusApp), s.asMemberOfAll(app.StatusApp, records.size, records.sizeOfAll), ""},
		{http.MethodPut, "/v2/team/:appID/commit", byToken, may(app.CommitApp), s.asMember(app.CommitApp, deploys.commit), "app.commit"},
		{http.MethodDelete, "/v2/app/:appID/delete", byToken, unbounded, s.owned(settings.delete, settings.deleteAll), "app.delete"},
		{http.MethodGet, "/v2/vscode", byToken, listed, accounts.vscode, ""},
		{http.MethodGet, "/v2/ws/upload", byToken, unbounded, sockets.upload, "app.upload"},
		{http.MethodGet, "/v2/ws/app/:appID/commit", byToken, may(app.CommitApp), one(sockets.commit), "app.commit"},
		{http.MethodGet, "/v2/ws/app/:appID/exec", byToken, unbounded, one(sockets.exec), "app.exec"},
		{http.MethodGet, "/v2/ws/team/:appID/commit", byToken, may(app.CommitApp), s.asMember(app.CommitApp, sockets.commit), "app.commit"},
		{http.MethodGet, "/v2/user", byToken, listed, accounts.user, ""},
		{http.MethodGet, "/v2/token", byToken, unbounded, tokens.list, ""},
		{http.MethodPost, "/v2/token", byToken, unbounded, tokens.issue, "token.create"},
		{http.MethodDelete, "/v2/token/:tokenID", byToken, unbounded, tokens.revoke, "token.revoke"},
		{http.MethodPut, "/v2/locale/:locale", byToken, unbounded, accounts.setLocale, "account.locale"},
		{http.MethodGet, "/v2/subdomain/:subdomain", byToken, unbounded, names.subdomain, ""},
		{http.MethodPost, "/v2/subdomain/:subdomain", byToken, unbounded, names.reserveSubdomain, "subdomain.reserve"},
		{http.MethodDelete, "/v2/subdomain/:subdomain", byToken, unbounded, names.releaseSubdomain, "subdomain.release"},
		{http.MethodGet, "/v2/customdomain/:domain", byToken, unbounded, names.domain, ""},
		{http.MethodPost, "/v2/customdomain/create", byToken, unbounded, names.claimDomain, "domain.claim"},
		{http.MethodPut, "/v2/customdomain/:domain/edit", byToken, unbounded, names.assignDomain, "domain.assign"},
		{http.MethodDelete, "/v2/customdomain/:domain", byToken, unbounded, names.removeDomain, "domain.remove"}, // clients disagree
		{http.MethodDelete, "/v2/customdomain/:domain/remove", byToken, unbounded, names.removeDomain, "domain.remove"},
		{http.MethodGet, "/v2/customdomain/:domain/verify", byToken, unbounded, names.verifyDomain, "domain.verify"},
		{http.MethodPost, "/v2/device/authorize", public, open, s.devices.authorize, ""},
		{http.MethodPost, "/v2/device/token", public, open, s.devices.token, "token.create"},
		{http.MethodGet, "/v2/openapi.json", public, open, serveOpenAPI, ""},
		{http.MethodGet, "/d/:token/:name", public, open, downloads.serve, ""},
	})
}

// errNoApp is the answer where a request names no application that there can be.
var errNoApp = app.Errorf(app.NotFound, "You have no application with this ID.")

// one wraps a handler of one application.
func one(h handler) handler {
	return func(c *call) (response, error) {
		id := c.params.ByName("appID")
		if app.ID(id) == app.All {
			return response{}, app.Errorf(app.NotFound, "This operation takes the ID of one application, and not \"all\".")
		}
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
		c.all = c.covered(s.Applications.Apps(c.account.ID))
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
			if !c.token.Bounds.Covers(m.App) {
				continue
			}
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
