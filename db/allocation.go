package db

import (
	"context"
	"database/sql"

	"berth/app"
)

// Allocations remembers what an application has that no other may have: an ID, a uid,
// ports, RAM, and the subdomain of a site. In the database they are called places.
type Allocations struct {
	db  *DB
	ids IDRange
}

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
// account and what its applications have, and refuses by returning an error.
//
// The uid is the next in turn, so that one which was given back is not handed
// out again until all others were; the port is the first free one from where
// the range begins for this server (IDRange.Start). The
// reservation lasts until CreateApp, Release or DropReservations.
//
// It fails with app.Conflict when the ID or the subdomain is taken,
// app.Exhausted when no uid or port is left, and app.NotFound when there is no
// such account.
func (s Allocations) Reserve(ctx context.Context, a app.App, admit func(owner app.Account, used app.Use) error) (app.App, error) {
	return put(ctx, s.db, "reserve a place for the application", func(t tx) (app.App, error) {
		owner, err := findAccount(t, a.Account)
		if err != nil {
			return a, err
		}
		used, err := useOf(t, a.Account)
		if err != nil {
			return a, err
		}
		if err := admit(owner, used); err != nil {
			return a, err
		}
		a.CreatedAt = stored(s.db.now())
		if a.UID, err = s.ids.nextUID(t); err != nil {
			return a, err
		}
		if a.Port, err = s.ids.freePort(t); err != nil {
			return a, err
		}
		err = t.exec("INSERT INTO place (id, account, ram, uid, port) VALUES (?, ?, ?, ?, ?)", a.ID, a.Account, placeRAM(a), a.UID, a.Port)
		if isTaken(err) { // uid and port were looked up in this transaction, so it is the ID
			return a, app.Errorf(app.Conflict, "the id %q is taken", a.ID)
		}
		if err != nil || a.Type != app.Site {
			return a, err
		}
		return a, assignSubdomain(t, a)
	})
}

// placeRAM is what the place of an application is charged before it has a row that says
// what it is: a place has 1 MB at least.
func placeRAM(a app.App) app.MB { return max(a.Charged(), 1) }

// Release gives a reservation back. It does nothing when there is none, and
// never touches an application that exists.
func (s Allocations) Release(ctx context.Context, id app.ID) error {
	return s.db.update(ctx, "release the reservation", nil, "DELETE FROM place WHERE id = ? AND id NOT IN (SELECT id FROM app)", id)
}

// DropReservations gives all reservations back and returns how many there
// were. Call it at boot, before the first deployment: what it finds then was
// left by a crash.
func (s Allocations) DropReservations(ctx context.Context) (int, error) {
	return put(ctx, s.db, "drop the reservations", func(t tx) (int, error) {
		return t.changed("DELETE FROM place WHERE id NOT IN (SELECT id FROM app)")
	})
}

// typeOf returns the type of an account's application. It fails with
// app.NotFound when owner has none, and app.Conflict while that has an
// allocation but no row.
func typeOf(t tx, owner app.AccountID, id app.ID) (app.Type, error) {
	found, err := one(t, value[sql.NullInt64], app.Errorf(app.NotFound, "you have no application %q", id),
		"SELECT app.type FROM place LEFT JOIN app USING (id) WHERE place.id = ? AND place.account = ?", id, owner)
	if err == nil && !found.Valid {
		err = app.Errorf(app.Conflict, "the application %q is being deployed for the first time, or removed; wait until that is done", id)
	}
	return app.Type(found.Int64), err
}

// nextUID takes the next uid that nobody has and moves the turn past it.
func (ids IDRange) nextUID(t tx) (int, error) {
	next, err := number(t, "SELECT next_uid FROM meta")
	if err != nil {
		return 0, err
	}
	end := ids.UIDBase + ids.UIDCount
	if next < ids.UIDBase || next >= end { // the first of all, or the range was changed
		next = ids.UIDBase + ids.Start%ids.UIDCount
	}
	used, err := numbers(t, "SELECT uid FROM place WHERE uid >= ? AND uid < ?", ids.UIDBase, end)
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
	return next, t.exec("UPDATE meta SET next_uid = ?", next+1)
}

// Spare returns the port of a second run of an application, and puts one aside
// when it has none yet; it keeps it as long as its uid. It fails with
// app.Exhausted when no port is left, and app.NotFound when there is no such
// allocation.
func (s Allocations) Spare(ctx context.Context, id app.ID) (int, error) {
	return put(ctx, s.db, "reserve a second port for the application", func(t tx) (int, error) {
		has, err := one(t, value[sql.NullInt64], noApp(id), "SELECT spare FROM place WHERE id = ?", id)
		if err != nil || has.Valid {
			return int(has.Int64), err
		}
		port, err := s.ids.freePort(t)
		if err != nil {
			return 0, err
		}
		return port, t.exec("UPDATE place SET spare = ? WHERE id = ?", port, id)
	})
}

func (ids IDRange) freePort(t tx) (int, error) {
	used, err := numbers(t, "SELECT port FROM place WHERE port BETWEEN ?1 AND ?2 UNION SELECT spare FROM place WHERE spare BETWEEN ?1 AND ?2", ids.PortFirst, ids.PortLast)
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

// numbers returns the set of what a query of one column finds.
func numbers(t tx, query string, args ...any) (map[int]bool, error) {
	set := map[int]bool{}
	found, err := all(t, value[int], query, args...)
	for _, n := range found {
		set[n] = true
	}
	return set, err
}

// Gone returns the ids that are allocated and are no application: of those whose
// removal was recorded, and of uploads that were cut short, if these are no older
// records of applications that came to be.
func (s Allocations) Gone(ctx context.Context) (removed, cut []app.ID, err error) {
	err = s.db.read(ctx, "list the applications that are gone", func(t tx) error {
		for flag, ids := range []*[]app.ID{&cut, &removed} {
			if *ids, err = all(t, value[app.ID], "SELECT id FROM place WHERE removed = ? AND id NOT IN (SELECT id FROM app) ORDER BY id", flag); err != nil {
				return err
			}
		}
		return nil
	})
	return removed, cut, err
}

// PassUID makes the next application get a user id beyond uid, which somebody may
// have whom the records do not know. Beyond the range of the uids it does nothing.
func (s Allocations) PassUID(ctx context.Context, uid int) error {
	if uid < s.ids.UIDBase || uid >= s.ids.UIDBase+s.ids.UIDCount {
		return nil
	}
	return s.db.update(ctx, "pass over a user id", nil, "UPDATE meta SET next_uid = max(next_uid, ?)", uid+1)
}
