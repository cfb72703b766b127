package db

import (
	"context"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// Audit is the audit log: who asked for what. Auditor adds to it while the daemon serves.
type Audit struct{ db *DB }

// pruneBatch is how many records of the audit log one transaction removes: the
// writer is free again after a few milliseconds.
const pruneBatch = 500

const auditColumns = "at, actor, name, token, label, account, address, operation, app, app_name, detail, status, refusal, request, times, counted"

// Record stores records in the audit log, in this order. What is counted is added
// to the record of its minute, if there is one.
func (s Audit) Record(ctx context.Context, records ...app.AuditRecord) error {
	return s.db.write(ctx, "store the audit log", func(t tx) error {
		insert, err := t.PrepareContext(ctx, "INSERT INTO audit ("+auditColumns+") VALUES (?"+strings.Repeat(", ?", 15)+`)
			ON CONFLICT (at, actor, token, address, operation, app, status) WHERE counted = 1
			DO UPDATE SET times = times + excluded.times`)
		if err != nil {
			return err
		}
		defer func() { _ = insert.Close() }() // the transaction says what matters
		for _, r := range records {
			r = r.Bounded()
			if _, err := insert.ExecContext(ctx, stamp(r.At), r.Actor, r.Name, r.Token, r.Label, r.Account, r.From, r.Operation,
				r.App, r.AppName, r.Detail, r.Status, r.Refusal, r.Request, r.Times, r.Counted); err != nil {
				return err
			}
		}
		return nil
	})
}

// Records returns the newest records that q chooses, oldest first. The Seq of the
// first is the Before of the next older page; fewer than q.Limit are the last.
func (s Audit) Records(ctx context.Context, q app.AuditQuery) ([]app.AuditRecord, error) {
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
	found, err := getAll(ctx, s.db, "read the audit log", scanRecord,
		"SELECT seq, "+auditColumns+" FROM audit WHERE "+strings.Join(where, " AND ")+" ORDER BY seq DESC LIMIT ?", append(args, q.Limit)...)
	slices.Reverse(found)
	return found, err
}

func scanRecord(row scanner) (r app.AuditRecord, err error) {
	err = row.Scan(&r.Seq, asTime(&r.At), &r.Actor, &r.Name, &r.Token, &r.Label, &r.Account, &r.From, &r.Operation,
		&r.App, &r.AppName, &r.Detail, &r.Status, &r.Refusal, &r.Request, &r.Times, &r.Counted)
	return r, err
}

// Prune removes records that are older than before, or more than keep, and
// returns how many: a bounded number, so call it until there are none. Beyond
// keep the oldest of the actor with the most records go: whoever floods the log
// pushes out their own past, not that of others.
func (s Audit) Prune(ctx context.Context, keep int, before time.Time) (int, error) {
	n, err := s.drop(ctx, "at < ?", stamp(before), pruneBatch)
	if n > 0 || err != nil {
		return n, err
	}
	// Looked up beside the writer: to count takes longer than to remove.
	var count, actor int
	err = s.db.read(ctx, "count the audit log", func(t tx) (err error) {
		if count, err = number(t, "SELECT count(*) FROM audit"); err != nil || count <= keep {
			return err
		}
		actor, err = number(t, "SELECT actor FROM audit GROUP BY actor ORDER BY count(*) DESC LIMIT 1")
		return err
	})
	if err != nil || count <= keep {
		return 0, err
	}
	return s.drop(ctx, "actor = ?", int64(actor), min(count-keep, pruneBatch))
}

// drop removes the oldest n records for which where holds.
func (s Audit) drop(ctx context.Context, where string, arg int64, n int) (int, error) {
	return put(ctx, s.db, "prune the audit log", func(t tx) (int, error) {
		return t.changed("DELETE FROM audit WHERE seq IN (SELECT seq FROM audit WHERE "+where+" ORDER BY seq LIMIT ?)", arg, n)
	})
}
