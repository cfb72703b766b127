package domain

import (
	"cmp"
	"context"
	"net/netip"
	"time"

	"berth/app"
)

// Config is what a Service is made of.
type Config struct {
	Records  Records
	Resolver Resolver
	Now      func() time.Time
	// Changed is called when a domain may lead elsewhere than before, and Proved with what
	// a look into the DNS said of a claim. They may be nil.
	Changed func(ctx context.Context)
	Proved  func(d app.Domain)

	// PerAccount is how many subdomains an account may have reserved, and how
	// many domains of its own it may have claimed.
	PerAccount int
	// Own are the host's own domains, which nobody can claim.
	Own []string
	// Parent is the domain below which subdomains are; "" when it is not known.
	Parent string
	// Addresses are those at which the host can be reached; none when they are
	// not known.
	Addresses []netip.Addr
	// ByAddress lets a domain that leads to Addresses, and nowhere else, be
	// verified for the one account that claims it.
	ByAddress bool
}

// Service answers for names. It is safe for concurrent use, keeps nothing in
// memory, and blocks as long as what it asks.
type Service struct{ Config }

// New returns a service.
func New(c Config) *Service { return &Service{c} }

func (s *Service) changed(ctx context.Context, err error) {
	if err == nil && s.Changed != nil {
		s.Changed(ctx)
	}
}

// Names returns every name of an account.
func (s *Service) Names(ctx context.Context, owner app.AccountID) (app.NameList, error) {
	names, err := s.Records.Names(ctx, owner)
	for i, d := range names.Domains {
		names.Domains[i] = s.instructed(d)
	}
	return names, err
}

// Subdomain returns one subdomain of owner: app.Invalid when there can be no
// such name, app.NotFound when nobody has it, and app.Forbidden when another
// account has. That it is taken is no secret: whoever asks for it hears so. A
// site from before there were these rules has what is no name any more.
func (s *Service) Subdomain(ctx context.Context, owner app.AccountID, id app.ID) (app.Subdomain, error) {
	sub, err := s.Records.Subdomain(ctx, id)
	switch {
	case err == nil && sub.Account != owner:
		return app.Subdomain{}, notYours(id)
	case app.KindOf(err) == app.NotFound:
		return app.Subdomain{}, cmp.Or(CheckSubdomain(string(id)), err)
	}
	return sub, err
}

// ReserveSubdomain gives a subdomain to owner, whether a site uses it or not,
// until it is released. It fails with app.Invalid, app.Conflict when somebody
// has it, and app.Exhausted when the account has reserved as many as it may.
func (s *Service) ReserveSubdomain(ctx context.Context, owner app.AccountID, id app.ID) (app.Subdomain, error) {
	if err := CheckSubdomain(string(id)); err != nil {
		return app.Subdomain{}, err
	}
	return s.Records.ReserveSubdomain(ctx, owner, id, func(reserved int) error {
		if reserved >= s.PerAccount {
			return app.Errorf(app.Exhausted, "your account has reserved %d subdomains, which is as many as it may; release one, or ask the owner of this host to raise names.per_account", reserved)
		}
		return nil
	})
}

// ReleaseSubdomain gives a subdomain back, with Subdomain's errors, and
// app.Conflict while a site has it.
func (s *Service) ReleaseSubdomain(ctx context.Context, owner app.AccountID, id app.ID) error {
	err := s.Records.ReleaseSubdomain(ctx, id, func(sub app.Subdomain) error {
		switch {
		case sub.Account != owner:
			return notYours(id)
		case sub.Used:
			return app.Errorf(app.Conflict, "the subdomain %q is in use by your site of that name; delete the site first", id)
		}
		return nil
	})
	if app.KindOf(err) == app.NotFound {
		return cmp.Or(CheckSubdomain(string(id)), err)
	}
	return err
}

func notYours(id app.ID) error {
	return app.Errorf(app.Forbidden, "the subdomain %q belongs to another account", id)
}
