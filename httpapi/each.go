package httpapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"berth/app"
)

// How many applications one request works on at once.
const (
	readers   = 64 // most of the time they wait for the same tenth of a second
	actors    = 8
	archivers = 2 // backups are heavy on the disk that all programs share
)

// result is what came of one application among all.
type result[T any] struct {
	id    app.ID
	value T
	err   error
}

// each calls do for every application, at most width at a time, and blocks
// until all calls have returned. Results keep the order of apps; applications
// that were deleted meanwhile (NotFound) are left out. It runs do in other
// goroutines, where a panic would end the daemon, so a panic becomes an error.
func each[T any](ctx context.Context, apps []app.Snapshot, width int, do func(app.Snapshot) (T, error)) []result[T] {
	results := make([]result[T], len(apps))
	one := func(i int) {
		defer func() {
			if v := recover(); v != nil {
				results[i].err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
			}
		}()
		results[i].id = apps[i].ID
		if results[i].err = ctx.Err(); results[i].err == nil {
			results[i].value, results[i].err = do(apps[i])
		}
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(width, len(apps)) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(apps); i = int(next.Add(1)) - 1 {
				one(i)
			}
		})
	}
	wg.Wait()
	present := results[:0]
	for _, r := range results {
		if app.KindOf(r.err) != app.NotFound {
			present = append(present, r)
		}
	}
	return present
}
