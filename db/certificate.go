package db

import (
	"context"
	"errors"

	"berth/app"
)

// Certificates remembers certificates, by the authority that they are from.
type Certificates struct{ db *DB }

// Certificates returns what is remembered of the names for which certificates
// of a certificate authority were wanted, by name. Of a certificate whose key is sealed with
// one that is not there the name is all that is left, and when it was ordered.
func (s Certificates) Certificates(ctx context.Context, ca string) ([]app.Certificate, error) {
	scan := func(row scanner) (c app.Certificate, err error) {
		err = row.Scan(&c.Name, &c.Chain, &c.Key, asTime(&c.Begins), asTime(&c.Expires), asTime(&c.Ordered), asTime(&c.Next),
			&c.Failures, &c.Problem)
		return c, err
	}
	return get(ctx, s.db, "list the certificates", func(t tx) ([]app.Certificate, error) {
		found, err := all(t, scan, "SELECT name, chain, key, begins, expires, ordered, next, failures, problem FROM certificate WHERE ca = ? ORDER BY name", ca)
		for i := range found {
			c := &found[i]
			if err != nil {
				break
			}
			if c.Key, err = t.unseal("certificate.key", rowOf(ca, c.Name), c.Key); errors.Is(err, ErrKeyMissing) {
				*c, err = app.Certificate{Name: c.Name, Ordered: c.Ordered}, nil
			}
		}
		return found, err
	})
}

// SaveCertificate remembers c in the place of what was there of its name. That one could not
// be renewed is a notice, for the host's owners and whose domain it is.
func (s Certificates) SaveCertificate(ctx context.Context, ca string, c app.Certificate) error {
	return s.db.write(ctx, "store the certificate", func(t tx) error {
		key, err := t.seal("certificate.key", rowOf(ca, c.Name), c.Key)
		if err != nil {
			return err
		}
		if err := t.exec("INSERT OR REPLACE INTO certificate (ca, name, chain, key, begins, expires, ordered, next, failures, problem) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
			ca, c.Name, blob(c.Chain), key, stamp(c.Begins), stamp(c.Expires), stamp(c.Ordered), stamp(c.Next), c.Failures, c.Problem); err != nil {
			return err
		}
		if c.Problem == "" || len(c.Chain) == 0 {
			return nil
		}
		owners, err := all(t, value[app.AccountID], `SELECT domain.account FROM domain JOIN account ON account.id = domain.account
			WHERE domain.name = ? AND status = 'verified' AND account.admin = 0`, c.Name)
		if err != nil {
			return err
		}
		failed := app.Notice{At: s.db.now(), Kind: app.NoticeCertificate, Args: []string{c.Name, c.Problem}}
		for _, failed.Account = range append(owners, 0) {
			if err := t.notice(failed); err != nil {
				return err
			}
		}
		return nil
	})
}

// blob is b, never NULL.
func blob(b []byte) []byte { return append([]byte{}, b...) }

// DropCertificate forgets a name; one that is not there is no error.
func (s Certificates) DropCertificate(ctx context.Context, ca, name string) error {
	return s.db.update(ctx, "remove the certificate", nil, "DELETE FROM certificate WHERE ca = ? AND name = ?", ca, name)
}

// ACMEKey returns the key of berth's account at a certificate authority: the
// one that is there and can be read, or else made, which is remembered.
func (s Certificates) ACMEKey(ctx context.Context, ca string, made []byte) ([]byte, error) {
	return put(ctx, s.db, "store the key of the ACME account", func(t tx) ([]byte, error) {
		stored, err := one(t, value[[]byte], nil, "SELECT key FROM acme_account WHERE ca = ?", ca)
		if err != nil {
			return nil, err
		}
		if stored != nil {
			if key, err := t.unseal("acme_account.key", ca, stored); !errors.Is(err, ErrKeyMissing) {
				return key, err
			}
		}
		if stored, err = t.seal("acme_account.key", ca, made); err != nil {
			return nil, err
		}
		return made, t.exec("INSERT OR REPLACE INTO acme_account (ca, key) VALUES (?, ?)", ca, stored)
	})
}
