package db

import (
	"context"
	"fmt"
	"sync"
	"time"

	"berth/app"
)

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
	lastTry    = 5 * time.Second
)

// Elsewhere is the address of clients that were too many to be told apart.
const Elsewhere = "(others)"

// Auditor stores acts behind the back of whoever asked for them. It has one
// goroutine, which Close waits for, and is safe for concurrent use.
type Auditor struct {
	db   *DB
	keep int
	age  time.Duration
	tell func(problem error)

	wake chan struct{}
	stop chan struct{}
	done chan struct{}
	once sync.Once

	failing bool // the last try; told once, by the goroutine alone

	mu      sync.Mutex
	pending []app.AuditRecord
	at      map[recordKey]int // the place in pending of a counted act
	lost    int
}

// recordKey is what counted acts of one record have in common.
type recordKey struct {
	minute    int64
	actor     app.AccountID
	token     int64
	from      string
	operation string
	app       app.ID
	status    int
}

// NewAuditor begins to store acts in db, which MUST stay open until Close has
// returned. It keeps at most about keep records, none older than age, and calls
// tell when something cannot be stored or removed.
func NewAuditor(db *DB, keep int, age time.Duration, tell func(problem error)) *Auditor {
	a := &Auditor{
		db: db, keep: keep, age: age, tell: tell,
		wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
		at: map[recordKey]int{},
	}
	go a.run()
	return a
}

// Record takes an act. It never waits for the disk; the act is stored within
// linger, and by Close at the latest. While the disk takes nothing, maxPending
// acts wait, and one that comes then is lost: the log says how many were.
func (a *Auditor) Record(act app.AuditRecord) {
	act = act.Bounded()
	a.mu.Lock()
	defer a.mu.Unlock()
	if act.Counted && a.count(&act) {
		return
	}
	if len(a.pending) >= maxPending {
		a.lost++
		return
	}
	if act.Counted {
		a.at[keyOf(act)] = len(a.pending)
	}
	a.pending = append(a.pending, act)
	a.nudge()
}

// count adds act to one that waits, if there is one of its kind. The caller
// holds mu.
func (a *Auditor) count(act *app.AuditRecord) bool {
	_, known := a.at[keyOf(*act)]
	if !known && len(a.at) >= spread {
		act.From = Elsewhere
	}
	i, known := a.at[keyOf(*act)]
	if known {
		a.pending[i].Times += act.Times
	}
	return known
}

func keyOf(act app.AuditRecord) recordKey {
	return recordKey{act.At.Unix(), act.Actor, act.Token, act.From, act.Operation, act.App, act.Status}
}

// Close stores what waits and ends. It fails when the disk does not take it.
func (a *Auditor) Close() error {
	a.once.Do(func() { close(a.stop) })
	<-a.done
	a.mu.Lock()
	defer a.mu.Unlock()
	if n := len(a.pending) + a.lost; n > 0 {
		return fmt.Errorf("cannot store the audit log: %d records are lost", n)
	}
	return nil
}

func (a *Auditor) run() {
	defer close(a.done)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	tick := time.NewTicker(pruneEvery)
	defer tick.Stop()
	a.prune(ctx)
	stored := 0
	for {
		select {
		case <-a.stop:
			a.last()
			return
		case <-tick.C:
			stored = pruneAfter
		case <-a.wake:
			select {
			case <-a.stop:
				continue
			case <-time.After(linger):
			}
			n, err := a.flush(ctx)
			stored += n
			if err != nil && !a.rest() {
				continue
			}
		}
		if stored >= pruneAfter {
			a.prune(ctx)
			stored = 0
		}
	}
}

// last stores what waits at the end, within a bounded time.
func (a *Auditor) last() {
	ctx, cancel := context.WithTimeout(context.Background(), lastTry)
	defer cancel()
	_, _ = a.flush(ctx) // told already
}

// rest waits before the next try; it reports false when the auditor stops.
func (a *Auditor) rest() bool {
	select {
	case <-a.stop:
		return false
	case <-time.After(time.Second):
		a.nudge()
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
		batch, lost := a.take()
		if len(batch) == 0 {
			return stored, nil
		}
		if lost > 0 {
			batch = append(batch, app.AuditRecord{
				At: a.db.now(), Actor: app.Owner, Operation: "audit.lost", Times: lost,
				Refusal: "The disk took no records for a while, so these are lost.",
			})
		}
		if err := a.db.Audit.Record(ctx, batch...); err != nil {
			a.giveBack(batch, lost)
			if !a.failing {
				a.tell(err)
			}
			a.failing = true
			return stored, err
		}
		a.failing = false
		stored += len(batch)
	}
}

// take takes what waits longest out of the queue.
func (a *Auditor) take() (batch []app.AuditRecord, lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(len(a.pending), auditBatch)
	batch = append(batch, a.pending[:n]...)
	a.pending = append(a.pending[:0], a.pending[n:]...)
	clear(a.at) // what is counted from now on is added in the database
	lost, a.lost = a.lost, 0
	return batch, lost
}

// giveBack undoes take after a failure.
func (a *Auditor) giveBack(batch []app.AuditRecord, lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if lost > 0 {
		batch = batch[:len(batch)-1]
	}
	a.lost += lost
	a.pending = append(batch, a.pending...)
	clear(a.at)
}

// prune removes what is too old or too much.
func (a *Auditor) prune(ctx context.Context) {
	for {
		n, err := a.db.Audit.Prune(ctx, a.keep, a.db.now().Add(-a.age))
		if err != nil {
			a.tell(err)
		}
		select {
		case <-a.stop:
			return
		default:
		}
		if n == 0 || err != nil {
			return
		}
	}
}
