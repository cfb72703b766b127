package db

import (
	"context"
	"time"

	"berth/app"
)

// maxIdentities is how many an account has at most.
const maxIdentities = 10

const selectIdentities = "SELECT id, account, issuer, subject, name, created_at, last_used FROM identity"

func scanIdentity(row scanner) (i app.Identity, err error) {
	err = row.Scan(&i.ID, &i.Account, &i.Issuer, &i.Subject, &i.Name, asTime(&i.CreatedAt), asTime(&i.LastUsed))
	return i, err
}

// Identities returns how providers know an account, oldest first.
func (s SignIns) Identities(ctx context.Context, account app.AccountID) ([]app.Identity, error) {
	return getAll(ctx, s.db, "list the identities", scanIdentity, selectIdentities+" WHERE account = ? ORDER BY id", account)
}

// UseIdentity returns the account that who.Issuer and who.Subject sign in to, what is remembered of
// its password, and the number of the identity, and remembers the use and who.Name. It fails with
// app.NotFound.
func (s SignIns) UseIdentity(ctx context.Context, who app.Identity) (a app.Account, password string, id int64, err error) {
	err = s.db.write(ctx, "use the identity", func(t tx) error {
		missing := app.Errorf(app.NotFound, "nobody has this identity")
		found, err := one(t, scanIdentity, missing, selectIdentities+" WHERE issuer = ? AND subject = ?", who.Issuer, who.Subject)
		if err != nil {
			return err
		}
		if a, err = findAccount(t, found.Account); err != nil {
			return err
		}
		if password, err = one(t, value[string], nil, "SELECT hash FROM password WHERE account = ?", a.ID); err != nil {
			return err
		}
		id = found.ID
		return t.exec("UPDATE identity SET name = ?, last_used = ? WHERE id = ?", who.Name, stamp(s.db.now()), id)
	})
	return a, password, id, err
}

// LinkIdentity lets who sign in to the account who.Account. It fails with app.Conflict for an
// identity that signs in to an account already, and app.Exhausted for one too many.
func (s SignIns) LinkIdentity(ctx context.Context, who app.Identity) error {
	return s.db.write(ctx, "store the identity", func(t tx) error { return linkIdentity(t, who, s.db.now()) })
}

func linkIdentity(t tx, who app.Identity, now time.Time) error {
	if _, err := findAccount(t, who.Account); err != nil {
		return err
	}
	has, err := number(t, "SELECT count(*) FROM identity WHERE account = ?", who.Account)
	if err == nil && has >= maxIdentities {
		err = app.Errorf(app.Exhausted, "this account has %d identities already; remove one first", has)
	}
	if err != nil {
		return err
	}
	_, err = t.insert("INSERT INTO identity (account, issuer, subject, name, created_at, last_used) VALUES (?1, ?2, ?3, ?4, ?5, ?5)",
		who.Account, who.Issuer, who.Subject, who.Name, stamp(now))
	if isTaken(err) {
		err = app.Errorf(app.Conflict, "this identity signs in to an account already; sign in by it, or remove it there first")
	}
	return err
}

// UnlinkIdentity removes an identity of an account. It fails with app.NotFound, and app.Conflict for
// all that the account signs in with.
func (s SignIns) UnlinkIdentity(ctx context.Context, account app.AccountID, id int64) error {
	return s.db.write(ctx, "remove the identity", func(t tx) error {
		if err := t.change(app.Errorf(app.NotFound, "there is no identity %d", id), "DELETE FROM identity WHERE id = ? AND account = ?", id, account); err != nil {
			return err
		}
		return hasEntrance(t, account)
	})
}

// hasEntrance fails with app.Conflict when an account has nothing left to sign in with.
func hasEntrance(t tx, account app.AccountID) error {
	n, err := number(t, `SELECT (SELECT count(*) FROM password WHERE account = ?1) + (SELECT count(*) FROM passkey WHERE account = ?1)
		+ (SELECT count(*) FROM identity WHERE account = ?1)`, account)
	if err == nil && n == 0 {
		err = app.Errorf(app.Conflict, "without this nobody could sign in to the account; set a password first, or add a passkey")
	}
	return err
}

// SignUp creates the account that build makes, which who signs in to. build gets the RAM that all
// accounts but those of administrators may give to applications together. It fails with app.Conflict when the name is taken, or
// who signs in to an account already; then nothing has changed.
func (s SignIns) SignUp(ctx context.Context, who app.Identity, build func(promised app.MB) (app.Account, error)) (app.Account, error) {
	return put(ctx, s.db, "create the account", func(t tx) (a app.Account, err error) {
		promised, err := number(t, "SELECT coalesce(sum(total_ram), 0) FROM account WHERE NOT admin")
		if err != nil {
			return a, err
		}
		if a, err = build(app.MB(promised)); err != nil {
			return a, err
		}
		if a, err = createAccount(t, a, s.db.now()); err != nil {
			return a, err
		}
		who.Account = a.ID
		return a, linkIdentity(t, who, s.db.now())
	})
}

// SetFirstPassword is SetPassword for an account without one. It fails with app.Conflict when it has
// one.
func (s SignIns) SetFirstPassword(ctx context.Context, account app.AccountID, hash string, keep int64) error {
	return s.db.write(ctx, "store the password", func(t tx) error {
		has, err := number(t, "SELECT count(*) FROM password WHERE account = ?", account)
		if err == nil && has > 0 {
			err = app.Errorf(app.Conflict, "this account has a password; change it with the old one")
		}
		if err != nil {
			return err
		}
		return setPassword(t, account, hash, keep, s.db.now())
	})
}
