package panel

import (
	"net/http"
	"slices"

	"berth/app"
)

// access tells who may use a route.
type access int

const (
	public   access = iota // anybody
	signedIn               // whoever has a session; others are led to /login
	admin                  // who has one and looks after the host
)

// team is what a member of the team needs for a route of one application, {app}
// in its pattern. Its owner may always.
type team = app.Permission

// ownerOnly is for what no member may do.
const ownerOnly team = 0

// handler answers one call. It MUST NOT write.
type handler func(c *call) (answer, error)

// route is one row of the panel. An error of its handler is shown on the page
// that on makes, or on a page of its own when that is nil.
type route struct {
	method  string
	pattern string // of http.ServeMux, without the method
	access  access
	team    team
	handler handler
	audit   string // the operation's name in the audit log; "" when it is not recorded
	on      handler
}

// routes is the whole panel. HEAD is answered wherever GET is.
func (s *server) routes() []route {
	return slices.Concat(s.commonRoutes(), s.manageRoutes(), s.deployRoutes(), s.hostRoutes())
}

func (s *server) commonRoutes() []route {
	return []route{
		{http.MethodGet, "/login", public, ownerOnly, s.login, "", nil},
		{http.MethodPost, "/login", public, ownerOnly, s.signIn, "session.begin", s.login},
		{http.MethodPost, "/logout", public, ownerOnly, s.signOut, "session.end", nil},
		{http.MethodGet, "/setup/{key}", public, ownerOnly, s.setup, "", nil},
		{http.MethodPost, "/setup/{key}", public, ownerOnly, s.redeem, "password.setup", s.setup},
		{http.MethodPost, "/theme", public, ownerOnly, s.theme, "", nil},

		{http.MethodGet, "/{$}", signedIn, ownerOnly, s.apps, "", nil},
		{http.MethodPost, "/apps/{app}/start", signedIn, app.StartApp, s.start, "app.start", s.origin},
		{http.MethodPost, "/apps/{app}/restart", signedIn, app.RestartApp, s.restart, "app.restart", s.origin},
		{http.MethodPost, "/apps/{app}/stop", signedIn, app.StopApp, s.stop, "app.stop", s.origin},

		{http.MethodGet, "/events", signedIn, ownerOnly, s.events, "", nil},
		{http.MethodGet, "/apps/{app}", signedIn, app.StatusApp, s.overview, "", nil},
		{http.MethodGet, "/apps/{app}/plot", signedIn, app.StatusApp, s.plot, "", nil},
		{http.MethodPost, "/apps/{app}/raise", signedIn, app.EditRAM, s.raise, "app.ram", s.origin},
		{http.MethodGet, "/apps/{app}/logs", signedIn, app.LogsApp, s.logs, "", nil},
		{http.MethodGet, "/apps/{app}/logs/download", signedIn, app.LogsApp, s.downloadLog, "app.logs", nil},
		{http.MethodGet, "/apps/{app}/deploys", signedIn, ownerOnly, s.deploys, "", nil},
		{http.MethodPost, "/apps/{app}/deploys/{number}/rollback", signedIn, ownerOnly, s.rollback, "app.rollback", s.deploys},

		{http.MethodGet, "/account", signedIn, ownerOnly, s.account, "", nil},
		{http.MethodPost, "/account/locale", signedIn, ownerOnly, s.setLocale, "account.locale", s.account},
		{http.MethodPost, "/account/password", signedIn, ownerOnly, s.changePassword, "password.set", s.account},
		{http.MethodPost, "/account/tokens", signedIn, ownerOnly, s.issueToken, "token.create", s.account},
		{http.MethodPost, "/account/tokens/{token}/rotate", signedIn, ownerOnly, s.rotateToken, "token.rotate", s.account},
		{http.MethodPost, "/account/tokens/{token}/revoke", signedIn, ownerOnly, s.revokeToken, "token.revoke", s.account},
		{http.MethodPost, "/account/sessions/{session}/end", signedIn, ownerOnly, s.endSession, "session.end", s.account},
	}
}

// newMux returns the routes by pattern. What a pattern takes no method for is
// answered with 405, everything else with 404.
func (s *server) newMux() *http.ServeMux {
	byPattern := map[string]map[string]route{}
	for _, r := range s.routes() {
		if byPattern[r.pattern] == nil {
			byPattern[r.pattern] = map[string]route{}
		}
		byPattern[r.pattern][r.method] = r
	}
	mux := http.NewServeMux()
	for pattern, methods := range byPattern {
		mux.Handle(pattern, s.oneOf(methods))
	}
	mux.HandleFunc("GET "+assetPath+"{file}", s.serveAsset)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		c := w.(*call)
		c.Request = r
		_ = s.enter(c) // for the language, and for the way home
		s.send(c, s.failed(c, app.Errorf(app.NotFound, "there is nothing at this address")))
	})
	return mux
}

// oneOf serves the routes of one pattern by their method.
func (s *server) oneOf(methods map[string]route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := w.(*call)
		c.Request = r // the mux has added the values of the path
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		row, known := methods[method]
		if !known {
			_ = s.enter(c)
			allow := ""
			for _, m := range []string{http.MethodGet, http.MethodPost} {
				if _, ok := methods[m]; ok {
					allow += ", " + m
				}
			}
			c.Header().Set("Allow", allow[2:])
			resp := s.failed(c, app.Errorf(app.Invalid, "this page cannot be asked so"))
			resp.status = http.StatusMethodNotAllowed
			s.send(c, resp)
			return
		}
		s.serve(c, row)
	})
}

// serve runs one route: access, handler, answer.
func (s *server) serve(c *call, r route) {
	c.Pattern, c.audit.Operation = r.pattern, r.audit
	resp, err := s.admit(c, r)
	if err != nil {
		r.on = nil // a page is not for whom it was refused to
	}
	if err == nil && resp == nil && s.Changes != nil && c.Request.Method == http.MethodPost {
		err = s.Changes()
	}
	if err == nil && resp == nil {
		var made answer
		if made, err = r.handler(c); err == nil {
			resp = &made
		}
	}
	if err != nil {
		made := s.refused(c, r, err)
		resp = &made
	}
	s.send(c, *resp)
}

// admit returns what to answer instead of asking the handler, or nil.
func (s *server) admit(c *call, r route) (*answer, error) {
	err := s.enter(c)
	if r.access == public {
		return nil, s.sameSite(c)
	}
	if app.KindOf(err) == app.Unauthorized {
		to := leadTo(loginFor(c.Request))
		return &to, nil
	}
	if err == nil {
		err = s.sameSite(c)
	}
	if err == nil && r.access == admin && !c.account.Admin {
		err = app.Errorf(app.NotFound, "there is nothing at this address") // nobody else need know of it
	}
	if err == nil && c.Request.PathValue("app") != "" {
		err = s.meant(c, r.team)
	}
	return nil, err
}

// meant finds the application of a path, for its owner or for a member of its
// team, who then acts in the owner's name.
func (s *server) meant(c *call, p team) error {
	id := c.Request.PathValue("app")
	if !app.ValidID(id) {
		return app.Errorf(app.NotFound, "You have no application with this ID.")
	}
	snap, err := s.Applications.App(c.account.ID, app.ID(id))
	if err == nil {
		c.app, c.owner = snap, c.account.ID
		return nil
	}
	if app.KindOf(err) != app.NotFound || p == ownerOnly {
		return err
	}
	owner, refused := s.Teams.Authorize(c.Request.Context(), c.account.ID, app.ID(id), p)
	if app.KindOf(refused) == app.NotFound {
		return err // as if it did not exist
	}
	c.app.ID = app.ID(id) // for the audit log
	if refused != nil {
		return refused
	}
	c.owner = owner
	c.app, err = s.Applications.App(owner, app.ID(id))
	return err
}
