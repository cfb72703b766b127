package db

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// pruneBatch is how many records of the audit log one transaction removes: the
// writer is free again after a few milliseconds.
const pruneBatch = 500

const auditColumns = "at, actor, name, token, label, account, address, operation, app, app_name, detail, status, refusal, request, times, counted"

// Record stores acts in the audit log, in this order. What is counted is added
// to the record of its minute, if there is one.
func (db *DB) Record(ctx context.Context, acts ...app.AuditRecord) error {
	return db.write(ctx, "store the audit log", func(tx *sql.Tx) error {
		insert, err := tx.PrepareContext(ctx, "INSERT INTO audit ("+auditColumns+") VALUES (?"+strings.Repeat(", ?", 15)+`)
			ON CONFLICT (at, actor, token, address, operation, app, status) WHERE counted = 1
			DO UPDATE SET times = times + excluded.times`)
		if err != nil {
			return err
		}
		defer func() { _ = insert.Close() }() // the transaction tells of what matters
		for _, a := range acts {
			a = a.Bounded()
			if _, err := insert.ExecContext(ctx, stamp(a.At), a.Actor, a.Name, a.Token, a.Label, a.Account, a.From, a.Operation,
				a.App, a.AppName, a.Detail, a.Status, a.Refusal, a.Request, a.Times, a.Counted); err != nil {
				return err
			}
		}
		return nil
	})
}

// AuditRecords returns the newest records that q chooses, oldest first. The Seq of the
// first is the Before of the next older page; fewer than q.Limit are the last.
func (db *DB) AuditRecords(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error) {
	where, args := []string{"true"}, []any{}
	add := func(clause string, values ...any) { where, args = append(where, clause), append(args, values...) }
	if q.Account != 0 {
		add("(actor = ? OR account = ?)", q.Account, q.Account)
	}
	if q.App != "" {
		add("app = ?", q.App)
	}
	if q.Operation != "" {
		add("operation = ?", q.Operation)
	}
	if !q.Since.IsZero() {
		add("at >= ?", stamp(q.Since))
	}
	if q.Before > 0 {
		add("seq < ?", q.Before)
	}
	query := "SELECT seq, " + auditColumns + " FROM audit WHERE " + strings.Join(where, " AND ") + " ORDER BY seq DESC LIMIT ?"
	var all []app.AuditRecord
	err := db.read(ctx, "read the audit log", func(tx *sql.Tx) error {
		rows, err := tx.QueryContext(ctx, query, append(args, q.Limit)...)
		if err != nil {
			return err
		}
		all, err = collect(rows, scanRecord)
		return err
	})
	slices.Reverse(all)
	return all, err
}

func scanRecord(row scanner) (app.AuditRecord, error) {
	var a app.AuditRecord
	var at int64
	err := row.Scan(&a.Seq, &at, &a.Actor, &a.Name, &a.Token, &a.Label, &a.Account, &a.From, &a.Operation,
		&a.App, &a.AppName, &a.Detail, &a.Status, &a.Refusal, &a.Request, &a.Times, &a.Counted)
	a.At = moment(at)
	return a, err
}

// PruneAudit removes records that are older than before, or more than keep, and
// returns how many: a bounded number, so call it until there are none. Beyond
// keep the oldest of the actor with the most records go: whoever floods the log
// pushes out their own past, not that of others.
func (db *DB) PruneAudit(ctx context.Context, keep int, before time.Time) (int, error) {
	n, err := db.dropRecords(ctx, "at < ?", stamp(before), pruneBatch)
	if n > 0 || err != nil {
		return n, err
	}
	var count int
	var actor app.AccountID
	// Looked up beside the writer: to count takes longer than to remove.
	err = db.read(ctx, "count the audit log", func(tx *sql.Tx) error {
		if err := tx.QueryRowContext(ctx, "SELECT count(*) FROM audit").Scan(&count); err != nil || count <= keep {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT actor FROM audit GROUP BY actor ORDER BY count(*) DESC LIMIT 1").Scan(&actor)
	})
	if err != nil || count <= keep {
		return 0, err
	}
	return db.dropRecords(ctx, "actor = ?", int64(actor), min(count-keep, pruneBatch))
}

// dropRecords removes the oldest n records for which where holds.
func (db *DB) dropRecords(ctx context.Context, where string, arg int64, n int) (int, error) {
	var dropped int64
	err := db.write(ctx, "prune the audit log", func(tx *sql.Tx) error {
		result, err := tx.ExecContext(ctx, "DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE "+where+" ORDER BY seq LIMIT ?)", arg, n)
		if err != nil {
			return err
		}
		dropped, err = result.RowsAffected()
		return err
	})
	return int(dropped), err
}
