package db

import (
	"context"
	"database/sql"

	"berth/app"
)

// eventsKept is how many happenings of one application are remembered.
const eventsKept = 50

// AddHistoryEvent remembers what happened to an application, and forgets all but
// the last 50. The number is given to it; the time is now unless it has one. Exits
// and successful deploys are remembered with their records: RunEnded, CreateApp,
// AddDeploy. It fails with app.NotFound.
func (db *DB) AddHistoryEvent(ctx context.Context, id app.ID, p app.HistoryEvent) error {
	if p.At.IsZero() {
		p.At = db.now()
	}
	return db.write(ctx, "remember what happened", func(tx *sql.Tx) error {
		var there int
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM app WHERE id = ?", id).Scan(&there); err != nil {
			return err
		}
		if there == 0 {
			return noApp(id)
		}
		return addHistoryEvent(ctx, tx, id, p)
	})
}

func addHistoryEvent(ctx context.Context, tx *sql.Tx, id app.ID, p app.HistoryEvent) error {
	var run, ran, code, signal, oom, peak, limit, asked any
	if e := p.Exit; e != nil {
		run, ran, code, signal, oom, peak, limit, asked = e.Run, e.Ran.Milliseconds(), e.Code, e.Signal, e.OOM, e.PeakBytes, e.LimitMB, e.Asked
	}
	_, err := tx.ExecContext(ctx, `INSERT INTO event
		(app, number, at, kind, run, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked, deploy, by, text)
		VALUES (?1, (SELECT coalesce(max(number), 0) + 1 FROM event WHERE app = ?1), ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		id, stamp(p.At), p.Kind, run, ran, code, signal, oom, peak, limit, asked, p.Deploy, p.By, p.Text)
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, "DELETE FROM event WHERE app = ?1 AND number <= (SELECT max(number) FROM event WHERE app = ?1) - ?2", id, eventsKept)
	return err
}

// EventLog returns what happened to an application, newest first; nothing for
// one that does not exist.
func (db *DB) EventLog(ctx context.Context, id app.ID) ([]app.HistoryEvent, error) {
	var all []app.HistoryEvent
	err := db.read(ctx, "list what happened", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, `SELECT number, at, kind, deploy, by, text,
			run, at, ran_ms, code, signal, oom, peak_bytes, limit_mb, asked FROM event WHERE app = ? ORDER BY number DESC`, id)
		if err != nil {
			return err
		}
		all, err = collect(rows, func(row scanner) (app.HistoryEvent, error) {
			var p app.HistoryEvent
			var at int64
			var x exitColumns
			err := row.Scan(append([]any{&p.Number, &at, &p.Kind, &p.Deploy, &p.By, &p.Text}, x.dest()...)...)
			p.At = moment(at)
			if p.Kind == app.HistoryExit {
				e := x.exit()
				p.Exit = &e
			}
			return p, err
		})
		return err
	})
	return all, err
}
