package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
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
		verdicts, err := Judge(func(layers []Layer) error {
			tries++
			for _, l := range layers {
				if slices.Contains(tt.refused, l) {
					return fmt.Errorf("try: %w", &Missing{errors.New("no " + string(l))})
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
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

// What passes is no verdict, at whichever try it comes.
func TestJudgeOfTheMoment(t *testing.T) {
	for at := range 6 {
		tries := 0
		verdicts, err := Judge(func(layers []Layer) error {
			tries++
			switch {
			case tries == at+1:
				return refusal(fmt.Errorf("cannot fork: %w", unix.EAGAIN))
			case slices.Contains(layers, Landlock):
				return refusal(unix.EPERM)
			}
			return nil
		})
		if !errors.Is(err, unix.EAGAIN) || verdicts != nil || tries != at+1 {
			t.Errorf("at try %d of %d: %v, %v", at+1, tries, verdicts, err)
		}
	}
}

func TestRefusal(t *testing.T) {
	for _, tt := range []struct {
		err     error
		missing bool
	}{
		{nil, false},
		{unix.EPERM, true},
		{unix.ENOSYS, true},
		{unix.EINVAL, true},
		{errors.New("the kernel's landlock is of version 4"), true},
		{unix.EAGAIN, false},
		{unix.ENOMEM, false},
		{&fs.PathError{Op: "open", Path: "/dev/null", Err: unix.EMFILE}, false},
		{errors.Join(unix.EPERM, unix.ENFILE), false},
	} {
		_, is := errors.AsType[*Missing](refusal(tt.err))
		if is != tt.missing || !errors.Is(refusal(tt.err), tt.err) {
			t.Errorf("%v: missing %t", tt.err, is)
		}
	}
}

// What the library takes for "not supported" is not missing where the kernel gives
// everything when it is asked again; what the kernel refuses is.
func TestKernelUnloaded(t *testing.T) {
	if err := loadable(); err != nil {
		t.Skip(err)
	}
	for _, tt := range []struct {
		err     error
		missing bool
	}{
		{fmt.Errorf("map create: %w", ebpf.ErrNotSupported), false},
		{fmt.Errorf("map create: %w", unix.EMFILE), false},
		{fmt.Errorf("map create: %w (MEMLOCK may be too low)", unix.EPERM), true},
		{fmt.Errorf("load program: %w", unix.EINVAL), true},
		{fmt.Errorf("%w: %w", ebpf.ErrNotSupported, enotsupp), true},
	} {
		err := unloaded("the policy", tt.err)
		if _, is := errors.AsType[*Missing](err); is != tt.missing || Passes(err) == tt.missing || !strings.HasPrefix(err.Error(), "cannot load the policy") {
			t.Errorf("%v: missing %t, passes %t: %v", tt.err, is, Passes(err), err)
		}
	}
}

// Programs without the name that a later daemon looks for are none.
func TestKernelNamed(t *testing.T) {
	m, err := NewMeter()
	if err != nil {
		t.Skip(err)
	}
	defer m.Close()
	if err := m.loaded.named(counterName); err != nil {
		t.Error(err)
	}
	if err := m.loaded.named("another"); !Passes(err) {
		t.Errorf("of another name: %v", err)
	}
}

// Whatever is of the moment is tried again until it is over, or patience is.
func TestInsist(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fails int // times, with err
		err   error
		want  error
		told  int
		takes time.Duration // at most
	}{
		{"at once", 0, nil, nil, 0, 0},
		{"a moment later", 3, unix.EAGAIN, nil, 1, time.Second},
		{"never", 1000, unix.EAGAIN, unix.EAGAIN, 1, 10 * time.Second},
		{"missing", 1000, &Missing{unix.EPERM}, unix.EPERM, 0, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			began, tries, told := time.Now(), 0, 0
			err := Insist(t.Context(), 10*time.Second, func(error) { told++ }, func() error {
				if tries++; tries <= tt.fails {
					return tt.err
				}
				return nil
			})
			if took := time.Since(began); !errors.Is(err, tt.want) || told != tt.told || took > tt.takes {
				t.Errorf("%s: %v after %v and %d tries, told %d times", tt.name, err, took, tries, told)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Insist(ctx, time.Hour, nil, func() error { return unix.ENOMEM }); !errors.Is(err, unix.ENOMEM) {
		t.Errorf("called off: %v", err)
	}
}

func TestEveryLayerSaysWhatItNeeds(t *testing.T) {
	for _, l := range append(slices.Clone(Layers), Reach, Counted) {
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
		if got := shared(ram); got != want {
			t.Errorf("of %d: %s, want %s", ram, got, want)
		}
	}
}
