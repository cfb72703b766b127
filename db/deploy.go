package db

import (
	"context"
	"database/sql"

	"berth/app"
)

const deployColumns = `number, at, by, kind, bytes, main, lang, version, start_command, build_command,
	packages, auto_restart, note, journal, kept, health`

// AddDeploy records a successful deployment of an application that exists, and
// with it, in the same transaction, what it decided: from here on its journal
// is good, and d.Run, if there is one, the run that goes on: an exit from before
// it is no longer shown. d.Number is given to it; the time is now unless d has one.
// Unless variables is nil they become the application's only ones.
//
// wanted is asked within the transaction what the owner wants from here on: what
// SetWanted stores after the answer comes after the deploy. When it is nil that
// stays. retain gets the history, newest first, and returns what there is to remember
// of it: those it leaves out are forgotten. It returns the deploy as it is
// recorded, or fails with app.NotFound.
func (db *DB) AddDeploy(
	ctx context.Context, id app.ID, d app.Deploy, variables []app.Variable,
	wanted func() app.Wanted, retain func([]app.Deploy) []app.Deploy,
) (app.Deploy, error) {
	if d.At.IsZero() {
		d.At = db.now()
	}
	d.At = moment(stamp(d.At))
	err := db.write(ctx, "record the deployment", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, `UPDATE app SET main = ?2, lang = ?3, version = ?4,
			start_command = ?5, build_command = ?6, packages = ?7, auto_restart = ?8, health = ?9 WHERE id = ?1`,
			id, d.Code.Main, d.Code.Lang, d.Code.Version, d.Code.Start, d.Code.Build, d.Code.Packages, d.Auto, d.Code.Health)
		if err := mustChange(result, err, noApp(id)); err != nil {
			return err
		}
		if d.Run > 0 {
			if err := setRun(ctx, tx, id, d.Run, d.Started); err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, "UPDATE app SET last_exit = NULL WHERE id = ? AND last_exit < ?", id, d.Run); err != nil {
				return err
			}
		}
		if wanted != nil {
			if _, err := tx.ExecContext(ctx, "UPDATE app SET wanted = ? WHERE id = ?", wanted(), id); err != nil {
				return err
			}
		}
		if variables != nil {
			if err := replaceVariables(ctx, tx, id, variables); err != nil {
				return err
			}
		}
		d, err = addDeploy(ctx, tx, id, d, retain)
		return err
	})
	return d, err
}

// addDeploy numbers a deploy and writes the history with it anew.
func addDeploy(ctx context.Context, tx *sql.Tx, id app.ID, d app.Deploy, retain func([]app.Deploy) []app.Deploy) (app.Deploy, error) {
	all, err := deploysOf(ctx, tx, id)
	if err != nil {
		return d, err
	}
	d.Number = 1
	if len(all) > 0 {
		d.Number = all[0].Number + 1
	}
	all = append([]app.Deploy{d}, all...)
	if _, err := tx.ExecContext(ctx, "DELETE FROM deploy WHERE app = ?", id); err != nil {
		return d, err
	}
	for _, d := range retain(all) {
		if err := insertDeploy(ctx, tx, id, d); err != nil {
			return d, err
		}
	}
	return d, deployed(ctx, tx, id, d)
}

// deployed tells the chronicle of a deploy.
func deployed(ctx context.Context, tx *sql.Tx, id app.ID, d app.Deploy) error {
	return addHistoryEvent(ctx, tx, id, app.HistoryEvent{At: d.At, Kind: app.HistoryDeploy, Deploy: d.Kind, By: d.By, Text: d.Note})
}

func insertDeploy(ctx context.Context, tx *sql.Tx, id app.ID, d app.Deploy) error {
	c := d.Code
	_, err := tx.ExecContext(ctx, "INSERT INTO deploy (app, "+deployColumns+") VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
		id, d.Number, stamp(d.At), d.By, d.Kind, d.Bytes, c.Main, c.Lang, c.Version, c.Start, c.Build, c.Packages,
		d.Auto, d.Note, d.Journal, d.Kept, c.Health)
	return err
}

// replaceVariables makes these the only variables of an application.
func replaceVariables(ctx context.Context, tx *sql.Tx, id app.ID, variables []app.Variable) error {
	if _, err := tx.ExecContext(ctx, "DELETE FROM env WHERE app = ?", id); err != nil {
		return err
	}
	for _, v := range variables {
		if _, err := tx.ExecContext(ctx, "INSERT INTO env (app, name, value) VALUES (?, ?, ?)", id, v.Name, v.Value); err != nil {
			return err
		}
	}
	return nil
}

// Deploys returns the history of an application, newest first, or fails with
// app.NotFound.
func (db *DB) Deploys(ctx context.Context, id app.ID) ([]app.Deploy, error) {
	var all []app.Deploy
	err := db.read(ctx, "list the deployments", func(tx *sql.Tx) error {
		var there int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM app WHERE id = ?", id).Scan(&there); err != nil {
			return err
		}
		if there == 0 {
			return noApp(id)
		}
		var err error
		all, err = deploysOf(ctx, tx, id)
		return err
	})
	return all, err
}

func deploysOf(ctx context.Context, tx *sql.Tx, id app.ID) ([]app.Deploy, error) {
	rows, err := tx.QueryContext(ctx, "SELECT "+deployColumns+" FROM deploy WHERE app = ? ORDER BY number DESC", id)
	if err != nil {
		return nil, err
	}
	return collect(rows, func(row scanner) (app.Deploy, error) {
		var d app.Deploy
		var at int64
		c := &d.Code
		err := row.Scan(&d.Number, &at, &d.By, &d.Kind, &d.Bytes, &c.Main, &c.Lang, &c.Version, &c.Start, &c.Build, &c.Packages,
			&d.Auto, &d.Note, &d.Journal, &d.Kept, &c.Health)
		d.At = moment(at)
		return d, err
	})
}

// Journals returns the names of the good journals of an application, none for
// one that does not exist.
func (db *DB) Journals(ctx context.Context, id app.ID) ([]string, error) {
	var all []string
	err := db.read(ctx, "list the journals", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, "SELECT journal FROM deploy WHERE app = ? AND journal <> ''", id)
		if err != nil {
			return err
		}
		all, err = collect(rows, func(row scanner) (name string, err error) {
			err = row.Scan(&name)
			return name, err
		})
		return err
	})
	return all, err
}

// DropJournal forgets a journal of an application, not its deploy, which can
// then not be taken back any more. It fails with app.NotFound.
func (db *DB) DropJournal(ctx context.Context, id app.ID, journal string) error {
	return db.changeApp(ctx, id, "forget a journal", "UPDATE deploy SET journal = '', kept = 0 WHERE app = ?1 AND journal = ?2", journal)
}
