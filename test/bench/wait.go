package main

import (
	"context"
	"fmt"
	"math"
	"time"
)

// patience bounds every wait: far more than anything takes on a busy machine.
const patience = 3 * time.Minute

// until polls until done, an error or the end of patience.
func until(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, fmt.Errorf("waited %s until %s", patience, what))
	defer cancel()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		if err := pause(ctx, 2*time.Millisecond); err != nil {
			return err
		}
	}
}

// pause waits, unless the context ends first.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// settle polls a figure until it has kept within a hundredth for six
// seconds, or for most of a minute: some programs never come to rest.
func settle(ctx context.Context, figure func() (float64, error)) (float64, error) {
	const calm, most = 6 * time.Second, 45 * time.Second
	began := time.Now()
	var kept float64
	since := began
	for {
		v, err := figure()
		if err != nil {
			return 0, err
		}
		if math.Abs(v-kept) > kept/100 {
			kept, since = v, time.Now()
		}
		if time.Since(since) >= calm || time.Since(began) >= most {
			return v, nil
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil {
			return 0, err
		}
	}
}
