package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"berth/app"
)

// domainColumns are in the order of scanDomain.
const domainColumns = "domain.name, domain.account, domain.app, domain.status, domain.proof, domain.created_at, domain.checked_at"

// Claims returns every account's claims to a domain.
func (db *DB) Claims(ctx context.Context, name string) ([]app.Domain, error) {
	var all []app.Domain
	err := db.read(ctx, "list the claims to a domain", func(tx *sql.Tx) (err error) {
		all, err = findClaims(ctx, tx, name)
		return err
	})
	return all, err
}

// AddDomain remembers a claim and returns it with its creation time. It fails
// with app.NotFound when the account has no such application, and app.Conflict
// while that is deployed for the first time. admit gets the application's type,
// how many domains the account has, and all claims to this one, and refuses by
// returning an error.
func (db *DB) AddDomain(
	ctx context.Context, d app.Domain, admit func(t app.Type, held int, claims []app.Domain) error,
) (app.Domain, error) {
	d.CreatedAt, d.CheckedAt = moment(stamp(db.now())), time.Time{}
	err := db.write(ctx, "store the domain", func(tx *sql.Tx) error {
		t, err := typeOf(ctx, tx, d.Account, d.App)
		if err != nil {
			return err
		}
		var held int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM domain WHERE account = ?", d.Account).Scan(&held); err != nil {
			return err
		}
		claims, err := findClaims(ctx, tx, d.Name)
		if err != nil {
			return err
		}
		if err := admit(t, held, claims); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx,
			"INSERT INTO domain (name, account, app, status, proof, created_at, checked_at) VALUES (?, ?, ?, ?, ?, ?, 0)",
			d.Name, d.Account, d.App, d.Status, d.Proof, stamp(d.CreatedAt))
		if isTaken(err) {
			return app.Errorf(app.Conflict, "the domain %q is taken", d.Name)
		}
		return err
	})
	if err != nil {
		return app.Domain{}, err
	}
	return d, nil
}

// AssignDomain moves a claim to another application of the account, with
// AddDomain's errors, and returns it.
func (db *DB) AssignDomain(
	ctx context.Context, owner app.AccountID, name string, to app.ID, admit func(t app.Type) error,
) (app.Domain, error) {
	var d app.Domain
	err := db.write(ctx, "store the domain's application", func(tx *sql.Tx) error {
		if _, err := findDomain(ctx, tx, owner, name); err != nil {
			return err
		}
		t, err := typeOf(ctx, tx, owner, to)
		if err != nil {
			return err
		}
		if err := admit(t); err != nil {
			return err
		}
		if _, err = tx.ExecContext(ctx, "UPDATE domain SET app = ? WHERE name = ? AND account = ?", to, name, owner); err != nil {
			return err
		}
		d, err = findDomain(ctx, tx, owner, name)
		return err
	})
	return d, err
}

// RemoveDomain forgets a claim, or fails with app.NotFound.
func (db *DB) RemoveDomain(ctx context.Context, owner app.AccountID, name string) error {
	return db.write(ctx, "remove the domain", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM domain WHERE name = ? AND account = ?", name, owner)
		return mustChange(result, err, noDomain(name))
	})
}

// ProveDomain stores the status of a claim and when it was found out, and
// returns the claim. When it is app.DomainVerified, all other claims to the
// domain are removed. It fails with app.NotFound when there is no claim with
// this proof, for it was removed or made anew meanwhile.
func (db *DB) ProveDomain(ctx context.Context, d app.Domain, status app.DomainStatus, at time.Time) (app.Domain, error) {
	err := db.write(ctx, "store the status of the domain", func(tx *sql.Tx) error {
		if status == app.DomainVerified {
			// First, for the index lets one be verified; a claim that is gone
			// undoes it.
			_, err := tx.ExecContext(ctx, "DELETE FROM domain WHERE name = ? AND account <> ?", d.Name, d.Account)
			if err != nil {
				return err
			}
		}
		result, err := tx.ExecContext(ctx, "UPDATE domain SET status = ?, checked_at = ? WHERE name = ? AND account = ? AND proof = ?",
			status, stamp(at), d.Name, d.Account, d.Proof)
		if err := mustChange(result, err, noDomain(d.Name)); err != nil {
			return err
		}
		d, err = findDomain(ctx, tx, d.Account, d.Name)
		return err
	})
	if err != nil {
		return app.Domain{}, err
	}
	return d, nil
}

func findClaims(ctx context.Context, tx *sql.Tx, name string) ([]app.Domain, error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+domainColumns+" FROM domain WHERE name = ? ORDER BY created_at, account", name)
	if err != nil {
		return nil, err
	}
	return collect(rows, scanDomain)
}

func findDomain(ctx context.Context, tx *sql.Tx, owner app.AccountID, name string) (app.Domain, error) {
	d, err := scanDomain(tx.QueryRowContext(ctx, "SELECT "+domainColumns+" FROM domain WHERE name = ? AND account = ?", name, owner))
	if errors.Is(err, sql.ErrNoRows) {
		return d, noDomain(name)
	}
	return d, err
}

func scanDomain(row scanner) (app.Domain, error) {
	var d app.Domain
	var created, checked int64
	err := row.Scan(&d.Name, &d.Account, &d.App, &d.Status, &d.Proof, &created, &checked)
	d.CreatedAt, d.CheckedAt = moment(created), moment(checked)
	return d, err
}

func noDomain(name string) error { return app.Errorf(app.NotFound, "you have no domain %q", name) }

// VerifiedDomains returns every verified domain and the application it leads
// to.
func (db *DB) VerifiedDomains(ctx context.Context) (map[string]string, error) {
	all := map[string]string{}
	err := db.read(ctx, "list the verified domains", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+domainColumns+" FROM domain WHERE status = ?", app.DomainVerified)
		if err != nil {
			return err
		}
		domains, err := collect(rows, scanDomain)
		for _, d := range domains {
			all[d.Name] = string(d.App)
		}
		return err
	})
	return all, err
}
