package db

import (
	"context"
	"database/sql"
	"errors"

	"berth/app"
)

// IDRange bounds what Reserve may hand out. Both ends of the ports are
// included; the uids are UIDBase up to and without UIDBase+UIDCount.
type IDRange struct {
	UIDBase   int
	UIDCount  int
	PortFirst int
	PortLast  int
	// Start is where in both ranges to begin, so that two servers on one
	// machine that know nothing of each other hardly meet.
	Start int
}

// Reserve puts aside, in one transaction, all that a new application needs and
// nobody else may have: its ID, a uid, a port, and its RAM out of the account's;
// for a site also the subdomain of its name, which is given back with the rest
// unless the account had reserved it before. Of a it reads ID, Account, Type and
// RAM, and returns a with UID, Port and CreatedAt filled in. admit gets the
// account's RAM and what its applications have, and refuses by returning an
// error.
//
// The uid is the next in turn, so that one which was given back is not handed
// out again until all others were; the port is the first free one from where
// the range begins for this server (IDRange.Start). The
// reservation lasts until CreateApp, Release or DropReservations.
//
// It fails with app.Conflict when the ID or the subdomain is taken,
// app.Exhausted when no uid or port is left, and app.NotFound when there is no
// such account.
func (db *DB) Reserve(ctx context.Context, a app.App, ids IDRange, admit func(total, used app.MB) error) (app.App, error) {
	err := db.write(ctx, "reserve a place for the application", func(tx *sql.Tx) error {
		owner, err := findAccount(ctx, tx, a.Account)
		if err != nil {
			return err
		}
		used, err := sumRAM(ctx, tx, a.Account)
		if err != nil {
			return err
		}
		if err := admit(owner.TotalRAM, used); err != nil {
			return err
		}
		a.CreatedAt = moment(stamp(db.now()))
		if a.UID, err = nextUID(ctx, tx, ids); err != nil {
			return err
		}
		if a.Port, err = freePort(ctx, tx, ids); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO place (id, account, ram, uid, port) VALUES (?, ?, ?, ?, ?)",
			a.ID, a.Account, a.RAM, a.UID, a.Port)
		if isTaken(err) { // uid and port were looked up in this transaction, so it is the ID
			return app.Errorf(app.Conflict, "the id %q is taken", a.ID)
		}
		if err != nil || a.Type != app.Site {
			return err
		}
		return bringSubdomain(ctx, tx, a)
	})
	if err != nil {
		return app.App{}, err
	}
	return a, nil
}

// Release gives a reservation back. It does nothing when there is none, and
// never touches an application that exists.
func (db *DB) Release(ctx context.Context, id app.ID) error {
	return db.write(ctx, "release the reservation", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "DELETE FROM place WHERE id = ? AND id NOT IN (SELECT id FROM app)", id)
		return err
	})
}

// DropReservations gives all reservations back and returns how many there
// were. Call it at boot, before the first deployment: what it finds then was
// left by a crash.
func (db *DB) DropReservations(ctx context.Context) (int, error) {
	var dropped int64
	err := db.write(ctx, "drop the reservations", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM place WHERE id NOT IN (SELECT id FROM app)")
		if err != nil {
			return err
		}
		dropped, err = result.RowsAffected()
		return err
	})
	return int(dropped), err
}

// typeOf returns the type of an account's application. It fails with
// app.NotFound when owner has none, and app.Conflict while that has a place but
// no row.
func typeOf(ctx context.Context, tx *sql.Tx, owner app.AccountID, id app.ID) (app.Type, error) {
	var t sql.NullInt64
	err := tx.QueryRowContext(ctx, "SELECT app.type FROM place LEFT JOIN app USING (id) WHERE place.id = ? AND place.account = ?", id, owner).Scan(&t)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return 0, app.Errorf(app.NotFound, "you have no application %q", id)
	case err == nil && !t.Valid:
		return 0, app.Errorf(app.Conflict, "the application %q is being deployed for the first time, or removed; wait until that is done", id)
	}
	return app.Type(t.Int64), err
}

// nextUID takes the next uid that nobody has and moves the turn past it.
func nextUID(ctx context.Context, tx *sql.Tx, ids IDRange) (int, error) {
	var next int
	if err := tx.QueryRowContext(ctx, "SELECT next_uid FROM meta").Scan(&next); err != nil {
		return 0, err
	}
	end := ids.UIDBase + ids.UIDCount
	if next < ids.UIDBase || next >= end { // the first of all, or the range was changed
		next = ids.UIDBase + ids.Start%ids.UIDCount
	}
	used, err := taken(ctx, tx, "SELECT uid FROM place WHERE uid >= ? AND uid < ?", ids.UIDBase, end)
	if err != nil {
		return 0, err
	}
	if len(used) >= ids.UIDCount {
		return 0, app.Errorf(app.Exhausted, "the server has no free user id for another application")
	}
	for used[next] {
		if next++; next == end {
			next = ids.UIDBase
		}
	}
	_, err = tx.ExecContext(ctx, "UPDATE meta SET next_uid = ?", next+1)
	return next, err
}

// Spare returns the port of a second run of an application, and puts one aside
// when it has none yet; it keeps it as long as its place. It fails with
// app.Exhausted when no port is left, and app.NotFound when there is no such
// place.
func (db *DB) Spare(ctx context.Context, id app.ID, ids IDRange) (int, error) {
	var port int
	err := db.write(ctx, "reserve a second port for the application", func(tx *sql.Tx) error {
		var has sql.NullInt64
		err := tx.QueryRowContext(ctx, "SELECT spare FROM place WHERE id = ?", id).Scan(&has)
		if errors.Is(err, sql.ErrNoRows) {
			return noApp(id)
		}
		if port = int(has.Int64); err != nil || has.Valid {
			return err
		}
		if port, err = freePort(ctx, tx, ids); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE place SET spare = ? WHERE id = ?", port, id)
		return err
	})
	return port, err
}

func freePort(ctx context.Context, tx *sql.Tx, ids IDRange) (int, error) {
	used, err := taken(ctx, tx, "SELECT port FROM place WHERE port BETWEEN ?1 AND ?2 UNION SELECT spare FROM place WHERE spare BETWEEN ?1 AND ?2", ids.PortFirst, ids.PortLast)
	if err != nil {
		return 0, err
	}
	count := ids.PortLast - ids.PortFirst + 1
	for n := range count {
		if port := ids.PortFirst + (ids.Start+n)%count; !used[port] {
			return port, nil
		}
	}
	return 0, app.Errorf(app.Exhausted, "the server has no free port for another application")
}

func taken(ctx context.Context, tx *sql.Tx, query string, from, to int) (map[int]bool, error) {
	rows, err := tx.QueryContext(ctx, query, from, to)
	if err != nil {
		return nil, err
	}
	numbers, err := collect(rows, func(row scanner) (n int, err error) {
		err = row.Scan(&n)
		return n, err
	})
	set := make(map[int]bool, len(numbers))
	for _, n := range numbers {
		set[n] = true
	}
	return set, err
}
