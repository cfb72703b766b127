package panel

import (
	"net/http"

	"berth/app"
)

// setupPage is the data of setup.html.
type setupPage struct {
	First bool   // the link makes the first account
	Name  string // of the account, or what was typed
	Safe  bool
	RAM   app.MB
}

// setup shows the form behind a one-time link.
func (s *server) setup(c *call) (answer, error) {
	i, err := s.SignIns.Invitation(c.Request.Context(), c.Request.PathValue("key"))
	if app.KindOf(err) == app.NotFound {
		return answer{}, app.Errorf(app.NotFound, "this link was used already, or has expired; on the host, berth setup-url makes another")
	}
	if err != nil {
		return answer{}, err
	}
	page := setupPage{First: i.Account.ID == 0, Name: i.Account.Name, Safe: s.maySignIn(c), RAM: s.FirstRAM}
	if page.First && c.Request.Method == http.MethodPost {
		page.Name = c.typed("name")
	}
	return show("setup", page)
}

// redeem sets the password and signs in.
func (s *server) redeem(c *call) (answer, error) {
	c.audit.stranger = true
	if !s.maySignIn(c) {
		return answer{}, app.Errorf(app.Forbidden, "open this link over HTTPS: on this connection others could read your password")
	}
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if f.Get("password") != f.Get("again") {
		return answer{}, errAgain()
	}
	key, a, err := s.SignIns.Redeem(c.Request.Context(), c.Request.PathValue("key"), f.Get("name"), f.Get("password"), s.FirstRAM, c.from)
	if a.ID != 0 {
		c.audit.Note("account=%s", a.Name)
	}
	if err != nil {
		return answer{}, err
	}
	s.begun(c, key, a, "password.setup")
	return leadTo("/login?" + query("kept", "", "next", "/account")), nil
}

func errAgain() error {
	return app.Errorf(app.Invalid, "the two passwords differ; type the same twice")
}
