package sandbox

import (
	"context"
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Missing is what the call that puts up a wall says where the kernel, or the
// rights of this process, do not give it. No other error tells anything of walls.
type Missing struct{ Err error }

// Error is that of the call.
func (m *Missing) Error() string { return m.Err.Error() }

// Unwrap returns the cause.
func (m *Missing) Unwrap() error { return m.Err }

// refusal makes a Missing of an error of the call that puts up a wall, unless it
// is one that passes.
func refusal(err error) error {
	if err == nil || Passes(err) {
		return err
	}
	return &Missing{err}
}

// passing are the errors for want of what others give back: processes, memory,
// descriptors, room.
var passing = []syscall.Errno{
	unix.EAGAIN, unix.ENOMEM, unix.EMFILE, unix.ENFILE, unix.ENOSPC, unix.EDQUOT, unix.ENOBUFS, unix.EUSERS, unix.EINTR, unix.ETXTBSY, unix.EIO,
}

// Passes reports whether an error is of the moment, and says nothing of what the
// kernel can do.
func Passes(err error) bool {
	return slices.ContainsFunc(passing, func(errno syscall.Errno) bool { return errors.Is(err, errno) })
}

// Insist calls do until it is a success or tells of something Missing, but no
// longer than patience, and returns its last error. told, unless it is nil, hears of the
// first error that it does not return yet.
func Insist(ctx context.Context, patience time.Duration, told func(error), do func() error) error {
	deadline := time.Now().Add(patience)
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		err := do()
		if _, missing := errors.AsType[*Missing](err); err == nil || missing || time.Until(deadline) < pause {
			return err
		}
		if told != nil {
			told(err)
			told = nil
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// The pauses between two tries.
const (
	firstPause = 50 * time.Millisecond
	lastPause  = time.Second
)
