package panel

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
	"berth/web/provider"
)

// maxForm bounds the body of a form, in bytes.
const maxForm = 64 << 10

// call is one request and what became known of it on its way.
type call struct {
	web.Call

	from      app.Visitor
	safe      bool // the browser is on HTTPS or on this machine
	encrypted bool // the browser is on HTTPS
	maySignIn bool // a password or a session may travel here
	lang      text.Language
	account   app.Account // zero when nobody is signed in
	session   app.Session
	pending   string // the cookie of a sign-in that waits for its second step

	app     app.Snapshot     // of the path
	owner   app.AccountID    // of app: the account, or who it acts for as a member of the team
	device  *app.Device      // whose code the form has
	purpose provider.Purpose // what a browser was at a provider for
	offered bool             // the page shows an app that waits for its first code
	problem string           // shown on the page: why the form was refused
	cookies []*http.Cookie
	audit   trail
}

// trail is what a call gathers for the audit log on its way.
type trail struct {
	web.Trail
	actor    app.Account // when it is not the account that is signed in
	stranger bool        // a failure of somebody who may be anybody
}

func (c *call) ctx() context.Context { return c.Request.Context() }

// form is a handler that gets the fields of the form that was sent.
func form(h func(c *call, f url.Values) (answer, error)) handler { return formWithin(maxForm, h) }

// formWithin is form for a body of at most limit bytes.
func formWithin(limit int64, h func(c *call, f url.Values) (answer, error)) handler {
	return func(c *call) (answer, error) {
		f, err := c.formWithin(limit)
		if err != nil {
			return answer{}, err
		}
		return h(c, f)
	}
}

// form reads the fields of a form; it fails with app.Invalid.
func (c *call) form() (url.Values, error) { return c.formWithin(maxForm) }

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

// own reports whether the application of the path belongs to the account.
func (c *call) own() bool { return c.owner == c.account.ID }

// at is the address of a page of the application.
func (c *call) at(page string) string { return "/apps/" + string(c.app.ID) + "/" + page }

// ownOf is the address of a page that goes on by itself; "" of any other one.
func (c *call) ownOf(page string) string {
	switch {
	case page == "apps":
		return "/"
	case c.app.ID == "":
	case page == "app":
		return "/apps/" + string(c.app.ID)
	case page == "logs", page == "deploys":
		return c.at(page)
	}
	return ""
}

// back is the page of the panel that a form was on.
func (c *call) back() string {
	f, err := c.form()
	if err != nil {
		return "/"
	}
	return local(f.Get("back"))
}

// referrer is the page of the panel that the browser comes from, "/" when it does not say.
func (c *call) referrer() string {
	u, err := url.Parse(c.Request.Header.Get("Referer"))
	if err != nil || u.Host != c.Request.Host {
		return "/"
	}
	return local(u.RequestURI())
}

// number is a number of the path; what is none is 0, which nothing has.
func (c *call) number(name string) int64 {
	n, err := strconv.ParseInt(c.Request.PathValue(name), 10, 64)
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// whole is a whole number, -1 for what is none.
func whole(s string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// query is an encoded query of pairs of names and values.
func query(pairs ...string) string {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		q.Set(pair[0], pair[1])
	}
	return q.Encode()
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

// loginFor is the login page that leads back to the page that was requested.
func loginFor(r *http.Request) string {
	to := r.URL.Path
	if r.Method != http.MethodGet && r.Method != http.MethodHead || local(to) == "/" {
		return "/login"
	}
	return "/login?" + query("next", to)
}

// The cookies of a session: the first name is taken by browsers only from this
// host, over HTTPS or on this machine, and for every path (RFC 6265bis, 4.1.3.2).
const (
	safeCookie     = "__Host-berth"
	insecureCookie = "berth"
	// knownSuffix makes the name of what a browser is known by after a sign-in.
	knownSuffix = "-known"
	// themeSuffix makes the name of what keeps the colours that a browser wants.
	themeSuffix = "-theme"
	// viewSuffix makes the name of what keeps how it wants the list of applications.
	viewSuffix = "-view"
	// keysSuffix makes the name of what keeps whether it wants keys without Ctrl.
	keysSuffix = "-keys"
	// pendingSuffix makes the name of a sign-in's that waits for its second step.
	pendingSuffix = "-pending"
	// providerSuffix makes the name of what a browser that is at a provider comes back with.
	providerSuffix = "-provider"
)

// choiceTime is how long a browser keeps what was chosen in it, such as its colours.
const choiceTime = 365 * 24 * time.Hour

// knownTime is how long a browser keeps that. For how long it is of use is not the
// browser's to say.
const knownTime = 30 * 24 * time.Hour

// pendingTime is how long a browser keeps the cookie of a sign-in that waits for its second step.
const pendingTime = 10 * time.Minute

func (c *call) cookieName() string {
	if c.safe {
		return safeCookie
	}
	return insecureCookie
}

// setCookie sets the cookie of a session, or with a suffix that of a pending sign-in, of what
// the browser is known by or of its colours, for ttl; "" removes it.
func (c *call) setCookie(suffix, value string, ttl time.Duration) {
	age := int(ttl / time.Second)
	if value == "" {
		age = -1
	}
	c.cookies = append(c.cookies, &http.Cookie{
		Name: c.cookieName() + suffix, Value: value, Path: "/", MaxAge: age,
		Secure: c.safe, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
}

// themes are what a person can choose; the first follows the system.
var themes = []string{"auto", "light", "dark"}

// views are how the list of applications can look.
var views = []string{"cards", "table"}

// switches are whether keys without Ctrl do something.
var switches = []string{"on", "off"}

// choice is the one of some values that the browser chose last, or else the first.
func (c *call) choice(suffix string, of []string) string {
	if cookie, err := c.Request.Cookie(c.cookieName() + suffix); err == nil && slices.Contains(of, cookie.Value) {
		return cookie.Value
	}
	return of[0]
}

// choose makes a handler that keeps in the browser which of some values a field has; the first is
// what a browser has that chose none.
func choose(suffix, name string, of []string) handler {
	return form(func(c *call, f url.Values) (answer, error) {
		value := f.Get(name)
		if !slices.Contains(of[1:], value) {
			value = ""
		}
		c.setCookie(suffix, value, choiceTime)
		return leadTo(local(f.Get("back"))), nil
	})
}
