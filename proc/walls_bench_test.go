package proc

import (
	"os/exec"
	"testing"

	"berth/sandbox"
)

// BenchmarkStart is the time until execve of a program that does nothing, and
// its end, behind more and more walls.
func BenchmarkStart(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		for b.Loop() {
			if err := exec.CommandContext(b.Context(), "/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
		}
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
			for b.Loop() {
				s := bench.spec(b, "")
				s.Argv = []string{"/bin/true"}
				bench.launch(b, s).Wait()
			}
		})
	}
}
