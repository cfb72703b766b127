package db

import (
	"context"
	"database/sql"
	"errors"

	"berth/app"
)

// Certificates returns what is remembered of the names for which certificates
// of a certificate authority were wanted, by name.
func (db *DB) Certificates(ctx context.Context, ca string) ([]app.Certificate, error) {
	var all []app.Certificate
	err := db.read(ctx, "list the certificates", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx,
			"SELECT name, chain, key, begins, expires, ordered, next, failures, problem FROM certificate WHERE ca = ? ORDER BY name", ca)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanCertificate)
		return err
	})
	return all, err
}

func scanCertificate(row scanner) (app.Certificate, error) {
	var c app.Certificate
	var begins, expires, ordered, next int64
	err := row.Scan(&c.Name, &c.Chain, &c.Key, &begins, &expires, &ordered, &next, &c.Failures, &c.Problem)
	c.Begins, c.Expires, c.Ordered, c.Next = moment(begins), moment(expires), moment(ordered), moment(next)
	return c, err
}

// SaveCertificate remembers c in the place of what was there of its name.
func (db *DB) SaveCertificate(ctx context.Context, ca string, c app.Certificate) error {
	return db.write(ctx, "store the certificate", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx,
			"INSERT OR REPLACE INTO certificate (ca, name, chain, key, begins, expires, ordered, next, failures, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			ca, c.Name, blob(c.Chain), blob(c.Key), stamp(c.Begins), stamp(c.Expires), stamp(c.Ordered), stamp(c.Next), c.Failures, c.Problem)
		return err
	})
}

// blob is b, never NULL.
func blob(b []byte) []byte { return append([]byte{}, b...) }

// DropCertificate forgets a name; one that is not there is no error.
func (db *DB) DropCertificate(ctx context.Context, ca, name string) error {
	return db.write(ctx, "remove the certificate", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM certificate WHERE ca = ? AND name = ?", ca, name)
		return err
	})
}

// ACMEKey returns the key of berth's account at a certificate authority: the
// one that is there, or else made, which is remembered.
func (db *DB) ACMEKey(ctx context.Context, ca string, made []byte) ([]byte, error) {
	var key []byte
	err := db.write(ctx, "store the key of the ACME account", func(tx *sql.Tx) error {
		err := tx.QueryRowContext(ctx, "SELECT key FROM acme_account WHERE ca = ?", ca).Scan(&key)
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		key = made
		_, err = tx.ExecContext(ctx, "INSERT INTO acme_account (ca, key) VALUES (?, ?)", ca, made)
		return err
	})
	if err != nil {
		return nil, err
	}
	return key, nil
}

// Sites returns whose every site is that exists.
func (db *DB) Sites(ctx context.Context) (map[app.ID]app.AccountID, error) {
	all := map[app.ID]app.AccountID{}
	err := db.read(ctx, "list the sites", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT app.id, place.account FROM app JOIN place ON place.id = app.id WHERE app.type = ?", app.Site)
		if err != nil {
			return err
		}
		_, err = collect(rows, func(row scanner) (id app.ID, err error) {
			var owner app.AccountID
			err = row.Scan(&id, &owner)
			all[id] = owner
			return id, err
		})
		return err
	})
	return all, err
}
