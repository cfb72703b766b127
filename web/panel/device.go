package panel

import (
	"net/url"
	"time"

	"berth/app"
)

// devicePages let people give a token to a program that shows them a code (RFC 8628). No
// address holds a code, so no link fills one in for its reader.
type devicePages struct {
	devices Devices
}

// devicePage is the data of device.html.
type devicePage struct {
	Device *app.Device // whose code was typed; nil to ask for one
	Lasts  string      // how long its token works
	Ends   time.Time   // of the token, if it is fetched now
}

// show asks for a code, or for the decision on the program whose code was typed.
func (p *devicePages) show(c *call) (answer, error) {
	if c.device == nil {
		return show("device", devicePage{}), nil
	}
	return show("device", devicePage{c.device, span(c.lang, c.device.Lasts), time.Now().Add(c.device.Lasts)}), nil
}

// ask shows who asks for a token.
func (p *devicePages) ask(c *call, f url.Values) (answer, error) {
	if err := p.find(c, f); err != nil {
		return answer{}, err
	}
	return p.show(c)
}

func (p *devicePages) find(c *call, f url.Values) error {
	d, err := p.devices.Find(c.account.ID, f.Get("code"))
	if err == nil {
		c.device = &d
		c.audit.Note("client=%q machine=%q from=%s", d.Client, d.Machine, d.From.Address)
	}
	return err
}

func (p *devicePages) allow(c *call, f url.Values) (answer, error) {
	if err := p.find(c, f); err != nil {
		return answer{}, err
	}
	d, err := p.devices.Decide(c.account.ID, f.Get("code"), true)
	return done("/device", c.lang.Say("You allowed it. %q gets its token now; the page Account lists it.", d.Label())), err
}

func (p *devicePages) deny(c *call, f url.Values) (answer, error) {
	if err := p.find(c, f); err != nil {
		return answer{}, err
	}
	d, err := p.devices.Decide(c.account.ID, f.Get("code"), false)
	return done("/device", c.lang.Say("You denied it. %q gets no token.", d.Label())), err
}
