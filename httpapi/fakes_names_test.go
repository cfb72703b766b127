package httpapi

import (
	"context"
	"slices"
	"strings"

	"berth/app"
)

// What the world knows of names: its sites' and those in names. All are of the
// account that asks, but theirs.
const theirs = "theirs"

func (w *world) Names(context.Context, app.AccountID) (app.NameList, error) {
	var all app.NameList
	for _, s := range w.apps {
		if s.Type == app.Site {
			all.Subdomains = append(all.Subdomains, app.Subdomain{ID: s.ID, Account: 7, Used: true, CreatedAt: s.CreatedAt})
		}
	}
	all.Subdomains = append(all.Subdomains, w.names.Subdomains...)
	all.Domains = w.names.Domains
	return all, w.call("Names")
}

func (w *world) Subdomain(ctx context.Context, owner app.AccountID, id app.ID) (app.Subdomain, error) {
	if err := w.call("Subdomain", id); err != nil {
		return app.Subdomain{}, err
	}
	if !app.ValidID(string(id)) {
		return app.Subdomain{}, app.Errorf(app.Invalid, "%q cannot be a subdomain.", id)
	}
	if id == theirs {
		return app.Subdomain{}, app.Errorf(app.Forbidden, "The subdomain %q belongs to another account.", id)
	}
	all, _ := w.Names(ctx, owner)
	for _, s := range all.Subdomains {
		if s.ID == id {
			return s, nil
		}
	}
	return app.Subdomain{}, app.Errorf(app.NotFound, "Nobody has the subdomain %q.", id)
}

func (w *world) ReserveSubdomain(ctx context.Context, owner app.AccountID, id app.ID) (app.Subdomain, error) {
	if err := w.call("ReserveSubdomain", id); err != nil {
		return app.Subdomain{}, err
	}
	switch _, err := w.Subdomain(ctx, owner, id); app.KindOf(err) {
	case app.Invalid:
		return app.Subdomain{}, err
	case app.NotFound:
		return app.Subdomain{ID: id, Account: owner, Reserved: true, CreatedAt: w.clock()}, nil
	default:
		return app.Subdomain{}, app.Errorf(app.Conflict, "The subdomain %q is taken.", id)
	}
}

func (w *world) ReleaseSubdomain(ctx context.Context, owner app.AccountID, id app.ID) error {
	if err := w.call("ReleaseSubdomain", id); err != nil {
		return err
	}
	s, err := w.Subdomain(ctx, owner, id)
	if err == nil && s.Used {
		err = app.Errorf(app.Conflict, "The subdomain %q is in use.", id)
	}
	return err
}

func (w *world) Domain(_ context.Context, _ app.AccountID, name string) (app.Domain, error) {
	if err := w.call("Domain", name); err != nil {
		return app.Domain{}, err
	}
	if !strings.Contains(name, ".") {
		return app.Domain{}, app.Errorf(app.Invalid, "%q cannot be a domain.", name)
	}
	i := slices.IndexFunc(w.names.Domains, func(d app.Domain) bool { return d.Name == name })
	if i < 0 {
		return app.Domain{}, app.Errorf(app.NotFound, "You have no domain %q.", name)
	}
	return w.names.Domains[i], nil
}

func (w *world) ClaimDomain(_ context.Context, owner app.AccountID, id app.ID, name string) (app.Domain, error) {
	if err := w.change(w.call("ClaimDomain", id, name), owner, id); err != nil {
		return app.Domain{}, err
	}
	d := ownDomain(name, id)
	d.Status, d.CreatedAt = app.DomainUnverified, w.clock()
	return d, nil
}

func (w *world) AssignDomain(ctx context.Context, owner app.AccountID, name string, to app.ID) (app.Domain, error) {
	if err := w.change(w.call("AssignDomain", name, to), owner, to); err != nil {
		return app.Domain{}, err
	}
	d, err := w.Domain(ctx, owner, name)
	d.App = to
	return d, err
}

func (w *world) RemoveDomain(ctx context.Context, owner app.AccountID, name string) error {
	if err := w.call("RemoveDomain", name); err != nil {
		return err
	}
	_, err := w.Domain(ctx, owner, name)
	return err
}

func (w *world) VerifyDomain(ctx context.Context, owner app.AccountID, name string) (app.Domain, error) {
	if err := w.call("VerifyDomain", name); err != nil {
		return app.Domain{}, err
	}
	return w.Domain(ctx, owner, name)
}

// ownDomain is a verified domain of an application.
func ownDomain(name string, id app.ID) app.Domain {
	return app.Domain{
		Name: name, Account: 7, App: id, Status: app.DomainVerified, CreatedAt: testNow, CheckedAt: testNow,
		Records: []app.Record{
			{Type: "TXT", Name: "_berth." + name, Content: "berth=secret"},
			{Type: "A", Name: name, Content: "192.0.2.1"},
		},
	}
}
