package panel

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/app"
	"berth/app/text"
)

// access is who may use a route.
type access int

const (
	public   access = iota // anybody
	signedIn               // whoever has a session; others are led to /login
	admin                  // an administrator of the host who has one

	// Bits beside one of them. again is for what opens most: somebody who has not lately proved
	// who they are is asked again. bare is for what an account may do that must set up a
	// second factor before anything else.
	again access = 4
	bare  access = 8
)

// who is an access without its bits.
func (a access) who() access { return a &^ (again | bare) }

// team is what a member of the team needs for a route of one application, {app}
// in its pattern. Its owner may always.
type team = app.Permission

// ownerOnly is for what no member may do.
const ownerOnly team = 0

// handler answers one call. It MUST NOT write. Its answer counts only without an error.
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

// pages are the handlers, by topic.
type pages struct {
	accounts    accountPages
	again       againPages
	apps        appPages
	channels    channelPages
	charts      chartPages
	deploys     deployPages
	devices     devicePages
	docs        docPages
	domains     domainPages
	env         envPages
	factors     factorPages
	files       filePages
	host        hostPages
	hostConfig  hostSettingPages
	icons       iconPages
	identities  identityPages
	invitations invitationPages
	live        livePages
	logs        logPages
	passkeys    passkeyPages
	second      secondPages
	settings    settingsPages
	steps       stepPages
	terminal    terminalPages
}

// routes is the whole panel. HEAD is answered wherever GET is.
func (p *pages) routes() []route {
	return slices.Concat(p.accountRoutes(), p.channelRoutes(), p.appRoutes(), p.hostRoutes(), p.invitationRoutes(),
		p.settingRoutes(), p.docsRoutes(), p.stepRoutes())
}

// accountRoutes are those of people: how they sign in, and what is theirs.
func (p *pages) accountRoutes() []route {
	return []route{
		{http.MethodGet, "/login", public, ownerOnly, p.accounts.login, "", nil},
		{http.MethodPost, "/login", public, ownerOnly, p.accounts.signIn, "session.begin", p.accounts.login},
		{http.MethodPost, "/login/passkey", public, ownerOnly, p.passkeys.signIn, "session.begin", p.accounts.login},
		{http.MethodGet, "/login/second", public, ownerOnly, p.second.show, "", nil},
		{http.MethodPost, "/login/second", public, ownerOnly, p.second.send, "session.begin", p.second.show},
		{http.MethodPost, "/logout", public, ownerOnly, p.accounts.signOut, "session.end", nil},
		{http.MethodGet, "/setup/{key}", public, ownerOnly, p.accounts.setup, "", nil},
		{http.MethodPost, "/setup/{key}", public, ownerOnly, p.accounts.redeem, "password.setup", p.accounts.setup},
		{http.MethodPost, "/theme", public, ownerOnly, choose(themeSuffix, "theme", themes), "", nil},
		{http.MethodPost, "/view", signedIn, ownerOnly, choose(viewSuffix, "view", views), "", nil},
		{http.MethodPost, "/keys", signedIn, ownerOnly, choose(keysSuffix, "keys", switches), "", nil},

		{http.MethodGet, "/again", signedIn | bare, ownerOnly, p.again.show, "", nil},
		{http.MethodPost, "/again", signedIn | bare, ownerOnly, form(p.again.send), "session.prove", p.again.refused},

		{http.MethodPost, "/login/by/{provider}", public, ownerOnly, form(p.identities.signIn), "", p.accounts.login},
		{http.MethodPost, "/again/by/{provider}", signedIn | bare, ownerOnly, form(p.identities.prove), "", p.again.show},
		{http.MethodGet, "/sign-in/{provider}/callback", public, ownerOnly, p.identities.callback, "session.begin", p.identities.began},

		{http.MethodGet, "/account", signedIn, ownerOnly, p.accounts.show, "", nil},
		{http.MethodPost, "/account/locale", signedIn, ownerOnly, form(p.accounts.setLocale), "account.locale", p.accounts.show},
		{http.MethodPost, "/account/password", signedIn, ownerOnly, form(p.accounts.changePassword), "password.set", p.accounts.show},
		{http.MethodPost, "/account/password/first", signedIn | again, ownerOnly, form(p.accounts.setFirstPassword), "password.set", p.accounts.show},
		{http.MethodPost, "/account/identities/{provider}", signedIn | again, ownerOnly, p.identities.link, "", p.accounts.show},
		{http.MethodPost, "/account/identities/{identity}/remove", signedIn | again, ownerOnly, p.identities.unlink, "identity.remove", p.accounts.show},
		{http.MethodPost, "/account/tokens", signedIn | again, ownerOnly, form(p.accounts.issueToken), "token.create", p.accounts.show},
		{http.MethodPost, "/account/tokens/{token}/rotate", signedIn | again, ownerOnly, form(p.accounts.rotateToken), "token.rotate", p.accounts.show},
		{http.MethodPost, "/account/tokens/{token}/revoke", signedIn, ownerOnly, p.accounts.revokeToken, "token.revoke", p.accounts.show},
		{http.MethodPost, "/account/sessions/{session}/end", signedIn | again, ownerOnly, p.accounts.endSession, "session.end", p.accounts.show},
		{http.MethodPost, "/account/others/end", signedIn | again, ownerOnly, p.accounts.endOtherSessions, "session.endOthers", p.accounts.show},
		{http.MethodPost, "/account/notices/{notice}/dismiss", signedIn, ownerOnly, p.accounts.dismiss, "notice.dismiss", p.accounts.show},

		{http.MethodPost, "/account/factors/passkeys", signedIn | bare | again, ownerOnly, form(p.passkeys.add), "factor.add", p.factors.show},
		{http.MethodPost, "/account/factors/passkeys/{passkey}", signedIn, ownerOnly, form(p.passkeys.rename), "factor.rename", p.factors.show},
		{http.MethodPost, "/account/factors/passkeys/{passkey}/remove", signedIn | again, ownerOnly, p.passkeys.remove, "factor.remove", p.factors.show},
		{http.MethodGet, "/account/factors", signedIn | bare, ownerOnly, p.factors.show, "", nil},
		{http.MethodPost, "/account/factors/app", signedIn | bare | again, ownerOnly, p.factors.offer, "factor.offer", p.factors.show},
		{http.MethodPost, "/account/factors/app/confirm", signedIn | bare | again, ownerOnly, form(p.factors.confirm), "factor.add", p.factors.show},
		{http.MethodPost, "/account/factors/app/remove", signedIn | again, ownerOnly, p.factors.remove, "factor.remove", p.factors.show},
		{http.MethodPost, "/account/factors/codes", signedIn | again, ownerOnly, p.factors.renew, "factor.codes", p.factors.show},

		{http.MethodGet, "/device", signedIn, ownerOnly, p.devices.show, "", nil},
		{http.MethodPost, "/device", signedIn, ownerOnly, form(p.devices.ask), "device.ask", p.devices.show},
		{http.MethodPost, "/device/allow", signedIn | again, ownerOnly, form(p.devices.allow), "device.allow", p.devices.show},
		{http.MethodPost, "/device/deny", signedIn, ownerOnly, form(p.devices.deny), "device.deny", p.devices.show},
	}
}

// appRoutes are those of applications.
func (p *pages) appRoutes() []route {
	return []route{
		{http.MethodGet, "/{$}", signedIn, ownerOnly, p.apps.list, "", nil},
		{http.MethodPost, "/chosen", signedIn, ownerOnly, form(p.apps.chosen), "", p.apps.list},
		{http.MethodGet, "/chosen/{batch}", signedIn, ownerOnly, p.apps.batch, "", nil},
		{http.MethodGet, "/palette", signedIn, ownerOnly, p.apps.palette, "", nil},
		{http.MethodGet, "/events", signedIn, ownerOnly, p.live.events, "", nil},
		{http.MethodGet, "/apps/{app}", signedIn, app.StatusApp, p.apps.overview, "", nil},
		{http.MethodGet, "/apps/{app}/plot", signedIn, app.StatusApp, p.charts.plot, "", nil},
		{http.MethodPost, "/apps/{app}/start", signedIn, app.StartApp, p.apps.start, "app.start", p.apps.origin},
		{http.MethodPost, "/apps/{app}/restart", signedIn, app.RestartApp, p.apps.restart, "app.restart", p.apps.origin},
		{http.MethodPost, "/apps/{app}/stop", signedIn, app.StopApp, p.apps.stop, "app.stop", p.apps.origin},
		{http.MethodPost, "/apps/{app}/raise", signedIn, app.EditRAM, form(p.apps.raise), "app.ram", p.apps.origin},
		{http.MethodGet, "/apps/{app}/logs", signedIn, app.LogsApp, p.logs.show, "", nil},
		{http.MethodGet, "/apps/{app}/logs/download", signedIn, app.LogsApp, p.logs.download, "app.logs", nil},
		{http.MethodPost, "/apps/{app}/input", signedIn, ownerOnly, form(p.logs.input), "app.input", p.logs.show},
		{http.MethodGet, "/apps/{app}/terminal", signedIn | again, ownerOnly, p.terminal.show, "", nil},
		{http.MethodGet, "/apps/{app}/terminal/session", signedIn | again, ownerOnly, p.terminal.open, "app.exec", nil},

		{http.MethodGet, "/apps/{app}/env", signedIn, ownerOnly, p.env.show, "", nil},
		{http.MethodPost, "/apps/{app}/env", signedIn, ownerOnly, formWithin(maxBlock, p.env.set), "env.set", p.env.show},
		{http.MethodPost, "/apps/{app}/env/reveal", signedIn | again, ownerOnly, form(p.env.reveal), "env.reveal", p.env.show},
		{http.MethodPost, "/apps/{app}/env/remove", signedIn, ownerOnly, form(p.env.remove), "env.remove", p.env.show},

		{http.MethodGet, "/apps/{app}/files", signedIn, app.BackupApp, p.files.list, "", nil},
		{http.MethodGet, "/apps/{app}/files/view", signedIn, app.BackupApp, p.files.view, "file.read", nil},
		{http.MethodGet, "/apps/{app}/files/download", signedIn, app.BackupApp, p.files.download, "file.read", nil},
		{http.MethodPost, "/apps/{app}/files/write", signedIn, ownerOnly, formWithin(maxTextForm, p.files.write), "file.write", p.files.edit},
		{http.MethodPost, "/apps/{app}/files/new", signedIn, ownerOnly, form(p.files.make), "file.make", p.files.back},
		{http.MethodPost, "/apps/{app}/files/move", signedIn, ownerOnly, formWithin(maxChosen, p.files.move), "file.move", p.files.back},
		{http.MethodPost, "/apps/{app}/files/delete", signedIn, ownerOnly, formWithin(maxChosen, p.files.remove), "file.delete", p.files.back},
		{http.MethodPost, "/apps/{app}/files/upload", signedIn, ownerOnly, p.files.put, "file.write", p.files.list},
		{http.MethodGet, "/apps/{app}/files/zip", signedIn, app.BackupApp, p.files.zip, "file.read", nil},
		{http.MethodPost, "/apps/{app}/files/unzip", signedIn, ownerOnly, formWithin(maxChosen, p.files.unzip), "file.unzip", p.files.back},
		{http.MethodPost, "/apps/{app}/files/unzip/upload", signedIn, ownerOnly, p.files.sendZip, "file.unzip", p.files.list},

		{http.MethodGet, "/apps/{app}/domains", signedIn, ownerOnly, p.domains.show, "", nil},
		{http.MethodPost, "/apps/{app}/domains", signedIn, ownerOnly, form(p.domains.claim), "domain.claim", p.domains.show},
		{http.MethodPost, "/apps/{app}/domains/{domain}/verify", signedIn, ownerOnly, p.domains.verify, "domain.verify", p.domains.show},
		{http.MethodPost, "/apps/{app}/domains/{domain}/remove", signedIn, ownerOnly, p.domains.remove, "domain.remove", p.domains.show},

		{http.MethodGet, "/apps/{app}/settings", signedIn, app.EditRAM, p.settings.show, "", nil},
		{http.MethodPost, "/apps/{app}/ram", signedIn, app.EditRAM, form(p.settings.setRAM), "app.ram", p.settings.show},
		{http.MethodPost, "/apps/{app}/profile", signedIn, ownerOnly, form(p.settings.setProfile), "app.profile", p.settings.show},
		{http.MethodGet, "/apps/{app}/picture/{sum}", signedIn, app.StatusApp, p.icons.show, "", nil},
		{http.MethodPost, "/apps/{app}/icon", signedIn, ownerOnly, p.icons.put, "app.icon", p.settings.show},
		{http.MethodPost, "/apps/{app}/icon/remove", signedIn, ownerOnly, p.icons.remove, "app.icon", p.settings.show},
		{http.MethodPost, "/apps/{app}/autorestart", signedIn, ownerOnly, form(p.settings.setAutoRestart), "app.autorestart", p.settings.show},
		{http.MethodPost, "/apps/{app}/team", signedIn | again, ownerOnly, form(p.settings.addMember), "team.add", p.settings.show},
		{http.MethodPost, "/apps/{app}/team/{member}", signedIn | again, ownerOnly, member(p.settings.setMember), "team.set", p.settings.show},
		{http.MethodPost, "/apps/{app}/team/{member}/remove", signedIn | again, ownerOnly, member(p.settings.removeMember), "team.remove", p.settings.show},
		{http.MethodPost, "/apps/{app}/delete", signedIn | again, ownerOnly, form(p.settings.remove), "app.delete", p.settings.show},

		{http.MethodGet, "/upload", signedIn, ownerOnly, p.deploys.upload, "", nil},
		{http.MethodPost, "/upload", signedIn, ownerOnly, p.deploys.sendUpload, "app.upload", p.deploys.upload},
		{http.MethodPost, "/upload/example", signedIn, ownerOnly, form(p.deploys.sendExample), "app.upload", p.deploys.upload},
		{http.MethodPost, "/upload/empty", signedIn, ownerOnly, form(p.deploys.sendEmpty), "app.upload", p.deploys.upload},
		{http.MethodGet, "/drafts/{draft}", signedIn, ownerOnly, p.deploys.draft, "", nil},
		{http.MethodPost, "/drafts/{draft}", signedIn, ownerOnly, form(p.deploys.sendDraft), "app.upload", p.deploys.draft},
		{http.MethodPost, "/drafts/{draft}/drop", signedIn, ownerOnly, p.deploys.dropDraft, "", nil},
		{http.MethodGet, "/uploads/{job}", signedIn, ownerOnly, p.deploys.job, "", nil},
		{http.MethodGet, "/apps/{app}/commit", signedIn, app.CommitApp, p.deploys.commit, "", nil},
		{http.MethodPost, "/apps/{app}/commit", signedIn, app.CommitApp, p.deploys.sendCommit, "app.commit", p.deploys.commit},
		{http.MethodGet, "/apps/{app}/deploys", signedIn, ownerOnly, p.deploys.list, "", nil},
		{http.MethodPost, "/apps/{app}/deploys/{number}/rollback", signedIn, ownerOnly, p.deploys.rollback, "app.rollback", p.deploys.list},
		{http.MethodGet, "/apps/{app}/backups", signedIn, app.BackupApp, p.deploys.backups, "", nil},
		{http.MethodPost, "/apps/{app}/backups", signedIn, app.BackupApp, form(p.deploys.backup), "app.backup", p.deploys.backups},
		{http.MethodPost, "/apps/{app}/restore", signedIn, ownerOnly, form(p.deploys.restore), "app.restore", p.deploys.backups},
		{http.MethodPost, "/apps/{app}/restore/zip", signedIn, ownerOnly, p.deploys.restoreUploaded, "app.restore", p.deploys.backups},
		{http.MethodPost, "/apps/{app}/snapshots/{snapshot}/restore", signedIn, ownerOnly, form(p.deploys.restoreSnapshot), "app.restore", p.deploys.backups},
		{http.MethodPost, "/apps/{app}/snapshots/{snapshot}/copy", signedIn, ownerOnly, form(p.deploys.copySnapshot), "app.copy", p.deploys.backups},
	}
}

// hostRoutes are the administrators'.
func (p *pages) hostRoutes() []route {
	return []route{
		{http.MethodGet, "/host", admin, ownerOnly, p.host.show, "", nil},
		{http.MethodGet, "/host/plot", admin, ownerOnly, p.charts.plotHost, "", nil},
		{http.MethodPost, "/host/accounts", admin | again, ownerOnly, form(p.host.createAccount), "account.create", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/ram", admin | again, ownerOnly, p.host.account(p.host.setRAM), "account.set", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/limits", admin | again, ownerOnly, p.host.account(p.host.setLimits), "account.set", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/disable", admin | again, ownerOnly, p.host.account(p.host.disable), "account.disable", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/enable", admin | again, ownerOnly, p.host.account(p.host.enable), "account.enable", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/suspend", admin | again, ownerOnly, p.host.account(p.host.suspend), "account.suspend", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/unsuspend", admin | again, ownerOnly, p.host.account(p.host.unsuspend), "account.unsuspend", p.host.show},
		{http.MethodPost, "/host/accounts/{account}/link", admin | again, ownerOnly, p.host.account(p.host.link), "password.link", p.host.show},
		{http.MethodPost, "/host/factor", admin | again, ownerOnly, form(p.host.requireFactor), "factor.require", p.host.show},
		{http.MethodPost, "/host/backups", admin | again, ownerOnly, form(p.host.setBackups), "backup.set", p.host.show},
		{http.MethodPost, "/host/backups/start", admin | again, ownerOnly, p.host.startBackup(false), "backup.start", p.host.show},
		{http.MethodPost, "/host/backups/rehearse", admin | again, ownerOnly, p.host.startBackup(true), "backup.rehearse", p.host.show},
		{http.MethodPost, "/host/doctor", admin, ownerOnly, p.host.examine, "host.examine", p.host.show},
		{http.MethodGet, "/host/audit", admin, ownerOnly, p.host.audit, "", nil},
	}
}

// newMux returns the routes. A method that a pattern lacks is answered with 405,
// everything else with 404.
func (s *server) newMux(routes []route) *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, f func(c *call)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			c := w.(*call)
			c.Request = r // the mux has added the values of the path
			f(c)
		})
	}
	methods := map[string][]string{} // by pattern
	for _, r := range routes {
		methods[r.pattern] = append(methods[r.pattern], r.method)
		handle(r.method+" "+r.pattern, func(c *call) { s.serve(c, r) })
	}
	for pattern, known := range methods {
		handle(pattern, func(c *call) {
			_ = s.enter(c)
			c.Header().Set("Allow", strings.Join(known, ", "))
			a := s.refused(c, nil, app.Errorf(app.Invalid, "method not allowed"))
			a.status = http.StatusMethodNotAllowed
			s.send(c, a)
		})
	}
	handle("GET "+assetPath+"{file}", serveAsset)
	handle("/", func(c *call) {
		_ = s.enter(c) // for the language, and for the way home
		s.send(c, s.refused(c, nil, errNowhere()))
	})
	return mux
}

func errNowhere() error { return app.Errorf(app.NotFound, "there is nothing at this address") }

// serve runs one route: access, handler, answer.
func (s *server) serve(c *call, r route) {
	c.Pattern, c.audit.Operation = r.pattern, r.audit
	var a answer
	login, err := s.admit(c, r)
	switch {
	case err != nil:
		r.on = nil // a page is not for whom it was refused to
	case login != "":
		a = leadTo(login)
	default:
		asked := false
		if r.access&again != 0 {
			if a, asked, err = s.again.ask(c); err != nil {
				r.on = s.again.refused
			}
		}
		if err == nil && s.Changes != nil && c.Request.Method == http.MethodPost {
			err = s.Changes()
		}
		if err == nil && !asked {
			a, err = r.handler(c)
		}
	}
	if err != nil {
		a = s.refused(c, r.on, err)
	}
	s.send(c, a)
}

// admit returns why the handler is not called, or the address of the login page where
// the visitor has to go first.
func (s *server) admit(c *call, r route) (login string, err error) {
	err = s.enter(c)
	if r.access.who() == public {
		return "", s.sameSite(c)
	}
	if app.KindOf(err) == app.Unauthorized {
		return loginFor(c.Request), nil
	}
	if err == nil {
		err = s.sameSite(c)
	}
	if err == nil && c.session.Bare && r.access&bare == 0 {
		return "/account/factors", nil
	}
	if err == nil && r.access.who() == admin && !c.account.Admin {
		err = errNowhere() // nobody else need know of it
	}
	if err == nil && c.Request.PathValue("app") != "" {
		err = s.meant(c, r.team)
	}
	return "", err
}

// enter finds out who calls, from where and in which language. Its error is why
// nobody is signed in; public routes need none.
func (s *server) enter(c *call) error {
	c.from, c.safe = s.Trusted.Visitor(c.Request)
	c.encrypted = s.Trusted.Encrypted(c.Request)
	c.maySignIn = c.safe || s.Insecure
	c.lang = text.Accept(c.Request.Header.Get("Accept-Language"))
	if known, err := c.Request.Cookie(c.cookieName() + knownSuffix); err == nil {
		c.from.Known = known.Value
	}
	if pending, err := c.Request.Cookie(c.cookieName() + pendingSuffix); err == nil && c.maySignIn {
		c.pending = pending.Value
	}
	cookie, err := c.Request.Cookie(c.cookieName())
	if err != nil || !c.maySignIn {
		return app.Errorf(app.Unauthorized, "you are not signed in")
	}
	a, session, err := s.SignIns.Session(c.ctx(), cookie.Value, c.from)
	if err != nil {
		if session.ID != 0 { // it was taken
			s.recordTaken(c, a, session)
		}
		return err
	}
	c.account, c.session, c.lang = a, session, text.In(a.Locale)
	if time.Since(session.LastSeen) >= time.Minute { // the database has a new time, so the browser gets one
		c.setCookie("", cookie.Value, s.TTL)
	}
	return nil
}

// recordTaken records that a session has ended because another browser came with its cookie.
func (s *server) recordTaken(c *call, a app.Account, session app.Session) {
	of := *c
	of.audit = trail{actor: a, stranger: true}
	of.audit.Operation = "session.taken"
	of.audit.Note("account=%s session=%d %s", a.Name, session.ID, agentOf(c))
	s.record(&of, http.StatusUnauthorized, english(app.Errorf(app.Unauthorized, "you are not signed in")))
}

// meant finds the application of a path.
func (s *server) meant(c *call, p team) error {
	return c.means(s.Applications, s.Teams, app.ID(c.Request.PathValue("app")), p)
}

// means makes an application that of the call, for its owner or for a member of its team, who
// then acts in the owner's name.
func (c *call) means(apps app.Applications, teams app.Teams, id app.ID, p team) error {
	if !app.ValidID(string(id)) {
		return errNoApp()
	}
	var err error
	c.app, err = apps.App(c.account.ID, id)
	if err == nil {
		c.owner = c.account.ID
		return nil
	}
	if app.KindOf(err) != app.NotFound || p == ownerOnly {
		return err
	}
	owner, refused := teams.Authorize(c.ctx(), c.account.ID, id, p)
	if app.KindOf(refused) == app.NotFound {
		return err // as if it did not exist
	}
	c.app.ID = id // for the audit log
	if refused != nil {
		return refused
	}
	c.owner = owner
	c.app, err = apps.App(owner, id)
	return err
}

func errNoApp() error { return app.Errorf(app.NotFound, "You have no application with this ID.") }
