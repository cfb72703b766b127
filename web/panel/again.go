package panel

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/web/provider"
)

// againPages ask people again who they are, before they do what would be of most use to
// somebody at an open browser, or with a stolen session: the routes with the bit again.
type againPages struct {
	signIns    SignIns
	passkeys   Passkeys
	identities Identities
	providers  *provider.Providers
	ttl        time.Duration // of a session that nobody uses
	baseURL    string
}

// proveField is the field of a form that has the password of somebody who is asked again.
const proveField = "prove-password"

// provePasskey is the field with what a passkey answers instead.
const provePasskey = "prove-passkey"

// againPage is the data of again.html: a form for the password, which goes where the form went
// that made berth ask, with all that it had.
type againPage struct {
	Action    string
	Fields    []field
	Password  bool // the account has one
	Passkey   passkeyForm
	Providers []provider.Provider // that prove it for an account without a password
	Next      string              // the page that they lead back to
}

type field struct{ Name, Value string }

// ask returns the page that asks who somebody is, and false when they have proved it, lately or
// with this form. A form that was sent is not lost: the page has its fields.
func (p *againPages) ask(c *call) (a answer, asked bool, err error) {
	if c.session.Proved(c.from, time.Now()) {
		return answer{}, false, nil
	}
	if c.Request.Method != http.MethodPost {
		return leadTo("/again?" + query("next", c.Request.URL.RequestURI())), true, nil
	}
	f, err := c.form()
	if err != nil {
		return answer{}, true, err
	}
	operation := c.audit.Operation
	c.audit.Operation = "" // so far nothing was done
	if !f.Has(proveField) && !f.Has(provePasskey) {
		a, err := p.page(c, c.Request.URL.Path, f, c.referrer())
		return a, true, err
	}
	if err := p.prove(c, f); err != nil {
		return answer{}, true, err
	}
	c.audit.Operation = operation
	return answer{}, false, nil
}

// page shows a form again, as hidden fields beside the one for the password. What a provider leads
// back to is the page next.
func (p *againPages) page(c *call, action string, f url.Values, next string) (answer, error) {
	page := againPage{Action: action, Next: next}
	var err error
	if page.Password, err = p.identities.HasPassword(c.ctx(), c.account); err != nil {
		return answer{}, err
	}
	if !page.Password {
		list, err := p.identities.Identities(c.ctx(), c.account.ID)
		if err != nil {
			return answer{}, err
		}
		for _, i := range list {
			if known, ok := p.providers.Of(i.Issuer); ok && !slices.Contains(page.Providers, known) {
				page.Providers = append(page.Providers, known)
			}
		}
	}
	for name, values := range f {
		for _, value := range values {
			if name != proveField && name != provePasskey {
				page.Fields = append(page.Fields, field{name, value})
			}
		}
	}
	slices.SortStableFunc(page.Fields, func(a, b field) int { return strings.Compare(a.Name, b.Name) })
	page.Passkey = passkeyForm{
		Action: action, Options: p.passkeys.PasskeyOptions(c.origin(p.baseURL), c.session.ID), Field: provePasskey,
		Button: c.lang.Say("Use a passkey"), Fields: page.Fields,
	}
	return show("again", page), nil
}

// prove checks who somebody is, and renews the session. The field is no part of the form any
// more.
func (p *againPages) prove(c *call, f url.Values) error {
	password, response := f.Get(proveField), f.Get(provePasskey)
	f.Del(proveField)
	f.Del(provePasskey)
	c.audit.Operation = "session.prove"
	var key string
	var err error
	if response != "" {
		c.audit.Note("step=passkey")
		key, err = p.passkeys.ProveByPasskey(c.ctx(), c.account, c.origin(p.baseURL), []byte(response), c.session.ID, c.from)
	} else {
		key, err = p.signIns.Prove(c.ctx(), c.account, password, c.session.ID, c.from)
	}
	return p.proved(c, key, err)
}

// proved gives the browser the new cookie of its session, unless err says why there is none.
func (p *againPages) proved(c *call, key string, err error) error {
	if err != nil {
		return err
	}
	c.session.ProvedAt, c.session.ProvedFrom = time.Now(), c.from.Key
	c.cookies = nil
	c.setCookie("", key, p.ttl)
	return nil
}

// show asks before a page, which next names.
func (p *againPages) show(c *call) (answer, error) {
	next := local(c.Request.URL.Query().Get("next"))
	if c.session.Proved(c.from, time.Now()) {
		return leadTo(next), nil
	}
	return p.page(c, "/again", url.Values{"next": {next}}, next)
}

// send takes what show has asked for.
func (p *againPages) send(c *call, f url.Values) (answer, error) {
	return leadTo(local(f.Get("next"))), p.prove(c, f)
}

// refused is the page of a form whose proof failed.
func (p *againPages) refused(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	return p.page(c, c.Request.URL.Path, f, "/")
}
