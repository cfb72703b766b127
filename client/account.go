package client

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
)

// User is the account that asks.
type User struct {
	ID            string   `json:"userID"`
	Name          string   `json:"username"`
	TotalRAM      int64    `json:"totalRamMb"`
	UsedRAM       int64    `json:"ramUsedMb"`
	Plan          string   `json:"plan"`
	Locale        string   `json:"locale"`   // that clients of every server of this API know
	Language      string   `json:"language"` // berth's own word for it; "" from another server
	Apps          []string `json:"apps"`
	Subdomains    []string `json:"subdomains"`
	CustomDomains []string `json:"customdomains"`
}

// User returns the account. It tells whether a token is valid.
func (c *Client) User(ctx context.Context) (User, error) {
	var answer struct{ User User }
	err := c.Call(ctx, http.MethodGet, "/v2/user", nil, &answer)
	if err == nil && answer.User.ID == "" {
		err = failed(ErrNotBerth, nil, "cannot use %s: its answer names no account", c.origin())
	}
	return answer.User, err
}

// Domain is a domain of the account's own.
type Domain struct {
	Name         string        `json:"id"`
	Status       string        `json:"dns_status"` // unverified, verified or failed
	App          DomainApp     `json:"app"`
	Instructions []Instruction `json:"instructions"`
	Certificate  *Certificate  `json:"certificate"`
}

// DomainApp is the site that a domain leads to.
type DomainApp struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// Instruction is a record for the DNS of a domain.
type Instruction struct {
	Type    string `json:"type"`
	Name    string `json:"name"`
	Content string `json:"content"`
}

// Certificate is that of a domain.
type Certificate struct {
	Status  string `json:"status"`
	Expires int64  `json:"expires,omitempty"` // milliseconds since 1970
	Message string `json:"message,omitempty"` // why there is none, or no newer one
}

// domainAnswer is the answer about one domain.
type domainAnswer struct {
	Message string
	Domain  Domain
}

// Domains lists the domains of the account.
func (c *Client) Domains(ctx context.Context) ([]Domain, error) {
	var answer struct{ Domains []Domain }
	err := c.Call(ctx, http.MethodGet, "/v2/customdomain/all", nil, &answer)
	return answer.Domains, err
}

// Domain returns one.
func (c *Client) Domain(ctx context.Context, name string) (Domain, error) {
	var answer domainAnswer
	err := c.Call(ctx, http.MethodGet, "/v2/customdomain/"+url.PathEscape(name), nil, &answer)
	return answer.Domain, err
}

// AddDomain claims a domain for a site; the message says what to do next.
func (c *Client) AddDomain(ctx context.Context, a App, name string) (Domain, string, error) {
	var answer domainAnswer
	err := c.Call(ctx, http.MethodPost, "/v2/customdomain/create", map[string]string{"appID": a.ID, "domainName": name}, &answer)
	return answer.Domain, answer.Message, err
}

// VerifyDomain looks for the record that proves a domain; the message says what was found.
func (c *Client) VerifyDomain(ctx context.Context, name string) (Domain, string, error) {
	var answer domainAnswer
	err := c.Call(ctx, http.MethodGet, "/v2/customdomain/"+url.PathEscape(name)+"/verify", nil, &answer)
	return answer.Domain, answer.Message, err
}

// RemoveDomain gives a domain up.
func (c *Client) RemoveDomain(ctx context.Context, name string) (Outcome, error) {
	return c.outcome(ctx, http.MethodDelete, "/v2/customdomain/"+url.PathEscape(name), nil)
}

// Member is an account that may use an application of another one.
type Member struct {
	ID          string   `json:"modID"`
	Name        string   `json:"username"`
	Permissions []string `json:"perms"`
}

// Members lists the team of an application.
func (c *Client) Members(ctx context.Context, a App) ([]Member, error) {
	path, err := a.ownPath("team")
	if err != nil {
		return nil, err
	}
	var answer struct{ Team []Member }
	err = c.Call(ctx, http.MethodGet, path, nil, &answer)
	return answer.Team, err
}

// AddMember takes an account, by its number or its name, into the team of an application. A
// name begins with a letter.
func (c *Client) AddMember(ctx context.Context, a App, id string, permissions []string) (Outcome, error) {
	return c.changeMember(ctx, http.MethodPost, a, id, permissions)
}

// SetMember changes what a member may do.
func (c *Client) SetMember(ctx context.Context, a App, id string, permissions []string) (Outcome, error) {
	return c.changeMember(ctx, http.MethodPut, a, id, permissions)
}

func (c *Client) changeMember(ctx context.Context, method string, a App, id string, permissions []string) (Outcome, error) {
	path, err := a.ownPath("team")
	if err != nil {
		return Outcome{}, err
	}
	field := "modID"
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		field = "username"
	}
	return c.outcome(ctx, method, path, map[string]any{field: id, "perms": permissions})
}

// RemoveMember takes an account out of the team.
func (c *Client) RemoveMember(ctx context.Context, a App, id string) (Outcome, error) {
	path, err := a.ownPath("team/" + url.PathEscape(id))
	if err != nil {
		return Outcome{}, err
	}
	return c.outcome(ctx, http.MethodDelete, path, nil)
}
