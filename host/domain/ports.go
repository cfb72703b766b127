package domain

import (
	"context"
	"net/netip"
	"time"

	"berth/app"
)

// Records is what is remembered of names: subdomains of the host's own domain, and
// domains. Each method is one transaction.
type Records interface {
	// Names returns every name of an account, without Records.
	Names(ctx context.Context, owner app.AccountID) (app.NameList, error)
	// Subdomain returns anybody's, or app.NotFound.
	Subdomain(ctx context.Context, id app.ID) (app.Subdomain, error)
	// ReserveSubdomain gives a name to owner. It fails with app.Conflict when
	// it is taken; admit gets how many the owner reserved, and may refuse.
	ReserveSubdomain(ctx context.Context, owner app.AccountID, id app.ID, admit func(reserved int) error) (app.Subdomain, error)
	// ReleaseSubdomain gives a name back, unless judge refuses. It fails with
	// app.NotFound.
	ReleaseSubdomain(ctx context.Context, id app.ID, judge func(s app.Subdomain) error) error
	// Claims returns every account's claims to a domain.
	Claims(ctx context.Context, name string) ([]app.Domain, error)
	// AddDomain remembers a claim. It fails with app.NotFound when the owner has
	// no such application; admit gets its type, how many domains the owner has,
	// and all claims to this one, and may refuse.
	AddDomain(ctx context.Context, d app.Domain, admit func(t app.Type, held int, claims []app.Domain) error) (app.Domain, error)
	// AssignDomain moves a claim to another application, with AddDomain's errors.
	AssignDomain(ctx context.Context, owner app.AccountID, name string, to app.ID, admit func(t app.Type) error) (app.Domain, error)
	// RemoveDomain forgets a claim, or fails with app.NotFound.
	RemoveDomain(ctx context.Context, owner app.AccountID, name string) error
	// ProveDomain stores what a look into the DNS said of a claim with this
	// proof. With app.DomainVerified, all other claims to the domain are void.
	// It fails with app.NotFound when the claim is gone.
	ProveDomain(ctx context.Context, d app.Domain, status app.DomainStatus, at time.Time) (app.Domain, error)
}

// Resolver asks the DNS, as *net.Resolver does: that there is no such name, or nothing of
// what is asked for, is a net.DNSError with IsNotFound.
type Resolver interface {
	LookupTXT(ctx context.Context, name string) ([]string, error)
	LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error)
}
