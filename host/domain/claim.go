package domain

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// patience bounds one look into the DNS.
const patience = 5 * time.Second

// Domain returns owner's claim to a domain, or app.NotFound: another account's
// does not exist.
func (s *Service) Domain(ctx context.Context, owner app.AccountID, text string) (app.Domain, error) {
	name, err := CheckDomain(text, nil)
	if err != nil {
		return app.Domain{}, err
	}
	claims, err := s.Records.Claims(ctx, name)
	if err != nil {
		return app.Domain{}, err
	}
	i := slices.IndexFunc(claims, func(d app.Domain) bool { return d.Account == owner })
	if i < 0 {
		return app.Domain{}, noDomain(name)
	}
	return s.instructed(claims[i]), nil
}

// ClaimDomain claims a domain for one of owner's sites. It fails with
// app.Invalid, app.NotFound when owner has no such application, app.Unusable
// when it is a bot, app.Exhausted when the account has as many domains as it
// may, and app.Conflict when owner has the domain already or another account
// proves it in the DNS.
func (s *Service) ClaimDomain(ctx context.Context, owner app.AccountID, id app.ID, text string) (app.Domain, error) {
	name, err := CheckDomain(text, s.Own)
	if err != nil {
		return app.Domain{}, err
	}
	lapsed, err := s.lapsed(ctx, owner, name)
	if err != nil {
		return app.Domain{}, err
	}
	claim := app.Domain{Name: name, Account: owner, App: id, Status: app.DomainUnverified, Proof: "berth=" + rand.Text()}
	claim, err = s.Records.AddDomain(ctx, claim, func(t app.Type, held int, claims []app.Domain) error {
		for _, c := range claims {
			switch {
			case c.Account == owner:
				return app.Errorf(app.Conflict, "your account has the domain %q already", name)
			case c.Status == app.DomainVerified && c.Proof != lapsed:
				return taken(name)
			}
		}
		if held >= s.PerAccount {
			return app.Errorf(app.Exhausted, "your account has %d domains, which is as many as it may; remove one, or ask the owner of this host to raise names.per_account", held)
		}
		return fits(t)
	})
	return s.instructed(claim), err
}

// lapsed returns the proof of another account's verified claim whose record is
// no longer in the DNS, "" when there is none. While it is there, or when that
// cannot be found out, the domain is taken.
func (s *Service) lapsed(ctx context.Context, owner app.AccountID, name string) (string, error) {
	claims, err := s.Records.Claims(ctx, name)
	if err != nil {
		return "", err
	}
	for _, c := range claims {
		if c.Account == owner || c.Status != app.DomainVerified {
			continue
		}
		if stands, err := s.proves(ctx, c); err != nil || stands {
			return "", taken(name)
		}
		return c.Proof, nil
	}
	return "", nil
}

// AssignDomain leads a domain of owner's to another of its sites; what was
// proved stays proved. It fails with app.NotFound when owner has no such domain
// or application, and with app.Unusable when that is a bot.
func (s *Service) AssignDomain(ctx context.Context, owner app.AccountID, text string, to app.ID) (app.Domain, error) {
	name, err := CheckDomain(text, nil)
	if err != nil {
		return app.Domain{}, err
	}
	d, err := s.Records.AssignDomain(ctx, owner, name, to, fits)
	s.changed(ctx, err)
	return s.instructed(d), err
}

// RemoveDomain gives a domain up, or fails with app.NotFound.
func (s *Service) RemoveDomain(ctx context.Context, owner app.AccountID, text string) error {
	name, err := CheckDomain(text, nil)
	if err != nil {
		return err
	}
	err = s.Records.RemoveDomain(ctx, owner, name)
	s.changed(ctx, err)
	return err
}

// VerifyDomain looks for the claim's TXT record, and with ByAddress where the
// domain leads, and stores what it found: the status is app.DomainVerified or
// app.DomainFailed afterwards. It blocks for ten seconds at most and fails with app.NotFound, and with app.Unavailable,
// nothing having changed, when the DNS does not answer.
func (s *Service) VerifyDomain(ctx context.Context, owner app.AccountID, text string) (app.Domain, error) {
	claim, err := s.Domain(ctx, owner, text)
	if err != nil {
		return app.Domain{}, err
	}
	stands, err := s.proves(ctx, claim)
	if err != nil {
		return app.Domain{}, silent(err, app.Textf("the DNS did not say whether %s has a TXT record; try again in a minute", prefix+claim.Name))
	}
	if !stands && s.ByAddress {
		var contested bool
		if stands, contested, err = s.leads(ctx, claim); err != nil {
			return app.Domain{}, err
		}
		// Not stored, for that would make the other claims void: they need time to
		// show their records.
		if stands && contested && claim.Status == app.DomainVerified {
			return claim, nil
		}
		stands = stands && !contested
	}
	status := app.DomainFailed
	if stands {
		status = app.DomainVerified
	}
	claim, err = s.Records.ProveDomain(ctx, claim, status, s.Now())
	s.changed(ctx, err)
	if err == nil && s.Proved != nil {
		s.Proved(claim)
	}
	return s.instructed(claim), err
}

// proves reports whether a claim's record is in the DNS.
func (s *Service) proves(ctx context.Context, d app.Domain) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// With its dot, no search domain of the host is put after it.
	texts, err := s.Resolver.LookupTXT(ctx, prefix+d.Name+".")
	return slices.ContainsFunc(texts, func(t string) bool { return strings.TrimSpace(t) == d.Proof }), unlessNotFound(err)
}

// leads reports whether a domain leads to this host and nowhere else. That says
// that its owner wants this host, not which account; so while it is contested,
// claimed by others too, only a TXT record proves it, or one of them could take
// what another has just led here.
func (s *Service) leads(ctx context.Context, d app.Domain) (here, contested bool, err error) {
	claims, err := s.Records.Claims(ctx, d.Name)
	if err != nil {
		return false, false, err
	}
	contested = slices.ContainsFunc(claims, func(c app.Domain) bool { return c.Account != d.Account })
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := s.Resolver.LookupNetIP(ctx, "ip", d.Name+".")
	if err := unlessNotFound(err); err != nil {
		return false, false, silent(err, app.Textf("the DNS did not say where %s leads; try again in a minute", d.Name))
	}
	elsewhere := func(a netip.Addr) bool { return !slices.Contains(s.Addresses, a.Unmap()) }
	return len(all) > 0 && !slices.ContainsFunc(all, elsewhere), contested, nil
}

// unlessNotFound is nil for a name that is not there, or has nothing of what is asked.
func unlessNotFound(err error) error {
	if e, is := errors.AsType[*net.DNSError](err); is && e.IsNotFound {
		return nil
	}
	return err
}

// silent is the DNS that did not say what was asked.
func silent(err error, says app.Text) error {
	return &app.Error{Kind: app.Unavailable, Err: err, Message: says}
}

// instructed adds what the domain's owner has to enter in the DNS. An alias
// excludes every other record of its name (RFC 1034, 3.6.2), and a domain
// bought as such cannot be one, so addresses go first.
func (s *Service) instructed(d app.Domain) app.Domain {
	if d.Name == "" {
		return d
	}
	d.Records = []app.Record{{Type: "TXT", Name: prefix + d.Name, Content: d.Proof}}
	for _, a := range s.Addresses {
		kind := "AAAA"
		if a.Is4() {
			kind = "A"
		}
		d.Records = append(d.Records, app.Record{Type: kind, Name: d.Name, Content: a.String()})
	}
	if len(s.Addresses) == 0 && s.Parent != "" {
		d.Records = append(d.Records, app.Record{Type: "CNAME", Name: d.Name, Content: string(d.App) + "." + s.Parent})
	}
	return d
}

func fits(t app.Type) error {
	if t != app.Site {
		return app.Errorf(app.Unusable, "only a site can have a domain, and this application is a bot")
	}
	return nil
}

func taken(name string) error {
	return app.Errorf(app.Conflict, "the domain %q is verified for another account; if it is yours, remove the TXT record %s that proves it, and try again", name, prefix+name)
}

func noDomain(name string) error { return app.Errorf(app.NotFound, "you have no domain %q", name) }
