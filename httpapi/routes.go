package httpapi

import (
	"net/http"

	"github.com/julienschmidt/httprouter"

	"berth/app"
)

// access tells who may use a route.
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
	return []route{
		{http.MethodPost, "/v2/upload", byToken, s.upload, "app.upload"},
		{http.MethodGet, "/v2/app/:appID", byToken, oneOrAll(s.information, s.informationOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/status", byToken, oneOrAll(s.status, s.statusOfAll), ""},
		{http.MethodGet, "/v2/app/:appID/logs", byToken, oneOrAll(s.logs, s.logsOfAll), "app.logs"},
		{http.MethodGet, "/v2/app/:appID/backup", byToken, oneOrAll(s.backup, s.backupOfAll), "app.backup"},
		{http.MethodPut, "/v2/app/:appID/start", byToken, oneOrAll(s.start, s.startAll), "app.start"},
		{http.MethodPut, "/v2/app/:appID/restart", byToken, oneOrAll(s.restart, s.restartAll), "app.restart"},
		{http.MethodPut, "/v2/app/:appID/stop", byToken, oneOrAll(s.stop, s.stopAll), "app.stop"},
		{http.MethodPut, "/v2/app/:appID/ram", byToken, one(s.setRAM), "app.ram"},
		{http.MethodGet, "/v2/app/:appID/env", byToken, one(s.variables), ""},
		{http.MethodPut, "/v2/app/:appID/env", byToken, one(s.setVariables), "env.set"},
		{http.MethodDelete, "/v2/app/:appID/env/:name", byToken, one(s.removeVariable), "env.remove"},
		{http.MethodPut, "/v2/app/:appID/apt", byToken, one(s.addApts), "apt.add"},
		{http.MethodDelete, "/v2/app/:appID/apt", byToken, one(s.dropApts), "apt.remove"},
		{http.MethodPut, "/v2/app/:appID/commit", byToken, one(s.commit), "app.commit"},
		{http.MethodPost, "/v2/app/:appID/restore", byToken, one(s.restore), "app.restore"},
		{http.MethodGet, "/v2/app/:appID/deploys", byToken, one(s.deploys), ""},
		{http.MethodPost, "/v2/app/:appID/rollback", byToken, one(s.rollback), "app.rollback"},
		{http.MethodPut, "/v2/app/:appID/console", byToken, one(s.console), "app.console"},
		{http.MethodPut, "/v2/app/:appID/profile", byToken, one(s.setProfile), "app.profile"},
		{http.MethodGet, "/v2/app/:appID/team", byToken, one(s.team), ""},
		{http.MethodPost, "/v2/app/:appID/team", byToken, one(s.addMember), "team.add"},
		{http.MethodPut, "/v2/app/:appID/team", byToken, one(s.setMember), "team.set"},
		{http.MethodDelete, "/v2/app/:appID/team/:modID", byToken, one(s.removeMember), "team.remove"},
		{http.MethodGet, "/v2/app/:appID/metrics", byToken, one(s.metrics), ""},
		{http.MethodGet, "/v2/app/:appID/events", byToken, one(s.happenings), ""},
		{http.MethodGet, "/v2/events", byToken, s.events, ""},
		{http.MethodGet, "/v2/team", byToken, s.memberships, ""},
		{http.MethodGet, "/v2/team/:appID", byToken, oneOrAll(s.membership, s.memberships), ""},
		{http.MethodGet, "/v2/team/:appID/status", byToken, s.asMemberOfAll(app.StatusApp, s.status, s.statusOfAll), ""},
		{http.MethodGet, "/v2/team/:appID/logs", byToken, s.asMemberOfAll(app.LogsApp, s.logs, s.logsOfAll), "app.logs"},
		{http.MethodGet, "/v2/team/:appID/backup", byToken, s.asMemberOfAll(app.BackupApp, s.backup, s.backupOfAll), "app.backup"},
		{http.MethodPut, "/v2/team/:appID/start", byToken, s.asMemberOfAll(app.StartApp, s.start, s.startAll), "app.start"},
		{http.MethodPut, "/v2/team/:appID/restart", byToken, s.asMemberOfAll(app.RestartApp, s.restart, s.restartAll), "app.restart"},
		{http.MethodPut, "/v2/team/:appID/stop", byToken, s.asMemberOfAll(app.StopApp, s.stop, s.stopAll), "app.stop"},
		{http.MethodPut, "/v2/team/:appID/ram", byToken, s.asMember(app.EditRAM, s.setRAM), "app.ram"},
		{http.MethodPut, "/v2/team/:appID/commit", byToken, s.asMember(app.CommitApp, s.commit), "app.commit"},
		{http.MethodDelete, "/v2/app/:appID/delete", byToken, oneOrAll(s.delete, s.deleteAll), "app.delete"},
		{http.MethodGet, "/v2/vscode", byToken, s.vscode, ""},
		{http.MethodGet, "/v2/ws/upload", byToken, s.uploadSocket, "app.upload"},
		{http.MethodGet, "/v2/ws/app/:appID/commit", byToken, one(s.commitSocket), "app.commit"},
		{http.MethodGet, "/v2/ws/team/:appID/commit", byToken, s.asMember(app.CommitApp, s.commitSocket), "app.commit"},
		{http.MethodGet, "/v2/user", byToken, s.user, ""},
		{http.MethodPut, "/v2/locale/:locale", byToken, s.setLocale, "account.locale"},
		{http.MethodGet, "/v2/subdomain/:subdomain", byToken, s.subdomain, ""},
		{http.MethodPost, "/v2/subdomain/:subdomain", byToken, s.reserveSubdomain, "subdomain.reserve"},
		{http.MethodDelete, "/v2/subdomain/:subdomain", byToken, s.releaseSubdomain, "subdomain.release"},
		{http.MethodGet, "/v2/customdomain/:domain", byToken, s.domain, ""},
		{http.MethodPost, "/v2/customdomain/create", byToken, s.claimDomain, "domain.claim"},
		{http.MethodPut, "/v2/customdomain/:domain/edit", byToken, s.assignDomain, "domain.assign"},
		{http.MethodDelete, "/v2/customdomain/:domain", byToken, s.removeDomain, "domain.remove"}, // clients disagree
		{http.MethodDelete, "/v2/customdomain/:domain/remove", byToken, s.removeDomain, "domain.remove"},
		{http.MethodGet, "/v2/customdomain/:domain/verify", byToken, s.verifyDomain, "domain.verify"},
		{http.MethodGet, "/v2/openapi.json", public, s.openAPI, ""},
		{http.MethodGet, "/d/:token/:name", public, s.download, ""},
	}
}

// one wraps a handler of one application.
func one(h handler) handler {
	return func(c *call) (response, error) {
		id := c.params.ByName("appID")
		if !app.ValidID(id) {
			return response{}, app.Errorf(app.NotFound, "You have no application with this ID.")
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

func (s *server) newRouter() *httprouter.Router {
	router := httprouter.New()
	// Redirects lose bodies and tokens in many clients; a wrong path is a 404.
	router.RedirectTrailingSlash = false
	router.RedirectFixedPath = false
	router.GlobalOPTIONS = http.HandlerFunc(s.options)
	router.NotFound = http.HandlerFunc(s.notFound)
	router.MethodNotAllowed = http.HandlerFunc(s.methodNotAllowed)
	for _, r := range s.routes() {
		router.Handle(r.Method, r.Path, s.serve(r))
		if r.Method == http.MethodGet {
			router.Handle(http.MethodHead, r.Path, s.serve(r))
		}
	}
	return router
}

// serve runs one route: access, handler, answer.
func (s *server) serve(r route) httprouter.Handle {
	return func(w http.ResponseWriter, _ *http.Request, params httprouter.Params) {
		c := w.(*call)
		c.Pattern, c.params, c.audit.Operation = r.Path, params, r.audit
		if r.access == byToken {
			if err := s.authenticate(c); err != nil {
				s.send(c, s.failed(c, err))
				return
			}
		}
		s.begin(c)
		var resp response
		err := s.changeable(c)
		if err == nil {
			resp, err = r.handler(c)
		}
		if err != nil {
			resp = s.failed(c, err)
		}
		if resp.stream == nil {
			s.record(c, resp)
		}
		s.send(c, resp)
		s.record(c, resp) // of a conversation
	}
}

// changeable refuses what is to change something when nothing can be changed.
func (s *server) changeable(c *call) error {
	if s.Changes == nil || c.Request.Method == http.MethodGet || c.Request.Method == http.MethodHead {
		return nil
	}
	return s.Changes()
}

func (s *server) options(w http.ResponseWriter, _ *http.Request) {
	s.send(w.(*call), response{status: http.StatusNoContent})
}

func (s *server) notFound(w http.ResponseWriter, _ *http.Request) {
	c := w.(*call)
	s.send(c, c.refusal(http.StatusNotFound,
		app.Textf("There is nothing at this address. The API is described at /v2/openapi.json.")))
}

func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	c := w.(*call)
	s.send(c, c.refusal(http.StatusMethodNotAllowed,
		app.Textf("This address does not take %s. It takes %s.", r.Method, w.Header().Get("Allow"))))
}
