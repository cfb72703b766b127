package panel

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// call is one request and what became known of it on its way.
type call struct {
	web.Call

	from    app.Visitor
	safe    bool // the browser is on HTTPS or on this machine
	lang    text.Language
	account app.Account // zero when nobody is signed in
	session app.Session

	app     app.Snapshot  // of the path
	owner   app.AccountID // of app: the account, or who it acts for as a member of the team
	problem string        // shown on the page: why the form was refused
	wrong   string        // which form that was, see form
	cookies []*http.Cookie
	audit   trail
}

// enter finds out who asks, from where and in which language. Its error is why
// nobody is signed in; public routes need none.
func (s *server) enter(c *call) error {
	c.from, c.safe = s.visitor(c.Request)
	c.lang = text.Accept(c.Request.Header.Get("Accept-Language"))
	if known, err := c.Request.Cookie(c.cookieName() + knownSuffix); err == nil {
		c.from.Known = known.Value
	}
	cookie, err := c.Request.Cookie(c.cookieName())
	if err != nil || !s.maySignIn(c) {
		return app.Errorf(app.Unauthorized, "you are not signed in")
	}
	a, session, err := s.SignIns.Session(c.Request.Context(), cookie.Value, c.from)
	if err != nil {
		return err
	}
	c.account, c.session, c.lang = a, session, text.In(a.Locale)
	if s.Now().Sub(session.LastSeen) >= time.Minute { // the database was told, so is the browser
		c.cookies = append(c.cookies, s.cookie(c, cookie.Value))
	}
	return nil
}

// maySignIn reports whether a password or a session may travel here.
func (s *server) maySignIn(c *call) bool { return c.safe || s.Insecure }

// form reads the fields of a form; it fails with app.Invalid or app.TooLarge.
func (c *call) form() (url.Values, error) { return c.formWithin(maxForm) }

// formWithin is form for a body of at most limit bytes.
func (c *call) formWithin(limit int64) (url.Values, error) {
	if c.Request.PostForm == nil {
		_ = http.NewResponseController(c).SetReadDeadline(time.Now().Add(patience))
		c.Request.Body = http.MaxBytesReader(c, c.Request.Body, limit)
		if err := c.Request.ParseForm(); err != nil {
			return nil, app.Errorf(app.Invalid, "the form could not be read")
		}
	}
	return c.Request.PostForm, nil
}

// typed is a field of the form that was sent, "" unless form has read it: a page that
// is shown after a refusal must not begin to read a body that nobody has bounded, as
// http.Request.PostFormValue does.
func (c *call) typed(name string) string { return c.Request.PostForm.Get(name) }

// own reports whether the application of the path belongs to the account.
func (c *call) own() bool { return c.owner == c.account.ID }

// at is the address of a page of the application.
func (c *call) at(page string) string { return "/apps/" + string(c.app.ID) + "/" + page }

// number is a number of the path; what is none is 0, which nothing has.
func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.Request.PathValue(name), 10, 64)
	if err != nil || n < 0 {
		return 0
	}
	return n
}

// local returns path if it is one of this panel, "/" otherwise: a link from
// elsewhere must not lead on through it.
func local(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.IsAbs() || u.Host != "" || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsAny(path, "\\\r\n\t") {
		return "/"
	}
	return path
}

// loginFor is the login page that leads back to what was asked for.
func loginFor(r *http.Request) string {
	to := r.URL.Path
	if r.Method != http.MethodGet && r.Method != http.MethodHead || local(to) == "/" {
		return "/login"
	}
	return "/login?" + url.Values{"next": {to}}.Encode()
}

// trail is what a call gathers for the audit log on its way.
type trail struct {
	web.Trail
	actor    app.Account // when it is not the account that is signed in
	stranger bool        // a failure of somebody who may be anybody
}

// record hands what came of a call to the audit log. The label says that it was
// done here.
func (s *server) record(c *call, status int, refusal string) {
	if c.audit.Operation == "" || s.Record == nil {
		return
	}
	who := c.account
	if c.audit.actor.ID != 0 {
		who = c.audit.actor
	}
	act := app.AuditRecord{
		At: s.Now(), Actor: who.ID, Name: who.Name, Label: "panel", Account: who.ID, From: c.from.Address,
		Operation: c.audit.Operation, App: c.app.ID, AppName: c.app.Name, Detail: c.audit.Detail,
		Status: status, Refusal: refusal, Request: c.RequestID, Times: 1,
	}
	if c.owner != 0 {
		act.Account = c.owner
	}
	if who.ID == 0 || c.audit.stranger {
		act.Actor, act.Name, act.From = app.Stranger, "", c.from.Key
		act.Counted, act.Request = true, "" // the first of a minute speaks for all of them
	}
	s.Record(act)
}
