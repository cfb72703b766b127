package host

import (
	"cmp"
	"fmt"
	"slices"
	"sync"

	"berth/app"
)

// queue lets builds begin, a few at a time and fairly: the next is of the
// account whose latest build began longest ago, and the builds of one account
// begin in the order in which they came. So one that has many waiting delays
// another's by one build at most. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	free    int     // places for builds that could begin now
	held    bool    // none begins
	most    int     // builds that may wait
	waiting []*turn // as they came; while a place is free, of accounts that have as many as they may
	begun   int     // builds so far
	// latest is which of them was the account's latest, 0 for none. It is kept:
	// an account that is forgotten would go first whenever it comes back.
	latest map[app.AccountID]int
	// running is how many builds of an account run, and bounds how many may; no row is no
	// bound but that of the host.
	running, bounds map[app.AccountID]int
}

// turn is a build in the queue, and then its place.
type turn struct {
	id       app.ID
	account  app.AccountID
	position int           // where it had to queue up, 0 when it had not
	why      string        // what it waits for beside its turn, "" for nothing
	come     chan struct{} // closed when it may begin
}

func newQueue(places, most int) *queue {
	return &queue{
		free: max(places, 1), most: most,
		latest: map[app.AccountID]int{}, running: map[app.AccountID]int{}, bounds: map[app.AccountID]int{},
	}
}

// join queues a build up. The caller waits for turn.come, or not, and MUST
// leave. It fails with app.Unavailable when too many wait, or when half of
// those who may are of this account. bound is how many of the account's builds may run at
// once, 0 for as many as the host's.
func (q *queue) join(id app.ID, account app.AccountID, bound int) (*turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bounds[account] = bound
	if err := q.admit(account); err != nil {
		return nil, err
	}
	t := &turn{id: id, account: account, come: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.next()
	t.position = 1 + slices.Index(q.order(), t)
	switch {
	case t.position > 0 && q.held:
		t.why = "this host is short of memory"
	case t.position > 0 && q.full(account):
		t.why = fmt.Sprintf("%d of the %d builds run that the account may have at once", q.running[account], bound)
	}
	return t, nil
}

// hold keeps builds from beginning, or lets them again. Those under way go on.
func (q *queue) hold(on bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held = on
	q.next()
}

// bound sets how many builds of an account may run at once from now on, 0 for as many as
// the host's.
func (q *queue) bound(account app.AccountID, most int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bounds[account] = most
	q.next()
}

// full reports whether the account may have no more builds at once. The caller holds mu.
func (q *queue) full(account app.AccountID) bool {
	return q.bounds[account] > 0 && q.running[account] >= q.bounds[account]
}

// admit refuses one more when too many wait. The caller holds mu.
func (q *queue) admit(account app.AccountID) error {
	own := 0
	for _, t := range q.waiting {
		if t.account == account {
			own++
		}
	}
	switch {
	case len(q.waiting) >= q.most:
		return app.Errorf(app.Unavailable,
			"cannot queue the build: all %d places in the queue are taken; try again in a few minutes", q.most)
	case own >= (q.most+1)/2:
		return app.Errorf(app.Unavailable,
			"cannot queue the build: your account has %d of the %d places in the queue, as many as one account gets; try again when one of its builds has begun, or stop one",
			own, q.most)
	}
	return nil
}

// leave is the end of the build, or of its waiting.
func (q *queue) leave(t *turn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.Index(q.waiting, t); i >= 0 {
		q.waiting = slices.Delete(q.waiting, i, i+1)
		return
	}
	q.free++
	q.running[t.account]--
	q.next()
}

// next lets builds begin while there are places. The caller holds mu.
func (q *queue) next() {
	for q.free > 0 && !q.held {
		order := q.order()
		next := slices.IndexFunc(order, func(t *turn) bool { return !q.full(t.account) })
		if next < 0 {
			return
		}
		t := order[next]
		i := slices.Index(q.waiting, t)
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.free--
		q.running[t.account]++
		q.begun++
		q.latest[t.account] = q.begun
		close(t.come)
	}
}

// order returns the builds that wait in the order in which they will begin if
// no other comes: first the first of each account, then the second of each,
// and so on, every time the accounts in the same order. The caller holds mu.
func (q *queue) order() []*turn {
	type account struct{ came, waiting int }
	accounts := map[app.AccountID]*account{}
	round := make(map[*turn]int, len(q.waiting))
	for came, t := range q.waiting {
		a := accounts[t.account]
		if a == nil {
			a = &account{came: came}
			accounts[t.account] = a
		}
		round[t] = a.waiting
		a.waiting++
	}
	return slices.SortedFunc(slices.Values(q.waiting), func(a, b *turn) int {
		return cmp.Or(
			cmp.Compare(round[a], round[b]),
			cmp.Compare(q.latest[a.account], q.latest[b.account]),
			cmp.Compare(accounts[a.account].came, accounts[b.account].came), // neither had a build yet
		)
	})
}

// positions returns where each application's build waits: 1 is next.
func (q *queue) positions() map[app.ID]int {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	at := make(map[app.ID]int, len(q.waiting))
	for i, t := range q.order() {
		at[t.id] = i + 1
	}
	return at
}
