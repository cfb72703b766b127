package cgroup

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/containerd/cgroups/v3/cgroup1"
	v1 "github.com/containerd/cgroups/v3/cgroup1/stats"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

// memory is the memory controller behind one group: v2's or v1's.
type memory interface {
	limit(bytes int64) error
	read() (Memory, error)
	// files tells where Use finds what read does.
	files() (dir string, names useFiles)
	// alarm returns what wakes for an out-of-memory kill, and how long the
	// counter may lag behind it.
	alarm() (alarm, time.Duration, error)
	// fill reads how full the group is, and wire returns what wakes when that may have
	// changed under a limit: nil where the kernel has nothing for it.
	fill() (Fill, error)
	wire(limit int64) (*os.File, error)
	// close releases what read needs.
	close()
}

// useFiles are the files of a memory controller that Use reads.
type useFiles struct {
	current, limit string // hold a number
	inactive       string // a word of memory.stat
}

// memoryV2 is the unified memory controller (Linux, cgroup-v2.rst).
type memoryV2 struct {
	dir    string
	mgr    *cgroup2.Manager
	notify *notifier
}

func (m memoryV2) limit(bytes int64) error {
	res := &cgroup2.Resources{Memory: &cgroup2.Memory{Max: &bytes}}
	if _, err := os.Stat(filepath.Join(m.dir, "memory.swap.max")); err == nil { // absent without swap accounting
		res.Memory.Swap = new(int64)
	}
	return m.mgr.Update(res)
}

func (m memoryV2) read() (Memory, error) {
	s, err := m.mgr.StatFiltered(cgroup2.StatMemory | cgroup2.StatMemoryEvents)
	if err != nil {
		return Memory{}, err
	}
	out := Memory{
		Used:  int64(s.Memory.Usage) - int64(s.Memory.InactiveFile),
		Limit: int64(s.Memory.UsageLimit),
		Peak:  int64(s.Memory.MaxUsage),
	}
	out.Used = max(out.Used, 0)
	if s.MemoryEvents != nil {
		// oom_kill counts processes, oom_group_kill groups, also when the host
		// ran out. "oom" is the group alone; were the parent's
		// limit as tight it would be counted there, but ours have none.
		out.Kills = int64(max(s.MemoryEvents.OomKill, s.MemoryEvents.OomGroupKill))
		out.OOMs = int64(s.MemoryEvents.Oom)
	}
	return out, nil
}

func (m memoryV2) close() {}

func (m memoryV2) alarm() (alarm, time.Duration, error) {
	path := filepath.Join(m.dir, "memory.events")
	if _, err := os.Stat(path); err != nil {
		return nil, 0, err
	}
	return m.notify.alarm(path), 0, nil // the counter is written before the event
}

func (m memoryV2) files() (string, useFiles) {
	return m.dir, useFiles{"memory.current", "memory.max", "inactive_file"}
}

// controllerV1 is the part of the library's memory controller in use; its
// type has no exported name.
type controllerV1 interface {
	Update(path string, r *specs.LinuxResources) error
	Stat(path string, s *v1.Metrics) error
}

// memoryV1 is the memory hierarchy of a hybrid host (Linux,
// cgroup-v1/memory.rst).
type memoryV1 struct {
	ctl  controllerV1
	dir  string
	rel  string // dir below the mount point
	swap bool   // memory.memsw exists: memory plus swap can be bounded
	tcp  bool   // socketLimit exists

	mu   sync.Mutex
	ooms int   // an eventfd that counts how often the group ran out; -1 when there is none
	seen int64 // what was read from it
}

func newMemoryV1(mount, root, name string) *memoryV1 {
	m := &memoryV1{dir: filepath.Join(root, name), ooms: -1}
	m.rel, _ = filepath.Rel(mount, m.dir)
	_, err := os.Stat(filepath.Join(mount, "memory.memsw.usage_in_bytes"))
	m.swap = err == nil
	_, err = os.Stat(filepath.Join(mount, socketLimit))
	m.tcp = err == nil
	// Kernel memory is part of the usage, and what the library would read of it
	// and of sockets is gone from newer kernels.
	m.ctl = cgroup1.NewMemory(filepath.Dir(mount), cgroup1.IgnoreModules("memsw", "kmem", "kmem.tcp"))
	return m
}

// socketLimit bounds the buffers of sockets. v1 counts them apart from the memory,
// and not at all before there is a limit (Linux, cgroup-v1/memory.rst, 2.7.2);
// the kernel means to give it up one day.
const socketLimit = "memory.kmem.tcp.limit_in_bytes"

// socketShare is which part of the memory limit they may have beside it, and
// leastSockets what they may have at least: one connection as large as Linux
// lets one become by itself (tcp_rmem).
const (
	socketShare  = 4
	leastSockets = 8 << 20
)

// limitSockets bounds the buffers of sockets by the memory limit. Those that are
// larger already stay as they are: the kernel lets nobody set a limit below them,
// and they shrink when they are read.
func (m *memoryV1) limitSockets(memory int64) error {
	if !m.tcp {
		return nil
	}
	bytes := strconv.FormatInt(max(memory/socketShare, leastSockets), 10)
	err := os.WriteFile(filepath.Join(m.dir, socketLimit), []byte(bytes), 0)
	if err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("cannot limit the buffers of sockets: %w", err)
	}
	return nil
}

// limit sets the memory limit and, with the same number for memory plus swap,
// forbids swap. The second may never be below the first, so the order depends
// on the direction; the library's own ordering swaps the wrong pair.
func (m *memoryV1) limit(bytes int64) error {
	now, err := number(filepath.Join(m.dir, "memory.limit_in_bytes"), "")
	if err != nil {
		return err
	}
	memory := &specs.LinuxMemory{Limit: &bytes, Swappiness: new(uint64)}
	both := &specs.LinuxMemory{Swap: &bytes}
	if !m.swap {
		both = &specs.LinuxMemory{}
	}
	order := []*specs.LinuxMemory{memory, both}
	if bytes > now {
		order = []*specs.LinuxMemory{both, memory}
	}
	for _, r := range order {
		if err := m.ctl.Update(m.rel, &specs.LinuxResources{Memory: r}); err != nil {
			return err
		}
	}
	return m.limitSockets(bytes)
}

func (m *memoryV1) read() (Memory, error) {
	var s v1.Metrics
	if err := m.ctl.Stat(m.rel, &s); err != nil {
		return Memory{}, err
	}
	return Memory{
		Used:  max(int64(s.Memory.Usage.Usage)-int64(s.Memory.TotalInactiveFile), 0),
		Limit: int64(s.Memory.Usage.Limit),
		Peak:  int64(s.Memory.Usage.Max),
		Kills: int64(s.MemoryOomControl.OomKill),
		OOMs:  m.oomCount(),
	}, nil
}

// countOOMs begins to count how often the group runs out of memory. v1 has no
// file for it: failcnt also counts when reclaiming helped.
func (m *memoryV1) countOOMs() error {
	fd, err := m.event()
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ooms = fd
	return nil
}

// oomCount takes what the eventfd has counted since the last call; it is
// non-blocking, so nothing new is an error to pass over (eventfd(2)).
func (m *memoryV1) oomCount() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	var buf [8]byte
	if n, err := unix.Read(m.ooms, buf[:]); n == len(buf) && err == nil {
		m.seen += int64(binary.NativeEndian.Uint64(buf[:]))
	}
	return m.seen
}

func (m *memoryV1) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ooms >= 0 {
		_ = unix.Close(m.ooms)
		m.ooms = -1
	}
}

// alarm wakes when the group ran out of memory, a moment before the kernel
// has chosen and killed, so the counter is given time to settle.
func (m *memoryV1) alarm() (alarm, time.Duration, error) {
	fd, err := m.event()
	if err != nil {
		return nil, 0, err
	}
	return counterAlarm{os.NewFile(uintptr(fd), "eventfd")}, time.Second, nil
}

// event registers an eventfd with memory.oom_control.
func (m *memoryV1) event() (int, error) {
	fd, err := newEventfd()
	if err != nil {
		return -1, err
	}
	if err := m.listen(fd, "memory.oom_control", ""); err != nil {
		_ = unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// newEventfd makes one that is non-blocking, so that os.File waits for it in the
// runtime's poller.
func newEventfd() (int, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, fmt.Errorf("cannot make an eventfd: %w", err)
	}
	return fd, nil
}

// listen registers an eventfd with a file of the group, until it is closed.
func (m *memoryV1) listen(fd int, file, argument string) error {
	control, err := os.Open(filepath.Join(m.dir, file))
	if err != nil {
		return err
	}
	defer control.Close()
	line := fmt.Sprintf("%d %d %s", fd, control.Fd(), argument)
	return os.WriteFile(filepath.Join(m.dir, "cgroup.event_control"), []byte(line), 0)
}

// setPidsV1 bounds the processes of dir in the v1 pids hierarchy.
func setPidsV1(mount, dir string, limit int64) error {
	rel, err := filepath.Rel(mount, dir)
	if err != nil {
		return err
	}
	pids := cgroup1.NewPids(filepath.Dir(mount))
	return pids.Create(rel, &specs.LinuxResources{Pids: &specs.LinuxPids{Limit: &limit}})
}

func (m *memoryV1) files() (string, useFiles) {
	return m.dir, useFiles{"memory.usage_in_bytes", "memory.limit_in_bytes", "total_inactive_file"}
}

// buffers are as large as the largest of the files.
var buffers = sync.Pool{New: func() any { return new([8 << 10]byte) }}

// number reads the number behind a word at the beginning of a line, or the only
// one of the file when the word is "". No limit ("max") is -1.
func number(path, word string) (int64, error) {
	var n [1]int64
	err := words(path, []string{word}, n[:])
	return n[0], err
}

// words reads the numbers behind words of a file into n, in one look: see number.
func words(path string, names []string, n []int64) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // only read
	buf := buffers.Get().(*[8 << 10]byte)
	defer buffers.Put(buf)
	size, err := f.Read(buf[:])
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	missing := slices.Clone(names)
	for rest := buf[:size]; len(rest) > 0 && len(missing) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte{'\n'})
		name, value, _ := bytes.Cut(line, []byte{' '})
		if names[0] == "" {
			name, value = nil, line
		}
		i := slices.Index(names, string(name))
		if i < 0 {
			continue
		}
		missing = slices.DeleteFunc(missing, func(m string) bool { return m == names[i] })
		n[i] = -1
		if string(value) == "max" {
			continue
		}
		if n[i], err = strconv.ParseInt(string(value), 10, 64); err != nil {
			return err
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s has no %q", filepath.Base(path), missing[0])
	}
	return nil
}
