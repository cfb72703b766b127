package db

import (
	"context"
	"database/sql"

	"berth/app"
)

// GroupName returns the name of the programs' control groups, "" before
// NameGroups.
func (db *DB) GroupName(ctx context.Context) (string, error) {
	var name string
	err := db.read(ctx, "read the name of the control groups", func(tx *sql.Tx) error {
		return tx.QueryRowContext(ctx, "SELECT group_name FROM meta").Scan(&name)
	})
	return name, err
}

// NameGroups remembers the name of the programs' control groups; "" forgets it.
func (db *DB) NameGroups(ctx context.Context, name string) error {
	return db.write(ctx, "store the name of the control groups", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE meta SET group_name = ?", name)
		return err
	})
}

// Gone returns the ids that have a place and are no application: of those whose
// removal was recorded, and of uploads that were cut short, if these are no older
// records of applications that came to be.
func (db *DB) Gone(ctx context.Context) (removed, cut []app.ID, err error) {
	err = db.read(ctx, "list the applications that are gone", func(tx *sql.Tx) error {
		for flag, ids := range []*[]app.ID{&cut, &removed} {
			rows, err := tx.QueryContext(ctx, "SELECT id FROM place WHERE removed = ? AND id NOT IN (SELECT id FROM app) ORDER BY id", flag)
			if err != nil {
				return err
			}
			*ids, err = collect(rows, func(row scanner) (id app.ID, err error) {
				err = row.Scan(&id)
				return id, err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return removed, cut, err
}

// PassUID makes the next application get a user id beyond uid, which somebody may
// have whom the records do not know.
func (db *DB) PassUID(ctx context.Context, uid int) error {
	return db.write(ctx, "pass over a user id", func(tx *sql.Tx) error {
		_, err := tx.ExecContext(ctx, "UPDATE meta SET next_uid = max(next_uid, ?)", uid+1)
		return err
	})
}
