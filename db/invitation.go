package db

import (
	"context"
	"database/sql"
	"time"

	"berth/app"
)

// Invitations remembers what links bring to those who accept them.
type Invitations struct{ db *DB }

// selectOffers is in the order of scanOffer. It finds what can be accepted: not what has expired,
// nor what its inviter could not offer any more, whose account is closed or, for a new account,
// no administrator's, nor what brings nothing because its applications were deleted.
const selectOffers = `SELECT offer.id, offer.inviter, coalesce(account.name, ''), offer.proposed, offer.ram, offer.disk, offer.apps, offer.expires_at
FROM offer LEFT JOIN account ON account.id = offer.inviter
WHERE offer.expires_at > ? AND (offer.inviter IS NULL OR NOT account.disabled AND NOT account.suspended AND (offer.ram = 0 OR account.admin))
	AND (offer.ram > 0 OR EXISTS (SELECT * FROM offer_app WHERE offer = offer.id))`

func scanOffer(row scanner) (o app.Offer, err error) {
	err = row.Scan(&o.ID, asNumber(&o.Inviter), &o.By, &o.For, &o.RAM, &o.Disk, &o.Apps, asTime(&o.Expires))
	return o, err
}

// withGrants adds what an offer lets an account do.
func withGrants(t tx, o app.Offer) (_ app.Offer, err error) {
	scan := func(row scanner) (g app.Grant, err error) {
		err = row.Scan(&g.App, &g.Name, &g.Permissions)
		return g, err
	}
	o.Grants, err = all(t, scan, "SELECT app.id, app.name, offer_app.permissions FROM offer_app JOIN app ON app.id = offer_app.app WHERE offer = ? ORDER BY app.id", o.ID)
	return o, err
}

// InsertOffer remembers an offer by the hash of what its link holds, and forgets those that have
// expired. check gets how many offers the inviter has, and the RAM that all applications have
// together. It fails with app.NotFound for an application that there is not, or that is not the
// inviter's.
func (s Invitations) InsertOffer(
	ctx context.Context, hash [32]byte, o app.Offer, check func(offers int, assigned app.MB) error,
) (app.Offer, error) {
	return put(ctx, s.db, "store the invitation", func(t tx) (app.Offer, error) {
		if err := t.exec("DELETE FROM offer WHERE expires_at <= ?", stamp(s.db.now())); err != nil {
			return o, err
		}
		inviter := sql.NullInt64{Int64: int64(o.Inviter), Valid: o.Inviter != 0}
		offers, err := number(t, "SELECT count(*) FROM offer WHERE inviter IS ?", inviter)
		if err != nil {
			return o, err
		}
		assigned, err := sumAllRAM(t)
		if err == nil {
			err = check(offers, assigned)
		}
		if err != nil {
			return o, err
		}
		o.Expires = stored(o.Expires)
		if o.ID, err = t.insert("INSERT INTO offer (hash, inviter, proposed, ram, disk, apps, expires_at) VALUES (?, ?, ?, ?, ?, ?, ?)",
			hash[:], inviter, o.For, o.RAM, o.Disk, o.Apps, stamp(o.Expires)); err != nil {
			return o, err
		}
		for _, g := range o.Grants {
			missing := app.Errorf(app.NotFound, "you have no application %q", g.App)
			if !inviter.Valid {
				missing = app.Errorf(app.NotFound, "there is no application %q", g.App)
			}
			if err := t.change(missing,
				"INSERT INTO offer_app (offer, app, permissions) SELECT ?1, app.id, ?2 FROM app JOIN place USING (id) WHERE app.id = ?3 AND (?4 IS NULL OR place.account = ?4)",
				o.ID, g.Permissions, g.App, inviter); err != nil {
				return o, err
			}
		}
		return withGrants(t, o)
	})
}

func sumAllRAM(t tx) (app.MB, error) {
	sum, err := number(t, "SELECT coalesce(sum(ram), 0) FROM place WHERE "+charged)
	return app.MB(sum), err
}

// Offers returns the offers of an inviter that can be accepted, oldest first; 0 for those of all.
func (s Invitations) Offers(ctx context.Context, inviter app.AccountID) ([]app.Offer, error) {
	return get(ctx, s.db, "list the invitations", func(t tx) ([]app.Offer, error) {
		list, err := all(t, scanOffer, selectOffers+" AND (?2 = 0 OR offer.inviter = ?2) ORDER BY offer.id", stamp(s.db.now()), inviter)
		for i := range list {
			if err == nil {
				list[i], err = withGrants(t, list[i])
			}
		}
		return list, err
	})
}

// DeleteOffer removes an offer of an inviter; 0 removes anybody's. It fails with app.NotFound.
func (s Invitations) DeleteOffer(ctx context.Context, inviter app.AccountID, id int64) error {
	return s.db.update(ctx, "revoke the invitation", app.Errorf(app.NotFound, "there is no invitation %d", id),
		"DELETE FROM offer WHERE id = ?1 AND (?2 = 0 OR inviter = ?2)", id, inviter)
}

// Offer returns the offer of a link, or app.NotFound when it cannot be accepted (any more).
func (s Invitations) Offer(ctx context.Context, hash [32]byte) (app.Offer, error) {
	return get(ctx, s.db, "look up the invitation", func(t tx) (app.Offer, error) { return s.find(t, hash) })
}

func (s Invitations) find(t tx, hash [32]byte) (app.Offer, error) {
	o, err := one(t, scanOffer, app.Errorf(app.NotFound, "this invitation was used or revoked, or has expired; ask the person who sent it for another"),
		selectOffers+" AND offer.hash = ?", stamp(s.db.now()), hash[:])
	if err != nil {
		return o, err
	}
	return withGrants(t, o)
}

// Accept uses a link up: the account that build makes of its offer is created with what it
// signs in with, and becomes a member of the teams. build gets the RAM that all applications have
// together. It fails with app.NotFound as Offer does, and app.Conflict when the name is taken, or what
// it signs in with is another account's; then nothing has changed.
func (s Invitations) Accept(
	ctx context.Context, hash [32]byte, c app.Credential, build func(o app.Offer, assigned app.MB) (app.Account, error),
) (app.Account, error) {
	return put(ctx, s.db, "accept the invitation", func(t tx) (a app.Account, err error) {
		o, err := s.find(t, hash)
		if err != nil {
			return a, err
		}
		assigned, err := sumAllRAM(t)
		if err != nil {
			return a, err
		}
		if a, err = build(o, assigned); err != nil {
			return a, err
		}
		now := s.db.now()
		if a, err = createAccount(t, a, now); err != nil {
			return a, err
		}
		if err := giveCredential(t, a.ID, c, now); err != nil {
			return a, err
		}
		return a, join(t, o, a.ID)
	})
}

// giveCredential stores what a new account signs in with.
func giveCredential(t tx, account app.AccountID, c app.Credential, now time.Time) error {
	switch {
	case c.Identity != nil:
		who := *c.Identity
		who.Account = account
		return linkIdentity(t, who, now)
	case c.Passkey != nil:
		if err := t.exec("INSERT INTO passkey_user (account, handle) VALUES (?, ?)", account, c.PasskeyUser); err != nil {
			return err
		}
		p := *c.Passkey
		p.Account = account
		return insertPasskey(t, p, now)
	}
	return setPassword(t, account, c.Password, 0, now)
}

// Join uses a link up for an account that exists: it becomes a member of the teams, or may do more
// than before. It fails with app.NotFound as Offer does, app.Forbidden when the account is
// closed, and app.Unusable when there is nothing in the offer for it; then nothing has changed.
func (s Invitations) Join(ctx context.Context, hash [32]byte, account app.AccountID) (app.Offer, error) {
	return put(ctx, s.db, "accept the invitation", func(t tx) (app.Offer, error) {
		o, err := s.find(t, hash)
		if err != nil {
			return o, err
		}
		a, err := findAccount(t, account)
		switch {
		case err != nil:
			return o, err
		case a.Closed() != nil:
			return o, a.Closed()
		case len(o.Grants) == 0:
			return o, app.Errorf(app.Unusable, "this invitation is for a new account; choose a name for it")
		}
		return o, join(t, o, account)
	})
}

// join ends an offer and gives an account what it grants, all of it or nothing.
func join(t tx, o app.Offer, account app.AccountID) error {
	for _, g := range o.Grants {
		if err := t.change(app.Errorf(app.Unusable, "the application %q is your own; sign in with another account", g.App),
			`INSERT INTO member (app, account, permissions) SELECT id, ?2, ?3 FROM place WHERE id = ?1 AND account <> ?2
			ON CONFLICT (app, account) DO UPDATE SET permissions = permissions | excluded.permissions`,
			g.App, account, g.Permissions); err != nil {
			return err
		}
	}
	return t.exec("DELETE FROM offer WHERE id = ?", o.ID)
}
