package db

import (
	"context"
	"database/sql"
	"embed"
	"fmt"
	"io/fs"
)

//go:embed migration/*.sql
var embedded embed.FS

// migrations returns the files of the schema: 0001.sql leads to version 1,
// and so on without a gap. A file that was released MUST NOT change.
func migrations() fs.FS {
	dir, err := fs.Sub(embedded, "migration")
	if err != nil {
		return embedded // the name above is valid, so this cannot be
	}
	return dir
}

// migrate runs what is missing, each step in a transaction of its own that
// also records it. Any number of processes may do so at once: each looks at
// the version again once it holds the lock. keep is called before the first
// step of a database that is not new.
func migrate(ctx context.Context, pool *sql.DB, steps fs.FS, keep func(version int) error) error {
	version, newest, err := known(ctx, pool, steps)
	if err != nil {
		return err
	}
	if 0 < version && version < newest {
		if err := keep(version); err != nil {
			return err
		}
	}
	for next := version + 1; next <= newest; next++ {
		text, err := fs.ReadFile(steps, fmt.Sprintf("%04d.sql", next))
		if err != nil {
			return err
		}
		err = transact(ctx, pool, "change the schema", func(t tx) error {
			if err := step(t, next, string(text)); err != nil {
				return fmt.Errorf("to version %d: %w", next, err)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// known returns the version of the schema and the newest that steps lead to. It
// refuses one beyond that.
func known(ctx context.Context, q rower, steps fs.FS) (version, newest int, err error) {
	names, err := fs.Glob(steps, "*.sql")
	if err != nil {
		return 0, 0, err
	}
	version, err = schemaVersion(ctx, q)
	if err == nil && version > len(names) {
		err = newerError(version, len(names))
	}
	return version, len(names), err
}

// step applies one migration unless another process has done so meanwhile.
func step(t tx, to int, text string) error {
	version, err := schemaVersion(t.ctx, t)
	if err != nil || version >= to {
		return err
	}
	if err := t.exec(text); err != nil {
		return err
	}
	// A pragma takes no parameters.
	if err := t.exec(fmt.Sprintf("PRAGMA user_version = %d", to)); err != nil {
		return err
	}
	return count(t)
}

// rower is what a pool and a transaction have in common here.
type rower interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

func schemaVersion(ctx context.Context, q rower) (int, error) {
	var version int
	err := q.QueryRowContext(ctx, "PRAGMA user_version").Scan(&version)
	return version, err
}
