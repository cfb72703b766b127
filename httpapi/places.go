package httpapi

import (
	"sync"

	"berth/app"
)

// places bounds what is open at a time, in all and for one account. It is safe for
// concurrent use.
type places struct {
	all, each     int
	full, tooMany error // what is refused beyond all, and beyond each

	mu    sync.Mutex
	taken int
	of    map[app.AccountID]int
}

func newPlaces(all int, full error, each int, tooMany error) *places {
	return &places{all: all, full: full, each: each, tooMany: tooMany, of: map[app.AccountID]int{}}
}

// acquire admits one more, or refuses it. The caller MUST call release when it is closed.
func (p *places) acquire(id app.AccountID) (release func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.of[id] >= p.each:
		return nil, p.tooMany
	case p.taken >= p.all:
		return nil, p.full
	}
	p.of[id]++
	p.taken++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.taken--
		if p.of[id]--; p.of[id] == 0 {
			delete(p.of, id)
		}
	}, nil
}
