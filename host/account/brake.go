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
	brakeAge  = time.Hour
	brakeSize = 8192
)

// brake slows down those who guess. Of each key it takes five tries at once; from
// then on the wait before the next doubles, from a second to most; for each most
// without a try one is forgotten. Its memory is bounded. It is safe for concurrent
// use.
type brake struct {
	most time.Duration

	mu         sync.Mutex
	young, old map[string]*guesses
	turned     time.Time
}

type guesses struct {
	tries int
	last  time.Time
}

func newBrake(most time.Duration) *brake {
	return &brake{most: most, young: map[string]*guesses{}, turned: time.Now()}
}

// take counts a try, before it is known what comes of it: many at once are as
// slow as one after the other. It returns how long to wait instead, without
// counting, when it comes too early.
func (b *brake) take(key string) (wait time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	g := b.find(key, now)
	g.tries -= min(g.tries, max(0, int(now.Sub(g.last)/b.most)))
	if g.tries >= freeTries {
		pause := min(b.most, time.Second<<min(g.tries-freeTries, 30))
		// A clock that was set back must not lock anybody out.
		if left := g.last.Add(pause).Sub(now); left > 0 && left <= pause {
			return left
		}
	}
	// More than lead to the longest wait would take days to be forgotten.
	g.tries = min(g.tries+1, freeTries+bits.Len64(uint64(b.most/time.Second)))
	g.last = now
	return 0
}

// undo takes back one try of a key: it was no guess, which says nothing of those
// before it.
func (b *brake) undo(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if g := b.find(key, time.Now()); g.tries > 0 {
		g.tries--
	}
}

// release forgets the tries of a key: the last was no guess.
func (b *brake) release(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.young, key)
	delete(b.old, key)
}

func (b *brake) find(key string, now time.Time) *guesses {
	g := b.young[key]
	if g != nil {
		return g
	}
	if g = b.old[key]; g == nil {
		g = &guesses{}
	}
	if len(b.young) >= brakeSize || now.Sub(b.turned) >= brakeAge {
		b.old, b.young, b.turned = b.young, map[string]*guesses{}, now
	}
	delete(b.old, key)
	b.young[key] = g
	return g
}
