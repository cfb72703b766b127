package httpapi

import (
	"context"
	"encoding/json"
	"net/http"

	"berth/app"
)

// HostAccounts are the accounts that a program of the host's owner keeps, such as a billing
// panel, by the ids that it calls them. Every method can be called again with the same effect.
type HostAccounts interface {
	// Authorize returns app.Unauthorized for what is no token of the host.
	Authorize(ctx context.Context, token string) (app.HostToken, error)
	// Create returns an account that is there with the same name and limits as it is, and
	// Conflict for one that differs.
	Create(ctx context.Context, external, name string, c app.AccountChange) (a app.Account, created bool, err error)
	// Account returns NotFound for an account that Create did not make, as do the others.
	Account(ctx context.Context, external string) (app.Account, error)
	Change(ctx context.Context, external string, c app.AccountChange) (app.Account, error)
	Suspend(ctx context.Context, external, why string) (app.Account, error)
	Unsuspend(ctx context.Context, external string) (app.Account, error)
	// Terminate removes an account with everything that it has; one that is gone is the zero
	// account.
	Terminate(ctx context.Context, external string) (app.Account, error)
	// Link returns the text of a link to a first password, "" when there is none to set.
	Link(ctx context.Context, a app.Account) (string, error)
}

// hosted are the routes of a token of the host.
type hosted struct {
	HostAccounts
	baseURL string
}

// hostedRoutes are those that a token of the host opens.
func (s *server) hostedRoutes() []route {
	hosted := hosted{s.HostAccounts, s.BaseURL}
	return []route{
		{http.MethodPost, "/v2/host/accounts", byHost, unbounded, hosted.create, "account.create"},
		{http.MethodGet, "/v2/host/accounts/:externalID", byHost, unbounded, hosted.show, ""},
		{http.MethodPut, "/v2/host/accounts/:externalID", byHost, unbounded, hosted.change, "account.set"},
		{http.MethodPut, "/v2/host/accounts/:externalID/suspend", byHost, unbounded, hosted.suspend, "account.suspend"},
		{http.MethodPut, "/v2/host/accounts/:externalID/unsuspend", byHost, unbounded, hosted.unsuspend, "account.unsuspend"},
		{http.MethodDelete, "/v2/host/accounts/:externalID", byHost, unbounded, hosted.terminate, "account.delete"},
	}
}

// describeHosted shows an account to the program that keeps it.
func describeHosted(a app.Account) object {
	return object{
		{"externalId", a.External},
		{"userID", a.ID.String()},
		{"name", a.Name},
		{"totalRamMb", a.TotalRAM},
		{"limits", describeLimits(a.Limits)},
		{"suspended", a.Suspended.On},
		{"suspendedFor", a.Suspended.Why},
		{"disabled", a.Disabled},
		{"createdAt", timestamp(a.CreatedAt)},
	}
}

// found is the answer about an account, which the audit log will have.
func (c *call) found(a app.Account, err error, sentence string) (response, error) {
	if err != nil {
		return response{}, noHosted(err)
	}
	c.account = a
	return ok(sentence, member{"account", describeHosted(a)})
}

func noHosted(err error) error {
	if app.KindOf(err) == app.NotFound {
		return app.Errorf(app.NotFound, "There is no account with this external id.")
	}
	return err
}

func (h hosted) external(c *call) string {
	id := c.params.ByName("externalID")
	c.audit.Note("external=%.64q", id)
	return id
}

// limits are the fields that say what an account may have.
func (f *fields) limits() (change app.AccountChange) {
	number := func(name string) *int {
		if !f.has(name) {
			return nil
		}
		n := int(max(min(f.integer(name), 1<<40), -1)) // what is none is refused
		return &n
	}
	size := func(name string) *app.MB {
		n := number(name)
		if n == nil {
			return nil
		}
		mb := app.MB(*n)
		return &mb
	}
	change.RAM, change.Disk = size("ramMb"), size("diskMb")
	change.Apps, change.CPU = number("applications"), number("cpuPercent")
	change.Builds, change.Backups = number("builds"), number("backups")
	return change
}

func (h hosted) create(c *call) (response, error) {
	f := c.fields()
	external, name, change, link := f.text("externalId"), f.text("name"), f.limits(), false
	if external == nil || name == nil || change.RAM == nil {
		f.wrong("Send the fields externalId, name and ramMb.")
	}
	if f.has("link") && json.Unmarshal(f.members["link"], &link) != nil {
		f.wrong("The field link must be true or false.")
	}
	if f.err != nil {
		return response{}, f.err
	}
	c.audit.Note("external=%.64q account=%.40q", *external, *name)
	a, created, err := h.Create(c.Request.Context(), *external, *name, change)
	if err != nil {
		return response{}, err
	}
	sentence := c.say("The account was created.")
	if !created {
		sentence = c.say("The account is there already.")
		c.audit.Note("again")
	}
	resp, err := c.found(a, nil, sentence)
	if err != nil || !link {
		return resp, err
	}
	key, err := h.Link(c.Request.Context(), a)
	if err != nil {
		return response{}, err
	}
	var address any
	if key != "" {
		base, err := c.base(h.baseURL)
		if err != nil {
			return response{}, err
		}
		address = base + "/setup/" + key
	}
	resp.body = append(resp.body.(object), member{"link", address})
	return resp, nil
}

func (h hosted) show(c *call) (response, error) {
	a, err := h.Account(c.Request.Context(), h.external(c))
	return c.found(a, err, c.say("The account has been loaded."))
}

func (h hosted) change(c *call) (response, error) {
	external, f := h.external(c), c.fields()
	change := f.limits()
	if f.err == nil && change == (app.AccountChange{}) {
		f.wrong("Send at least one of ramMb, diskMb, applications, cpuPercent, builds and backups.")
	}
	if f.err != nil {
		return response{}, f.err
	}
	a, err := h.Change(c.Request.Context(), external, change)
	return c.found(a, err, c.say("The account was changed."))
}

func (h hosted) suspend(c *call) (response, error) {
	external, why := h.external(c), ""
	if c.Request.ContentLength != 0 { // the reason may be left out, with the body
		f := c.fields()
		if reason := f.text("reason"); reason != nil {
			why = *reason
		}
		if f.err != nil {
			return response{}, f.err
		}
	}
	c.audit.Note("reason=%q", why)
	a, err := h.Suspend(c.Request.Context(), external, why)
	return c.found(a, err, c.say("The account is suspended. Its programs do not run, and berth keeps everything of it."))
}

func (h hosted) unsuspend(c *call) (response, error) {
	a, err := h.Unsuspend(c.Request.Context(), h.external(c))
	return c.found(a, err, c.say("The account is no longer suspended. Its applications that were online start again."))
}

func (h hosted) terminate(c *call) (response, error) {
	a, err := h.Terminate(c.Request.Context(), h.external(c))
	if err != nil {
		return response{}, err
	}
	c.account = a
	if a.ID == 0 {
		return response{status: http.StatusOK, body: object{{"status", statusOK}, {"message", c.say("There is no such account any more.")}}}, nil
	}
	return ok(c.say("The account was deleted, with everything that it had."))
}
