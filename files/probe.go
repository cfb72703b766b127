package files

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Prober finds out whether a disk answers at all. It has one goroutine at a time,
// which may hang as the disk does. It is safe for concurrent use.
type Prober struct {
	try  func() // writes something
	mu   sync.Mutex
	done chan struct{} // of the last try
	work sync.WaitGroup
}

// NewProber returns a prober of a disk; try writes to it.
func NewProber(try func()) *Prober {
	p := &Prober{try: try, done: make(chan struct{})}
	close(p.done)
	return p
}

// Wait blocks until no try is under way.
func (p *Prober) Wait() error {
	p.work.Wait()
	return nil
}

// Hangs reports whether a file cannot be written within a time. An error is an
// answer.
func (p *Prober) Hangs(within time.Duration) bool {
	p.mu.Lock()
	select {
	case <-p.done:
		p.done = nil
	default:
	}
	if p.done == nil {
		done := make(chan struct{})
		p.done = done
		p.work.Go(func() {
			defer close(done)
			p.try()
		})
	}
	done := p.done
	p.mu.Unlock()
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return false
	case <-timer.C:
		return true
	}
}

// Touch writes a file without a name to the disk of dir.
func Touch(dir string) error {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	_, err = unix.Write(fd, []byte{0})
	return errors.Join(err, unix.Fsync(fd), unix.Close(fd))
}
