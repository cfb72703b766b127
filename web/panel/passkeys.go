package panel

import (
	"context"
	"net/url"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

// Passkeys knows the passkeys of accounts.
type Passkeys interface {
	// PasskeyOptions is what a browser gets to sign in or, with a session, to prove who its
	// owner is; "" where browsers have no passkeys.
	PasskeyOptions(at app.Origin, session int64) string
	// SignInByPasskey returns Unauthorized for what is no passkey here, with the account if it
	// is somebody's.
	SignInByPasskey(ctx context.Context, at app.Origin, response []byte, from app.Visitor) (app.SignedIn, error)
	// ProveByPasskey is SignIns.Prove: Forbidden for what is no passkey of the account here.
	ProveByPasskey(ctx context.Context, a app.Account, at app.Origin, response []byte, session int64, from app.Visitor) (key string, err error)

	Passkeys(ctx context.Context, id app.AccountID) ([]app.Passkey, error)
	// NewPasskeyOptions is what a browser gets to make a passkey; "" where it makes none.
	NewPasskeyOptions(ctx context.Context, a app.Account, at app.Origin, session int64) (string, error)
	// AddPasskey returns recovery codes with the first second factor: Invalid for an answer to
	// something else.
	AddPasskey(ctx context.Context, a app.Account, at app.Origin, session int64, name string, response []byte) (recovery []string, err error)
	RenamePasskey(ctx context.Context, account app.AccountID, id int64, name string) error
	RemovePasskey(ctx context.Context, account app.AccountID, id int64) error
}

// passkeyPages sign in by a passkey, and make and remove them.
type passkeyPages struct {
	passkeys Passkeys
	factors  *factorPages
	begin    func(c *call, in app.SignedIn, operation, next string, err error) (answer, error) // accountPages.begin
}

// passkeyForm is the data of the form that asks the browser for a passkey.
type passkeyForm struct {
	Action  string
	Options string // for the browser; "" where it has none
	Field   string // for its answer
	Button  string
	Fields  []field // that are sent along
}

// responseField is the field of a form with what the browser has answered.
const responseField = "response"

// origin is the address at which the browser has the panel.
func (c *call) origin(baseURL string) app.Origin {
	host := c.Request.Host
	if u, err := url.Parse(baseURL); err == nil && strings.EqualFold(u.Host, host) {
		return app.OriginOf(baseURL)
	}
	if o := app.OriginOf("http://" + host); o.Domain != "" && c.Request.TLS == nil {
		return o // localhost
	}
	if !c.safe {
		return app.Origin{}
	}
	return app.OriginOf("https://" + host)
}

// signIn begins a session by a passkey alone.
func (p *passkeyPages) signIn(c *call) (answer, error) {
	c.audit.Operation, c.audit.stranger = "session.failed", true
	c.audit.Note("step=passkey")
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	in, err := p.passkeys.SignInByPasskey(c.ctx(), c.origin(p.factors.baseURL), []byte(f.Get(responseField)), c.from)
	return p.begin(c, in, "session.begin", local(f.Get("next")), err)
}

// add remembers a passkey that the browser has made.
func (p *passkeyPages) add(c *call, f url.Values) (answer, error) {
	name := f.Get("name")
	c.audit.Note("passkey=%.60q", name)
	codes, err := p.passkeys.AddPasskey(c.ctx(), c.account, c.origin(p.factors.baseURL), c.session.ID, name, []byte(f.Get(responseField)))
	if err != nil {
		return answer{}, err
	}
	if codes == nil {
		return done("/account/factors", c.lang.Say("The passkey %s was added.", name)), nil
	}
	return p.factors.codes(c, codes, c.lang.Say("The passkey %s was added. From now on your password alone does not sign in.", name)), nil
}

func (p *passkeyPages) rename(c *call, f url.Values) (answer, error) {
	id, err := passkeyID(c)
	if err != nil {
		return answer{}, err
	}
	return done("/account/factors", c.lang.Say("The passkey has another name now.")), p.passkeys.RenamePasskey(c.ctx(), c.account.ID, id, f.Get("name"))
}

func (p *passkeyPages) remove(c *call) (answer, error) {
	id, err := passkeyID(c)
	if err != nil {
		return answer{}, err
	}
	return done("/account/factors", c.lang.Say("The passkey was removed; it does not sign in any more.")), p.passkeys.RemovePasskey(c.ctx(), c.account.ID, id)
}

func passkeyID(c *call) (int64, error) {
	id, err := strconv.ParseInt(c.Request.PathValue("passkey"), 10, 64)
	if err != nil {
		return 0, errNowhere()
	}
	c.audit.Note("passkey=%d", id)
	return id, nil
}

// passkeyRow is a passkey as its owner sees it.
type passkeyRow struct {
	ID           int64
	Name, Domain string
	Made, Used   time.Time
	Here         bool // it works at this address
}

// rowsOf are the passkeys of an account, and whether each works where the browser is.
func (p *factorPages) rowsOf(c *call) ([]passkeyRow, error) {
	all, err := p.passkeys.Passkeys(c.ctx(), c.account.ID)
	here := c.origin(p.baseURL).Domain
	rows := make([]passkeyRow, len(all))
	for i, k := range all {
		rows[i] = passkeyRow{k.ID, k.Name, k.RP, k.CreatedAt, k.LastUsed, k.RP == here}
	}
	return rows, err
}
