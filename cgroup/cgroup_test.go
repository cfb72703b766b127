package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var trees atomic.Int64

// openTree makes a tree of the test's own on this machine's kernel and checks
// at the end that nothing of it is left.
func openTree(t *testing.T) *Tree {
	t.Helper()
	return openTreeOn(t, host(t))
}

// host is this machine, whose groups programs can be in.
func host(t *testing.T) Host {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: control groups are made")
	}
	h, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Check(); err != nil {
		t.Skip(err)
	}
	return h
}

// Trees have the directory above them in common, and the close of the last one
// removes it: no other may fail for that.
func TestKernelTreesComeAndGo(t *testing.T) {
	h := host(t)
	times := 400
	if os.Getenv("BERTH_E2E_SLOW") != "" { // an emulated guest
		times = 60
	}
	var all sync.WaitGroup
	for n := range 4 {
		all.Go(func() {
			for i := range times {
				tree, err := Open(h, fmt.Sprintf("test-%d-%d-%d", os.Getpid(), n, i))
				if err == nil {
					err = tree.Close()
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
}

func openTreeOn(t *testing.T, h Host) *Tree {
	t.Helper()
	tree, err := Open(h, fmt.Sprintf("test-%d-%d", os.Getpid(), trees.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := tree.Close(); err != nil {
			t.Error(err)
		}
		if tree.weights.err == nil {
			if dir := tree.idle(); exists(dir) {
				t.Errorf("%s is left", dir)
			}
		}
		for _, dir := range tree.roots() {
			if !strings.Contains(dir, "test-") {
				continue
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the tree left %s behind: %v", dir, err)
			}
		}
	})
	return tree
}

// child starts a shell inside the group the way proc does: born in the v2
// group, and joined to the v1 groups by itself before the program.
func child(t *testing.T, g *Group, script string) *exec.Cmd {
	t.Helper()
	dir, err := g.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	var join strings.Builder
	for _, file := range g.Joins() {
		fmt.Fprintf(&join, "echo 0 > %s; ", file)
	}
	cmd := exec.Command("/bin/sh", "-c", join.String()+script)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd()), Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Kill() })
	return cmd
}

func create(t *testing.T, tree *Tree, name string, l Limits) *Group {
	t.Helper()
	g, err := tree.Create(name, l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = g.Kill()
		if err := errors.Join(g.WaitEmpty(5*time.Second), g.Remove()); err != nil {
			t.Error(err)
		}
	})
	return g
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

func TestKernelOOMIsCounted(t *testing.T) {
	tree := openTree(t)
	for _, oomGroup := range []bool{true, false} {
		t.Run(fmt.Sprintf("group=%t", oomGroup), func(t *testing.T) {
			g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, Pids: 64, OOMGroup: oomGroup})
			before, err := g.Memory()
			if err != nil || before.Kills != 0 || before.Limit != 32<<20 {
				t.Fatalf("fresh group: %+v, %v; want no kill and a limit of 32 MB", before, err)
			}
			err = child(t, g, "exec tail /dev/zero").Wait()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
				t.Fatalf("the hog ended with %v, want SIGKILL", err)
			}
			m, err := g.Memory()
			if err != nil || m.Kills < 1 || m.OOMs < 1 {
				t.Errorf("after the kill: %+v, %v; want a kill by its own limit", m, err)
			}
			if m.Peak != 0 && m.Peak < 30<<20 { // 0: no memory.peak before Linux 5.19
				t.Errorf("peak is %d, want about 32 MB", m.Peak)
			}
		})
	}
}

// File cache fills a group to its limit and is given back: running into the
// limit is not running out.
func TestKernelCacheIsNoOOM(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, OOMGroup: true})
	file := filepath.Join(t.TempDir(), "big")
	if err := child(t, g, "head -c 100000000 /dev/zero > "+file).Wait(); err != nil {
		t.Fatal(err)
	}
	m, err := g.Memory()
	if err != nil || m.OOMs != 0 || m.Kills != 0 {
		t.Errorf("after writing 100 MB: %+v, %v; want no kill", m, err)
	}
	if m.Peak != 0 && m.Peak < 30<<20 {
		t.Errorf("the cache did not reach the limit (peak %d), so this proves nothing", m.Peak)
	}
	if u, err := g.Use(); err != nil || u.Memory > m.Used+4<<20 || u.Memory < m.Used-4<<20 || u.Limit != m.Limit || u.CPU == 0 {
		t.Errorf("Use() = %+v, %v; want what Memory() says: %+v", u, err, m)
	}
}

func TestKernelSIGKILLIsNoOOM(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, OOMGroup: true})
	cmd := child(t, g, "exec sleep 600")
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if m, err := g.Memory(); err != nil || m.Kills != 0 {
		t.Errorf("after a SIGKILL by hand: %+v, %v; want no kill", m, err)
	}
}

// With OOMGroup a helper's death takes the program along, also on v1, which
// has no such switch.
func TestKernelOOMGroupTakesAll(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, OOMGroup: true})
	cmd := child(t, g, "tail /dev/zero & wait; exec sleep 600")
	err := cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.Sys().(syscall.WaitStatus).Signal() != syscall.SIGKILL {
		t.Fatalf("the program ended with %v, want SIGKILL", err)
	}
	if err := g.WaitEmpty(5 * time.Second); err != nil {
		t.Error(err)
	}
}

func TestKernelOnOOMTellsOfAHelper(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20})
	called := make(chan struct{}, 8)
	stop, err := g.OnOOM(func() { called <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	cmd := child(t, g, "while :; do tail /dev/zero; sleep 2; done")
	for range 2 { // the second shows that the watch is armed again
		select {
		case <-called:
		case <-time.After(60 * time.Second):
			t.Fatal("no word of the killed helper")
		}
	}
	if err := cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the program is gone (%v); only its helper should be", err)
	}
	stop()
	stop() // may be called again
	if err := g.Kill(); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
}

func TestKernelKillLeavesNothing(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20})
	cmd := child(t, g, `(setsid sh -c 'setsid sleep 600 & sleep 600' &) ; trap "" TERM; sleep 600 & wait`)
	poll(t, "all processes run", func() bool {
		pids, err := g.Procs()
		return err == nil && len(pids) >= 4
	})
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.WaitEmpty(5 * time.Second); err != nil {
		t.Error(err)
	}
	if pids, err := g.Procs(); err != nil || len(pids) != 0 {
		t.Errorf("left after the kill: %v, %v", pids, err)
	}
}

// A process whose first thread has ended goes on in another, and takes no signal
// that is sent to the first one alone.
func TestKernelKillReachesOtherThreads(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("needs Python")
	}
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20})
	cmd := child(t, g, "exec "+python+` -c '
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(600,)).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)'`)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	poll(t, "its first thread has ended", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") Z ")
	})
	if err := g.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := g.WaitEmpty(5 * time.Second); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); !killed(err) {
		t.Errorf("it ended with %v, want SIGKILL", err)
	}
}

func TestKernelSignalReachesAll(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20})
	cmd := child(t, g, "sleep 600 & sleep 600 & wait; wait; exit 0")
	poll(t, "the helpers run", func() bool { p, _ := g.Procs(); return len(p) >= 3 })
	if err := g.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if err := g.WaitEmpty(5 * time.Second); err != nil {
		t.Errorf("a helper was not told: %v", err)
	}
}

func TestKernelPidsLimit(t *testing.T) {
	tree := openTree(t)
	if tree.host.Mode == Hybrid && tree.host.V1Pids == "" {
		t.Skip("this hybrid host has no pids hierarchy")
	}
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20, Pids: 5})
	cmd := child(t, g, "for i in 1 2 3 4 5 6 7 8; do sleep 600 & done; wait")
	_ = cmd.Wait() // the shell gives up when it cannot fork
	if pids, err := g.Procs(); err != nil || len(pids) > 5 {
		t.Errorf("%d processes, %v; want at most 5", len(pids), err)
	}
}

func TestKernelSetMemory(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 64 << 20})
	for _, mb := range []int64{200, 40, 100} { // up, down, up: on v1 the order of two files matters
		if err := g.SetMemory(mb << 20); err != nil {
			t.Fatalf("SetMemory(%d MB): %v", mb, err)
		}
		if m, err := g.Memory(); err != nil || m.Limit != mb<<20 {
			t.Errorf("the limit is %d, %v; want %d MB", m.Limit, err, mb)
		}
		if u, err := g.Use(); err != nil || u.Limit != mb<<20 {
			t.Errorf("Use() says %d, %v; want %d MB", u.Limit, err, mb)
		}
	}
}

func TestKernelCPU(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 64 << 20})
	if err := child(t, g, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done").Wait(); err != nil {
		t.Fatal(err)
	}
	if d, err := g.CPU(); err != nil || d < time.Millisecond {
		t.Errorf("CPU() = %v, %v; want what the loop took", d, err)
	}
}

// A build and a run of one application come and go beside each other, and the
// last one takes the application's directory away.
// A child started right after another group of the application was killed
// lives: the reason why groups are never used twice.
// A daemon that was killed leaves its directories; the next of the same name
// takes them along when it ends.

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
