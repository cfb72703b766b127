package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// below makes a child of g that the test, or the end of g, removes.
func below(t *testing.T, g *Group, name string) *Group {
	t.Helper()
	c, err := g.Child(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// killed reports whether a child process ended by SIGKILL.
func killed(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL
}

// What is in a child is charged to the group above: its limit kills, its
// counters count, and with OOMGroup the whole of it goes.
func TestKernelChildGroupIsCharged(t *testing.T) {
	tree := openTree(t)
	for _, all := range []bool{true, false} {
		name := map[bool]string{true: "takes all", false: "alone"}[all]
		t.Run(name, func(t *testing.T) {
			g := create(t, tree, "apps/a/"+map[bool]string{true: "1", false: "2"}[all], Limits{Memory: 32 << 20, OOMGroup: all})
			program := child(t, g, "exec sleep 600")
			c := below(t, g, "console-1")
			if err := child(t, c, "exec tail /dev/zero").Wait(); !killed(err) {
				t.Fatalf("a hog in the child ended with %v, want SIGKILL", err)
			}
			m, err := g.Memory()
			own, cerr := c.Memory()
			own.Used, own.Peak = m.Used, m.Peak // what is going meanwhile
			if err != nil || cerr != nil || m.Kills < 1 || m.OOMs < 1 || m != own {
				t.Errorf("then the group has %+v, %v and its child %+v, %v; want a kill, and the same", m, err, own, cerr)
			}
			if all {
				if err := program.Wait(); !killed(err) {
					t.Errorf("the program ended with %v, want SIGKILL", err)
				}
				return
			}
			if err := program.Process.Signal(syscall.Signal(0)); err != nil {
				t.Errorf("the program is gone: %v", err)
			}
			_ = g.Kill()
			_ = program.Wait()
		})
	}
}

func TestKernelChildGroupHasTheLimitOfProcesses(t *testing.T) {
	tree := openTree(t)
	if tree.host.Mode == Hybrid && tree.host.V1Pids == "" {
		t.Skip("this hybrid host has no pids hierarchy")
	}
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20, Pids: 6})
	program := child(t, g, "sleep 600 & sleep 600 & wait")
	poll(t, "the program has its processes", func() bool { p, err := g.Procs(); return err == nil && len(p) == 3 })
	c := below(t, g, "console-1")
	_ = child(t, c, "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait").Wait() // the shell gives up when it cannot fork
	if pids, err := c.Procs(); err != nil || len(pids) > 3 {
		t.Errorf("%d processes in the child, %v; want the 3 that the group has left", len(pids), err)
	}
	_ = g.Kill()
	_ = program.Wait()
}

// The kill of a child takes what it forked along and nothing else, and the next
// child lives: on some kernels what is born into a group that was killed dies.
func TestKernelChildGroupIsKilledAlone(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20, OOMGroup: true})
	program := child(t, g, "exec sleep 600")
	for _, name := range []string{"console-1", "console-2"} {
		c := below(t, g, name)
		cmd := child(t, c, `(setsid sh -c 'setsid sleep 600 & sleep 600' &); trap "" TERM; sleep 600 & wait`)
		poll(t, "all processes run", func() bool { p, err := c.Procs(); return err == nil && len(p) >= 4 })
		if pids, err := g.Procs(); err != nil || len(pids) != 1 || pids[0] != program.Process.Pid {
			t.Errorf("in the group itself are %v, %v; want the program alone", pids, err)
		}
		if err := c.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if err := errors.Join(c.WaitEmpty(5*time.Second), c.Remove()); err != nil {
			t.Error(err)
		}
		if err := program.Process.Signal(syscall.Signal(0)); err != nil {
			t.Errorf("the program went along: %v", err)
		}
	}
	if _, err := os.Stat(g.path); err != nil {
		t.Errorf("the removal of a child took its group along: %v", err)
	}
	_ = g.Kill()
	_ = program.Wait()
}

// The kill, the wait and the removal of a group cover its children.
func TestKernelChildGroupEndsWithItsGroup(t *testing.T) {
	tree := openTree(t)
	g, err := tree.Create("apps/a/1", Limits{Memory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	c := below(t, g, "console-1")
	if _, err := g.Child("console-1"); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second child of the same name gave %v, want that it exists", err)
	}
	below(t, g, "console-2")
	cmd := child(t, c, "exec sleep 600")
	if err := g.WaitEmpty(10 * time.Millisecond); err == nil {
		t.Error("the group was called empty while its child is not")
	}
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !killed(err) {
		t.Errorf("what was in the child ended with %v, want SIGKILL", err)
	}
	if err := errors.Join(g.WaitEmpty(5*time.Second), g.Remove()); err != nil {
		t.Error(err)
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s was left: %v", dir, err)
		}
	}
	if err := errors.Join(c.Kill(), c.WaitEmpty(time.Second), c.Remove()); err != nil { // gone already
		t.Error(err)
	}
	if _, err := g.Child("console-3"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a child of a group that is gone gave %v", err)
	}
}

// What a daemon left that was killed during a console command.
func TestKernelChildGroupIsSwept(t *testing.T) {
	tree := openTree(t)
	g, err := tree.Create("apps/a/1", Limits{Memory: 256 << 20})
	if err != nil {
		t.Fatal(err)
	}
	program, console := child(t, g, "exec sleep 600"), child(t, below(t, g, "console-1"), "exec sleep 600")
	if n, err := tree.Sweep(nil); n != 1 || err != nil {
		t.Errorf("Sweep() = %d, %v; want the one group", n, err)
	}
	if p, c := program.Wait(), console.Wait(); !killed(p) || !killed(c) {
		t.Errorf("they ended with %v and %v, want SIGKILL", p, c)
	}
	if _, err := os.Stat(filepath.Dir(g.path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("something was left: %v", err)
	}
	if err := g.Remove(); err != nil { // frees what it holds; nothing is left to remove
		t.Error(err)
	}
}
