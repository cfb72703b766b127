package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"
)

// testLimiter returns a limiter and the clock that it reads.
func testLimiter(limit int) (*limiter, *time.Time) {
	now := testNow
	return newLimiter(limit, func() time.Time { return now }), &now
}

func TestWindowIsFixed(t *testing.T) {
	l, now := testLimiter(2)
	for _, step := range []struct {
		after     time.Duration
		remaining int
		reset     int
		denied    bool
	}{
		{0, 1, 60, false},
		{59*time.Second + 1, 0, 1, false},
		{0, 0, 1, true},
		{time.Second, 1, 60, false}, // a new window
		{-time.Hour, 1, 60, false},  // the clock was set back
		{500 * time.Millisecond, 0, 60, false},
	} {
		*now = now.Add(step.after)
		q := l.quota("key", true)
		if q.remaining != step.remaining || q.reset != step.reset || q.denied != step.denied {
			t.Errorf("after %v: %+v, want %+v", step.after, q, step)
		}
	}
}

func TestPeekDoesNotCount(t *testing.T) {
	l, _ := testLimiter(2)
	if q := l.quota("key", false); q.remaining != 2 || q.denied || len(l.young) != 0 {
		t.Errorf("unknown key: %+v", q)
	}
	l.quota("key", true)
	l.quota("key", true)
	if q := l.quota("key", false); q.remaining != 0 || !q.denied {
		t.Errorf("used up: %+v", q)
	}
}

func TestTableIsBoundedAndKeepsWhoIsActive(t *testing.T) {
	l, _ := testLimiter(1 << 20)
	for i := range 5 * generationSize {
		l.quota(fmt.Sprint(i), true)
		l.quota("active", true)
		if n := len(l.young) + len(l.old); n > 2*generationSize {
			t.Fatalf("%d keys", n)
		}
	}
	if q := l.quota("active", false); q.remaining != 1<<20-5*generationSize {
		t.Errorf("the active key: %+v", q)
	}
	if q := l.quota("0", false); q.remaining != 1<<20 {
		t.Error("the first key was not forgotten")
	}
}

func TestOldKeysAreForgotten(t *testing.T) {
	l, now := testLimiter(9)
	l.quota("old", true)
	for i := range 2 {
		*now = now.Add(generationAge)
		l.quota(fmt.Sprint("new", i), true)
	}
	if q := l.quota("old", false); q.remaining != 9 {
		t.Error("a key outlived two generations")
	}
}

func TestLimiterIsSafeForConcurrentUse(t *testing.T) {
	l, _ := testLimiter(100)
	var wg sync.WaitGroup
	var mu sync.Mutex
	allowed := 0
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if !l.quota("key", true).denied {
					mu.Lock()
					allowed++
					mu.Unlock()
				}
				l.quota("key", false)
			}
		})
	}
	wg.Wait()
	if allowed != 100 {
		t.Errorf("%d were allowed, want 100", allowed)
	}
}

func TestHeadersNeverSayZero(t *testing.T) {
	h := http.Header{}
	quota{limit: 60}.setHeaders(h)
	if h.Get("ratelimit-limit") != "60" || h.Get("ratelimit-remaining") != "1" || h.Get("ratelimit-reset") != "1" {
		t.Errorf("headers %v", h)
	}
}
