package httpapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

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
	of    *app.Snapshot
	value T
	err   error
}

// each calls do for every application, at most width at a time, and blocks
// until all calls have returned. Results keep the order of apps; applications
// that were deleted meanwhile (NotFound) are left out. It runs do in other
// goroutines, where a panic would end the daemon, so a panic becomes an error.
func each[T any](ctx context.Context, apps []app.Snapshot, width int, do func(app.Snapshot) (T, error)) []result[T] {
	results := make([]result[T], len(apps))
	places := make(chan struct{}, width)
	var wg sync.WaitGroup
	for i, snap := range apps {
		places <- struct{}{}
		wg.Go(func() {
			defer func() {
				if v := recover(); v != nil {
					results[i].err = fmt.Errorf("panic: %v\n%s", v, debug.Stack())
				}
				<-places
			}()
			results[i].of = &apps[i]
			if results[i].err = ctx.Err(); results[i].err == nil {
				results[i].value, results[i].err = do(snap)
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(results, func(r result[T]) bool { return app.KindOf(r.err) == app.NotFound })
}

// values returns the values of all results, or the first error among them.
func values[T any](results []result[T]) ([]T, error) {
	list := make([]T, len(results))
	for i, r := range results {
		if r.err != nil {
			return nil, r.err
		}
		list[i] = r.value
	}
	return list, nil
}
