package db

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// DB is the open database file, and what is remembered in it.
type DB struct {
	Accounts     Accounts
	SignIns      SignIns
	Invitations  Invitations
	Teams        Teams
	Apps         Apps
	History      History
	Names        Names
	Certificates Certificates
	HostTokens   HostTokens
	Audit        Audit
	Notices      Notices
	Backups      Backups
	Holds        Holds
	Icons        Icons

	writer  *sql.DB // one connection: SQLite has one writer, so let them queue here
	reader  *sql.DB // sees the last commit, never waits for the writer
	now     func() time.Time
	file    *origin
	keys    Keys   // that secrets are sealed with; see UseKeys
	links   []byte // while they cannot be stored, see LinkKey
	noticed func() // see Notices.Noticed
}

// Open opens the database at path, creates it with mode 0600 when there is
// none (see New), and brings its schema up to date; a copy from before that stays beside
// it, named after its schema, the newest two of these. The directory must exist.
// A file of a newer berth is ErrNewer, one beside the log of another is ErrOtherLog or
// Damaged (see Usable), and all are left as they are. The error matches
// fs.ErrPermission when the file may not be written. ctx bounds the opening
// alone. now is the clock of everything that is stamped.
func Open(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	db, err := open(ctx, path, now)
	if err != nil {
		return nil, fmt.Errorf("cannot open the database: %w", fileError(err))
	}
	return db, nil
}

func open(ctx context.Context, path string, now func() time.Time) (*DB, error) {
	if err := createFile(path); err != nil {
		return nil, err
	}
	if err := usable(ctx, path); err != nil { // before the log beside it is folded into it
		return nil, err
	}
	db := &DB{now: now, file: &origin{}}
	db.Accounts, db.SignIns, db.Invitations, db.Teams, db.Audit = Accounts{db}, SignIns{db}, Invitations{db}, Teams{db}, Audit{db}
	db.Apps, db.History, db.Names, db.Certificates, db.HostTokens = Apps{db}, History{db}, Names{db}, Certificates{db}, HostTokens{db}
	db.Notices, db.Backups, db.Holds = Notices{db}, Backups{db}, Holds{db}
	db.Icons = Icons{db}
	var err error
	if db.writer, err = openPool(path, writing, db.file); err != nil {
		return nil, err
	}
	if db.reader, err = openPool(path, reading, db.file); err != nil {
		return nil, errors.Join(err, db.writer.Close())
	}
	if err := db.prepare(ctx, path); err != nil {
		return nil, errors.Join(err, db.writer.Close(), db.reader.Close())
	}
	return db, nil
}

// prepare connects, migrates, and proves that a reader can read.
func (db *DB) prepare(ctx context.Context, path string) error {
	if err := connect(ctx, db.writer); err != nil {
		return err
	}
	keep := func(version int) error { return keepCopy(ctx, db.writer, path, version) }
	if err := migrate(ctx, db.writer, migrations(), keep); err != nil {
		return err
	}
	if err := connect(ctx, db.reader); err != nil {
		return err
	}
	return db.file.remember()
}

// Allocations returns what applications have for themselves; new ones are out of ids.
func (db *DB) Allocations(ids IDRange) Allocations { return Allocations{db, ids} }

// Close waits for the statements that run and closes the file. The writer goes
// last: the last connection to close folds the write-ahead log into the file.
func (db *DB) Close() error {
	err := db.reader.Close()
	// Failing to refresh the planner's statistics costs a little speed, no data.
	_ = db.update(context.Background(), "reach the database", nil, "PRAGMA optimize")
	if err := errors.Join(err, db.writer.Close()); err != nil {
		return fmt.Errorf("cannot close the database: %w", err)
	}
	return nil
}

// write runs fn in the one transaction that can write and commits when fn
// returns nil. what completes "cannot ..." in an internal error.
//
// What nobody would find again is not written (ErrMoved): the path is looked at last,
// before the commit. What changed something is counted (see count).
//
// Then it looks at what it wrote. The first reader of a commit writes a mark into
// the file beside (-shm; walTryBeginRead in SQLite's wal.c); if that was one that
// comes while the disk does not answer, it would wait for the disk, and readers
// must not.
func (db *DB) write(ctx context.Context, what string, fn func(t tx) error) error {
	noticed := false
	err := transact(ctx, db.writer, what, func(t tx) error {
		t.keys, t.noticed = db.keys, &noticed
		before, err := changes(t)
		if err != nil {
			return err
		}
		if err := fn(t); err != nil {
			return err
		}
		if after, err := changes(t); err != nil {
			return err
		} else if after != before {
			if err := count(t); err != nil {
				return err
			}
		}
		return db.Moved()
	})
	if noticed && err == nil && db.noticed != nil {
		db.noticed()
	}
	if err == nil {
		// A reader that fails says so to its caller.
		var version int
		_ = db.reader.QueryRowContext(context.WithoutCancel(ctx), "SELECT 1 FROM pragma_user_version").Scan(&version)
	}
	return err
}

// update runs one statement in a transaction of its own. When it changes no row it fails
// with missing, unless that is nil.
func (db *DB) update(ctx context.Context, what string, missing error, statement string, args ...any) error {
	return db.write(ctx, what, func(t tx) error { return t.change(missing, statement, args...) })
}

// read runs fn on one unchanging state of the database.
func (db *DB) read(ctx context.Context, what string, fn func(t tx) error) error {
	return transact(ctx, db.reader, what, func(t tx) error {
		t.keys = db.keys
		return fn(t)
	})
}

// Alive waits for the one connection that writes and takes the file's write
// lock for a moment, without writing to the disk.
func (db *DB) Alive(ctx context.Context) error {
	return db.write(ctx, "reach the database", func(tx) error { return nil })
}

// LinkKey returns the 32 random bytes that sign links, the same for the life of the file, as long
// as their seal can be opened. The first call makes them. Bytes that cannot be stored, because
// nothing can seal them, are the same for the life of db.
func (db *DB) LinkKey(ctx context.Context) ([]byte, error) {
	return put(ctx, db, "read the link key", func(t tx) ([]byte, error) {
		stored, err := one(t, value[[]byte], sql.ErrNoRows, "SELECT links FROM meta")
		if err != nil {
			return nil, err
		}
		if stored != nil {
			if key, err := t.unseal("meta.links", "", stored); !errors.Is(err, ErrKeyMissing) {
				return key, err
			} // else links from before are lost with it
		}
		key := db.links // only the writer's one connection comes here
		if key == nil {
			key = make([]byte, 32)
			rand.Read(key) // never fails, see crypto/rand
		}
		switch stored, err = t.seal("meta.links", "", key); {
		case errors.Is(err, errUnsealed):
			db.links = key
			return key, nil
		case err != nil:
			return nil, err
		}
		return key, t.exec("UPDATE meta SET links = ?", stored)
	})
}

// GroupName returns the name of the programs' control groups, "" before
// NameGroups.
func (db *DB) GroupName(ctx context.Context) (string, error) {
	return get(ctx, db, "read the name of the control groups", func(t tx) (string, error) {
		return one(t, value[string], sql.ErrNoRows, "SELECT group_name FROM meta")
	})
}

// Cluster returns the address of the cluster on which programs of this host may run, "" for none.
func (db *DB) Cluster(ctx context.Context) (string, error) {
	return get(ctx, db, "read where programs run", func(t tx) (string, error) {
		return one(t, value[string], sql.ErrNoRows, "SELECT cluster FROM meta")
	})
}

// SetCluster remembers the address of the cluster on which programs of this host may run; "" forgets it.
func (db *DB) SetCluster(ctx context.Context, server string) error {
	return db.update(ctx, "store where programs run", nil, "UPDATE meta SET cluster = ?", server)
}

// NameGroups remembers the name of the programs' control groups; "" forgets it.
func (db *DB) NameGroups(ctx context.Context, name string) error {
	return db.update(ctx, "store the name of the control groups", nil, "UPDATE meta SET group_name = ?", name)
}
