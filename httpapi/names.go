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

type subdomain struct {
	ID     app.ID `json:"id"`
	UserID string `json:"userID"`
	Status int    `json:"status"`
	Date   int64  `json:"date"` // milliseconds
}

type subdomainAnswer struct {
	Status    string    `json:"status"`
	Message   string    `json:"message"`
	Subdomain subdomain `json:"subdomain"`
}

type subdomainsAnswer struct {
	Status     string      `json:"status"`
	Message    string      `json:"message"`
	Subdomains []subdomain `json:"subdomains"`
}

type domain struct {
	ID           string        `json:"id"`
	DNSStatus    string        `json:"dns_status"`
	Date         int64         `json:"date"` // milliseconds
	IsLegacy     bool          `json:"isLegacy"`
	App          domainApp     `json:"app"`
	Instructions []instruction `json:"instructions"`
	Certificate  *certificate  `json:"certificate,omitempty"`
}

// certificate is that of a domain, where the host gets one for it.
type certificate struct {
	Status  app.CertificateStatus `json:"status"`
	Expires int64                 `json:"expires,omitempty"` // milliseconds
	Message string                `json:"message,omitempty"` // why there is none, or none that is new
}

type domainApp struct {
	ID     app.ID   `json:"id"`
	Name   string   `json:"name"`
	Online bool     `json:"online"`
	Type   app.Type `json:"type"`
}

type instruction struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Content string `json:"content"`
}

// domainAnswer says it twice where one is read: a client looks under the second
// name. It fails on an empty list, so that one appears under the first alone.
type domainAnswer struct {
	Status       string  `json:"status"`
	Message      string  `json:"message"`
	Domain       domain  `json:"domain"`
	CustomDomain *domain `json:"customdomain,omitempty"`
}

type domainsAnswer struct {
	Status        string   `json:"status"`
	Message       string   `json:"message"`
	Domains       []domain `json:"domains"`
	CustomDomains []domain `json:"customdomains,omitempty"`
}

func (s *server) subdomain(c *call) (response, error) {
	id := app.ID(c.params.ByName("subdomain"))
	if id == app.All {
		return s.subdomains(c)
	}
	sub, err := s.Names.Subdomain(c.Request.Context(), c.owner(), id)
	if err != nil {
		return response{}, err
	}
	return ok(subdomainAnswer{statusOK, c.say("The information of your subdomain has been loaded."), showSubdomain(sub)})
}

func (s *server) subdomains(c *call) (response, error) {
	names, err := s.Names.Names(c.Request.Context(), c.owner())
	if err != nil {
		return response{}, err
	}
	list := []subdomain{}
	for _, sub := range names.Subdomains {
		list = append(list, showSubdomain(sub))
	}
	return ok(subdomainsAnswer{statusOK, c.say("The information of your subdomains has been loaded."), list})
}

func (s *server) reserveSubdomain(c *call) (response, error) {
	c.audit.Note("subdomain=%s", c.params.ByName("subdomain"))
	sub, err := s.Names.ReserveSubdomain(c.Request.Context(), c.owner(), app.ID(c.params.ByName("subdomain")))
	if err != nil {
		return response{}, err
	}
	return ok(subdomainAnswer{statusOK, c.say("The subdomain %s is yours.", sub.ID), showSubdomain(sub)})
}

func (s *server) releaseSubdomain(c *call) (response, error) {
	id := app.ID(c.params.ByName("subdomain"))
	c.audit.Note("subdomain=%s", id)
	if err := s.Names.ReleaseSubdomain(c.Request.Context(), c.owner(), id); err != nil {
		return response{}, err
	}
	return ok(plain{statusOK, c.say("The subdomain %s is no longer yours.", id)})
}

func showSubdomain(s app.Subdomain) subdomain {
	status := subdomainAvailable
	if s.Used {
		status = subdomainUsed
	}
	return subdomain{ID: s.ID, UserID: s.Account.String(), Status: status, Date: s.CreatedAt.UnixMilli()}
}

func (s *server) domain(c *call) (response, error) {
	name := c.params.ByName("domain")
	if app.ID(name) == app.All {
		return s.domains(c)
	}
	d, err := s.Names.Domain(c.Request.Context(), c.owner(), name)
	if err != nil {
		return response{}, err
	}
	resp, err := s.aboutDomain(c, d, app.Textf("The information of your domain has been loaded."))
	if answer, is := resp.body.(domainAnswer); is {
		answer.CustomDomain = &answer.Domain
		resp.body = answer
	}
	return resp, err
}

func (s *server) domains(c *call) (response, error) {
	names, err := s.Names.Names(c.Request.Context(), c.owner())
	if err != nil {
		return response{}, err
	}
	list := []domain{}
	for _, d := range names.Domains {
		shown, err := s.showDomain(c, d)
		switch {
		case app.KindOf(err) == app.NotFound: // deleted meanwhile, and the domain with it
		case err != nil:
			return response{}, err
		default:
			list = append(list, shown)
		}
	}
	return ok(domainsAnswer{statusOK, c.say("The information of your domains has been loaded."), list, list})
}

func (s *server) claimDomain(c *call) (response, error) {
	f, err := c.fields()
	if err != nil {
		return response{}, err
	}
	id, err := f.appID("appID")
	if err != nil {
		return response{}, err
	}
	key := "domainName" // clients disagree
	if !f.has(key) {
		key = "domain"
	}
	name, err := f.text(key)
	if err != nil {
		return response{}, err
	}
	if name == nil {
		return response{}, app.Errorf(app.Invalid, "The field domainName is missing. It must be a domain such as shop.example.org.")
	}
	c.id = id
	c.audit.Note("domain=%s", *name)
	d, err := s.Names.ClaimDomain(c.Request.Context(), c.owner(), id, *name)
	if err != nil {
		return response{}, err
	}
	return s.aboutDomain(c, d, app.Textf("The domain %s was added. Enter the records of the instructions where its DNS is kept, then verify it.", d.Name))
}

func (s *server) assignDomain(c *call) (response, error) {
	f, err := c.fields()
	if err != nil {
		return response{}, err
	}
	to, err := f.appID("newAppID")
	if err != nil {
		return response{}, err
	}
	c.id = to
	c.audit.Note("domain=%s", c.params.ByName("domain"))
	d, err := s.Names.AssignDomain(c.Request.Context(), c.owner(), c.params.ByName("domain"), to)
	if err != nil {
		return response{}, err
	}
	return s.aboutDomain(c, d, app.Textf("The domain %s belongs to the application %s now.", d.Name, to))
}

func (s *server) removeDomain(c *call) (response, error) {
	c.audit.Note("domain=%s", c.params.ByName("domain"))
	if err := s.Names.RemoveDomain(c.Request.Context(), c.owner(), c.params.ByName("domain")); err != nil {
		return response{}, err
	}
	return ok(plain{statusOK, c.say("The domain was removed.")})
}

func (s *server) verifyDomain(c *call) (response, error) {
	c.audit.Note("domain=%s", c.params.ByName("domain"))
	look := s.Names.VerifyDomain
	if c.head() {
		look = s.Names.Domain // a question must not change what it asks for
	}
	// What was found out is worth keeping, also when the client has gone.
	d, err := look(context.WithoutCancel(c.Request.Context()), c.owner(), c.params.ByName("domain"))
	if err != nil {
		return response{}, err
	}
	message := app.Textf("The domain %s is verified.", d.Name)
	if d.Status != app.DomainVerified {
		message = app.Textf("The domain %s is not verified: the TXT record of its instructions was not found. "+
			"It can take a while until a new one is seen everywhere.", d.Name)
	}
	return s.aboutDomain(c, d, message)
}

// aboutDomain is the answer that shows one domain.
func (s *server) aboutDomain(c *call, d app.Domain, message app.Text) (response, error) {
	shown, err := s.showDomain(c, d)
	if err != nil {
		return response{}, err
	}
	return ok(domainAnswer{Status: statusOK, Message: c.tell(message), Domain: shown})
}

func (s *server) showDomain(c *call, d app.Domain) (domain, error) {
	snap, err := s.Applications.App(c.owner(), d.App)
	if err != nil {
		return domain{}, err
	}
	shown := domain{
		ID: d.Name, DNSStatus: string(d.Status), Date: d.CreatedAt.UnixMilli(), Instructions: []instruction{},
		App: domainApp{ID: snap.ID, Name: snap.Name, Online: snap.Running, Type: snap.Type},
	}
	for _, r := range d.Records {
		shown.Instructions = append(shown.Instructions, instruction(r))
	}
	if d.Status == app.DomainVerified && s.Certificates != nil {
		if had, ok := s.Certificates(d.Name); ok {
			shown.Certificate = &certificate{Status: had.Status(s.Now()), Message: had.Problem}
			if len(had.Chain) > 0 {
				shown.Certificate.Expires = had.Expires.UnixMilli()
			}
		}
	}
	return shown, nil
}

// appID returns a required application's ID: NotFound when it can be none.
func (f fields) appID(name string) (app.ID, error) {
	text, err := f.text(name)
	if err != nil {
		return "", err
	}
	if text == nil {
		return "", app.Errorf(app.Invalid, "The field %s is missing. It must be the ID of one of your applications.", name)
	}
	if !app.ValidID(*text) {
		return "", app.Errorf(app.NotFound, "You have no application with this ID.")
	}
	return app.ID(*text), nil
}
