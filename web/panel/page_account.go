package panel

import (
	"cmp"
	"net/url"
	"strconv"
	"time"

	"berth/app"
)

// accountPage is the data of account.html.
type accountPage struct {
	Assigned, Total int64 // bytes
	AssignedShare   int
	Apps            int
	Tokens          []app.Token
	Sessions        []app.Session
	Session         int64 // the one that is looking
	Lifetimes       []lifetime
	Label           string // what was typed
}

// lifetime is a choice for a new token.
type lifetime struct {
	Hours int
	Word  string
}

// account shows everything that belongs to the account but its applications.
func (s *server) account(c *call) (answer, error) {
	tokens, err := s.Tokens.Tokens(c.Request.Context(), c.account.ID)
	if err != nil {
		return answer{}, err
	}
	sessions, err := s.SignIns.Sessions(c.Request.Context(), c.account.ID)
	if err != nil {
		return answer{}, err
	}
	page := accountPage{
		Total: c.account.TotalRAM.Bytes(), Tokens: tokens, Sessions: sessions, Session: c.session.ID, Lifetimes: s.lifetimes(c),
	}
	for _, snap := range s.Applications.Apps(c.account.ID) {
		page.Assigned += snap.RAM.Bytes()
		page.Apps++
	}
	page.AssignedShare = share(page.Assigned, page.Total)
	if c.problem != "" {
		page.Label = c.typed("label")
	}
	return show("account", page)
}

func (s *server) lifetimes(c *call) []lifetime {
	all := []lifetime{{0, c.lang.Say("Never expires")}}
	for _, days := range []int{7, 30, 90, 365} {
		all = append(all, lifetime{days * 24, c.lang.Say("Expires in %d days", days)})
	}
	return all
}

func (s *server) setLocale(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("locale=%.20q", f.Get("locale"))
	if err := s.Accounts.SetLocale(c.Request.Context(), c.account.ID, f.Get("locale")); err != nil {
		return answer{}, err
	}
	return leadTo("/account"), nil
}

func (s *server) changePassword(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if f.Get("password") != f.Get("again") {
		return answer{}, errAgain()
	}
	if err := s.SignIns.ChangePassword(c.Request.Context(), c.account, f.Get("old"), f.Get("password"), c.session.ID); err != nil {
		return answer{}, err
	}
	s.remember(c, c.account) // what the browser was known by has ended
	return done("/account", c.lang.Say("Your password was changed, and all other sessions were ended."))
}

func (s *server) issueToken(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	hours, err := strconv.Atoi(cmp.Or(f.Get("expires"), "0"))
	if err != nil || hours < 0 || hours > 10*365*24 {
		return answer{}, app.Errorf(app.Invalid, "a token works for up to ten years, or for ever")
	}
	secret, made, err := s.Tokens.Issue(c.Request.Context(), c.account.ID, f.Get("label"), time.Duration(hours)*time.Hour)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("token=%d label=%q", made.ID, made.Label)
	return shown(c.lang.Say("The token was made."), secret), nil
}

// shown leads to the account's page, which shows a new token once.
func shown(sentence, secret string) answer {
	return answer{to: "/account", flash: &flash{Text: sentence, Secret: secret}}
}

func (s *server) rotateToken(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	hours, err := strconv.Atoi(cmp.Or(f.Get("overlap"), "0"))
	if err != nil || hours < 0 || hours > 24*365 {
		return answer{}, app.Errorf(app.Invalid, "the overlap of two tokens is a number of hours")
	}
	old := c.number("token")
	c.audit.Note("token=%d overlapHours=%d", old, hours)
	secret, made, err := s.Tokens.Rotate(c.Request.Context(), c.account.ID, old, time.Duration(hours)*time.Hour)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("successor=%d", made.ID)
	return shown(c.lang.Say("The token was replaced by a new one."), secret), nil
}

func (s *server) revokeToken(c *call) (answer, error) {
	id := c.number("token")
	c.audit.Note("token=%d", id)
	if err := s.Tokens.Revoke(c.Request.Context(), c.account.ID, id); err != nil {
		return answer{}, err
	}
	return done("/account", c.lang.Say("The token was revoked."))
}

func (s *server) endSession(c *call) (answer, error) {
	id := c.number("session")
	c.audit.Note("session=%d", id)
	if err := s.SignIns.EndSession(c.Request.Context(), c.account.ID, id); err != nil {
		return answer{}, err
	}
	if id == c.session.ID {
		return leadTo("/login"), nil
	}
	return done("/account", c.lang.Say("The session was ended."))
}

// query is an encoded query of pairs of names and values.
func query(pairs ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		q.Set(pairs[i], pairs[i+1])
	}
	return q.Encode()
}

// back is the page of the panel that a form was on.
func (c *call) back() string {
	f, err := c.form()
	if err != nil {
		return "/"
	}
	return local(f.Get("back"))
}
