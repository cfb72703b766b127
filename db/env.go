package db

import (
	"context"
	"database/sql"
	"errors"
	"maps"
	"strings"

	"berth/app"
)

// Variables returns the environment variables that the owner of an application
// set, by name. It fails with app.NotFound.
func (db *DB) Variables(ctx context.Context, id app.ID) ([]app.Variable, error) {
	var all []app.Variable
	err := db.read(ctx, "read the environment variables", func(tx *sql.Tx) (err error) {
		all, err = readVariables(ctx, tx, id)
		return err
	})
	return all, err
}

// ChangeVariables stores what change makes of the variables of an application,
// by name. change may refuse by returning an error, which is returned as it is;
// then nothing has changed. Nobody else changes them meanwhile. It fails with
// app.NotFound.
func (db *DB) ChangeVariables(ctx context.Context, id app.ID, change func(set map[string]string) error) error {
	return db.write(ctx, "store the environment variables", func(tx *sql.Tx) error {
		all, err := readVariables(ctx, tx, id)
		if err != nil {
			return err
		}
		before := make(map[string]string, len(all))
		for _, v := range all {
			before[v.Name] = v.Value
		}
		after := maps.Clone(before)
		if err := change(after); err != nil {
			return err
		}
		return storeVariables(ctx, tx, id, before, after)
	})
}

func readVariables(ctx context.Context, tx *sql.Tx, id app.ID) ([]app.Variable, error) {
	var there int
	err := tx.QueryRowContext(ctx, "SELECT 1 FROM app WHERE id = ?", id).Scan(&there)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, noApp(id)
	}
	if err != nil {
		return nil, err
	}
	rows, err := tx.QueryContext(ctx, "SELECT name, value FROM env WHERE app = ? ORDER BY name", id)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (v app.Variable, err error) {
		err = row.Scan(&v.Name, &v.Value)
		return v, err
	})
}

// storeVariables writes what differs.
func storeVariables(ctx context.Context, tx *sql.Tx, id app.ID, before, after map[string]string) error {
	for name := range before {
		if _, kept := after[name]; kept {
			continue
		}
		if _, err := tx.ExecContext(ctx, "DELETE FROM env WHERE app = ? AND name = ?", id, name); err != nil {
			return err
		}
	}
	for name, value := range after {
		if old, had := before[name]; had && old == value {
			continue
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO env (app, name, value) VALUES (?, ?, ?)
			ON CONFLICT (app, name) DO UPDATE SET value = excluded.value`, id, name, value)
		if err != nil {
			return err
		}
	}
	return nil
}

// SetApts stores the system packages that an application asks for, or fails
// with app.NotFound. Their names hold no comma.
func (db *DB) SetApts(ctx context.Context, id app.ID, apts []string) error {
	return db.changeApp(ctx, id, "store the system packages", "UPDATE app SET apts = ?2 WHERE id = ?1", joinApts(apts))
}

func joinApts(apts []string) string { return strings.Join(apts, ",") }

func splitApts(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}
