package web

import (
	"context"
	"time"
)

// Poll blocks until done reports true, or ctx ends. It asks at once, and then again after
// each interval.
func Poll(ctx context.Context, interval time.Duration, done func() bool) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for !done() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
