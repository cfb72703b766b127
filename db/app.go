package db

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"berth/app"
)

// selectApps is in the order of scanApp. An application is its place, its own
// row, and the exit that is shown of it, if any.
const selectApps = `
SELECT app.id, place.account, app.name, app.avatar_url, app.type, place.ram, place.uid, place.port,
	app.wanted, app.created_at, app.main, app.lang, app.version, app.start_command, app.build_command,
	app.packages, app.health, app.auto_restart, app.apts, app.last_run, app.started_at,
	x.run, x.ended_at, x.ran_ms, x.code, x.signal, x.oom, x.peak_bytes, x.limit_mb, x.asked
FROM app
JOIN place ON place.id = app.id
LEFT JOIN exit_record x ON x.app = app.id AND x.run = app.last_exit
ORDER BY app.created_at, app.id`

// CreateApp turns a reservation into an application and returns it. ID,
// Account, RAM, UID, Port and CreatedAt MUST be those that Reserve returned. d is
// the first of its history: the number, the time and what was decided are given
// to it. It fails with app.Conflict when the reservation is gone.
func (db *DB) CreateApp(ctx context.Context, a app.App, d app.Deploy) (app.App, error) {
	a.LastRun, a.StartedAt, a.LastExit = 0, time.Time{}, nil
	err := db.write(ctx, "create the application", func(tx *sql.Tx) error {
		var reserved int
		err := tx.QueryRowContext(ctx,
			"SELECT count(*) FROM place WHERE id = ? AND account = ? AND ram = ? AND uid = ? AND port = ?",
			a.ID, a.Account, a.RAM, a.UID, a.Port).Scan(&reserved)
		if err != nil {
			return err
		}
		if reserved == 0 {
			return app.Errorf(app.Conflict, "the place that was reserved for the application is gone; upload it again")
		}
		_, err = tx.ExecContext(ctx, `INSERT INTO app (id, name, avatar_url, type, wanted, created_at,
			main, lang, version, start_command, build_command, packages, health, auto_restart, apts, last_run, started_at)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0, 0)`,
			a.ID, a.Name, a.AvatarURL, a.Type, a.Wanted, stamp(a.CreatedAt),
			a.Code.Main, a.Code.Lang, a.Code.Version, a.Code.Start, a.Code.Build, a.Code.Packages, a.Code.Health, a.AutoRestart, joinApts(a.Apts))
		if isTaken(err) {
			return app.Errorf(app.Conflict, "the id %q is taken", a.ID)
		}
		if err != nil {
			return err
		}
		d.Number, d.At, d.Code, d.Auto = 1, db.now(), a.Code, a.AutoRestart
		return errors.Join(insertDeploy(ctx, tx, a.ID, d), deployed(ctx, tx, a.ID, d))
	})
	if err != nil {
		return app.App{}, err
	}
	return a, nil
}

// Apps returns the applications of all accounts, oldest first.
func (db *DB) Apps(ctx context.Context) ([]app.App, error) {
	var all []app.App
	err := db.read(ctx, "list the applications", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, selectApps)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanApp)
		return err
	})
	return all, err
}

// DeleteApp forgets an application and its exits. Its place stays reserved
// until Release, so that nobody gets its ID or uid while files have them; it says
// that they are to be removed (Gone). It fails with app.NotFound.
func (db *DB) DeleteApp(ctx context.Context, id app.ID) error {
	return db.write(ctx, "delete the application", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM app WHERE id = ?", id)
		if err := mustChange(result, err, noApp(id)); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE place SET removed = 1 WHERE id = ?", id)
		return err
	})
}

// SetWanted stores what the owner wants, or fails with app.NotFound.
func (db *DB) SetWanted(ctx context.Context, id app.ID, wanted app.Wanted) error {
	return db.changeApp(ctx, id, "store what is wanted", "UPDATE app SET wanted = ?2 WHERE id = ?1", wanted)
}

// SetRAM stores the RAM of an application. admit gets the account's RAM and
// what its other applications have, and refuses by returning an error, which
// is returned as it is. It fails with app.NotFound.
func (db *DB) SetRAM(ctx context.Context, id app.ID, ram app.MB, admit func(total, usedByOthers app.MB) error) error {
	return db.write(ctx, "store the RAM", func(tx *sql.Tx) error {
		var total, others app.MB
		err := tx.QueryRowContext(ctx, `SELECT account.total_ram,
				(SELECT coalesce(sum(ram), 0) FROM place WHERE account = own.account AND id <> own.id)
			FROM app JOIN place own ON own.id = app.id JOIN account ON account.id = own.account
			WHERE app.id = ?`, id).Scan(&total, &others)
		if errors.Is(err, sql.ErrNoRows) {
			return noApp(id)
		}
		if err != nil {
			return err
		}
		if err := admit(total, others); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "UPDATE place SET ram = ? WHERE id = ?", ram, id)
		return err
	})
}

// SetProfile stores the fields of p that are not nil, or fails with app.NotFound.
func (db *DB) SetProfile(ctx context.Context, id app.ID, p app.Profile) error {
	return db.changeApp(ctx, id, "store the profile",
		"UPDATE app SET name = coalesce(?2, name), avatar_url = coalesce(?3, avatar_url) WHERE id = ?1", p.Name, p.AvatarURL)
}

// SetAutoRestart stores whether the program is started again when it fails, or
// fails with app.NotFound.
func (db *DB) SetAutoRestart(ctx context.Context, id app.ID, on bool) error {
	return db.changeApp(ctx, id, "store the auto restart", "UPDATE app SET auto_restart = ?2 WHERE id = ?1", on)
}

// changeApp runs a statement about one application, whose ID is parameter 1.
func (db *DB) changeApp(ctx context.Context, id app.ID, what, statement string, args ...any) error {
	return db.write(ctx, what, func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, statement, append([]any{id}, args...)...)
		return mustChange(result, err, noApp(id))
	})
}

func scanApp(row scanner) (app.App, error) {
	var a app.App
	var created, started int64
	var apts string
	var x exitColumns
	err := row.Scan(append([]any{
		&a.ID, &a.Account, &a.Name, &a.AvatarURL, &a.Type, &a.RAM, &a.UID, &a.Port,
		&a.Wanted, &created, &a.Code.Main, &a.Code.Lang, &a.Code.Version, &a.Code.Start, &a.Code.Build,
		&a.Code.Packages, &a.Code.Health, &a.AutoRestart, &apts, &a.LastRun, &started,
	}, x.dest()...)...)
	if err != nil {
		return app.App{}, err
	}
	a.CreatedAt, a.StartedAt, a.Apts = moment(created), moment(started), splitApts(apts)
	if x.run.Valid {
		last := x.exit()
		a.LastExit = &last
	}
	return a, nil
}

func noApp(id app.ID) error { return app.Errorf(app.NotFound, "there is no application %q", id) }
