package daemon

import (
	"context"
	"errors"
	"log/slog"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/host/watch/metrics"
	"berth/proc/logs"
)

// recovery mends at a boot what a crash left of the files of applications.
type recovery struct {
	*files.Store
	allocated db.Allocations
	records   db.History
	logs      *logs.Book
	past      *metrics.Store
	log       *slog.Logger
}

// recover is host.Recover: journals first, for Sweep moves aside what belongs to
// nobody.
func (t recovery) recover(ctx context.Context, known []app.App) (mixed []app.ID, err error) {
	ids := make([]app.ID, 0, len(known))
	set := make(map[app.ID]bool, len(known))
	for _, a := range known {
		ids = append(ids, a.ID)
		set[a.ID] = true
		// A signal to stop during the boot must not leave half of it undone.
		if !t.settle(context.WithoutCancel(ctx), a) {
			mixed = append(mixed, a.ID)
		}
	}
	if err = t.sweep(ctx, ids, set); err != nil {
		t.log.Error("cannot remove what belongs to no application", "error", err)
	}
	return mixed, err
}

// sweep removes what there is of applications whose removal the records ask for, and
// moves aside what the records do not know: the database may be an older one that was
// put back.
func (t recovery) sweep(ctx context.Context, ids []app.ID, known map[app.ID]bool) error {
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
	return errors.Join(err, t.reportLost(ctx, lost))
}

// reportLost logs what was moved aside. Nobody new gets the user ids of it.
func (t recovery) reportLost(ctx context.Context, lost []files.Lost) error {
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
func (t recovery) settle(ctx context.Context, a app.App) bool {
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
