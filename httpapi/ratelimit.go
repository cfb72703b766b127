package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"
)

const (
	windowLength = time.Minute
	// A key that was not seen for one to two generations is forgotten; so is
	// the older generation when the younger is full.
	generationAge  = time.Hour
	generationSize = 8192
)

// limiter counts the requests of each key in fixed windows of a minute. Its
// memory is bounded: it keeps two generations of at most generationSize keys.
// It is safe for concurrent use.
type limiter struct {
	limit int
	now   func() time.Time

	mu     sync.Mutex
	young  map[string]*window
	old    map[string]*window
	turned time.Time // when young was begun
}

type window struct {
	start time.Time
	used  int
}

// quota is what a key may still do.
type quota struct {
	limit     int
	remaining int
	reset     int // seconds until the window ends, at least 1
	denied    bool
}

func newLimiter(limit int, now func() time.Time) *limiter {
	return &limiter{limit: limit, now: now, young: map[string]*window{}, turned: now()}
}

// quota returns what is left to key, of which it counts one request if count is set.
// Where nothing is left it counts none.
func (l *limiter) quota(key string, count bool) quota {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	w := l.find(key, now)
	if w == nil {
		w = &window{start: now}
		if count {
			l.put(key, w, now)
		}
	}
	denied := w.used >= l.limit
	if count && !denied {
		w.used++
	}
	left := w.start.Add(windowLength).Sub(now)
	return quota{limit: l.limit, remaining: l.limit - w.used, reset: int((left + time.Second - 1) / time.Second), denied: denied}
}

// find returns the window of key that now belongs to, nil when key is unknown.
func (l *limiter) find(key string, now time.Time) *window {
	w := l.young[key]
	if w == nil {
		if w = l.old[key]; w == nil {
			return nil
		}
		delete(l.old, key)
		l.put(key, w, now)
	}
	// A clock that was set back must not lock anybody out for long.
	if now.Before(w.start) || now.Sub(w.start) >= windowLength {
		*w = window{start: now}
	}
	return w
}

func (l *limiter) put(key string, w *window, now time.Time) {
	if len(l.young) >= generationSize || now.Sub(l.turned) >= generationAge {
		l.old, l.young, l.turned = l.young, map[string]*window{}, now
	}
	l.young[key] = w
}

// setHeaders writes the headers that clients read. They lock themselves out
// when nothing remains, so 0 is kept for the answer that refuses (see refusal).
func (q quota) setHeaders(h http.Header) {
	h.Set("ratelimit-limit", strconv.Itoa(q.limit))
	h.Set("ratelimit-remaining", strconv.Itoa(max(1, q.remaining)))
	h.Set("ratelimit-reset", strconv.Itoa(max(1, q.reset)))
}
