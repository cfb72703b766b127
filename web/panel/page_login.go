package panel

import (
	"net/http"
	"time"

	"berth/app"
	"berth/web"
)

// loginPage is the data of login.html.
type loginPage struct {
	Name string
	Next string
	Safe bool // a password may be typed here
}

// login shows the form, unless somebody is signed in.
func (s *server) login(c *call) (answer, error) {
	next := c.Request.URL.Query().Get("next")
	if c.Request.Method == http.MethodPost {
		next = c.typed("next")
	}
	next = local(next)
	if c.account.ID != 0 && c.problem == "" {
		return leadTo(next), nil
	}
	if c.Request.URL.Query().Has("kept") && c.problem == "" {
		c.problem = c.lang.Say("Your browser did not keep the sign-in. It keeps cookies only over HTTPS, or some not at all on this address: open the panel over HTTPS.")
	}
	page := loginPage{Next: next, Safe: s.maySignIn(c)}
	if c.Request.Method == http.MethodPost && c.problem != "" {
		page.Name = c.typed("name")
	}
	return show("login", page)
}

// signIn begins a session. The way back goes over the login page, which notices
// when the browser did not take the cookie.
func (s *server) signIn(c *call) (answer, error) {
	c.audit.Operation, c.audit.stranger = "session.failed", true
	if !s.maySignIn(c) {
		return answer{}, app.Errorf(app.Forbidden, "sign in over HTTPS: on this connection others could read your password")
	}
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	key, a, err := s.SignIns.SignIn(c.Request.Context(), f.Get("name"), f.Get("password"), c.from)
	if a.ID != 0 {
		c.audit.Note("account=%s", a.Name)
	}
	if err != nil {
		return answer{}, err
	}
	s.begun(c, key, a, "session.begin")
	return leadTo("/login?" + query("kept", "", "next", local(f.Get("next")))), nil
}

// begun gives the browser its session. The one it had ends.
func (s *server) begun(c *call, key string, a app.Account, operation string) {
	c.audit = trail{Trail: web.Trail{Operation: operation, Detail: "agent=" + agent(c.from.Agent)}, actor: a}
	s.leave(c)
	c.cookies = []*http.Cookie{s.cookie(c, key)}
	s.remember(c, a)
}

// remember makes the browser known to the account. That it cannot be keeps nobody
// from going on.
func (s *server) remember(c *call, a app.Account) {
	text, err := s.SignIns.Remember(c.Request.Context(), a)
	if err != nil {
		s.Log.Error("cannot remember a browser", "request", c.RequestID, "cause", err)
	}
	if text != "" {
		c.cookies = append(c.cookies, knownCookie(c, text))
	}
}

// leave ends the session of the browser, if it has one. That it cannot be ended
// keeps nobody from going on.
func (s *server) leave(c *call) {
	if c.session.ID == 0 {
		return
	}
	err := s.SignIns.EndSession(c.Request.Context(), c.session.Account, c.session.ID)
	if err != nil && app.KindOf(err) != app.NotFound {
		s.Log.Error("cannot end a session", "request", c.RequestID, "cause", err)
	}
}

// signOut ends the session, and takes the cookie even of one that has ended.
func (s *server) signOut(c *call) (answer, error) {
	if c.session.ID != 0 {
		if err := s.SignIns.EndSession(c.Request.Context(), c.account.ID, c.session.ID); err != nil && app.KindOf(err) != app.NotFound {
			return answer{}, err
		}
	} else {
		c.audit.Operation = ""
	}
	c.cookies = []*http.Cookie{s.cookie(c, "")}
	return leadTo("/login"), nil
}

// theme remembers which colours the browser wants.
func (s *server) theme(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	cookie := &http.Cookie{
		Name: themeCookie, Value: f.Get("theme"), Path: "/", MaxAge: int(365 * 24 * time.Hour / time.Second), SameSite: http.SameSiteLaxMode,
	}
	if known := cookie.Value == themes[1] || cookie.Value == themes[2]; !known {
		cookie.Value, cookie.MaxAge = "", -1
	}
	c.cookies = append(c.cookies, cookie)
	return leadTo(local(f.Get("back"))), nil
}
