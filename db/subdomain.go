package db

import (
	"context"
	"database/sql"
	"errors"

	"berth/app"
)

// subdomainColumns are in the order of scanSubdomain.
const subdomainColumns = `subdomain.id, subdomain.account, EXISTS (SELECT 1 FROM place WHERE place.id = subdomain.id),
	subdomain.place IS NULL, subdomain.created_at`

// Names returns every name of an account, oldest first, without the records of
// its domains.
func (db *DB) Names(ctx context.Context, owner app.AccountID) (app.NameList, error) {
	var names app.NameList
	err := db.read(ctx, "list the names", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT "+subdomainColumns+" FROM subdomain WHERE account = ? ORDER BY created_at, id", owner)
		if err != nil {
			return err
		}
		if names.Subdomains, err = collect(rows, scanSubdomain); err != nil {
			return err
		}
		rows, err = tx.QueryContext(ctx, "SELECT "+domainColumns+" FROM domain WHERE account = ? ORDER BY created_at, name", owner)
		if err != nil {
			return err
		}
		names.Domains, err = collect(rows, scanDomain)
		return err
	})
	return names, err
}

// Subdomain returns a subdomain, whoever has it, or app.NotFound.
func (db *DB) Subdomain(ctx context.Context, id app.ID) (app.Subdomain, error) {
	var s app.Subdomain
	err := db.read(ctx, "read the subdomain", func(tx *sql.Tx) (err error) {
		s, err = findSubdomain(ctx, tx, id)
		return err
	})
	return s, err
}

// ReserveSubdomain gives a subdomain to an account until ReleaseSubdomain. It
// fails with app.NotFound when there is no such account and app.Conflict when
// the name is taken; admit gets how many the account has reserved, and refuses
// by returning an error.
func (db *DB) ReserveSubdomain(ctx context.Context, owner app.AccountID, id app.ID, admit func(reserved int) error) (app.Subdomain, error) {
	var s app.Subdomain
	err := db.write(ctx, "reserve the subdomain", func(tx *sql.Tx) error {
		if _, err := findAccount(ctx, tx, owner); err != nil {
			return err
		}
		switch taken, err := findSubdomain(ctx, tx, id); {
		case err == nil && taken.Account == owner:
			return app.Errorf(app.Conflict, "your account has the subdomain %q already", id)
		case err == nil:
			return takenSubdomain(id)
		case app.KindOf(err) != app.NotFound:
			return err
		}
		var reserved int
		err := tx.QueryRowContext(ctx, "SELECT count(*) FROM subdomain WHERE account = ? AND place IS NULL", owner).Scan(&reserved)
		if err != nil {
			return err
		}
		if err := admit(reserved); err != nil {
			return err
		}
		if err := insertSubdomain(ctx, tx, id, owner, nil, stamp(db.now())); err != nil {
			return err
		}
		s, err = findSubdomain(ctx, tx, id)
		return err
	})
	return s, err
}

// ReleaseSubdomain gives a subdomain back, unless judge returns an error, which
// is then returned as it is. It fails with app.NotFound.
func (db *DB) ReleaseSubdomain(ctx context.Context, id app.ID, judge func(s app.Subdomain) error) error {
	return db.write(ctx, "release the subdomain", func(tx *sql.Tx) error {
		s, err := findSubdomain(ctx, tx, id)
		if err != nil {
			return err
		}
		if err := judge(s); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "DELETE FROM subdomain WHERE id = ?", id)
		return err
	})
}

// bringSubdomain gives a site that was put in its place the subdomain of its
// name: the account's own, or a free one, which goes with the place. It fails
// with app.Conflict when another account has it.
func bringSubdomain(ctx context.Context, tx *sql.Tx, site app.App) error {
	switch s, err := findSubdomain(ctx, tx, site.ID); {
	case err == nil && s.Account != site.Account:
		return takenSubdomain(site.ID)
	case err == nil:
		return nil
	case app.KindOf(err) != app.NotFound:
		return err
	}
	return insertSubdomain(ctx, tx, site.ID, site.Account, site.ID, stamp(site.CreatedAt))
}

func insertSubdomain(ctx context.Context, tx *sql.Tx, id app.ID, owner app.AccountID, place any, created int64) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO subdomain (id, account, place, created_at) VALUES (?, ?, ?, ?)", id, owner, place, created)
	return err
}

func findSubdomain(ctx context.Context, tx *sql.Tx, id app.ID) (app.Subdomain, error) {
	s, err := scanSubdomain(tx.QueryRowContext(ctx, "SELECT "+subdomainColumns+" FROM subdomain WHERE id = ?", id))
	if errors.Is(err, sql.ErrNoRows) {
		return s, app.Errorf(app.NotFound, "nobody has the subdomain %q", id)
	}
	return s, err
}

func scanSubdomain(row scanner) (app.Subdomain, error) {
	var s app.Subdomain
	var created int64
	err := row.Scan(&s.ID, &s.Account, &s.Used, &s.Reserved, &created)
	s.CreatedAt = moment(created)
	return s, err
}

func takenSubdomain(id app.ID) error {
	return app.Errorf(app.Conflict, "the subdomain %q is taken", id)
}
