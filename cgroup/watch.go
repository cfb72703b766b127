package cgroup

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// event is a descriptor that epoll wakes for when a group runs out of memory.
type event struct {
	fd     int // non-blocking; a bare number, for os.File.Fd makes it blocking
	mask   uint32
	settle time.Duration // how long the counter may lag behind the event
}

// watcher waits for all groups with one epoll and one goroutine, so that
// idle programs cost nothing, and unlike an inotify instance per group it
// does not run into fs.inotify.max_user_instances (128).
type watcher struct {
	epfd int
	wake *os.File // an eventfd that ends the loop
	done chan struct{}

	mu    sync.Mutex
	next  int32
	watch map[int32]*watch
}

// watch is one group's.
type watch struct {
	ev   *event
	mem  memory
	fn   func()
	seen int64

	mu      sync.Mutex
	stopped bool
	timer   *time.Timer
}

const (
	// rearm bounds how often a group is looked at: memory.events also
	// changes each time a program near its limit is reclaimed from.
	rearm = time.Second
	// settleStep is the pause between looks while the counter may lag.
	settleStep = 2 * time.Millisecond
)

func newWatcher() (*watcher, error) {
	epfd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot make an epoll: %w", err)
	}
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		_ = unix.Close(epfd)
		return nil, fmt.Errorf("cannot make an eventfd: %w", err)
	}
	w := &watcher{epfd: epfd, wake: os.NewFile(uintptr(fd), "wake"), done: make(chan struct{}), watch: map[int32]*watch{}}
	if err := unix.EpollCtl(epfd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: unix.EPOLLIN, Fd: 0}); err != nil {
		_ = unix.Close(epfd)
		_ = w.wake.Close()
		return nil, fmt.Errorf("cannot wait on an eventfd: %w", err)
	}
	go w.loop()
	return w, nil
}

func (w *watcher) loop() {
	defer close(w.done)
	var events [16]unix.EpollEvent
	for {
		n, err := unix.EpollWait(w.epfd, events[:], -1)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return // only a closed epoll, which close alone does
		}
		for _, e := range events[:max(n, 0)] {
			if e.Fd == 0 {
				return
			}
			w.mu.Lock()
			x := w.watch[e.Fd]
			w.mu.Unlock()
			if x != nil {
				x.look(w, e.Fd, time.Now())
			}
		}
	}
}

// look reads the counter and calls fn when it rose. Until the counter has
// settled it looks again in small steps; then the one-shot watch is armed
// again after a pause.
func (x *watch) look(w *watcher, key int32, since time.Time) {
	x.mu.Lock()
	if x.stopped {
		x.mu.Unlock()
		return
	}
	m, err := x.mem.read()
	rose := err == nil && m.Kills > x.seen
	if rose {
		x.seen = m.Kills
	}
	if !rose && err == nil && time.Since(since) < x.ev.settle {
		x.timer = time.AfterFunc(settleStep, func() { x.look(w, key, since) })
	} else {
		x.timer = time.AfterFunc(rearm, func() { w.arm(key, x) })
	}
	x.mu.Unlock()
	if rose {
		x.fn()
	}
}

// arm makes the one-shot watch ready again. What happened in the pause is
// not lost: both kinds of descriptor stay readable until they are read.
func (w *watcher) arm(key int32, x *watch) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.stopped {
		return
	}
	var buf [512]byte
	_, _ = unix.Pread(x.ev.fd, buf[:], 0) // resets POLLPRI of a kernfs file
	_, _ = unix.Read(x.ev.fd, buf[:8])    // and the count of an eventfd
	m, err := x.mem.read()
	if err == nil && m.Kills > x.seen {
		x.timer = time.AfterFunc(0, func() { x.look(w, key, time.Now()) })
		return
	}
	_ = unix.EpollCtl(w.epfd, unix.EPOLL_CTL_MOD, x.ev.fd,
		&unix.EpollEvent{Events: x.ev.mask | unix.EPOLLONESHOT, Fd: key})
}

// add starts a watch. The returned function ends it and may be called more
// than once; a call of fn under way then may still be running.
func (w *watcher) add(ev *event, mem memory, fn func()) (func(), error) {
	x := &watch{ev: ev, mem: mem, fn: fn}
	w.mu.Lock()
	w.next++
	key := w.next
	w.watch[key] = x
	w.mu.Unlock()
	stop := func() {
		w.mu.Lock()
		delete(w.watch, key)
		w.mu.Unlock()
		x.mu.Lock()
		defer x.mu.Unlock()
		if x.stopped {
			return
		}
		x.stopped = true
		if x.timer != nil {
			x.timer.Stop()
		}
		_ = unix.Close(ev.fd) // leaves the epoll with it
	}
	err := unix.EpollCtl(w.epfd, unix.EPOLL_CTL_ADD, ev.fd,
		&unix.EpollEvent{Events: ev.mask | unix.EPOLLONESHOT, Fd: key})
	if err != nil {
		stop()
		return nil, fmt.Errorf("cannot wait for memory events: %w", err)
	}
	return stop, nil
}

// close ends the loop and waits for it.
func (w *watcher) close() error {
	if _, err := w.wake.Write([]byte{1, 0, 0, 0, 0, 0, 0, 0}); err != nil {
		return fmt.Errorf("cannot stop the memory watcher: %w", err)
	}
	<-w.done
	return errors.Join(w.wake.Close(), unix.Close(w.epfd))
}
