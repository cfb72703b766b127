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
}

// routes is the whole API. HEAD and OPTIONS are added by newRouter.
func (s *server) routes() []route {
	return []route{
		{http.MethodPost, "/v2/upload", byToken, s.upload},
		{http.MethodGet, "/v2/app/:appID", byToken, oneOrAll(s.information, s.informationOfAll)},
		{http.MethodGet, "/v2/app/:appID/status", byToken, oneOrAll(s.status, s.statusOfAll)},
		{http.MethodGet, "/v2/app/:appID/logs", byToken, oneOrAll(s.logs, s.logsOfAll)},
		{http.MethodGet, "/v2/app/:appID/backup", byToken, oneOrAll(s.backup, s.backupOfAll)},
		{http.MethodPut, "/v2/app/:appID/start", byToken, oneOrAll(s.start, s.startAll)},
		{http.MethodPut, "/v2/app/:appID/restart", byToken, oneOrAll(s.restart, s.restartAll)},
		{http.MethodPut, "/v2/app/:appID/stop", byToken, oneOrAll(s.stop, s.stopAll)},
		{http.MethodPut, "/v2/app/:appID/ram", byToken, one(s.setRAM)},
		{http.MethodPut, "/v2/app/:appID/commit", byToken, one(s.commit)},
		{http.MethodPut, "/v2/app/:appID/profile", byToken, one(s.setProfile)},
		{http.MethodDelete, "/v2/app/:appID/delete", byToken, one(s.delete)},
		{http.MethodGet, "/v2/ws/upload", byToken, s.uploadSocket},
		{http.MethodGet, "/v2/ws/app/:appID/commit", byToken, one(s.commitSocket)},
		{http.MethodGet, "/v2/user", byToken, s.user},
		{http.MethodPut, "/v2/locale/:locale", byToken, s.setLocale},
		{http.MethodGet, "/v2/openapi.json", public, s.openAPI},
		{http.MethodGet, "/d/:token/:name", public, s.download},
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
		c.pattern, c.params = r.Path, params
		if r.access == byToken {
			if err := s.authenticate(c); err != nil {
				s.send(c, s.failed(c, err))
				return
			}
		}
		resp, err := r.handler(c)
		if err != nil {
			resp = s.failed(c, err)
		}
		s.send(c, resp)
	}
}

func (s *server) options(w http.ResponseWriter, _ *http.Request) {
	w.WriteHeader(http.StatusNoContent)
}

func (s *server) notFound(w http.ResponseWriter, _ *http.Request) {
	c := w.(*call)
	s.send(c, c.refusal(http.StatusNotFound,
		"There is nothing at this address. The API is described at /v2/openapi.json."))
}

func (s *server) methodNotAllowed(w http.ResponseWriter, r *http.Request) {
	c := w.(*call)
	s.send(c, c.refusal(http.StatusMethodNotAllowed,
		"This address does not take "+r.Method+". It takes "+w.Header().Get("Allow")+"."))
}
