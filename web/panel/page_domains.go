package panel

import (
	"context"

	"berth/app"
)

// domainsPage is the data of domains.html.
type domainsPage struct {
	Site    bool
	Address string // of the site below the host's own domain; "" when that is not known
	Domains []app.Domain
	Typed   string
}

// domains lists the names that lead to a site.
func (s *server) domains(c *call) (answer, error) {
	names, err := s.Names.Names(c.Request.Context(), c.owner)
	if err != nil {
		return answer{}, err
	}
	page := domainsPage{Site: c.app.Type == app.Site}
	if page.Site && s.Sites != "" {
		page.Address = string(c.app.ID) + "." + s.Sites
	}
	for _, d := range names.Domains {
		if d.App == c.app.ID {
			page.Domains = append(page.Domains, d)
		}
	}
	if c.problem != "" && c.Request.PostForm != nil {
		page.Typed = c.Request.PostForm.Get("domain")
	}
	return show("domains", page)
}

func (s *server) claimDomain(c *call) (answer, error) {
	f, err := c.form()
	if err != nil {
		return answer{}, err
	}
	c.audit.Note("domain=%.255q", f.Get("domain"))
	d, err := s.Names.ClaimDomain(c.Request.Context(), c.owner, c.app.ID, f.Get("domain"))
	if err != nil {
		return answer{}, err
	}
	return done(c.at("domains"), c.lang.Say("%s was added. Enter its records where its DNS is kept, then verify it.", d.Name))
}

// ofApp returns the domain of a path if it is this application's.
func (s *server) ofApp(c *call) (app.Domain, error) {
	name := c.Request.PathValue("domain")
	c.audit.Note("domain=%.255q", name)
	d, err := s.Names.Domain(c.Request.Context(), c.owner, name)
	if err == nil && d.App != c.app.ID {
		err = app.Errorf(app.NotFound, "this domain does not belong to the application")
	}
	return d, err
}

func (s *server) verifyDomain(c *call) (answer, error) {
	d, err := s.ofApp(c)
	if err != nil {
		return answer{}, err
	}
	// What was found out is worth keeping, also when the browser has gone.
	d, err = s.Names.VerifyDomain(context.WithoutCancel(c.Request.Context()), c.owner, d.Name)
	if err != nil {
		return answer{}, err
	}
	if d.Status == app.DomainVerified {
		return done(c.at("domains"), c.lang.Say("%s is verified.", d.Name))
	}
	return answer{}, app.Errorf(app.Conflict, "the TXT record was not found; it can take a while until a new one is seen everywhere")
}

func (s *server) removeDomain(c *call) (answer, error) {
	d, err := s.ofApp(c)
	if err != nil {
		return answer{}, err
	}
	if err := s.Names.RemoveDomain(c.Request.Context(), c.owner, d.Name); err != nil {
		return answer{}, err
	}
	return done(c.at("domains"), c.lang.Say("%s was removed.", d.Name))
}
