package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// vessel is a memory controller that a test fills.
type vessel struct {
	counter
	held, ram atomic.Int64
	err       atomic.Pointer[error]
	looks     atomic.Int64
	wires     atomic.Int64
	wired     chan *os.File // nil: the kernel gives no signal
}

func (v *vessel) fill() (Fill, error) {
	v.looks.Add(1)
	if err := v.err.Load(); err != nil {
		return Fill{}, *err
	}
	return Fill{At: time.Now(), Held: v.held.Load(), Limit: v.ram.Load()}, nil
}

func (v *vessel) wire(int64) (*os.File, error) {
	if v.wired == nil {
		return nil, errors.New("no signal here")
	}
	v.wires.Add(1)
	fd, err := newEventfd()
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "eventfd")
	v.wired <- f
	return f, nil
}

// Without a signal of the kernel, groups that do not grow are looked at six times a
// minute, all in the same moment; one that grows is looked at when its watchman says.
func TestLooksComeTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		var mu sync.Mutex
		moments := map[time.Time]bool{}
		for i := range 20 {
			v := &vessel{}
			v.ram.Store(100)
			g := &Group{mem: v, watches: &all}
			stop := g.OnFill(func(f Fill) (time.Duration, bool) {
				mu.Lock()
				defer mu.Unlock()
				moments[f.At] = true
				return time.Duration(i) * time.Second, false
			})
			defer stop()
			time.Sleep(137 * time.Millisecond) // they start one after the other
		}
		time.Sleep(time.Minute)
		mu.Lock()
		clear(moments)
		mu.Unlock()
		time.Sleep(10 * time.Minute)
		mu.Lock()
		if n := len(moments); n > 60 || n < 59 {
			t.Errorf("%d wakes in ten minutes", n)
		}
		mu.Unlock()
		v := &vessel{}
		v.ram.Store(100)
		defer (&Group{mem: v, watches: &all}).OnFill(func(Fill) (time.Duration, bool) { return 500 * time.Millisecond, true })()
		time.Sleep(10 * time.Second)
		if n := v.looks.Load(); n < 19 || n > 21 {
			t.Errorf("%d looks in ten seconds at a group that grows", n)
		}
	})
}

// A watch outlives an error that passes, and ends with its group.
func TestWatchOfFillEndsWithTheGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all sync.WaitGroup
		v := &vessel{}
		v.ram.Store(100)
		passes, gone := errors.New("no descriptors"), fs.ErrNotExist
		v.err.Store(&passes)
		var seen atomic.Int64
		stop := (&Group{mem: v, watches: &all}).OnFill(func(Fill) (time.Duration, bool) { seen.Add(1); return 0, false })
		time.Sleep(time.Minute)
		if n := v.looks.Load(); n < 6 || n > 8 || seen.Load() != 0 {
			t.Errorf("%d looks in a minute of errors, %d seen", n, seen.Load())
		}
		v.err.Store(nil)
		time.Sleep(time.Minute)
		if seen.Load() < 5 {
			t.Errorf("%d looks after the errors", seen.Load())
		}
		v.err.Store(&gone)
		all.Wait()
		stop()
		stop()
	})
}

// With a signal of the kernel nobody looks until it comes, also at another limit, for which
// there is a new one.
func TestSignalWakesTheWatch(t *testing.T) {
	var all sync.WaitGroup
	v := &vessel{wired: make(chan *os.File, 4)}
	v.ram.Store(100)
	g := &Group{mem: v, watches: &all}
	var seen atomic.Int64
	stop := g.OnFill(func(f Fill) (time.Duration, bool) { seen.Store(f.Held); return 0, false })
	first := <-v.wired
	poll(t, "the group is looked at again behind the signal", func() bool { return v.looks.Load() == 2 })
	v.held.Store(81)
	if _, err := first.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the signal wakes", func() bool { return seen.Load() == 81 })
	v.ram.Store(200)
	v.held.Store(82)
	if err := g.SetMemory(200); err != nil {
		t.Fatal(err)
	}
	second := <-v.wired
	poll(t, "it is looked at under the new limit", func() bool { return seen.Load() == 82 })
	poll(t, "the old signal is closed", func() bool { _, err := first.Write(nil); return errors.Is(err, os.ErrClosed) })
	stop()
	all.Wait()
	if _, err := second.Write(nil); !errors.Is(err, os.ErrClosed) || v.wires.Load() != 2 {
		t.Errorf("the signal is left open: %v, of %d", err, v.wires.Load())
	}
}

// What can be reclaimed is not held, of either version's files.
func TestFillLeavesOutWhatCanBeReclaimed(t *testing.T) {
	write := func(dir string, files map[string]string) {
		t.Helper()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	one, two := t.TempDir(), t.TempDir()
	write(one, map[string]string{
		"memory.usage_in_bytes": "900\n", "memory.limit_in_bytes": "1000\n",
		"memory.stat": "inactive_anon 1\ntotal_inactive_anon 300\ntotal_active_anon 90\ntotal_inactive_file 400\ntotal_active_file 80\ntotal_unevictable 10\n",
	})
	write(two, map[string]string{
		"memory.current": "900\n", "memory.max": "1000\n", "memory.events": "low 0\nhigh 0\nmax 7\noom 0\n",
		"memory.stat": "anon 350\nkernel 70\nsock 5\ninactive_file 380\nactive_file 80\nslab_reclaimable 40\n",
	})
	v1, v2 := &memoryV1{dir: one}, memoryV2{dir: two}
	for m, squeezed := range map[memory]int64{v1: 0, v2: 7} {
		if f, err := m.fill(); f.Held != 400 || f.Used != 900 || f.Limit != 1000 || f.Squeezed != squeezed || err != nil {
			t.Errorf("%T: %+v, %v", m, f, err)
		}
	}
	write(one, map[string]string{"memory.usage_in_bytes": "499\n", "memory.stat": "is not read"})
	write(two, map[string]string{"memory.current": "499\n", "memory.max": "max\n"})
	if f, err := v1.fill(); f.Held != 499 || f.Squeezed != 0 || err != nil {
		t.Errorf("below half: %+v, %v", f, err)
	}
	if f, err := v2.fill(); f.Limit != 0 || err != nil {
		t.Errorf("without a limit: %+v, %v", f, err)
	}
	write(one, map[string]string{"memory.usage_in_bytes": "900\n"})
	if _, err := v1.fill(); err == nil || !strings.Contains(err.Error(), "memory.stat has no") {
		t.Errorf("a file without what is needed: %v", err)
	}
}

// A real group: its memory wakes the watch, its cache of files does not count, and another
// limit is taken notice of.
func TestKernelFill(t *testing.T) {
	const mb = 1 << 20
	g := create(t, openTree(t), "apps/a/1", Limits{Memory: 64 * mb, Pids: 64, OOMGroup: true})
	var held, ram, looks atomic.Int64
	stop := g.OnFill(func(f Fill) (time.Duration, bool) {
		held.Store(f.Held)
		ram.Store(f.Limit)
		looks.Add(1)
		return 100 * time.Millisecond, f.Held > 40*mb && f.Held < 50*mb
	})
	defer stop()
	poll(t, "the first look", func() bool { return looks.Load() > 0 })
	dir := t.TempDir()
	file, wait := filepath.Join(dir, "cache"), filepath.Join(dir, "wait")
	fill := "dd if=/dev/zero of=" + file + " bs=1M count=80 2>/dev/null; dd if=" + file + " of=/dev/null bs=1M 2>/dev/null"
	if inMemory(t, dir) { // there a file is no cache
		fill = ":"
	}
	cmd := child(t, g, fill+"; : > "+wait+"; while [ -e "+wait+" ]; do sleep 0.05; done; (head -c 45M /dev/zero; sleep 600) | tail")
	defer func() { _ = g.Kill(); _ = cmd.Wait() }()
	poll(t, "it has read what it wrote", func() bool { _, err := os.Stat(wait); return err == nil })
	_, v2 := g.mem.(memoryV2)
	if f, err := g.mem.fill(); fill != ":" && (f.Held > 30*mb || f.Used < 50*mb || f.Squeezed == 0 && v2) || err != nil {
		t.Errorf("full of cache it is %+v, %v", f, err)
	}
	if err := os.Remove(wait); err != nil {
		t.Fatal(err)
	}
	poll(t, "the memory is seen", func() bool { return held.Load() > 44*mb })
	if err := g.SetMemory(128 * mb); err != nil {
		t.Fatal(err)
	}
	poll(t, "the limit is seen", func() bool { return ram.Load() == 128*mb })
}

// inMemory reports whether files of a directory are in memory, or may be, as in guests.
func inMemory(t *testing.T, dir string) bool {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs(dir, &fs); err != nil {
		t.Fatal(err)
	}
	return fs.Type == unix.TMPFS_MAGIC || fs.Type == unix.OVERLAYFS_SUPER_MAGIC
}

func BenchmarkFill(b *testing.B) {
	for _, used := range []int64{10, 60} {
		b.Run(strconv.FormatInt(used, 10)+" percent", func(b *testing.B) {
			dir := b.TempDir()
			for name, text := range map[string]string{
				"memory.current": strconv.FormatInt(used<<20, 10), "memory.max": strconv.Itoa(100 << 20), "memory.events": "max 0\n",
				"memory.stat": "anon 1\ninactive_file 0\nactive_file 0\nslab_reclaimable 0\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					b.Fatal(err)
				}
			}
			m := memoryV2{dir: dir}
			for b.Loop() {
				if _, err := m.fill(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
