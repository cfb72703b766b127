package db

import (
	"context"
	"time"

	"berth/app"
)

// Names remembers the names by which applications are reached: subdomains of the host's
// own domain, and domains that accounts bring.
type Names struct{ db *DB }

// Names returns every name of an account, oldest first, without the records of
// its domains.
func (s Names) Names(ctx context.Context, owner app.AccountID) (app.NameList, error) {
	return get(ctx, s.db, "list the names", func(t tx) (names app.NameList, err error) {
		names.Subdomains, err = all(t, scanSubdomain, selectSubdomains+" WHERE account = ? ORDER BY created_at, id", owner)
		if err != nil {
			return names, err
		}
		names.Domains, err = all(t, scanDomain, selectDomains+" WHERE account = ? ORDER BY created_at, name", owner)
		return names, err
	})
}

// Sites returns whose every site is that exists.
func (s Names) Sites(ctx context.Context) (map[app.ID]app.AccountID, error) {
	return get(ctx, s.db, "list the sites", func(t tx) (map[app.ID]app.AccountID, error) {
		return allByKey[app.ID, app.AccountID](t, "SELECT app.id, place.account FROM app JOIN place ON place.id = app.id WHERE app.type = ?", app.Site)
	})
}

// VerifiedDomains returns every verified domain and the application it leads
// to.
func (s Names) VerifiedDomains(ctx context.Context) (map[string]string, error) {
	return get(ctx, s.db, "list the verified domains", func(t tx) (map[string]string, error) {
		return allByKey[string, string](t, "SELECT name, app FROM domain WHERE status = ?", app.DomainVerified)
	})
}

// selectSubdomains is in the order of scanSubdomain.
const selectSubdomains = `SELECT subdomain.id, subdomain.account, EXISTS (SELECT 1 FROM place WHERE place.id = subdomain.id),
	subdomain.place IS NULL, subdomain.created_at FROM subdomain`

// Subdomain returns a subdomain, whoever has it, or app.NotFound.
func (s Names) Subdomain(ctx context.Context, id app.ID) (app.Subdomain, error) {
	return get(ctx, s.db, "read the subdomain", func(t tx) (app.Subdomain, error) { return findSubdomain(t, id) })
}

// ReserveSubdomain gives a subdomain to an account until ReleaseSubdomain. It
// fails with app.NotFound when there is no such account and app.Conflict when
// the name is taken; admit gets how many the account has reserved, and refuses
// by returning an error.
func (s Names) ReserveSubdomain(
	ctx context.Context, owner app.AccountID, id app.ID, admit func(reserved int) error,
) (app.Subdomain, error) {
	return put(ctx, s.db, "reserve the subdomain", func(t tx) (none app.Subdomain, err error) {
		if _, err := findAccount(t, owner); err != nil {
			return none, err
		}
		switch taken, err := findSubdomain(t, id); {
		case err == nil && taken.Account == owner:
			return none, app.Errorf(app.Conflict, "your account has the subdomain %q already", id)
		case err == nil:
			return none, takenSubdomain(id)
		case app.KindOf(err) != app.NotFound:
			return none, err
		}
		reserved, err := number(t, "SELECT count(*) FROM subdomain WHERE account = ? AND place IS NULL", owner)
		if err != nil {
			return none, err
		}
		if err := admit(reserved); err != nil {
			return none, err
		}
		if err := insertSubdomain(t, id, owner, nil, s.db.now()); err != nil {
			return none, err
		}
		return findSubdomain(t, id)
	})
}

// ReleaseSubdomain gives a subdomain back, unless judge returns an error, which
// is then returned as it is. It fails with app.NotFound.
func (s Names) ReleaseSubdomain(ctx context.Context, id app.ID, judge func(s app.Subdomain) error) error {
	return s.db.write(ctx, "release the subdomain", func(t tx) error {
		found, err := findSubdomain(t, id)
		if err != nil {
			return err
		}
		if err := judge(found); err != nil {
			return err
		}
		return t.exec("DELETE FROM subdomain WHERE id = ?", id)
	})
}

// assignSubdomain gives a site that was allocated the subdomain of its
// name: the account's own, or a free one, which goes with the allocation. It fails
// with app.Conflict when another account has it.
func assignSubdomain(t tx, site app.App) error {
	switch s, err := findSubdomain(t, site.ID); {
	case err == nil && s.Account != site.Account:
		return takenSubdomain(site.ID)
	case err == nil:
		return nil
	case app.KindOf(err) != app.NotFound:
		return err
	}
	return insertSubdomain(t, site.ID, site.Account, site.ID, site.CreatedAt)
}

func insertSubdomain(t tx, id app.ID, owner app.AccountID, place any, created time.Time) error {
	return t.exec("INSERT INTO subdomain (id, account, place, created_at) VALUES (?, ?, ?, ?)", id, owner, place, stamp(created))
}

func findSubdomain(t tx, id app.ID) (app.Subdomain, error) {
	return one(t, scanSubdomain, app.Errorf(app.NotFound, "nobody has the subdomain %q", id), selectSubdomains+" WHERE id = ?", id)
}

func scanSubdomain(row scanner) (s app.Subdomain, err error) {
	err = row.Scan(&s.ID, &s.Account, &s.Used, &s.Reserved, asTime(&s.CreatedAt))
	return s, err
}

func takenSubdomain(id app.ID) error {
	return app.Errorf(app.Conflict, "the subdomain %q is taken", id)
}

// selectDomains is in the order of scanDomain.
const selectDomains = "SELECT domain.name, domain.account, domain.app, domain.status, domain.proof, domain.created_at, domain.checked_at FROM domain"

// Claims returns every account's claims to a domain.
func (s Names) Claims(ctx context.Context, name string) ([]app.Domain, error) {
	return get(ctx, s.db, "list the claims to a domain", func(t tx) ([]app.Domain, error) { return findClaims(t, name) })
}

// AddDomain remembers a claim and returns it with its creation time. It fails
// with app.NotFound when the account has no such application, and app.Conflict
// while that is deployed for the first time. admit gets the application's type,
// how many domains the account has, and all claims to this one, and refuses by
// returning an error.
func (s Names) AddDomain(
	ctx context.Context, d app.Domain, admit func(t app.Type, held int, claims []app.Domain) error,
) (app.Domain, error) {
	return put(ctx, s.db, "store the domain", func(t tx) (app.Domain, error) {
		d.CreatedAt, d.CheckedAt = stored(s.db.now()), time.Time{}
		kind, err := typeOf(t, d.Account, d.App)
		if err != nil {
			return d, err
		}
		held, err := number(t, "SELECT count(*) FROM domain WHERE account = ?", d.Account)
		if err != nil {
			return d, err
		}
		claims, err := findClaims(t, d.Name)
		if err != nil {
			return d, err
		}
		if err := admit(kind, held, claims); err != nil {
			return d, err
		}
		err = t.exec("INSERT INTO domain (name, account, app, status, proof, created_at, checked_at) VALUES (?, ?, ?, ?, ?, ?, 0)",
			d.Name, d.Account, d.App, d.Status, d.Proof, stamp(d.CreatedAt))
		if isTaken(err) {
			return d, app.Errorf(app.Conflict, "the domain %q is taken", d.Name)
		}
		return d, err
	})
}

// AssignDomain moves a claim to another application of the account, with
// AddDomain's errors, and returns it.
func (s Names) AssignDomain(
	ctx context.Context, owner app.AccountID, name string, to app.ID, admit func(t app.Type) error,
) (app.Domain, error) {
	return put(ctx, s.db, "store the domain's application", func(t tx) (app.Domain, error) {
		d, err := findDomain(t, owner, name)
		if err != nil {
			return d, err
		}
		kind, err := typeOf(t, owner, to)
		if err != nil {
			return d, err
		}
		if err := admit(kind); err != nil {
			return d, err
		}
		d.App = to
		return d, t.exec("UPDATE domain SET app = ? WHERE name = ? AND account = ?", to, name, owner)
	})
}

// RemoveDomain forgets a claim, or fails with app.NotFound.
func (s Names) RemoveDomain(ctx context.Context, owner app.AccountID, name string) error {
	return s.db.update(ctx, "remove the domain", noDomain(name), "DELETE FROM domain WHERE name = ? AND account = ?", name, owner)
}

// ProveDomain stores the status of a claim and when it was found out, and
// returns the claim. When it is app.DomainVerified, all other claims to the
// domain are removed. It fails with app.NotFound when there is no claim with
// this proof, for it was removed or made anew meanwhile.
func (s Names) ProveDomain(ctx context.Context, d app.Domain, status app.DomainStatus, at time.Time) (app.Domain, error) {
	return put(ctx, s.db, "store the status of the domain", func(t tx) (app.Domain, error) {
		if status == app.DomainVerified {
			// First, for the index lets one be verified; a claim that is gone
			// undoes it.
			if err := t.exec("DELETE FROM domain WHERE name = ? AND account <> ?", d.Name, d.Account); err != nil {
				return d, err
			}
		}
		if err := t.change(noDomain(d.Name), "UPDATE domain SET status = ?, checked_at = ? WHERE name = ? AND account = ? AND proof = ?",
			status, stamp(at), d.Name, d.Account, d.Proof); err != nil {
			return d, err
		}
		return findDomain(t, d.Account, d.Name)
	})
}

func findClaims(t tx, name string) ([]app.Domain, error) {
	return all(t, scanDomain, selectDomains+" WHERE name = ? ORDER BY created_at, account", name)
}

func findDomain(t tx, owner app.AccountID, name string) (app.Domain, error) {
	return one(t, scanDomain, noDomain(name), selectDomains+" WHERE name = ? AND account = ?", name, owner)
}

func scanDomain(row scanner) (d app.Domain, err error) {
	err = row.Scan(&d.Name, &d.Account, &d.App, &d.Status, &d.Proof, asTime(&d.CreatedAt), asTime(&d.CheckedAt))
	return d, err
}

func noDomain(name string) error { return app.Errorf(app.NotFound, "you have no domain %q", name) }
