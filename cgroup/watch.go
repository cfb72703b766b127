package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// alarm wakes its watch when a group may have run out of memory.
type alarm interface {
	// arm makes the next event wake. What happened before may be lost.
	arm() error
	// wait blocks until an event, or fails once close was called.
	wait() error
	close()
}

// watch calls fn each time a group's counter of kills has risen. It is a
// goroutine that sleeps in the runtime's poller, the one epoll of the process:
// while nothing happens it costs its stack and no system call.
type watch struct {
	alarm  alarm
	mem    memory
	settle time.Duration // how long the counter may lag behind an event
	fn     func()
	quit   chan struct{}
	seen   int64
}

const (
	// rearm bounds how often a group is looked at: memory.events also
	// changes each time a program near its limit is reclaimed from.
	rearm = time.Second
	// settleStep is the pause between looks while the counter may lag.
	settleStep = 2 * time.Millisecond
)

// begin starts a watch in all. The returned function ends it and may be called
// more than once; a call of fn under way then may still be running, which
// all.Wait waits for.
func begin(all *sync.WaitGroup, mem memory, fn func(), settle time.Duration, a alarm) (stop func()) {
	w := &watch{alarm: a, mem: mem, settle: settle, fn: fn, quit: make(chan struct{})}
	all.Go(w.loop)
	return sync.OnceFunc(func() {
		close(w.quit)
		a.close()
	})
}

func (w *watch) loop() {
	for w.alarm.arm() == nil {
		w.check() // for what happened while it was not armed
		if w.alarm.wait() != nil {
			return
		}
		for since := time.Now(); !w.check() && time.Since(since) < w.settle; {
			if !w.pause(settleStep) {
				return
			}
		}
		if !w.pause(rearm) {
			return
		}
	}
}

// check reads the counter and calls fn when it rose. It reports whether there
// is nothing more to wait for.
func (w *watch) check() bool {
	m, err := w.mem.read()
	if err != nil || m.Kills <= w.seen {
		return err != nil
	}
	w.seen = m.Kills
	w.fn()
	return true
}

// pause reports whether the watch goes on after it.
func (w *watch) pause(d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-w.quit:
		return false
	}
}

// counterAlarm is an eventfd that a v1 controller counts up.
type counterAlarm struct{ file *os.File }

func (a counterAlarm) arm() error { return nil }

func (a counterAlarm) wait() error {
	var count [8]byte
	_, err := a.file.Read(count[:])
	return err
}

func (a counterAlarm) close() { _ = a.file.Close() }

// notifier is the one inotify for the files of all v2 groups: the kernel
// reports a change of memory.events as a modification (Linux,
// cgroup-v2.rst). A descriptor per group would run into fs.inotify's limit of
// instances (128), or cost a file each.
type notifier struct {
	file *os.File
	conn int // the bare descriptor: os.File.Fd would make it blocking
	done chan struct{}

	mu      sync.Mutex
	closed  bool
	waiting map[int32][]*changeAlarm // by watch descriptor: a file has one
}

func newNotifier() (*notifier, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("cannot make an inotify: %w", err)
	}
	n := &notifier{
		file: os.NewFile(uintptr(fd), "inotify"), conn: fd,
		done: make(chan struct{}), waiting: map[int32][]*changeAlarm{},
	}
	go n.loop()
	return n, nil
}

// loop hands out events until the inotify is closed.
func (n *notifier) loop() {
	defer close(n.done)
	var buf [4096]byte
	for {
		size, err := n.file.Read(buf[:])
		if err != nil {
			return
		}
		// struct inotify_event: wd, mask, cookie, length of the name behind it.
		for b := buf[:size]; len(b) >= unix.SizeofInotifyEvent; {
			wd := int32(binary.NativeEndian.Uint32(b))
			name := binary.NativeEndian.Uint32(b[12:])
			b = b[unix.SizeofInotifyEvent+int(name):]
			n.mu.Lock()
			for _, a := range n.waiting[wd] {
				a.rang <- struct{}{} // it has room: one is armed once, and rings once
			}
			delete(n.waiting, wd)
			n.mu.Unlock()
		}
	}
}

// close ends the loop and waits for it.
func (n *notifier) close() error {
	n.mu.Lock()
	n.closed = true
	n.mu.Unlock()
	err := n.file.Close()
	<-n.done
	return err
}

// changeAlarm tells of one change of a file, through the notifier.
type changeAlarm struct {
	n       *notifier
	path    string
	rang    chan struct{}
	quit    chan struct{}
	wd      int32
	stopped bool
}

func (n *notifier) alarm(path string) *changeAlarm {
	return &changeAlarm{n: n, path: path, rang: make(chan struct{}, 1), quit: make(chan struct{})}
}

var errStopped = errors.New("the watch has ended")

// arm asks for one event; the kernel forgets the watch with it.
func (a *changeAlarm) arm() error {
	a.n.mu.Lock() // so that no event comes before its alarm is known
	defer a.n.mu.Unlock()
	if a.stopped || a.n.closed {
		return errStopped
	}
	wd, err := unix.InotifyAddWatch(a.n.conn, a.path, unix.IN_MODIFY|unix.IN_ONESHOT)
	if err != nil {
		return fmt.Errorf("cannot watch %s: %w", a.path, err)
	}
	a.wd = int32(wd)
	a.n.waiting[a.wd] = append(a.n.waiting[a.wd], a)
	return nil
}

func (a *changeAlarm) wait() error {
	select {
	case <-a.rang:
		return nil
	case <-a.quit:
		return errStopped
	}
}

func (a *changeAlarm) close() {
	a.n.mu.Lock()
	defer a.n.mu.Unlock()
	a.stopped = true
	close(a.quit)
	others := slices.DeleteFunc(a.n.waiting[a.wd], func(o *changeAlarm) bool { return o == a })
	if len(others) > 0 || a.n.closed {
		a.n.waiting[a.wd] = others
		return
	}
	delete(a.n.waiting, a.wd)
	_, _ = unix.InotifyRmWatch(a.n.conn, uint32(a.wd)) // gone with its group, at worst
}
