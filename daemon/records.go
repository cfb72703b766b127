package daemon

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/host/watch/metrics"
	"berth/proc/logs"
)

// registry is the database as the host sees it.
type registry struct {
	db.Allocations
	db.History
	apps    db.Apps
	changed func(ctx context.Context, failed error) // domains lead elsewhere
}

// trees is the data directory as the host sees it.
type trees struct {
	*files.Store
	allocated db.Allocations
	records   db.History
	max       int64 // bytes of an upload; the edge has closer limits
	logs      *logs.Book
	past      *metrics.Store
	log       *slog.Logger
}

// Spool implements host.Staging.
func (t trees) Spool(ctx context.Context, r io.Reader) (string, error) {
	return t.Store.Spool(ctx, r, t.max)
}

// DropSpool implements host.Staging.
func (t trees) DropSpool(file string) {
	if err := t.Store.DropSpool(file); err != nil {
		t.log.Error("cannot remove an upload", "error", err)
	}
}

// Discard implements host.Staging.
func (t trees) Discard(stage app.Stage) {
	if err := t.Store.Discard(stage); err != nil {
		t.log.Error("cannot remove an unpacked upload; the next start of berth will", "error", err)
	}
}

// Size implements host.Trees.
func (t trees) Size(ctx context.Context, id app.ID) (app.Space, error) { return t.Used(ctx, id) }

// Enforced implements host.Quotas.
func (t trees) Enforced() bool { return t.Quota().Enforced() }

// Limit implements host.Quotas: what was there before the quotas is charged
// too.
func (t trees) Limit(ctx context.Context, id app.ID, uid int, bytes int64) error {
	return errors.Join(t.Mark(ctx, id, uid), t.SetLimit(uid, bytes))
}

// Recover implements host.Trees: journals first, for Sweep moves aside what belongs to
// nobody.
func (t trees) Recover(ctx context.Context, known []app.App) (broken []app.ID, err error) {
	ids := make([]app.ID, 0, len(known))
	set := make(map[app.ID]bool, len(known))
	for _, a := range known {
		ids = append(ids, a.ID)
		set[a.ID] = true
		// A signal to stop during the boot must not leave half of it undone.
		if !t.settle(context.WithoutCancel(ctx), a) {
			broken = append(broken, a.ID)
		}
	}
	if err = t.sweep(ctx, ids, set); err != nil {
		t.log.Error("cannot remove what belongs to no application", "error", err)
	}
	return broken, err
}

// sweep removes what there is of applications whose removal the records ask for, and
// moves aside what the records do not know: the database may be an older one that was
// put back.
func (t trees) sweep(ctx context.Context, ids []app.ID, known map[app.ID]bool) error {
	left, cut, err := t.allocated.Gone(ctx)
	if err != nil { // nothing is removed for what cannot be read
		return err
	}
	for _, id := range cut {
		if !t.logs.Ran(id) { // else the upload had come to its end, and the record of that is missing
			left = append(left, id)
		}
	}
	gone := make(map[app.ID]bool, len(left))
	for _, id := range left {
		gone[id] = true
	}
	lost, err := t.Sweep(ctx, ids, left)
	lose := func(area string) func(string) error {
		return func(name string) error {
			l, err := t.Lose(area, name)
			if err == nil {
				lost = append(lost, l)
			}
			return err
		}
	}
	err = errors.Join(err, t.logs.Sweep(known, gone, lose("logs")))
	away := map[app.ID]bool{}
	for _, l := range lost {
		away[app.ID(l.Name)] = true
	}
	err = errors.Join(err, t.past.Sweep(known, away, lose("metrics")))
	return errors.Join(err, t.tellLost(ctx, lost))
}

// tellLost tells of what was moved aside. Nobody new gets the user ids of it.
func (t trees) tellLost(ctx context.Context, lost []files.Lost) error {
	var errs []error
	told := map[string]bool{}
	for _, l := range lost {
		if !told[l.To] {
			told[l.To] = true
			t.log.Error("the database does not know an application; what there is of it was moved aside, and berth removes nothing of it", "app", l.Name, "to", l.To)
		}
		errs = append(errs, t.allocated.PassUID(ctx, l.UID))
	}
	return errors.Join(errs...)
}

// settle brings the journals of an application in line with the records after a
// crash, and reports whether its files are one code.
func (t trees) settle(ctx context.Context, a app.App) bool {
	good, err := t.records.Journals(ctx, a.ID)
	pending := err != nil || t.Pending(a.ID, good)
	if err == nil {
		err = t.Settle(ctx, a.ID, a.UID, good)
	}
	switch {
	case err != nil && pending:
		t.log.Error("cannot undo a commit that was cut short", "app", a.ID, "error", err)
		t.logs.Note(a.ID, "a commit was cut short and could not be undone: commit the whole code again")
		return false
	case err != nil:
		t.log.Error("cannot put the journals of an application in order", "app", a.ID, "error", err)
	case pending:
		t.log.Warn("a commit was cut short; its application has the code of before", "app", a.ID)
		t.logs.Note(a.ID, "a commit was cut short; the code from before it is back")
	}
	return true
}

// CreateApp implements host.Registry. With a site comes its name.
func (r registry) CreateApp(ctx context.Context, a app.App, first app.Deploy) (app.App, error) {
	a, err := r.apps.CreateApp(ctx, a, first)
	if a.Type == app.Site {
		r.changed(ctx, err)
	}
	return a, err
}

// DeleteApp implements host.Registry. With the application go its domains.
func (r registry) DeleteApp(ctx context.Context, id app.ID) error {
	err := r.apps.DeleteApp(ctx, id)
	r.changed(ctx, err)
	return err
}
