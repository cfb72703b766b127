package panel

import (
	"context"
	"net/url"

	"berth/app"
)

// domainPages are the names that lead to a site.
type domainPages struct {
	names app.Names
	sites string // the domain below which sites are; "" when not known
}

// domainsPage is the data of domains.html.
type domainsPage struct {
	Address string // of the site below the host's own domain; "" when that is not known
	Domains []app.Domain
}

func (p domainPages) show(c *call) (answer, error) {
	names, err := p.names.Names(c.ctx(), c.owner)
	page := domainsPage{}
	for _, d := range names.Domains {
		if d.App == c.app.ID {
			page.Domains = append(page.Domains, d)
		}
	}
	if p.sites != "" {
		page.Address = string(c.app.ID) + "." + p.sites
	}
	return show("domains", page), err
}

func (p domainPages) claim(c *call, f url.Values) (answer, error) {
	c.audit.Note("domain=%.255q", f.Get("domain"))
	d, err := p.names.ClaimDomain(c.ctx(), c.owner, c.app.ID, f.Get("domain"))
	return done(c.at("domains"), c.lang.Say("%s was added. Enter its records where its DNS is kept, then verify it.", d.Name)), err
}

// ofApp returns the domain of a path if it is this application's.
func (p domainPages) ofApp(c *call) (app.Domain, error) {
	name := c.Request.PathValue("domain")
	c.audit.Note("domain=%.255q", name)
	d, err := p.names.Domain(c.ctx(), c.owner, name)
	if err == nil && d.App != c.app.ID {
		err = app.Errorf(app.NotFound, "this domain does not belong to the application")
	}
	return d, err
}

func (p domainPages) verify(c *call) (answer, error) {
	d, err := p.ofApp(c)
	if err != nil {
		return answer{}, err
	}
	// What was found out is worth keeping, also when the browser has gone.
	d, err = p.names.VerifyDomain(context.WithoutCancel(c.ctx()), c.owner, d.Name)
	if err == nil && d.Status != app.DomainVerified {
		err = app.Errorf(app.Conflict, "the TXT record was not found; it can take a while until a new one is seen everywhere")
	}
	return done(c.at("domains"), c.lang.Say("%s is verified.", d.Name)), err
}

func (p domainPages) remove(c *call) (answer, error) {
	d, err := p.ofApp(c)
	if err != nil {
		return answer{}, err
	}
	err = p.names.RemoveDomain(c.ctx(), c.owner, d.Name)
	return done(c.at("domains"), c.lang.Say("%s was removed.", d.Name)), err
}
