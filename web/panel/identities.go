package panel

import (
	"cmp"
	"context"
	"log/slog"
	"net/url"

	"berth/app"
	"berth/web/provider"
)

// Identities knows by which identities people sign in to accounts.
type Identities interface {
	// SignInByIdentity goes on as SignIns.SignIn does: NotFound for somebody who signs in to no
	// account.
	SignInByIdentity(ctx context.Context, who app.Identity, from app.Visitor) (app.SignedIn, error)
	// ProveByIdentity is SignIns.Prove: Forbidden for another's identity, and for an account that has
	// a password.
	ProveByIdentity(ctx context.Context, a app.Account, who app.Identity, session int64, from app.Visitor) (key string, err error)
	// LinkIdentity returns Conflict for an identity that signs in to an account already.
	LinkIdentity(ctx context.Context, account app.AccountID, who app.Identity) error
	// UnlinkIdentity returns Conflict when nobody could sign in to the account any more.
	UnlinkIdentity(ctx context.Context, account app.AccountID, id int64) error
	Identities(ctx context.Context, id app.AccountID) ([]app.Identity, error)

	HasPassword(ctx context.Context, a app.Account) (bool, error)
	// SetFirstPassword returns Conflict for an account that has one.
	SetFirstPassword(ctx context.Context, a app.Account, password string, keep int64) error
}

// identityPages lead browsers to providers, and take what they come back with.
type identityPages struct {
	identities  Identities
	providers   *provider.Providers
	accounts    *accountPages
	invitations *invitationPages
	again       *againPages
	log         *slog.Logger
}

// leavePage is the data of leave.html.
type leavePage struct{ Title, Address string }

// lead shows a page that leads on to a provider. A redirect would not do: browsers hold it against
// form-action, too (Chromium).
func (p *identityPages) lead(c *call, to provider.Purpose) (answer, error) {
	if !c.maySignIn {
		return answer{}, app.Errorf(app.Forbidden, "sign in over HTTPS: on this connection others could read your session")
	}
	name := c.Request.PathValue("provider")
	address, cookie, err := p.providers.Begin(c.ctx(), name, to, c.from)
	if err != nil {
		p.tell(c, name, err)
		return answer{}, err
	}
	c.setCookie(providerSuffix, cookie, provider.Life)
	title := name
	for _, one := range p.providers.All() {
		if one.Name == name {
			title = one.Title
		}
	}
	return show("leave", leavePage{title, address}), nil
}

// tell logs why a provider failed.
func (p *identityPages) tell(c *call, name string, err error) {
	if cause := provider.Cause(err); cause != nil {
		p.log.Warn("a sign-in by a provider failed", "provider", name, "request", c.RequestID, "cause", cause)
	}
}

func (p *identityPages) signIn(c *call, f url.Values) (answer, error) {
	return p.lead(c, provider.Purpose{Next: local(f.Get("next"))})
}

func (p *identityPages) link(c *call) (answer, error) {
	return p.lead(c, provider.Purpose{Session: c.session.ID})
}

func (p *identityPages) prove(c *call, f url.Values) (answer, error) {
	return p.lead(c, provider.Purpose{Session: c.session.ID, Prove: true, Next: local(f.Get("next"))})
}

// accept takes the name of the account that an invitation makes.
func (p *identityPages) accept(c *call, f url.Values) (answer, error) {
	key, name := c.Request.PathValue("key"), nameIn(f)
	if err := p.invitations.check(c, key, name); err != nil {
		return answer{}, err
	}
	return p.lead(c, provider.Purpose{Invitation: key, Name: name})
}

// callback takes what a browser comes back with, once.
func (p *identityPages) callback(c *call) (answer, error) {
	c.audit.Operation, c.audit.stranger = "session.failed", true
	name, cookie := c.Request.PathValue("provider"), ""
	c.audit.Note("step=provider provider=%.40q", name)
	if sent, err := c.Request.Cookie(c.cookieName() + providerSuffix); err == nil && c.maySignIn {
		cookie = sent.Value
	}
	who, purpose, err := p.providers.Finish(c.ctx(), name, c.Request.URL.Query(), cookie)
	c.purpose = purpose
	var a answer
	if err != nil {
		p.tell(c, name, err)
	} else {
		a, err = p.finish(c, who)
	}
	if cookie != "" {
		c.setCookie(providerSuffix, "", 0)
	}
	return a, err
}

// finish does what somebody went to a provider for.
func (p *identityPages) finish(c *call, who app.Identity) (answer, error) {
	to := c.purpose
	switch {
	case to.Invitation != "":
		in, err := p.invitations.invitations.AcceptWithIdentity(c.ctx(), to.Invitation, to.Name, who, c.from)
		return p.accounts.begin(c, in, "invitation.accept", "/", err)
	case to.Session == 0:
		in, err := p.identities.SignInByIdentity(c.ctx(), who, c.from)
		return p.accounts.begin(c, in, "session.begin", to.Next, err)
	case to.Session != c.session.ID:
		return answer{}, app.Errorf(app.Unauthorized, "your session has ended meanwhile; sign in, and begin again")
	}
	c.audit.stranger = false
	if to.Prove {
		c.audit.Operation = "session.prove"
		key, err := p.identities.ProveByIdentity(c.ctx(), c.account, who, c.session.ID, c.from)
		return done(to.Next, c.lang.Say("You confirmed that it is you. Now repeat what you wanted to do.")), p.again.proved(c, key, err)
	}
	c.audit.Operation = "identity.add"
	c.audit.Note("issuer=%.100q subject=%.60q", who.Issuer, who.Subject)
	return done("/account", c.lang.Say("From now on you can sign in by this identity, too.")), p.identities.LinkIdentity(c.ctx(), c.account.ID, who)
}

// began is the page from which a browser went to a provider.
func (p *identityPages) began(c *call) (answer, error) {
	switch {
	case c.purpose.Invitation != "":
		c.Request.SetPathValue("key", c.purpose.Invitation)
		c.Request.PostForm = url.Values{"name": {c.purpose.Name}} // that were typed there
		return p.invitations.page(c)
	case c.purpose.Session != 0 && c.session.ID != 0 && !c.session.Bare:
		return p.accounts.show(c)
	}
	return p.accounts.login(c)
}

func (p *identityPages) unlink(c *call) (answer, error) {
	id := c.number("identity")
	c.audit.Note("identity=%d", id)
	return done("/account", c.lang.Say("The identity was removed; it does not sign in any more.")), p.identities.UnlinkIdentity(c.ctx(), c.account.ID, id)
}

// identityRow is an identity as its owner sees it.
type identityRow struct {
	app.Identity
	Title string // of its provider
	Gone  bool   // the host has it no more
}

func (p *accountPages) identityRows(c *call) ([]identityRow, error) {
	list, err := p.identities.Identities(c.ctx(), c.account.ID)
	rows := make([]identityRow, len(list))
	for i, one := range list {
		known, ok := p.providers.Of(one.Issuer)
		rows[i] = identityRow{one, cmp.Or(known.Title, one.Issuer), !ok}
	}
	return rows, err
}
