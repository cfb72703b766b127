package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Fill is how full the memory of a group is.
type Fill struct {
	At time.Time
	// Held is what the kernel cannot take back while there is no swap: memory of no file,
	// files in memory, locked memory and, on v2, the kernel's own. Caches of files are not
	// in it, for the kernel drops them before it kills. Below half of Limit it is an upper
	// bound: all that the group uses.
	Held  int64 // bytes
	Used  int64 // bytes, with caches
	Limit int64 // bytes, 0 for none
	// Squeezed is how often the group was at its limit and the kernel had to take
	// something back, since the group was made: max of memory.events. 0 below half, and on
	// v1, whose failcnt newer kernels leave at 0.
	Squeezed int64
}

// Watchman says what follows a look at a Fill: no other is of use for pause, and after
// it one follows soon only if the memory is growing.
type Watchman func(f Fill) (pause time.Duration, growing bool)

// steadyPause is the pause between two looks at a group of v2 that does not grow, and
// the grid on which longer pauses end: looks at many groups are one wake.
const steadyPause = 10 * time.Second

// OnFill calls fn, on a goroutine of the tree's, now and whenever the group may have
// become fuller than fn wants to know of. On v1 the kernel wakes it: at thresholds of
// the usage, and when it reclaims at the limit (Linux, cgroup-v1/memory.rst, 9 and 11).
// v2 has no signal for it that does no harm, so there fn is called again after its
// pause, or after 10 s while nothing grows; that reads one small file as long as the
// group uses less than half of its limit. fn may block. Call the returned function,
// which does not wait for fn, before Remove.
func (g *Group) OnFill(fn Watchman) (stop func()) {
	f := &filling{mem: g.mem, fn: fn, all: g.watches, quit: make(chan struct{}), wired: make(chan struct{}, 1)}
	g.filling = f
	g.watches.Go(f.loop)
	return sync.OnceFunc(f.stop)
}

// filling watches how full a group is.
type filling struct {
	mem   memory
	fn    Watchman
	all   *sync.WaitGroup
	quit  chan struct{}
	wired chan struct{} // there is another wire

	mu      sync.Mutex
	wire    *os.File // an eventfd of v1; nil where the kernel gives no signal
	limit   int64    // that the wire is for
	stopped bool
}

func (f *filling) loop() {
	for {
		wire := f.current() // before the look: what comes after it is in it
		pause, growing := steadyPause, false
		now, err := f.mem.fill()
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, unix.ENODEV): // the group is gone
			return
		case err == nil:
			f.rewire(now.Limit)
			pause, growing = f.fn(now)
		}
		sleeps := wire != nil && err == nil && !growing
		if !sleeps && !growing {
			pause = max(pause, steadyPause)
		}
		if !f.rest(pause) || sleeps && !f.sleep(wire, now) {
			return
		}
	}
}

// sleep waits for the kernel's signal, and reports whether the watch goes on. Above the last
// rung that comes only when much was reclaimed: there it is not waited for longer than without.
func (f *filling) sleep(wire *os.File, now Fill) bool {
	var until time.Time
	if now.Used >= now.Limit/100*rungs[len(rungs)-1] {
		until = time.Now().Add(steadyPause).Truncate(steadyPause)
	}
	_ = wire.SetReadDeadline(until) // one that is closed cannot be read either
	var count [8]byte
	_, _ = wire.Read(count[:])
	f.mu.Lock()
	defer f.mu.Unlock()
	return !f.stopped
}

// current is what tells of the group now, nil where nothing does.
func (f *filling) current() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wire
}

// rewire gets the kernel's signals for another limit. That may take the kernel a while, so it
// happens beside the looks.
func (f *filling) rewire(limit int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stopped || limit == f.limit || limit <= 0 {
		return
	}
	f.limit = limit
	f.all.Go(func() {
		wire, err := f.mem.wire(limit)
		if err != nil || wire == nil { // it is looked at now and then
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.stopped || f.limit != limit {
			_ = wire.Close()
			return
		}
		if f.wire != nil {
			_ = f.wire.Close()
		}
		f.wire = wire
		select {
		case f.wired <- struct{}{}:
		default: // the last one is not noticed yet
		}
	})
}

// rest pauses, and reports whether the watch goes on. Long pauses end together.
func (f *filling) rest(pause time.Duration) bool {
	now := time.Now()
	for _, grid := range []time.Duration{steadyPause, time.Second} {
		if pause >= grid {
			pause = max(now.Add(pause).Truncate(grid).Sub(now), 0)
			break
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.wired:
		return true
	case <-f.quit:
		return false
	}
}

// poke has the watch look soon: the limit is another one.
func (f *filling) poke() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wire != nil && !f.stopped {
		_, _ = f.wire.Write(binary.NativeEndian.AppendUint64(nil, 1)) // eventfd(2)
	}
}

func (f *filling) stop() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopped = true
	close(f.quit)
	if f.wire != nil {
		_ = f.wire.Close()
	}
}

// fill implements memory. What cannot be reclaimed is the usage less the cache of files
// and of their names; what is dirty of it can be, once it is written.
func (m memoryV2) fill() (Fill, error) {
	f, err := fillOf(m)
	if err != nil || f.Held < f.Limit/2 {
		return f, err
	}
	var stat [3]int64
	err = words(filepath.Join(m.dir, "memory.stat"), []string{"active_file", "inactive_file", "slab_reclaimable"}, stat[:])
	f.Held = max(f.Held-stat[0]-stat[1]-stat[2], 0)
	var err2 error
	f.Squeezed, err2 = number(filepath.Join(m.dir, "memory.events"), "max")
	return f, errors.Join(err, err2)
}

// wire implements memory. memory.high is no wire: it stays a limit when nobody takes it
// off, runtimes take it for one, and what is above it crawls (ADR 0061).
func (m memoryV2) wire(int64) (*os.File, error) { return nil, nil }

// fill implements memory. v1 does not tell which part of the kernel's memory can be
// reclaimed, and the caches of names can be most of it: none of it counts.
func (m *memoryV1) fill() (Fill, error) {
	f, err := fillOf(m)
	if err != nil || f.Held < f.Limit/2 {
		return f, err
	}
	var stat [3]int64
	err = words(filepath.Join(m.dir, "memory.stat"), []string{"total_inactive_anon", "total_active_anon", "total_unevictable"}, stat[:])
	f.Held = stat[0] + stat[1] + stat[2]
	return f, err
}

// fillOf is a Fill by the usage alone.
func fillOf(m memory) (Fill, error) {
	dir, files := m.files()
	used, err := number(filepath.Join(dir, files.current), "")
	limit, err2 := number(filepath.Join(dir, files.limit), "")
	return Fill{At: time.Now(), Held: used, Used: used, Limit: max(limit, 0)}, errors.Join(err, err2)
}

// rungs are the parts of its limit at which a group's usage wakes its watch, in percent.
// Those below 80 tell how fast it grows. The usage has caches in it: at the limit, which
// they reach by themselves, the kernel tells instead that it reclaims.
var rungs = []int64{50, 65, 80, 85, 90, 95}

// registering lets one group after the other get its thresholds: the kernel waits for a
// grace period at each (synchronize_rcu in mm/memcontrol-v1.c), and with it a thread.
var registering sync.Mutex

// wire implements memory.
func (m *memoryV1) wire(limit int64) (*os.File, error) {
	registering.Lock()
	defer registering.Unlock()
	fd, err := newEventfd()
	if err != nil {
		return nil, err
	}
	err = m.listen(fd, "memory.pressure_level", "low")
	for _, percent := range rungs {
		if err == nil {
			err = m.listen(fd, "memory.usage_in_bytes", strconv.FormatInt(limit/100*percent, 10))
		}
	}
	if err != nil {
		_ = unix.Close(fd)
		return nil, fmt.Errorf("cannot watch how full the group is: %w", err)
	}
	return os.NewFile(uintptr(fd), "eventfd"), nil
}
