package db

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/mattn/go-sqlite3"

	"berth/app"
)

// explain says what could not be done, unless the error is for the user, as
// what a disk refuses is.
func explain(what string, err error) error {
	if _, forUser := errors.AsType[*app.Error](err); forUser || err == nil {
		return err
	}
	kind := app.NoSpace
	var why app.Text
	switch errno := errnoOf(err); {
	case isCode(err, sqlite3.ErrFull), errno == syscall.ENOSPC:
		why = app.Words(app.DiskFull)
	case errno == syscall.EDQUOT:
		why = app.Words(app.DiskQuota)
	case errors.Is(err, ErrMoved):
		kind, why = app.Unavailable, app.Words(app.DatabaseMoved)
	case errors.Is(err, errUnsealed):
		kind, why = app.Unavailable, app.Words(app.KeyUnread)
	case isCode(err, sqlite3.ErrReadonly), errno == syscall.EROFS:
		kind, why = app.Unavailable, app.Words(app.DiskReadOnly)
	case Damaged(err):
		kind, why = app.Unavailable, app.Words(app.DatabaseDamaged)
	case Failed(err):
		kind, why = app.Unavailable, app.Words(app.DiskFailed)
	case Unopened(err):
		kind, why = app.Unavailable, app.Words(app.DatabaseGone)
	default:
		return fmt.Errorf("cannot %s: %w", what, err)
	}
	return &app.Error{Kind: kind, Message: app.Textf("cannot %s: %s", app.Words(what), why), Err: err}
}

// Damaged reports whether err says that the file is no database, or a broken
// one: neither waiting nor another try helps.
func Damaged(err error) bool {
	_, found := errors.AsType[damage](err)
	return found || means(err, sqlite3.ErrCorrupt, sqlite3.ErrNotADB)
}

// Failed reports whether err says that the disk under the database could not be
// read or written.
func Failed(err error) bool { return means(err, sqlite3.ErrIoErr) }

// Unopened reports whether err says that the file, or one beside it, cannot be
// opened.
func Unopened(err error) bool { return means(err, sqlite3.ErrCantOpen, sqlite3.ErrPerm) }

// means reports whether err is one of SQLite's codes, by itself or in a path of
// Open (see fileError).
func means(err error, codes ...sqlite3.ErrNo) bool {
	return slices.ContainsFunc(codes, func(code sqlite3.ErrNo) bool { return isCode(err, code) || errors.Is(err, code) })
}

// errnoOf is the system's own error behind SQLite's, 0 when there is none.
func errnoOf(err error) syscall.Errno {
	e, _ := errors.AsType[sqlite3.Error](err)
	return e.SystemErrno
}

// isCode reports whether err is SQLite's code. The code decides, never the
// message, which is no contract.
func isCode(err error, code sqlite3.ErrNo) bool {
	e, is := errors.AsType[sqlite3.Error](err)
	return is && e.Code == code
}

// isTaken reports whether err is a value that must be unique and is not.
func isTaken(err error) bool {
	return refusedBy(err, sqlite3.ErrConstraintUnique) || refusedBy(err, sqlite3.ErrConstraintPrimaryKey)
}

// refusedBy reports whether err is that of a constraint of the schema.
func refusedBy(err error, constraint sqlite3.ErrNoExtended) bool {
	e, is := errors.AsType[sqlite3.Error](err)
	return is && e.ExtendedCode == constraint
}

// fileError puts the system's own error in the chain when SQLite hid it, so
// that a caller can tell a permission from a broken file.
func fileError(err error) error {
	e, is := errors.AsType[sqlite3.Error](err)
	switch {
	case !is:
		return err
	case e.SystemErrno != 0:
		return fmt.Errorf("%w (%w)", e.SystemErrno, e.Code)
	case e.Code == sqlite3.ErrReadonly || e.Code == sqlite3.ErrPerm:
		return fmt.Errorf("%w (%w)", fs.ErrPermission, e.Code)
	default:
		return err
	}
}
