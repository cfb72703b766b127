package panel

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"berth/app"
	"berth/web"
	"berth/web/provider"
)

// invitationPages make links that invite somebody to the host or to a team, and take the answer of
// whoever opens one. To open a link changes nothing: messengers do it, too.
type invitationPages struct {
	invitations Invitations
	providers   *provider.Providers
	begin       func(c *call, in app.SignedIn, operation, next string, err error) (answer, error) // accountPages.begin
	baseURL     string
}

// invitationPage is the data of invitation.html.
type invitationPage struct {
	app.Offer
	Path string // of the link
	Safe bool   // a password may be typed here

	Providers []provider.Provider // by which the account may sign in
	Passkeys  bool                // the browser may make one here
	Name      string              // of the account, whose passkey is to be made
	New       passkeyForm
}

// page shows what a link brings.
func (p *invitationPages) page(c *call) (answer, error) {
	key := c.Request.PathValue("key")
	o, err := p.invitations.Offer(c.ctx(), key)
	return show("invitation", invitationPage{
		Offer: o, Path: "/invitation/" + url.PathEscape(key), Safe: c.maySignIn, Providers: p.providers.All(),
		Passkeys: c.origin(p.baseURL).Domain != "",
	}), err
}

// nameIn is the name of an account in a form.
func nameIn(f url.Values) string { return strings.TrimSpace(f.Get("name")) }

// check refuses a link that makes no account of a name, before somebody sets out to accept it.
func (p *invitationPages) check(c *call, key, name string) error {
	c.audit.stranger = true
	if !c.maySignIn {
		return app.Errorf(app.Forbidden, "open this link over HTTPS: on this connection others could read your password")
	}
	_, err := p.invitations.NewPasskeyOptions(c.ctx(), key, name, app.Origin{}) // nowhere, so there are none
	return err
}

// accept makes the account, and signs in.
func (p *invitationPages) accept(c *call, f url.Values) (answer, error) {
	key, name := c.Request.PathValue("key"), nameIn(f)
	if err := p.check(c, key, name); err != nil {
		return answer{}, err
	}
	if f.Get("password") != f.Get("again") {
		return answer{}, errAgain()
	}
	return p.accepted(c, "/", func() (app.SignedIn, error) {
		return p.invitations.AcceptWithPassword(c.ctx(), key, name, f.Get("password"), c.from)
	})
}

// acceptWithPasskey asks the browser for a passkey, then takes it and makes the account.
func (p *invitationPages) acceptWithPasskey(c *call, f url.Values) (answer, error) {
	key, name, at := c.Request.PathValue("key"), nameIn(f), c.origin(p.baseURL)
	if err := p.check(c, key, name); err != nil {
		return answer{}, err
	}
	if f.Get(responseField) == "" {
		c.audit.Operation = "" // so far nothing was done
		return p.ask(c, key, name, at)
	}
	return p.accepted(c, "/account/factors", func() (app.SignedIn, error) {
		return p.invitations.AcceptWithPasskey(c.ctx(), key, name, at, f.Get("device"), []byte(f.Get(responseField)), c.from)
	})
}

// ask is the page on which the browser makes the passkey of an account.
func (p *invitationPages) ask(c *call, key, name string, at app.Origin) (answer, error) {
	a, err := p.page(c)
	if err != nil {
		return answer{}, err
	}
	page := a.data.(invitationPage)
	page.Name = name
	page.New = passkeyForm{Action: page.Path + "/passkey", Field: responseField, Button: c.lang.Say("Create the account")}
	page.New.Options, err = p.invitations.NewPasskeyOptions(c.ctx(), key, name, at)
	if err == nil && page.New.Options == "" {
		err = app.Errorf(app.Forbidden, "browsers make passkeys only at a domain with HTTPS; choose a password")
	}
	return show("invitation", page), err
}

// refused is the page of an answer that was none.
func (p *invitationPages) refused(c *call) (answer, error) {
	if f := c.Request.PostForm; f.Get(responseField) != "" {
		if a, err := p.ask(c, c.Request.PathValue("key"), nameIn(f), c.origin(p.baseURL)); err == nil {
			return a, nil
		}
	}
	return p.page(c)
}

// accepted begins the session of the account that accept has made.
func (p *invitationPages) accepted(c *call, next string, accept func() (app.SignedIn, error)) (answer, error) {
	o, err := p.invitations.Offer(c.ctx(), c.Request.PathValue("key"))
	if err != nil {
		return answer{}, err
	}
	in, err := accept()
	a, err := p.begin(c, in, "invitation.accept", next, err)
	c.audit.Note("invitation=%d", o.ID)
	return a, err
}

// join makes the account that is signed in a member.
func (p *invitationPages) join(c *call) (answer, error) {
	o, err := p.invitations.Join(c.ctx(), c.Request.PathValue("key"), c.account.ID)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("invitation=%d may=%v", o.ID, o.Grants)
	return done("/", c.lang.Say("You accepted the invitation.")), nil
}

// toHost invites to a new account, which may use applications of the administrator's, too.
func (p *invitationPages) toHost(c *call, f url.Values) (answer, error) {
	o := app.Offer{For: strings.TrimSpace(f.Get("for"))}
	var err error
	if o.RAM, err = ramOf(f); err != nil {
		return answer{}, err
	}
	o.Disk, o.Apps = app.MB(limitOf(f, "disk")), limitOf(f, "apps")
	if len(f["app"]) > 0 || len(f["permission"]) > 0 {
		bounds, err := boundsOf(f)
		if err != nil {
			return answer{}, err
		}
		for _, id := range bounds.Apps {
			o.Grants = append(o.Grants, app.Grant{App: id, Permissions: bounds.May})
		}
	}
	return p.invite(c, f, o, "/host")
}

// toTeam invites somebody to an application, by a link in place of the name of an account. An
// administrator's link may make that account, too.
func (p *invitationPages) toTeam(c *call, f url.Values) (answer, error) {
	if err := noneChosen(f["permission"]); err != nil {
		return answer{}, err
	}
	may, err := app.ParsePermissions(f["permission"])
	if err != nil {
		return answer{}, err
	}
	o := app.Offer{Grants: []app.Grant{{App: c.app.ID, Permissions: may}}}
	if f.Get("new") == "true" {
		o.RAM, o.Disk, o.Apps = 1, 1, 1 // the least there is
	}
	return p.invite(c, f, o, c.at("settings"))
}

// invite makes an invitation and shows its link, once.
func (p *invitationPages) invite(c *call, f url.Values, o app.Offer, to string) (answer, error) {
	base, err := c.base(p.baseURL)
	if err != nil {
		return answer{}, err
	}
	lasts := time.Duration(min(max(whole(f.Get("minutes")), 0), int64(365*24*time.Hour/time.Minute))) * time.Minute
	c.audit.Note("for=%.40q ramMB=%d diskMB=%d applications=%d minutes=%d may=%v", o.For, o.RAM, o.Disk, o.Apps, lasts/time.Minute, o.Grants)
	key, made, err := p.invitations.Invite(c.ctx(), c.account, o, lasts)
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("invitation=%d", made.ID)
	sentence := c.lang.Say("The invitation was created. Its link works once.")
	return answer{to: to, flash: c.linkFlash(base, "/invitation/"+key, sentence)}, nil
}

// linkFlash shows a one-time link, once, and says so when nobody can open it elsewhere.
func (c *call) linkFlash(base, path, sentence string) *flash {
	fl := &flash{Text: sentence, Secret: base + path, Word: c.lang.Say("One-time link")}
	if u, err := url.Parse(base); err == nil && web.IsLoopback(u.Host) {
		fl.But = c.lang.Say("Nobody can open it on another computer: it begins with %s. Open the panel at its public address, or set base_url, and create another link.", base)
	}
	return fl
}

// base is the address of the panel for links: the one that the settings name, else the one at
// which the browser reached it, if that can be a host.
func (c *call) base(baseURL string) (string, error) {
	if baseURL != "" {
		return strings.TrimSuffix(baseURL, "/"), nil
	}
	u := url.URL{Scheme: "http", Host: c.Request.Host}
	if c.encrypted {
		u.Scheme = "https"
	}
	read, err := url.Parse(u.String())
	const allowed = "abcdefghijklmnopqrstuvwxyz0123456789.-:"
	if err != nil || *read != u || u.Hostname() == "" || strings.Trim(strings.ToLower(u.Hostname()), allowed) != "" {
		return "", app.Errorf(app.Invalid, "no link can be made for the address at which you opened the panel; set base_url, or open the panel by its name")
	}
	return u.String(), nil
}

// revokeAny ends an invitation of anybody's.
func (p *invitationPages) revokeAny(c *call) (answer, error) {
	return p.revoke(c, 0, "/host")
}

// revokeOwn ends an invitation of the owner of an application.
func (p *invitationPages) revokeOwn(c *call) (answer, error) {
	return p.revoke(c, c.account.ID, c.at("settings"))
}

func (p *invitationPages) revoke(c *call, inviter app.AccountID, to string) (answer, error) {
	id := c.number("invitation")
	c.audit.Note("invitation=%d", id)
	return done(to, c.lang.Say("The invitation was revoked.")), p.invitations.Revoke(c.ctx(), inviter, id)
}

// invitationRoutes are those of links that invite.
func (p *pages) invitationRoutes() []route {
	return []route{
		{http.MethodGet, "/invitation/{key}", public, ownerOnly, p.invitations.page, "", nil},
		{http.MethodPost, "/invitation/{key}", public, ownerOnly, form(p.invitations.accept), "invitation.accept", p.invitations.page},
		{http.MethodPost, "/invitation/{key}/by/{provider}", public, ownerOnly, form(p.identities.accept), "", p.invitations.page},
		{http.MethodPost, "/invitation/{key}/passkey", public, ownerOnly, form(p.invitations.acceptWithPasskey), "invitation.accept", p.invitations.refused},
		{http.MethodPost, "/invitation/{key}/join", signedIn, ownerOnly, p.invitations.join, "invitation.accept", p.invitations.page},
		{http.MethodPost, "/apps/{app}/invitations", signedIn | again, ownerOnly, form(p.invitations.toTeam), "invitation.create", p.settings.show},
		{http.MethodPost, "/apps/{app}/invitations/{invitation}/revoke", signedIn, ownerOnly, p.invitations.revokeOwn, "invitation.revoke", p.settings.show},
		{http.MethodPost, "/host/invitations", admin | again, ownerOnly, form(p.invitations.toHost), "invitation.create", p.host.show},
		{http.MethodPost, "/host/invitations/{invitation}/revoke", admin | again, ownerOnly, p.invitations.revokeAny, "invitation.revoke", p.host.show},
	}
}
