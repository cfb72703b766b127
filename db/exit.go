package db

import (
	"context"
	"database/sql"
	"time"

	"berth/app"
)

// exitsKept is how many exits of one application are remembered.
const exitsKept = 20

// RunStarted stores the number and the start of a run, or fails with
// app.NotFound. It leaves the last exit as it is: see ClearExit.
func (db *DB) RunStarted(ctx context.Context, id app.ID, run int, at time.Time) error {
	return db.write(ctx, "store the start of a run", func(tx *sql.Tx) error { return setRun(ctx, tx, id, run, at) })
}

func setRun(ctx context.Context, tx *sql.Tx, id app.ID, run int, at time.Time) error {
	result, err := tx.ExecContext(ctx, "UPDATE app SET last_run = ?2, started_at = ?3 WHERE id = ?1", id, run, stamp(at))
	return mustChange(result, err, noApp(id))
}

// RunEnded stores how a run ended, shows it as the last exit, and forgets all
// but the last 20 of the application. Storing the same run again replaces what
// was known of it. It fails with app.NotFound.
func (db *DB) RunEnded(ctx context.Context, id app.ID, e app.Exit) error {
	return db.write(ctx, "store the end of a run", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "UPDATE app SET last_exit = ? WHERE id = ?", e.Run, id)
		if err := mustChange(result, err, noApp(id)); err != nil {
			return err
		}
		if err := happened(ctx, tx, id, e); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `INSERT OR REPLACE INTO exit_record
			(app, run, ended_at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			id, e.Run, stamp(e.At), e.Ran.Milliseconds(), e.Code, e.Signal, e.OOM, e.PeakBytes, e.LimitMB, e.Asked)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM exit_record WHERE app = ?1
			AND run NOT IN (SELECT run FROM exit_record WHERE app = ?1 ORDER BY run DESC LIMIT ?2)`, id, exitsKept)
		return err
	})
}

// happened tells the chronicle of an exit, unless that has it already.
func happened(ctx context.Context, tx *sql.Tx, id app.ID, e app.Exit) error {
	var known int
	err := tx.QueryRowContext(ctx, "SELECT count(*) FROM exit_record WHERE app = ? AND run = ?", id, e.Run).Scan(&known)
	if err != nil || known > 0 {
		return err
	}
	return addHistoryEvent(ctx, tx, id, app.HistoryEvent{At: e.At, Kind: app.HistoryExit, Exit: &e})
}

// ClearExit stops showing the last exit, because a person started the
// application; the record stays in Exits. It fails with app.NotFound.
func (db *DB) ClearExit(ctx context.Context, id app.ID) error {
	return db.changeApp(ctx, id, "clear the last exit", "UPDATE app SET last_exit = NULL WHERE id = ?1")
}

// Exits returns how the last runs of an application ended, newest first; none
// for an application that does not exist.
func (db *DB) Exits(ctx context.Context, id app.ID) ([]app.Exit, error) {
	var all []app.Exit
	err := db.read(ctx, "list the exits", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT run, ended_at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked
			FROM exit_record WHERE app = ? ORDER BY run DESC`, id)
		if err != nil {
			return err
		}
		all, err = collect(rows, func(row scanner) (app.Exit, error) {
			var x exitColumns
			err := row.Scan(x.dest()...)
			return x.exit(), err
		})
		return err
	})
	return all, err
}

// exitColumns is an exit as it stands in a row, all NULL when there is none.
type exitColumns struct {
	run, ended, ran, code, signal, peak, limit sql.NullInt64
	oom, asked                                 sql.NullBool
}

func (x *exitColumns) dest() []any {
	return []any{&x.run, &x.ended, &x.ran, &x.code, &x.signal, &x.oom, &x.peak, &x.limit, &x.asked}
}

func (x *exitColumns) exit() app.Exit {
	return app.Exit{
		Run:       int(x.run.Int64),
		At:        moment(x.ended.Int64),
		Ran:       time.Duration(x.ran.Int64) * time.Millisecond,
		Code:      int(x.code.Int64),
		Signal:    int(x.signal.Int64),
		OOM:       x.oom.Bool,
		PeakBytes: x.peak.Int64,
		LimitMB:   app.MB(x.limit.Int64),
		Asked:     x.asked.Bool,
	}
}
