package harness

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Visitors open connections, so many a second, ask something on each, and count
// what was not answered well. On a machine that answers slower than they come at most
// MaxVisitors wait: a queue that only grows would prove nothing but that.
type Visitors struct {
	stop   context.CancelFunc
	done   sync.WaitGroup
	asked  atomic.Int64
	mu     sync.Mutex
	failed []string
}

// MaxVisitors is how many wait at once.
const MaxVisitors = 20

// Visit lets visitors come, rate a second, each with a request of its own. End stops them.
func Visit(rate int, request func() *http.Request) *Visitors {
	ctx, stop := context.WithCancel(context.Background())
	v := &Visitors{stop: stop}
	transport := &http.Transport{DisableKeepAlives: true}
	v.done.Go(func() {
		places := make(chan struct{}, MaxVisitors)
		ticker := time.NewTicker(time.Second / time.Duration(rate))
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				select {
				case places <- struct{}{}:
					v.done.Go(func() { defer func() { <-places }(); v.ask(request(), transport) })
				default:
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return v
}

func (v *Visitors) ask(r *http.Request, transport *http.Transport) {
	v.asked.Add(1)
	began := time.Now()
	resp, err := transport.RoundTrip(r)
	what := ""
	if err != nil {
		what = err.Error()
	} else {
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
			what = fmt.Sprint(resp.Status, " ", err)
		}
		_ = resp.Body.Close()
	}
	if what != "" {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.failed = append(v.failed, fmt.Sprintf("%s, asked at %s, after %v", what, began.UTC().Format("15:04:05.000"), time.Since(began)))
	}
}

// End waits for all answers. It fails the test if one was missing, or if fewer than least were
// asked for. It returns how many there were.
func (v *Visitors) End(t *testing.T, least int64) int64 {
	t.Helper()
	v.stop()
	v.done.Wait()
	n := v.asked.Load()
	if len(v.failed) > 0 || n < least {
		t.Errorf("of %d connections, at least %d wanted, %d failed: %q", n, least, len(v.failed), v.failed[:min(10, len(v.failed))])
	}
	return n
}

// Chatty is a program that prints 500 numbered lines a second. See Counted.
const Chatty = "let n = 0; setInterval(() => { for (let i = 0; i < 5; i++) console.log('line', n++) }, 10)\n"

// Counted makes sure that the lines of a chatty program are all there, in order and once.
func (c *Client) Counted(id string, least int) {
	c.T.Helper()
	next := 0
	for line := range strings.Lines(c.Log(id)) {
		_, text, ok := strings.Cut(line, "line ")
		if n, err := strconv.Atoi(strings.TrimSpace(text)); ok && (err != nil || n != next) {
			c.T.Fatalf("line %q, want number %d", line, next)
		} else if ok {
			next++
		}
	}
	if next < least {
		c.T.Errorf("%d lines, want at least %d", next, least)
	}
}
