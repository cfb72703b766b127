package panel

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/web"
	"berth/web/provider"
)

// accountPages let people sign in, and show them what belongs to their account but its
// applications.
type accountPages struct {
	signIns    SignIns
	factors    Factors
	passkeys   Passkeys
	identities Identities
	providers  *provider.Providers
	newSignIns NewSignIns
	tokens     app.Tokens
	accounts   app.Accounts
	apps       app.Applications
	disk       func(ctx context.Context, owner app.AccountID) (app.DiskUse, error)
	ttl        time.Duration // of a session that nobody uses
	firstRAM   app.MB
	log        *slog.Logger
	baseURL    string
}

// loginPage is the data of login.html.
type loginPage struct {
	Next string
	Safe bool // a password may be typed here

	Passkey   passkeyForm
	Providers []provider.Provider
}

// login shows the form, unless somebody is signed in.
func (p *accountPages) login(c *call) (answer, error) {
	q := c.Request.URL.Query()
	next := q.Get("next")
	if c.Request.Method == http.MethodPost {
		next = c.Request.PostForm.Get("next")
	}
	next = local(next)
	if c.account.ID != 0 && c.problem == "" {
		return leadTo(next), nil
	}
	if q.Has("kept") && c.problem == "" {
		c.problem = c.lang.Say("Your browser did not keep the sign-in. It keeps cookies only over HTTPS, or some not at all on this address: open the panel over HTTPS.")
	}
	return show("login", loginPage{next, c.maySignIn, p.passkey(c, next), p.providers.All()}), nil
}

// passkey is the form that signs in by a passkey and then leads to next.
func (p *accountPages) passkey(c *call, next string) passkeyForm {
	return passkeyForm{
		Action: "/login/passkey", Options: p.passkeys.PasskeyOptions(c.origin(p.baseURL), 0), Field: responseField,
		Button: c.lang.Say("Sign in with a passkey"), Fields: []field{{"next", next}},
	}
}

// signIn begins a session. The way back goes over the login page, which notices
// when the browser did not keep the cookie.
func (p *accountPages) signIn(c *call) (answer, error) {
	c.audit.Operation, c.audit.stranger = "session.failed", true
	if !c.maySignIn {
		return answer{}, app.Errorf(app.Forbidden, "sign in over HTTPS: on this connection others could read your password")
	}
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	in, err := p.signIns.SignIn(c.ctx(), f.Get("name"), f.Get("password"), c.from)
	return p.begin(c, in, "session.begin", local(f.Get("next")), err)
}

// setupPage is the data of setup.html.
type setupPage struct {
	First bool   // the link makes the first account
	Name  string // of the account
	Safe  bool
	RAM   app.MB
}

// setup shows the form behind a one-time link.
func (p *accountPages) setup(c *call) (answer, error) {
	i, err := p.signIns.Invitation(c.ctx(), c.Request.PathValue("key"))
	if app.KindOf(err) == app.NotFound {
		err = app.Errorf(app.NotFound, "this link was used already, or has expired; on the host, berth setup-url makes another")
	}
	return show("setup", setupPage{i.Account.ID == 0, i.Account.Name, c.maySignIn, p.firstRAM}), err
}

// redeem sets the password and signs in.
func (p *accountPages) redeem(c *call) (answer, error) {
	c.audit.stranger = true
	if !c.maySignIn {
		return answer{}, app.Errorf(app.Forbidden, "open this link over HTTPS: on this connection others could read your password")
	}
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if f.Get("password") != f.Get("again") {
		return answer{}, errAgain()
	}
	in, err := p.signIns.Redeem(c.ctx(), c.Request.PathValue("key"), f.Get("name"), f.Get("password"), p.firstRAM, c.from)
	return p.begin(c, in, "password.setup", firstPage(p.apps, in.Account.ID), err)
}

func errAgain() error {
	return app.Errorf(app.Invalid, "the two passwords differ; type the same twice")
}

// begin sets the cookies of a session that has begun, or of a sign-in that waits for its second
// step, unless err says why there is neither. It ends the browser's earlier session and sign-in;
// a failure to do so stops nobody.
func (p *accountPages) begin(c *call, in app.SignedIn, operation, next string, err error) (answer, error) {
	if err != nil {
		if in.Account.ID != 0 {
			c.audit.Note("account=%s", in.Account.Name)
		}
		return answer{}, err
	}
	p.factors.Abandon(c.pending)
	if in.Session == "" { // only its second step begins a session
		c.audit = trail{Trail: web.Trail{Operation: "session.pending", Detail: agentOf(c)}, actor: in.Account}
		c.setCookie(pendingSuffix, in.Pending, pendingTime)
		return leadTo("/login/second?" + query("next", next)), nil
	}
	c.audit = trail{Trail: web.Trail{Operation: operation, Detail: agentOf(c)}, actor: in.Account}
	if in.New {
		c.audit.Note("new=true")
	}
	if err := p.endCurrent(c); err != nil {
		p.log.Error("cannot end a session", "request", c.RequestID, "cause", err)
	}
	c.cookies = nil
	c.setCookie("", in.Session, p.ttl)
	if c.pending != "" {
		c.setCookie(pendingSuffix, "", 0)
	}
	p.remember(c, in.Account)
	return leadTo("/login?" + query("kept", "", "next", next)), nil
}

// agentOf is the browser of a call, for the audit log.
func agentOf(c *call) string {
	return fmt.Sprintf("agent=%q", browserWord(text.In(app.Locales[0]), c.from.Agent))
}

// endCurrent ends the session of the browser, if it has one.
func (p *accountPages) endCurrent(c *call) error {
	if c.session.ID == 0 {
		return nil
	}
	err := p.signIns.EndSession(c.ctx(), c.session.Account, c.session.ID)
	if app.KindOf(err) == app.NotFound {
		return nil
	}
	return err
}

// remember makes the browser known to the account. A failure to do so stops nobody.
func (p *accountPages) remember(c *call, a app.Account) {
	text, err := p.signIns.Remember(c.ctx(), a)
	if err != nil {
		p.log.Error("cannot remember a browser", "request", c.RequestID, "cause", err)
	}
	if text != "" {
		c.setCookie(knownSuffix, text, knownTime)
	}
}

// signOut ends the session, and removes the cookie even of one that has ended.
func (p *accountPages) signOut(c *call) (answer, error) {
	if c.session.ID == 0 {
		c.audit.Operation = ""
	}
	if err := p.endCurrent(c); err != nil {
		return answer{}, err
	}
	p.factors.Abandon(c.pending)
	c.cookies = nil
	c.setCookie("", "", 0)
	if c.pending != "" {
		c.setCookie(pendingSuffix, "", 0)
	}
	return leadTo("/login"), nil
}

// accountPage is the data of account.html.
type accountPage struct {
	Assigned, Total int64          // bytes
	Names           []app.Snapshot // of its applications
	Tokens          []app.Token
	Sessions        []app.Session
	Session         int64 // of this browser
	Factors         app.Factors
	Disk            app.DiskUse
	Password        bool // it has one
	Identities      []identityRow
	Providers       []provider.Provider
}

func (p *accountPages) show(c *call) (answer, error) {
	page := accountPage{Total: c.account.TotalRAM.Bytes(), Session: c.session.ID, Providers: p.providers.All()}
	var err error
	if page.Password, err = p.identities.HasPassword(c.ctx(), c.account); err != nil {
		return answer{}, err
	}
	if page.Identities, err = p.identityRows(c); err != nil {
		return answer{}, err
	}
	if page.Tokens, err = p.tokens.Tokens(c.ctx(), c.account.ID); err != nil {
		return answer{}, err
	}
	if page.Factors, err = p.factors.Factors(c.ctx(), c.account.ID); err != nil {
		return answer{}, err
	}
	page.Sessions, err = p.signIns.Sessions(c.ctx(), c.account.ID)
	page.Names = p.apps.Apps(c.account.ID)
	for _, snap := range page.Names {
		page.Assigned += snap.Charged().Bytes()
	}
	if err == nil {
		page.Disk, err = p.disk(c.ctx(), c.account.ID)
	}
	return show("account", page), err
}

func (p *accountPages) setLocale(c *call, f url.Values) (answer, error) {
	c.audit.Note("locale=%.20q", f.Get("locale"))
	return leadTo("/account"), p.accounts.SetLocale(c.ctx(), c.account.ID, f.Get("locale"))
}

func (p *accountPages) changePassword(c *call, f url.Values) (answer, error) {
	if f.Get("password") != f.Get("again") {
		return answer{}, errAgain()
	}
	if err := p.signIns.ChangePassword(c.ctx(), c.account, f.Get("old"), f.Get("password"), c.session.ID); err != nil {
		return answer{}, err
	}
	p.remember(c, c.account) // the change has made the browser unknown
	return done("/account", c.lang.Say("Your password was changed, and all other sessions were ended.")), nil
}

// setFirstPassword gives an account that signs in without a password one.
func (p *accountPages) setFirstPassword(c *call, f url.Values) (answer, error) {
	if f.Get("password") != f.Get("again") {
		return answer{}, errAgain()
	}
	if err := p.identities.SetFirstPassword(c.ctx(), c.account, f.Get("password"), c.session.ID); err != nil {
		return answer{}, err
	}
	p.remember(c, c.account) // what a browser is known by depends on the password
	return done("/account", c.lang.Say("Your account has a password now, and all other sessions were ended.")), nil
}

// hoursOf is a number of hours in a form, none for nothing.
func hoursOf(f url.Values, name string, most int) (_ time.Duration, valid bool) {
	hours, err := strconv.Atoi(cmp.Or(f.Get(name), "0"))
	return time.Duration(hours) * time.Hour, err == nil && hours >= 0 && hours <= most
}

func (p *accountPages) issueToken(c *call, f url.Values) (answer, error) {
	lasts, valid := hoursOf(f, "expires", 10*365*24)
	if !valid {
		return answer{}, app.Errorf(app.Invalid, "a token works for up to ten years, or for ever")
	}
	bounds, err := boundsOf(f)
	if err != nil {
		return answer{}, err
	}
	secret, made, err := p.tokens.Issue(c.ctx(), app.Token{Account: c.account.ID, Label: f.Get("label"), Bounds: bounds}, lasts)
	if err == nil {
		c.audit.Note("token=%d label=%q", made.ID, made.Label)
		if made.Bounds != nil {
			c.audit.Note("apps=%v may=%v", made.Bounds.Apps, made.Bounds.May.Names())
		}
	}
	return answer{to: "/account", flash: &flash{Text: c.lang.Say("The token was created."), Secret: secret}}, err
}

// boundsOf are the bounds of a token in a form, nil for none.
func boundsOf(f url.Values) (*app.Bounds, error) {
	if len(f["app"]) == 0 && len(f["permission"]) == 0 {
		return nil, nil
	}
	if err := noneChosen(f["permission"]); err != nil {
		return nil, err
	}
	may, err := app.ParsePermissions(f["permission"])
	b := &app.Bounds{May: may}
	for _, id := range f["app"] {
		b.Apps = append(b.Apps, app.ID(id))
	}
	return b, err
}

// noneChosen refuses a form in which no permission is ticked, in the words of the form.
func noneChosen(permissions []string) error {
	if len(permissions) == 0 {
		return app.Errorf(app.Invalid, "choose at least one permission")
	}
	return nil
}

func (p *accountPages) rotateToken(c *call, f url.Values) (answer, error) {
	overlap, valid := hoursOf(f, "overlap", 365*24)
	if !valid {
		return answer{}, app.Errorf(app.Invalid, "the overlap of two tokens is a number of hours")
	}
	old := c.number("token")
	c.audit.Note("token=%d overlapHours=%d", old, overlap/time.Hour)
	secret, made, err := p.tokens.Rotate(c.ctx(), c.account.ID, old, overlap)
	if err == nil {
		c.audit.Note("successor=%d", made.ID)
	}
	return answer{to: "/account", flash: &flash{Text: c.lang.Say("The token was replaced by a new one."), Secret: secret}}, err
}

func (p *accountPages) revokeToken(c *call) (answer, error) {
	id := c.number("token")
	c.audit.Note("token=%d", id)
	return done("/account", c.lang.Say("The token was revoked.")), p.tokens.Revoke(c.ctx(), c.account.ID, id)
}

func (p *accountPages) endSession(c *call) (answer, error) {
	id := c.number("session")
	c.audit.Note("session=%d", id)
	err := p.signIns.EndSession(c.ctx(), c.account.ID, id)
	if id == c.session.ID {
		return leadTo("/login"), err
	}
	return done("/account", c.lang.Say("The session was ended.")), err
}

func (p *accountPages) endOtherSessions(c *call) (answer, error) {
	return done("/account", c.lang.Say("All other sessions were ended.")), p.signIns.EndOtherSessions(c.ctx(), c.account.ID, c.session.ID)
}

// dismiss takes what somebody has seen of the new sign-ins from one address away: a later one is
// shown again.
func (p *accountPages) dismiss(c *call) (answer, error) {
	id := c.number("notice")
	c.audit.Note("notice=%d", id)
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	if err := p.newSignIns.DismissSignIn(c.ctx(), c.account.ID, id, c.session.ID); err != nil {
		return answer{}, err
	}
	for _, also := range f["also"][:min(len(f["also"]), maxNews)] {
		c.audit.Note("notice=%d", whole(also))
		err := p.newSignIns.DismissSignIn(c.ctx(), c.account.ID, whole(also), c.session.ID)
		if err != nil && app.KindOf(err) != app.NotFound { // another page may have done it
			return answer{}, err
		}
	}
	return leadTo(c.back()), nil
}
