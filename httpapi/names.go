package httpapi

import (
	"context"

	"berth/app"
)

// The numbers of a subdomain's status.
const (
	subdomainAvailable = 1
	subdomainUsed      = 2
)

// names are the routes of subdomains and domains.
type names struct {
	app.Names
	apps         app.Applications
	certificates func(name string) (app.Certificate, bool) // may be nil
}

func (n names) subdomain(c *call) (response, error) {
	id := app.ID(c.params.ByName("subdomain"))
	if id == app.All {
		return n.subdomains(c)
	}
	sub, err := n.Subdomain(c.Request.Context(), c.owner(), id)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The information of your subdomain has been loaded."), member{"subdomain", showSubdomain(sub)})
}

func (n names) subdomains(c *call) (response, error) {
	names, err := n.Names.Names(c.Request.Context(), c.owner())
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The information of your subdomains has been loaded."), member{"subdomains", convert(names.Subdomains, showSubdomain)})
}

func (n names) reserveSubdomain(c *call) (response, error) {
	id := app.ID(c.params.ByName("subdomain"))
	c.audit.Note("subdomain=%s", id)
	sub, err := n.ReserveSubdomain(c.Request.Context(), c.owner(), id)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The subdomain %s is yours.", sub.ID), member{"subdomain", showSubdomain(sub)})
}

func (n names) releaseSubdomain(c *call) (response, error) {
	id := app.ID(c.params.ByName("subdomain"))
	c.audit.Note("subdomain=%s", id)
	if err := n.ReleaseSubdomain(c.Request.Context(), c.owner(), id); err != nil {
		return response{}, err
	}
	return ok(c.say("The subdomain %s is no longer yours.", id))
}

func showSubdomain(s app.Subdomain) object {
	status := subdomainAvailable
	if s.Used {
		status = subdomainUsed
	}
	return object{{"id", s.ID}, {"userID", s.Account.String()}, {"status", status}, {"date", s.CreatedAt.UnixMilli()}}
}

func (n names) domain(c *call) (response, error) {
	name := c.params.ByName("domain")
	if app.ID(name) == app.All {
		return n.domains(c)
	}
	d, err := n.Domain(c.Request.Context(), c.owner(), name)
	if err != nil {
		return response{}, err
	}
	shown, err := n.show(c, d)
	if err != nil {
		return response{}, err
	}
	return ok(c.say("The information of your domain has been loaded."), member{"domain", shown}, member{"customdomain", shown}) // where a client looks
}

func (n names) domains(c *call) (response, error) {
	names, err := n.Names.Names(c.Request.Context(), c.owner())
	if err != nil {
		return response{}, err
	}
	list := []object{}
	for _, d := range names.Domains {
		shown, err := n.show(c, d)
		switch {
		case app.KindOf(err) == app.NotFound: // deleted meanwhile, and the domain with it
		case err != nil:
			return response{}, err
		default:
			list = append(list, shown)
		}
	}
	found := []member{{"domains", list}}
	if len(list) > 0 { // a client looks under this name, and fails on an empty list
		found = append(found, member{"customdomains", list})
	}
	return ok(c.say("The information of your domains has been loaded."), found...)
}

func (n names) claimDomain(c *call) (response, error) {
	f := c.fields()
	id := f.appID("appID")
	key := "domainName" // clients disagree
	if !f.has(key) {
		key = "domain"
	}
	name := f.text(key)
	if name == nil {
		f.wrong("The field domainName is missing. It must be a domain such as shop.example.org.")
	}
	if f.err != nil {
		return response{}, f.err
	}
	c.id = id
	c.audit.Note("domain=%s", *name)
	d, err := n.ClaimDomain(c.Request.Context(), c.owner(), id, *name)
	if err != nil {
		return response{}, err
	}
	return n.about(c, d, app.Textf("The domain %s was added. Enter the records of the instructions where its DNS is kept, then verify it.", d.Name))
}

func (n names) assignDomain(c *call) (response, error) {
	f := c.fields()
	to := f.appID("newAppID")
	if f.err != nil {
		return response{}, f.err
	}
	c.id = to
	c.audit.Note("domain=%s", c.params.ByName("domain"))
	d, err := n.AssignDomain(c.Request.Context(), c.owner(), c.params.ByName("domain"), to)
	if err != nil {
		return response{}, err
	}
	return n.about(c, d, app.Textf("The domain %s belongs to the application %s now.", d.Name, to))
}

func (n names) removeDomain(c *call) (response, error) {
	c.audit.Note("domain=%s", c.params.ByName("domain"))
	if err := n.RemoveDomain(c.Request.Context(), c.owner(), c.params.ByName("domain")); err != nil {
		return response{}, err
	}
	return ok(c.say("The domain was removed."))
}

func (n names) verifyDomain(c *call) (response, error) {
	c.audit.Note("domain=%s", c.params.ByName("domain"))
	verify := n.VerifyDomain
	if c.head() {
		verify = n.Domain // a question must not change what it asks for
	}
	// What was found out is worth keeping, also when the client has gone.
	d, err := verify(context.WithoutCancel(c.Request.Context()), c.owner(), c.params.ByName("domain"))
	if err != nil {
		return response{}, err
	}
	message := app.Textf("The domain %s is verified.", d.Name)
	if d.Status != app.DomainVerified {
		message = app.Textf("The domain %s is not verified: the TXT record of its instructions was not found. "+
			"It can take a while until a new one is seen everywhere.", d.Name)
	}
	return n.about(c, d, message)
}

// about is the answer that shows one domain.
func (n names) about(c *call, d app.Domain, message app.Text) (response, error) {
	shown, err := n.show(c, d)
	if err != nil {
		return response{}, err
	}
	return ok(c.translate(message), member{"domain", shown})
}

func (n names) show(c *call, d app.Domain) (object, error) {
	snap, err := n.apps.App(c.owner(), d.App)
	if err != nil {
		return nil, err
	}
	instructions := convert(d.Records, func(r app.Record) object {
		return object{{"type", r.Type}, {"name", r.Name}, {"content", r.Content}}
	})
	shown := object{
		{"id", d.Name},
		{"dns_status", d.Status},
		{"date", d.CreatedAt.UnixMilli()},
		{"isLegacy", false},
		{"app", object{{"id", snap.ID}, {"name", snap.Name}, {"online", snap.Running}, {"type", snap.Type}}},
		{"instructions", instructions},
	}
	if d.Status == app.DomainVerified && n.certificates != nil {
		if had, ok := n.certificates(d.Name); ok {
			certificate := object{{"status", had.Status(c.now())}}
			if len(had.Chain) > 0 {
				certificate = append(certificate, member{"expires", had.Expires.UnixMilli()})
			}
			if had.Problem != "" { // why there is none, or none that is new
				certificate = append(certificate, member{"message", had.Problem})
			}
			shown = append(shown, member{"certificate", certificate})
		}
	}
	return shown, nil
}
