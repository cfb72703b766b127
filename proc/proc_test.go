package proc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

// The test binary is its own app-init, as berth is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == InitWord {
		Init()
	}
	if order := os.Getenv(earlierEnv); order != "" {
		earlierDaemon(order)
	}
	if order := os.Getenv(shortEnv); order != "" {
		tryInShort(order)
	}
	os.Exit(m.Run())
}

const testUID = 69999

var names atomic.Int64

// bench is a launcher on this machine's kernel with a directory that the
// programs' user can enter.
type bench struct {
	*Launcher
	dir  string
	name string // of the tree
}

func newBench(t testing.TB) bench {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: programs run in control groups as other users")
	}
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(); err != nil {
		t.Skip(err)
	}
	name := fmt.Sprintf("proc-test-%d-%d", os.Getpid(), names.Add(1))
	tree, err := cgroup.Open(h, name)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "berth-proc-") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if n, err := tree.Sweep(nil); n != 0 || err != nil {
			t.Errorf("%d groups were left behind, %v", n, err)
		}
		if err := errors.Join(tree.Close(), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chown(dir, testUID, testUID), os.Chmod(dir, 0o700)); err != nil {
		t.Fatal(err)
	}
	l := &Launcher{Tree: tree, Log: slog.New(slog.DiscardHandler)}
	l.Walls = Walls{Layers: layers(l), Data: dir}
	return bench{l, dir, name}
}

// layers are the walls that this machine gives. To try them takes a second in a
// guest, so it is done once.
func layers(l *Launcher) []sandbox.Layer {
	tried.Do(func() {
		verdicts, err := l.Try(context.Background(), time.Minute)
		if err != nil {
			panic(err)
		}
		given = sandbox.Available(verdicts)
	})
	return slices.Clone(given)
}

var (
	tried sync.Once
	given []sandbox.Layer
)

// spec is a shell program with its output in a file of its own.
func (b bench) spec(t testing.TB, script string) Spec {
	t.Helper()
	out, err := os.CreateTemp(b.dir, "out")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return Spec{
		Group: fmt.Sprintf("apps/a/%d", names.Add(1)), Argv: []string{"/bin/sh", "-c", script}, Env: []string{"PATH=" + FindTools().Path()},
		Dir: b.dir, UID: testUID, MemoryMB: 64, Pids: 64, OOMGroup: true, Output: out,
	}
}

func (b bench) launch(t testing.TB, s Spec) *Run {
	t.Helper()
	r, err := b.Launch(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(0); r.Wait() })
	return r
}

func output(t *testing.T, s Spec) string {
	t.Helper()
	b, err := os.ReadFile(s.Output.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func poll(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit, pause := 60*time.Second, 2*time.Millisecond
	if os.Getenv("BERTH_E2E_SLOW") != "" { // an emulated guest, where looks are most of the work
		limit, pause = 4*limit, 10*pause
	}
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

func TestKernelExit(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		name, script string
		group        bool
		code, signal int
		oom          bool
	}{
		{"success", "exit 0", true, 0, 0, false},
		{"failure", "exit 3", true, 3, 0, false},
		{"its own 137 is no OOM", "exit 137", true, 137, 0, false},
		{"a signal", "kill -SEGV $$", true, 139, 11, false},
		{"SIGKILL by hand is no OOM", "kill -KILL $$", true, 137, 9, false},
		{"out of memory", "exec tail /dev/zero", true, 137, 9, true},
		{"a helper out of memory takes all", "tail /dev/zero & wait; sleep 600", true, 137, 9, true},
		{"alone: the program itself", "exec tail /dev/zero", false, 137, 9, true},
		{"alone: a wrapper ends after its helper", "tail /dev/zero; exit 1", false, 137, 0, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := b.spec(t, tt.script)
			s.OOMGroup = tt.group
			e := b.launch(t, s).Wait()
			if e.Code != tt.code || e.Signal != tt.signal || e.OOM != tt.oom {
				t.Errorf("got %+v, want code %d, signal %d, OOM %t", e, tt.code, tt.signal, tt.oom)
			}
			if e.At.IsZero() || e.Ran <= 0 || e.LimitMB != 64 {
				t.Errorf("the record is incomplete: %+v", e)
			}
			if tt.oom && e.PeakBytes != 0 && e.PeakBytes < 60<<20 {
				t.Errorf("peak %d, want about 64 MB", e.PeakBytes)
			}
		})
	}
}

// Without OOMGroup the death of a helper is an event when the program lives
// on, and no OOM when it ends much later for another reason.
func TestKernelHelperOOMIsAnEvent(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "tail /dev/zero; sleep 5; exit 4")
	s.OOMGroup = false
	told := make(chan int64, 1)
	s.OnHelperOOM = func(mb int64) { told <- mb }
	r := b.launch(t, s)
	select {
	case mb := <-told:
		if mb != 64 {
			t.Errorf("told of %d MB, want 64", mb)
		}
	case <-time.After(60 * time.Second):
		t.Fatal("nobody was told of the killed helper")
	}
	if e := r.Wait(); e.OOM || e.Code != 4 {
		t.Errorf("got %+v, want its own exit 4", e)
	}
}

func TestKernelStop(t *testing.T) {
	b := newBench(t)
	t.Run("it listens", func(t *testing.T) {
		s := b.spec(t, `trap 'echo bye; exit 5' TERM; echo up; while :; do sleep 0.01; done`)
		r := b.launch(t, s)
		poll(t, "it is up", func() bool { return strings.Contains(output(t, s), "up") })
		r.Stop(time.Minute)
		if e := r.Wait(); e.Code != 5 || !strings.Contains(output(t, s), "bye") {
			t.Errorf("got %+v and %q, want exit 5 after bye", e, output(t, s))
		}
	})
	t.Run("it does not listen", func(t *testing.T) {
		s := b.spec(t, `trap '' TERM; echo up; while :; do sleep 0.01; done`)
		r := b.launch(t, s)
		poll(t, "it is up", func() bool { return strings.Contains(output(t, s), "up") })
		r.Stop(50 * time.Millisecond)
		if e := r.Wait(); e.Signal != 9 || e.OOM {
			t.Errorf("got %+v, want SIGKILL and no OOM", e)
		}
	})
	t.Run("at once", func(t *testing.T) {
		r := b.launch(t, b.spec(t, "sleep 600"))
		r.Stop(time.Hour)
		r.Stop(0)
		r.Wait()
	})
	t.Run("a daemon of its own", func(t *testing.T) {
		s := b.spec(t, `setsid sh -c 'setsid sleep 600 & echo $!' & sleep 0.1; exit 0`)
		r := b.launch(t, s)
		r.Wait()
		if pids, err := r.group.Procs(); err == nil && len(pids) > 0 {
			t.Errorf("left running: %v", pids)
		}
	})
}

func TestStartErrors(t *testing.T) {
	b := newBench(t)
	tests := []struct {
		name string
		edit func(*Spec)
		want string
	}{
		{"no such file", func(s *Spec) { s.Argv = []string{"/no/such/program"} }, `cannot execute "/no/such/program": no such file or directory`},
		{"not executable", func(s *Spec) { s.Argv = []string{"/etc/passwd"} }, "permission denied"},
		{"no command", func(s *Spec) { s.Argv = nil }, "no command"},
		{"no directory", func(s *Spec) { s.Dir = "/no/such/dir" }, "cannot show the program its directory: no such file"},
		{"closed directory", func(s *Spec) { s.Dir = "/root" }, "cannot enter the application's directory"},
		{"root", func(s *Spec) { s.UID = 0 }, "cannot run a program as user 0"},
		{"no such stage", func(s *Spec) { s.From = "/no/such" }, "cannot show the program its directory: no such file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := b.spec(t, "true")
			tt.edit(&s)
			_, err := b.Launch(s)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			if own := app.KindOf(err) == app.Unusable; own != strings.Contains(tt.want, "cannot execute") && own != strings.Contains(tt.want, "permission denied") {
				t.Errorf("%v: for its owner to mend: %t", err, own)
			}
			if _, err := os.Stat(filepath.Join(b.Tree.Root(), s.Group)); err == nil {
				t.Error("the control group was left behind")
			}
		})
	}
}

func TestKernelSetMemory(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, `exec /usr/bin/python3 -c 'import time; held = bytearray(20 << 20); print("up", flush=True); time.sleep(600)'`)
	r := b.launch(t, s)
	poll(t, "it holds its memory", func() bool { return strings.Contains(output(t, s), "up") })
	if err := r.SetMemory(200); err != nil {
		t.Fatal(err)
	}
	u, err := r.Usage(t.Context())
	if err != nil || u.LimitBytes != 200<<20 || u.MemoryBytes < 15<<20 {
		t.Errorf("Usage() = %+v, %v; want a limit of 200 MB and 20 MB in use", u, err)
	}
	err = r.SetMemory(8)
	if app.KindOf(err) != app.Exhausted || !strings.Contains(err.Error(), "to 8 MB") || !strings.Contains(err.Error(), "uses ") {
		t.Errorf("SetMemory(8) = %v, want a refusal with both numbers", err)
	}
	r.Stop(0)
	if e := r.Wait(); e.LimitMB != 200 || e.OOM {
		t.Errorf("got %+v, want the limit of 200 MB and no OOM", e)
	}
}

// The share of the processor is the application's, in force before the first
// instruction, and follows a change of the limit that was not refused.
func TestKernelCPUWeight(t *testing.T) {
	b := newBench(t)
	b.Walls.Layers = nil // the program looks at the application's group, above its own
	name, err := b.Tree.Weights()
	if err != nil {
		t.Skip(err)
	}
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	root, at := b.Tree.Root(), map[int]string{50: "50", 200: "200"}
	if name == "cpu.shares" {
		root, at = filepath.Join(h.V1CPU, "berth", filepath.Base(root)), map[int]string{50: "512", 200: "2048"}
	}
	file := filepath.Join(root, "apps", "a", name)
	s := b.spec(t, `read -r w <"$0"; echo "it is $w"; x=$(head -c 20000000 /dev/zero | tr '\0' x); echo up; sleep 600`)
	s.Argv, s.Weight = append(s.Argv, file), 50
	r := b.launch(t, s)
	poll(t, "it holds its memory", func() bool { return strings.Contains(output(t, s), "up") })
	if got := output(t, s); !strings.HasPrefix(got, "it is "+at[50]+"\n") {
		t.Errorf("it began with %q, want a weight of %s", got, at[50])
	}
	is := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || strings.TrimSpace(string(got)) != want {
			t.Errorf("the weight is %q, %v; want %s", got, err, want)
		}
	}
	if err := r.SetMemory(200); err != nil {
		t.Error(err)
	}
	is(at[200])
	if err := r.SetMemory(8); app.KindOf(err) != app.Exhausted {
		t.Errorf("SetMemory(8) = %v", err)
	}
	is(at[200])
}

// What a program may and may not be and see.
