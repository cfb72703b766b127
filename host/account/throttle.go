package account

import (
	"math/bits"
	"sync"
	"time"
)

const (
	freeTries = 5 // in a row, before the first wait
	// Table sizes: who is not seen for one to two generations is forgotten; so is
	// the older generation when the younger is full.
	throttleAge  = time.Hour
	throttleSize = 8192
)

// throttle slows down those who guess. Of each key it takes five tries at once; from
// then on the wait before the next doubles, from a second to most; for each most
// without a try one is forgotten. Its memory is bounded. It is safe for concurrent
// use.
type throttle struct {
	most time.Duration
	lock bool // the first wait is the longest

	mu         sync.Mutex
	young, old map[string]*guesses
	turned     time.Time
}

type guesses struct {
	tries int
	last  time.Time
}

func newThrottle(most time.Duration) *throttle {
	return &throttle{most: most, young: map[string]*guesses{}, turned: time.Now()}
}

// newLockout returns a throttle whose first wait is as long as the others.
func newLockout(most time.Duration) *throttle {
	t := newThrottle(most)
	t.lock = true
	return t
}

// try counts a try, before it is known what comes of it: many at once are as
// slow as one after the other. It returns how long to wait instead, without
// counting, when it comes too early.
func (t *throttle) try(key string) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	g := t.find(key, now)
	g.tries -= min(g.tries, max(0, int(now.Sub(g.last)/t.most)))
	if g.tries >= freeTries {
		pause := t.most
		if !t.lock {
			pause = min(pause, time.Second<<min(g.tries-freeTries, 30))
		}
		// A clock that was set back must not lock anybody out.
		if left := g.last.Add(pause).Sub(now); left > 0 && left <= pause {
			return left
		}
	}
	// More than lead to the longest wait would take days to be forgotten.
	g.tries = min(g.tries+1, freeTries+bits.Len64(uint64(t.most/time.Second)))
	g.last = now
	return 0
}

// undo takes back one try of a key: it was no guess, which says nothing of those
// before it.
func (t *throttle) undo(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if g := t.find(key, time.Now()); g.tries > 0 {
		g.tries--
	}
}

// forget drops the tries of a key: the last was no guess.
func (t *throttle) forget(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.young, key)
	delete(t.old, key)
}

func (t *throttle) find(key string, now time.Time) *guesses {
	g := t.young[key]
	if g != nil {
		return g
	}
	if g = t.old[key]; g == nil {
		g = &guesses{}
	}
	if len(t.young) >= throttleSize || now.Sub(t.turned) >= throttleAge {
		t.old, t.young, t.turned = t.young, map[string]*guesses{}, now
	}
	delete(t.old, key)
	t.young[key] = g
	return g
}
