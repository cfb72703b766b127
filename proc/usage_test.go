package proc

import (
	"context"
	"errors"
	"testing"
	"time"

	"berth/app"
)

func TestKernelUsageCoversEveryProcess(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, `while :; do :; done & sleep 600`)
	r := b.launch(t, s)
	poll(t, "the helper burns cpu", func() bool {
		u, err := r.Usage(t.Context())
		return err == nil && u.CPUPercent > 5 && u.MemoryBytes > 0
	})
	before, err := r.Counts()
	if err != nil || before.LimitBytes != 64<<20 || before.MemoryBytes <= 0 {
		t.Errorf("Counts() = %+v, %v", before, err)
	}
	poll(t, "it is counted", func() bool {
		c, err := r.Counts()
		return err == nil && c.CPU > before.CPU+50*time.Millisecond
	})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r.mu.Lock()
	r.cpu.at = time.Now().Add(-time.Hour) // a stale sample is renewed, and that can be called off
	r.mu.Unlock()
	if _, err := r.Usage(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Usage of a cancelled caller = %v", err)
	}
	r.Stop(0)
	r.Wait()
	if c, err := r.Counts(); err != nil || c != (app.Counts{}) {
		t.Errorf("after the end: %+v, %v", c, err)
	}
}

func BenchmarkCounts(b *testing.B) {
	r := newBench(b)
	run := r.launch(b, r.spec(b, `sleep 600`))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := run.Counts(); err != nil {
			b.Fatal(err)
		}
	}
	run.Stop(0)
	run.Wait()
}
