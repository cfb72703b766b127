package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// counter is a memory controller whose counter a test turns.
type counter struct {
	kills atomic.Int64
	reads atomic.Int64
}

func (c *counter) limit(int64) error { return nil }
func (c *counter) close()            {}

func (c *counter) files() (string, useFiles) { return "", useFiles{} }

func (c *counter) read() (Memory, error) {
	c.reads.Add(1)
	return Memory{Kills: c.kills.Load()}, nil
}

func (c *counter) fill() (Fill, error)          { return Fill{}, errors.New("not here") }
func (c *counter) wire(int64) (*os.File, error) { return nil, errors.New("not here") }

func (c *counter) alarm() (alarm, time.Duration, error) {
	return nil, 0, errors.New("no events here")
}

func TestWatchSettles(t *testing.T) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	called := make(chan struct{}, 4)
	mem, file := &counter{}, os.NewFile(uintptr(fd), "eventfd")
	var all sync.WaitGroup
	stop := begin(&all, mem, func() { called <- struct{}{} }, 50*time.Millisecond, counterAlarm{file})
	signal := func() {
		t.Helper()
		if _, err := file.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
	}
	// An event without a kill, as when memory was freed in time, tells nothing.
	// The watch is over with it when it has read the counter and found nothing
	// until it settled.
	signal()
	poll(t, "the watch has settled", func() bool { return mem.reads.Load() > 3 })
	if len(called) != 0 {
		t.Error("told of a kill that was none")
	}
	// One whose count comes late is told once.
	signal()
	mem.kills.Store(1)
	poll(t, "the kill is reported", func() bool { return len(called) > 0 })
	stop()
	stop()
	all.Wait()
	if err := file.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("the eventfd was left open: %v", err)
	}
	if _, err := (&Group{mem: mem}).OnOOM(nil); err == nil || !strings.Contains(err.Error(), "cannot watch the group's memory events") {
		t.Errorf("OnOOM without events: %v", err)
	}
}

// One inotify serves any number of files, and any number of watches of one.
func TestNotifierTellsOfTheFileThatChanged(t *testing.T) {
	n, err := newNotifier()
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	dir := t.TempDir()
	change := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("oom_kill 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	type watched struct {
		mem    *counter
		called atomic.Int64
		stop   func()
	}
	add := func(name string) *watched {
		w := &watched{mem: &counter{}}
		w.stop = begin(&all, w.mem, func() { w.called.Add(1) }, 0, n.alarm(filepath.Join(dir, name)))
		poll(t, "the watch is armed", func() bool { return w.mem.reads.Load() > 0 })
		return w
	}
	change("a")
	change("b")
	first, second, other := add("a"), add("a"), add("b")
	first.mem.kills.Store(1)
	second.mem.kills.Store(1)
	other.mem.kills.Store(1)
	change("a")
	poll(t, "both watches of the file tell", func() bool { return first.called.Load() == 1 && second.called.Load() == 1 })
	if other.called.Load() != 0 {
		t.Error("the watch of another file told")
	}
	// They are armed again after a pause; one that ends leaves the other.
	first.stop()
	poll(t, "the other is armed again", func() bool { return second.mem.reads.Load() > 2 })
	second.mem.kills.Store(2)
	change("a")
	poll(t, "the one that is left tells", func() bool { return second.called.Load() == 2 })
	if first.called.Load() != 1 {
		t.Error("a watch told after its end")
	}
	second.stop()
	other.stop()
	other.stop()
	all.Wait()
	n.mu.Lock()
	if len(n.waiting) != 0 {
		t.Errorf("waited for: %v", n.waiting)
	}
	n.mu.Unlock()
	if err := n.close(); err != nil {
		t.Error(err)
	}
	late := n.alarm(filepath.Join(dir, "a"))
	if err := late.arm(); !errors.Is(err, errStopped) {
		t.Errorf("arm after the end of the notifier: %v", err)
	}
	late.close()
}

// The kernel tells inotify of changes of a group's files: what watches on
// unified hosts live on, tried on a file that hybrid ones have too.
func TestKernelNotifierTellsOfAGroup(t *testing.T) {
	g := create(t, openTree(t), "apps/a/1", Limits{Memory: 32 << 20, Pids: 64, OOMGroup: true})
	n, err := newNotifier()
	if err != nil {
		t.Fatal(err)
	}
	a := n.alarm(filepath.Join(g.path, "cgroup.events"))
	rings := func(change func()) {
		t.Helper()
		if err := a.arm(); err != nil {
			t.Fatal(err)
		}
		change()
		if err := a.wait(); err != nil {
			t.Fatal(err)
		}
	}
	var cmd *exec.Cmd
	rings(func() { cmd = child(t, g, "exec sleep 600") }) // the group is populated
	rings(func() { _ = g.Kill(); _ = cmd.Wait() })        // and empty again
	a.close()
	if err := n.close(); err != nil {
		t.Error(err)
	}
}
