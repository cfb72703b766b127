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
		q := l.take("key")
		if q.remaining != step.remaining || q.reset != step.reset || q.denied != step.denied {
			t.Errorf("after %v: %+v, want %+v", step.after, q, step)
		}
	}
}

func TestPeekDoesNotCount(t *testing.T) {
	l, _ := testLimiter(2)
	if q := l.peek("key"); q.remaining != 2 || q.denied || len(l.young) != 0 {
		t.Errorf("unknown key: %+v", q)
	}
	l.take("key")
	l.take("key")
	if q := l.peek("key"); q.remaining != 0 || !q.denied {
		t.Errorf("used up: %+v", q)
	}
}

func TestTableIsBoundedAndKeepsWhoIsActive(t *testing.T) {
	l, _ := testLimiter(1 << 20)
	for i := range 5 * generationSize {
		l.take(fmt.Sprint(i))
		l.take("active")
		if n := len(l.young) + len(l.old); n > 2*generationSize {
			t.Fatalf("%d keys", n)
		}
	}
	if q := l.peek("active"); q.remaining != 1<<20-5*generationSize {
		t.Errorf("the active key: %+v", q)
	}
	if q := l.peek("0"); q.remaining != 1<<20 {
		t.Error("the first key was not forgotten")
	}
}

func TestOldKeysAreForgotten(t *testing.T) {
	l, now := testLimiter(9)
	l.take("old")
	for i := range 2 {
		*now = now.Add(generationAge)
		l.take(fmt.Sprint("new", i))
	}
	if q := l.peek("old"); q.remaining != 9 {
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
				if !l.take("key").denied {
					mu.Lock()
					allowed++
					mu.Unlock()
				}
				l.peek("key")
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
