package panel

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/app/text"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// call is one request and what became known of it on its way. It is also the
// ResponseWriter that goes through the mux.
type call struct {
	http.ResponseWriter
	r         *http.Request
	requestID string
	began     time.Time
	pattern   string // of the route, never the path, which may hold a key
	status    int    // 0 until the answer begins

	from    app.Visitor
	safe    bool // the browser is on HTTPS or on this machine
	lang    text.Language
	account app.Account // zero when nobody is signed in
	session app.Session

	app     app.Snapshot  // of the path
	owner   app.AccountID // of app: the account, or who it acts for as a member of the team
	sent    *incoming     // the body; nil when there is none
	problem string        // shown on the page: why the form was refused
	wrong   string        // which form that was, see form
	cookies []*http.Cookie
	audit   trail
}

// WriteHeader remembers the first status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Write remembers that an answer began.
func (c *call) Write(p []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// enter finds out who asks, from where and in which language. Its error is why
// nobody is signed in; public routes need none.
func (s *server) enter(c *call) error {
	c.from, c.safe = s.visitor(c.r)
	c.lang = text.Accept(c.r.Header.Get("Accept-Language"))
	if known, err := c.r.Cookie(c.cookieName() + knownSuffix); err == nil {
		c.from.Known = known.Value
	}
	cookie, err := c.r.Cookie(c.cookieName())
	if err != nil || !s.maySignIn(c) {
		return app.Errorf(app.Unauthorized, "you are not signed in")
	}
	a, session, err := s.SignIns.Session(c.r.Context(), cookie.Value, c.from)
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
	if c.r.PostForm == nil {
		_ = http.NewResponseController(c).SetReadDeadline(time.Now().Add(patience))
		c.r.Body = http.MaxBytesReader(c, c.r.Body, limit)
		if err := c.r.ParseForm(); err != nil {
			return nil, app.Errorf(app.Invalid, "the form could not be read")
		}
	}
	return c.r.PostForm, nil
}

// typed is a field of the form that was sent, "" unless form has read it: a page that
// is shown after a refusal must not begin to read a body that nobody has bounded, as
// http.Request.PostFormValue does.
func (c *call) typed(name string) string { return c.r.PostForm.Get(name) }

// own reports whether the application of the path belongs to the account.
func (c *call) own() bool { return c.owner == c.account.ID }

// at is the address of a page of the application.
func (c *call) at(page string) string { return "/apps/" + string(c.app.ID) + "/" + page }

// number is a number of the path; what is none is 0, which nothing has.
func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.r.PathValue(name), 10, 64)
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
	operation string
	actor     app.Account // when it is not the account that is signed in
	stranger  bool        // a failure of somebody who may be anybody
	detail    string
}

// note adds a parameter that matters. It MUST NOT be a secret.
func (c *call) note(format string, args ...any) {
	if c.audit.detail != "" {
		c.audit.detail += " "
	}
	c.audit.detail += fmt.Sprintf(format, args...)
}

// record hands what came of a call to the audit log. The label says that it was
// done here.
func (s *server) record(c *call, status int, refusal string) {
	if c.audit.operation == "" || s.Record == nil {
		return
	}
	who := c.account
	if c.audit.actor.ID != 0 {
		who = c.audit.actor
	}
	act := app.Act{
		At: s.Now(), Actor: who.ID, Name: who.Name, Label: "panel", Account: who.ID, From: c.from.Address,
		Operation: c.audit.operation, App: c.app.ID, AppName: c.app.Name, Detail: c.audit.detail,
		Status: status, Refusal: refusal, Request: c.requestID, Times: 1,
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
