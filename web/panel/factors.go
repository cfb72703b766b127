package panel

import (
	"cmp"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"rsc.io/qr"

	"berth/app"
)

// factorPages set up the second factors of an account, and remove them.
type factorPages struct {
	factors  Factors
	passkeys Passkeys
	baseURL  string
}

// factorsPage is the data of factors.html.
type factorsPage struct {
	app.Factors
	Bare bool   // nothing else is open to the account before it has a second factor
	Seed string // of an app that waits for its first code; "" for none
	QR   qrCode // the same for a camera

	Keys    []passkeyRow
	New     passkeyForm
	Blocked bool // browsers make no passkeys at this address
}

func (p *factorPages) show(c *call) (answer, error) {
	page := factorsPage{Bare: c.session.Bare}
	var err error
	if page.Factors, err = p.factors.Factors(c.ctx(), c.account.ID); err != nil {
		return answer{}, err
	}
	if page.Keys, err = p.rowsOf(c); err != nil {
		return answer{}, err
	}
	page.New = passkeyForm{Action: "/account/factors/passkeys", Field: responseField, Button: c.lang.Say("Create a passkey")}
	if page.New.Options, err = p.passkeys.NewPasskeyOptions(c.ctx(), c.account, c.origin(p.baseURL), c.session.ID); err != nil {
		return answer{}, err
	}
	page.Blocked = page.New.Options == ""
	if c.offered {
		var uri string
		page.Seed, uri, err = p.factors.OfferedTOTP(c.ctx(), c.account, p.issuer(c))
		if app.KindOf(err) == app.NotFound {
			return show("factors", page), nil
		}
		if err == nil {
			page.QR, err = qrOf(uri)
		}
	}
	return show("factors", page), err
}

// issuer is what apps show beside the account: the host of the panel.
func (p *factorPages) issuer(c *call) string {
	if u, err := url.Parse(p.baseURL); err == nil && u.Hostname() != "" {
		return u.Hostname()
	}
	u := url.URL{Host: c.Request.Host}
	return cmp.Or(u.Hostname(), "berth")
}

// offer shows the seed of a new app. Only this answer has it, and that to a wrong first code.
func (p *factorPages) offer(c *call) (answer, error) {
	if _, _, err := p.factors.OfferTOTP(c.ctx(), c.account, p.issuer(c)); err != nil {
		return answer{}, err
	}
	c.offered = true
	return p.show(c)
}

// confirm takes the first code of the app.
func (p *factorPages) confirm(c *call, f url.Values) (answer, error) {
	c.offered = true
	codes, err := p.factors.ConfirmTOTP(c.ctx(), c.account, f.Get("code"))
	if err != nil {
		return answer{}, err
	}
	return p.codes(c, codes, c.lang.Say("From now on your sign-in has a second step: a code of your app.")), nil
}

// codes shows new recovery codes, once.
func (p *factorPages) codes(c *call, codes []string, sentence string) answer {
	c.session.Bare = false
	return answer{to: "/account/factors", flash: &flash{Text: sentence, Codes: strings.Join(codes, "\n")}}
}

func (p *factorPages) remove(c *call) (answer, error) {
	return done("/account/factors", c.lang.Say("The app is turned off, and its codes no longer work.")), p.factors.RemoveTOTP(c.ctx(), c.account.ID)
}

func (p *factorPages) renew(c *call) (answer, error) {
	codes, err := p.factors.RenewRecovery(c.ctx(), c.account.ID)
	if err != nil {
		return answer{}, err
	}
	return p.codes(c, codes, c.lang.Say("These are your new recovery codes. The old ones no longer work.")), nil
}

// secondPages take the second step of a sign-in.
type secondPages struct {
	factors Factors
	passkey func(c *call, next string) passkeyForm                                            // accountPages.passkey
	begin   func(c *call, in app.SignedIn, operation, next string, err error) (answer, error) // accountPages.begin
}

// secondPage is the data of second.html.
type secondPage struct {
	Name    string // of the account
	Factors app.Factors
	Next    string
	Passkey passkeyForm
}

// show asks for the second step. Without a pending sign-in it leads to the first one.
func (p *secondPages) show(c *call) (answer, error) {
	in, err := p.factors.Pending(c.ctx(), c.pending, c.from)
	if app.KindOf(err) == app.Unauthorized {
		return leadTo("/login"), nil
	}
	q := c.Request.URL.Query()
	if c.Request.Method == http.MethodPost {
		q = c.Request.PostForm
	}
	page := secondPage{Name: in.Account.Name, Factors: in.Factors, Next: local(q.Get("next"))}
	if in.Factors.Passkeys > 0 {
		page.Passkey = p.passkey(c, page.Next)
	}
	return show("second", page), err
}

// send takes a code of the app, or a recovery code.
func (p *secondPages) send(c *call) (answer, error) {
	c.audit.Operation, c.audit.stranger = "session.failed", true
	c.audit.Note("step=second")
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	in, err := p.factors.SecondStep(c.ctx(), c.pending, f.Get("code"), c.from)
	return p.begin(c, in, "session.begin", local(f.Get("next")), err)
}

// qrCode is a QR code as a path of SVG, in a square of Size modules.
type qrCode struct {
	Size int
	Path string
}

// quiet is the margin that cameras need around a code, in modules.
const quiet = 4

func qrOf(text string) (qrCode, error) {
	code, err := qr.Encode(text, qr.M)
	if err != nil {
		return qrCode{}, err
	}
	var b strings.Builder
	for y := range code.Size {
		for x := range code.Size {
			if code.Black(x, y) {
				fmt.Fprintf(&b, "M%d %dh1v1h-1z", x+quiet, y+quiet)
			}
		}
	}
	return qrCode{code.Size + 2*quiet, b.String()}, nil
}
