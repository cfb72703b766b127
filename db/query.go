package db

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// tx is one transaction. It ends with the call that ctx belongs to.
type tx struct {
	*sql.Tx
	ctx  context.Context
	keys Keys // that it seals and opens secrets with
	// noticed is set by who stores a notice; nil where nothing is written.
	noticed *bool
}

// transact runs fn in a transaction and commits when fn returns nil. what completes
// "cannot ..." in an internal error.
func transact(ctx context.Context, pool *sql.DB, what string, fn func(t tx) error) error {
	begun, err := pool.BeginTx(ctx, nil)
	if err != nil {
		return explain(what, err)
	}
	defer func() { _ = begun.Rollback() }() // does nothing after the commit
	if err := fn(tx{Tx: begun, ctx: ctx}); err != nil {
		return explain(what, err)
	}
	return explain(what, begun.Commit())
}

// get returns what fn finds in one unchanging state of the database, nothing when it
// fails.
func get[T any](ctx context.Context, db *DB, what string, fn func(t tx) (T, error)) (T, error) {
	return result(ctx, db.read, what, fn)
}

// put returns what fn makes in a transaction (see DB.write), nothing when it fails.
func put[T any](ctx context.Context, db *DB, what string, fn func(t tx) (T, error)) (T, error) {
	return result(ctx, db.write, what, fn)
}

func result[T any](
	ctx context.Context, run func(context.Context, string, func(t tx) error) error, what string, fn func(t tx) (T, error),
) (T, error) {
	var found, none T
	err := run(ctx, what, func(t tx) (err error) {
		found, err = fn(t)
		return err
	})
	if err != nil {
		return none, err
	}
	return found, nil
}

// getAll returns every row of one query.
func getAll[T any](ctx context.Context, db *DB, what string, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	return get(ctx, db, what, func(t tx) ([]T, error) { return all(t, scan, query, args...) })
}

// exec runs a statement.
func (t tx) exec(statement string, args ...any) error {
	_, err := t.ExecContext(t.ctx, statement, args...)
	return err
}

// change runs a statement, or fails with missing when it changes no row.
func (t tx) change(missing error, statement string, args ...any) error {
	n, err := t.changed(statement, args...)
	if err == nil && n == 0 {
		return missing
	}
	return err
}

// changed runs a statement and returns how many rows it changed.
func (t tx) changed(statement string, args ...any) (int, error) {
	result, err := t.ExecContext(t.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// insert runs a statement and returns the id of the row that it made.
func (t tx) insert(statement string, args ...any) (int64, error) {
	result, err := t.ExecContext(t.ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// scanner is one row of a result.
type scanner interface {
	Scan(dest ...any) error
}

// all returns every row of a query.
func all[T any](t tx, scan func(scanner) (T, error), query string, args ...any) (found []T, err error) {
	rows, err := t.QueryContext(t.ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		one, err := scan(rows)
		if err != nil {
			return nil, err
		}
		found = append(found, one)
	}
	return found, rows.Err()
}

// allByKey returns every row of a query of two columns, by the first.
func allByKey[K comparable, V any](t tx, query string, args ...any) (map[K]V, error) {
	found := map[K]V{}
	_, err := all(t, func(row scanner) (v V, err error) {
		var k K
		err = row.Scan(&k, &v)
		found[k] = v
		return v, err
	}, query, args...)
	return found, err
}

// one returns the first row of a query. Without any it fails with missing, and returns
// the zero value when that is nil.
func one[T any](t tx, scan func(scanner) (T, error), missing error, query string, args ...any) (T, error) {
	var none T
	found, err := scan(t.QueryRowContext(t.ctx, query, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return none, missing
	}
	return found, err
}

// value scans a row of one column.
func value[T any](row scanner) (v T, err error) {
	err = row.Scan(&v)
	return v, err
}

// number returns the only column of the only row of a query.
func number(t tx, query string, args ...any) (int, error) {
	return one(t, value[int], sql.ErrNoRows, query, args...)
}

// column reads a number that is kept in another type. NULL is 0.
type column func(stored int64)

// Scan implements sql.Scanner.
func (set column) Scan(stored any) error {
	var n sql.NullInt64
	err := n.Scan(stored)
	set(n.Int64)
	return err
}

func asTime(to *time.Time) column { return func(ms int64) { *to = moment(ms) } }

func asDuration(to *time.Duration) column {
	return func(ms int64) { *to = time.Duration(ms) * time.Millisecond }
}

func asNumber[T ~int | ~int64](to *T) column { return func(n int64) { *to = T(n) } }

func asBool(to *bool) column { return func(n int64) { *to = n != 0 } }

// stamp turns a time into what is stored; the zero time is 0.
func stamp(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// moment is the inverse of stamp.
func moment(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// stored is a time as it is when it has been stored and read again.
func stored(t time.Time) time.Time { return moment(stamp(t)) }
