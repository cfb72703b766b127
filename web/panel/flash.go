package panel

import (
	"sync"
	"time"
)

// flash is shown once, on the page that comes next.
type flash struct {
	Text   string
	Secret string // a new token or link, which is shown nowhere else
	Link   string // an address of this server, and Word, what it is called
	Word   string
	until  time.Time
}

const (
	flashTime  = 2 * time.Minute // an answer is followed at once, or never
	maxFlashes = 1024
)

// flashes are kept in memory, by session: a secret must be in no address, and in
// no database. It is safe for concurrent use, and bounded.
type flashes struct {
	now func() time.Time

	mu sync.Mutex
	of map[int64]flash
}

func newFlashes(now func() time.Time) *flashes { return &flashes{now: now, of: map[int64]flash{}} }

func (f *flashes) put(session int64, what flash) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.now()
	if len(f.of) >= maxFlashes {
		for id, old := range f.of {
			if now.After(old.until) || len(f.of) >= maxFlashes {
				delete(f.of, id)
			}
		}
	}
	what.until = now.Add(flashTime)
	f.of[session] = what
}

// take returns what is to be shown now, nil for nothing.
func (f *flashes) take(session int64) *flash {
	f.mu.Lock()
	defer f.mu.Unlock()
	what, ok := f.of[session]
	delete(f.of, session)
	if !ok || f.now().After(what.until) {
		return nil
	}
	return &what
}
