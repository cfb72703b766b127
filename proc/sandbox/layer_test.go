package sandbox

import (
	"errors"
	"fmt"
	"slices"
	"testing"
)

// A kernel that refuses some layers is asked for each by itself, and what rests
// on a layer that is missing is missing too.
func TestJudge(t *testing.T) {
	for _, tt := range []struct {
		refused []Layer
		want    []Layer
		tries   int
	}{
		{nil, Layers, 1},
		{[]Layer{Landlock}, []Layer{Mounts, Proc, Cgroup, Seccomp}, 6},
		{[]Layer{Proc}, []Layer{Mounts, Cgroup, Landlock, Seccomp}, 6},
		{[]Layer{Mounts}, []Layer{Landlock, Seccomp}, 4},
		{Layers, nil, 4},
	} {
		tries := 0
		verdicts := Judge(func(layers []Layer) error {
			tries++
			for _, l := range layers {
				if slices.Contains(tt.refused, l) {
					return errors.New("no " + string(l))
				}
			}
			return nil
		})
		if got := Available(verdicts); !slices.Equal(got, tt.want) || tries != tt.tries {
			t.Errorf("without %v: %v after %d tries, want %v after %d", tt.refused, got, tries, tt.want, tt.tries)
		}
		for _, v := range verdicts {
			if v.Err == nil && slices.Contains(tt.refused, v.Layer) {
				t.Errorf("%s was not refused", v.Layer)
			}
		}
	}
	if !slices.Equal(Layers, []Layer{Mounts, Proc, Cgroup, Landlock, Seccomp}) {
		t.Error("the list of layers has changed: ", Layers)
	}
}

func TestEveryLayerSaysWhatItNeeds(t *testing.T) {
	for _, l := range Layers {
		if l.Needs() == "" {
			t.Errorf("%s does not", l)
		}
	}
	if got := Layer("none").Needs(); got != "" {
		t.Error(got)
	}
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		path, dir string
		want      bool
	}{
		{"/opt", "/opt", true}, {"/opt/a", "/opt", true}, {"/optical", "/opt", false}, {"/a", "/", true}, {"/", "/a", false},
	} {
		if got := within(tt.path, tt.dir); got != tt.want {
			t.Errorf("within(%s, %s) = %t", tt.path, tt.dir, got)
		}
	}
}

// What every process may write to is bounded by the RAM, with room for the
// smallest.
func TestShared(t *testing.T) {
	for ram, want := range map[int64]string{
		0:         "mode=1777,size=1048576,nr_inodes=1024",
		64 << 20:  "mode=1777,size=33554432,nr_inodes=8192",
		512 << 20: fmt.Sprintf("mode=1777,size=%d,nr_inodes=65536", 256<<20),
	} {
		if got := (&Spec{RAM: ram}).shared(); got != want {
			t.Errorf("of %d: %s, want %s", ram, got, want)
		}
	}
}
