package db

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
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

const (
	// linger is how long records wait for others: a flood of requests makes ten
	// transactions a second, and a crash loses what came in a tenth of a second.
	linger     = 100 * time.Millisecond
	auditBatch = 256  // records in one transaction
	maxPending = 8192 // records that wait while the disk takes none
	// spread is how many clients have counted records of their own in one
	// batch; all others share one.
	spread     = 64
	pruneEvery = time.Hour
	pruneAfter = 1000 // records
	retryAfter = time.Second
	lastTry    = 5 * time.Second
)

// elsewhere is the address of clients that were too many to be told apart.
const elsewhere = "(others)"

// Auditor stores records behind the back of whoever asked for what they say. It has one
// goroutine, which Close waits for, and is safe for concurrent use.
type Auditor struct {
	db     *DB
	keep   int
	age    time.Duration
	report func(problem error)

	wake chan struct{}
	life context.Context // until Close
	end  context.CancelFunc
	done sync.WaitGroup

	failing bool // the last try; reported once, by the goroutine alone

	mu      sync.Mutex
	pending []app.AuditRecord
	at      map[recordKey]int // where in pending a counted record is
	lost    int
}

// recordKey is what counted records have in common that become one.
type recordKey struct {
	minute    int64
	actor     app.AccountID
	token     int64
	from      string
	operation string
	app       app.ID
	status    int
}

func keyOf(r app.AuditRecord) recordKey {
	return recordKey{r.At.Unix(), r.Actor, r.Token, r.From, r.Operation, r.App, r.Status}
}

// NewAuditor begins to store records in db, which MUST stay open until Close has
// returned. It keeps at most about keep records, none older than age, and calls
// report when something cannot be stored or removed.
func NewAuditor(db *DB, keep int, age time.Duration, report func(problem error)) *Auditor {
	a := &Auditor{db: db, keep: keep, age: age, report: report, wake: make(chan struct{}, 1), at: map[recordKey]int{}}
	a.life, a.end = context.WithCancel(context.Background())
	a.done.Go(a.run)
	return a
}

// Record adds a record. It never waits for the disk; the record is stored within
// linger, and by Close at the latest. While the disk takes nothing, maxPending
// records wait, and one that comes then is lost: the log says how many were.
func (a *Auditor) Record(r app.AuditRecord) {
	r = r.Bounded()
	a.mu.Lock()
	defer a.mu.Unlock()
	if r.Counted && a.count(&r) {
		return
	}
	if len(a.pending) >= maxPending {
		a.lost++
		return
	}
	if r.Counted {
		a.at[keyOf(r)] = len(a.pending)
	}
	a.pending = append(a.pending, r)
	a.nudge()
}

// count adds a record to one that waits, if there is one of its kind. The caller
// holds mu.
func (a *Auditor) count(r *app.AuditRecord) bool {
	_, known := a.at[keyOf(*r)]
	if !known && len(a.at) >= spread {
		r.From = elsewhere
	}
	i, known := a.at[keyOf(*r)]
	if known {
		a.pending[i].Times += r.Times
	}
	return known
}

// Close stores what waits and ends. It fails when the disk does not take it.
func (a *Auditor) Close() error {
	a.end()
	a.done.Wait()
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.pending) + a.lost; n > 0 {
		return fmt.Errorf("cannot store the audit log: %d records are lost", n)
	}
	return nil
}

func (a *Auditor) run() {
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	a.prune()
	stored := 0
	for {
		select {
		case <-a.life.Done():
			ctx, cancel := context.WithTimeout(context.Background(), lastTry)
			defer cancel()
			_, _ = a.flush(ctx) // reported already
			return
		case <-tick.C:
			stored = pruneAfter
		case <-a.wake:
			if !a.pause(linger) {
				continue
			}
			n, err := a.flush(context.Background())
			stored += n
			if err != nil {
				if !a.pause(retryAfter) {
					continue
				}
				a.nudge()
			}
		}
		if stored >= pruneAfter {
			a.prune()
			stored = 0
		}
	}
}

// pause waits; it reports false when the auditor ends.
func (a *Auditor) pause(d time.Duration) bool {
	select {
	case <-a.life.Done():
		return false
	case <-time.After(d):
		return true
	}
}

func (a *Auditor) nudge() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// flush stores what waits, batch by batch, and returns how much it stored.
func (a *Auditor) flush(ctx context.Context) (stored int, err error) {
	for {
		batch, lost := a.dequeue()
		if len(batch) == 0 {
			return stored, nil
		}
		records := batch
		if lost > 0 {
			records = append(records, app.AuditRecord{
				At: a.db.now(), Actor: app.Owner, Operation: "audit.lost", Times: lost,
				Refusal: "The disk took no records for a while, so these are lost.",
			})
		}
		if err := a.db.Audit.Record(ctx, records...); err != nil {
			a.requeue(batch, lost)
			if !a.failing {
				a.report(err)
			}
			a.failing = true
			return stored, err
		}
		a.failing = false
		stored += len(records)
	}
}

// dequeue returns what waits longest.
func (a *Auditor) dequeue() (batch []app.AuditRecord, lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.pending), auditBatch)
	batch = slices.Clone(a.pending[:n])
	a.pending = slices.Delete(a.pending, 0, n)
	clear(a.at) // what is counted from now on is added in the database
	lost, a.lost = a.lost, 0
	return batch, lost
}

// requeue undoes dequeue after a failure.
func (a *Auditor) requeue(batch []app.AuditRecord, lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost += lost
	a.pending = append(batch, a.pending...)
	clear(a.at)
}

// prune removes what is too old or too much.
func (a *Auditor) prune() {
	for {
		n, err := a.db.Audit.Prune(context.Background(), a.keep, a.db.now().Add(-a.age))
		if err != nil {
			a.report(err)
		}
		if n == 0 || err != nil || a.life.Err() != nil {
			return
		}
	}
}
