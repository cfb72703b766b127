package host

import (
	"cmp"
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
	most    int     // builds that may wait
	waiting []*turn // as they came; empty while a place is free
	begun   int     // builds so far
	// latest is which of them was the account's latest, 0 for none. It is kept:
	// an account that is forgotten would go first whenever it comes back.
	latest map[app.AccountID]int
}

// turn is a build in the queue, and then its place.
type turn struct {
	id       app.ID
	account  app.AccountID
	position int           // where it had to queue up, 0 when it had not
	come     chan struct{} // closed when it may begin
}

func newQueue(places, most int) *queue {
	return &queue{free: max(places, 1), most: most, latest: map[app.AccountID]int{}}
}

// join queues a build up. The caller waits for turn.come, or not, and MUST
// leave. It fails with app.Unavailable when too many wait, or when half of
// those who may are of this account.
func (q *queue) join(id app.ID, account app.AccountID) (*turn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.admit(account); err != nil {
		return nil, err
	}
	t := &turn{id: id, account: account, come: make(chan struct{})}
	q.waiting = append(q.waiting, t)
	q.next()
	t.position = 1 + slices.Index(q.order(), t)
	return t, nil
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
	q.next()
}

// next lets builds begin while there are places. The caller holds mu.
func (q *queue) next() {
	for q.free > 0 && len(q.waiting) > 0 {
		t := q.order()[0]
		i := slices.Index(q.waiting, t)
		q.waiting = slices.Delete(q.waiting, i, i+1)
		q.free--
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
