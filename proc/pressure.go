package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/shirou/gopsutil/v3/mem"
	"golang.org/x/sys/unix"
)

// pressureFile is where the kernel tells for how long tasks have waited for memory
// (Documentation/accounting/psi.rst). Not every kernel has it, and some only with psi=1.
const pressureFile = "/proc/pressure/memory"

// pressureTrigger wakes when tasks have waited for 150 ms within 2 s for memory that had
// to be freed first, and at most once in 2 s. A window of 2 s, or several, needs no
// privilege.
const pressureTrigger = "some 150000 2000000"

// Pressure tells when tasks of the host wait for memory. Nothing wakes while none does.
type Pressure struct {
	// trigger is a bare descriptor: in the poller of the runtime it would tell that one,
	// which does not know POLLPRI, and each event is told once (psi_trigger_poll in
	// kernel/sched/psi.c).
	trigger int
	quit    int // an eventfd
}

// OpenPressure asks the kernel to tell. The caller closes.
func OpenPressure() (*Pressure, error) { return openPressure(pressureFile) }

func openPressure(path string) (*Pressure, error) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot watch %s: %w", path, err)
	}
	// With the NUL behind it, as the kernel's own example does.
	if _, err := unix.Write(fd, []byte(pressureTrigger+"\x00")); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot watch %s: %w", path, err), unix.Close(fd))
	}
	quit, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make an eventfd: %w", err), unix.Close(fd))
	}
	return &Pressure{fd, quit}, nil
}

// Close gives up the watch. No Wait may be under way.
func (p *Pressure) Close() error { return errors.Join(unix.Close(p.trigger), unix.Close(p.quit)) }

// Wait blocks until tasks have waited for memory, which may have been before the call;
// until d has passed, unless that is 0; or until ctx ends. It is for one goroutine at a
// time, and takes a thread meanwhile.
func (p *Pressure) Wait(ctx context.Context, d time.Duration) (waited bool, err error) {
	stop := context.AfterFunc(ctx, func() {
		var one [8]byte
		binary.NativeEndian.PutUint64(one[:], 1)
		_, _ = unix.Write(p.quit, one[:])
	})
	defer stop()
	timeout := -1
	until := time.Now().Add(d)
	for ctx.Err() == nil {
		if d > 0 {
			timeout = max(int(time.Until(until).Milliseconds())+1, 0) // not before d has passed
		}
		fds := []unix.PollFd{{Fd: int32(p.trigger), Events: unix.POLLPRI}, {Fd: int32(p.quit), Events: unix.POLLIN}} //nolint:gosec // descriptors
		switch _, err := unix.Poll(fds, timeout); {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return false, fmt.Errorf("cannot wait for the host's memory: %w", err)
		case fds[0].Revents&unix.POLLERR != 0:
			return false, errors.New("cannot wait for the host's memory: the kernel has given up to tell")
		}
		return fds[0].Revents&unix.POLLPRI != 0, nil
	}
	return false, nil
}

// Memory is what memory the host has, in bytes.
type Memory struct {
	Available int64 // of the RAM, without swapping, as the kernel estimates it
	RAM       int64
	Swap      int64
}

// FreeMemory reads how much memory the host has left.
func FreeMemory() (Memory, error) {
	m, err := mem.VirtualMemory()
	if err != nil {
		return Memory{}, fmt.Errorf("cannot read the host's memory: %w", err)
	}
	return Memory{int64(m.Available), int64(m.Total), int64(m.SwapTotal)}, nil //nolint:gosec // bytes of a machine
}
