package proc

import (
	"os/exec"
	"slices"
	"testing"
	"time"

	"berth/proc/sandbox"
)

// BenchmarkStart is the time until execve of a program that does nothing,
// behind more and more walls: medians, for a busy machine adds to some.
func BenchmarkStart(b *testing.B) {
	var times []time.Duration
	timed := func(b *testing.B, start func() (wait func())) {
		times = times[:0]
		for b.Loop() {
			began := time.Now()
			wait := start()
			times = append(times, time.Since(began))
			wait()
		}
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds()), "us/start")
	}
	b.Run("bare", func(b *testing.B) {
		timed(b, func() func() {
			cmd := exec.CommandContext(b.Context(), "/bin/true")
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			return func() { _ = cmd.Wait() }
		})
	})
	for _, tt := range []struct {
		name   string
		layers []sandbox.Layer
	}{
		{"user", nil},
		{"mounts", []sandbox.Layer{sandbox.Mounts, sandbox.Proc, sandbox.Cgroup}},
		{"all", sandbox.Layers},
	} {
		b.Run(tt.name, func(b *testing.B) {
			bench := newBench(b)
			bench.Walls.Layers = tt.layers
			s := bench.spec(b, "")
			s.Argv = []string{"/bin/true"}
			timed(b, func() func() {
				s.Group += "x"
				if len(s.Group) > 100 {
					s.Group = "apps/a/1"
				}
				r := bench.launch(b, s)
				return func() { r.Wait() }
			})
		})
	}
}
