package systemd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// socketEnv is where the manager says it listens: a path, or an abstract name
// that starts with '@'.
const socketEnv = "NOTIFY_SOCKET"

// Ready says that the daemon serves now.
func Ready() error { return Notify("READY=1") }

// Stopping says that the daemon is about to end.
func Stopping() error { return Notify("STOPPING=1") }

// Notify sends assignments such as "READY=1" in one message. It blocks for a
// second at most, is safe for concurrent use, and does nothing when no manager
// listens.
func Notify(state ...string) error {
	if err := send(state, nil); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	return nil
}

// Reloading says that the daemon takes new settings, or a new binary, and what it
// does just now. Ready or Serving MUST follow. Managers from 253 on want the time
// (sd_notify(3)).
func Reloading(status string) error {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	return Notify("RELOADING=1", fmt.Sprintf("MONOTONIC_USEC=%d", now.Nano()/1000), "STATUS="+status)
}

// Serving is Ready with a line of text that the manager shows, "" for none.
func Serving(status string) error { return Notify("READY=1", "STATUS="+status) }

// Watchdog returns within what time the manager wants to hear Alive again, 0
// for never (sd_watchdog_enabled(3)).
func Watchdog() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	us, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || us <= 0 || us > int64(24*time.Hour/time.Microsecond) || !Listens() {
		return 0
	}
	return time.Duration(us) * time.Microsecond
}

// Alive says that the daemon works. Say it only when that was tried.
func Alive() error { return Notify("WATCHDOG=1") }

// Status says in one line how the daemon is, for systemctl status.
func Status(text string) error { return Notify("STATUS=" + text) }

// Extend asks for so much time from now on for what goes on, a start or a stop
// (EXTEND_TIMEOUT_USEC).
func Extend(by time.Duration) error {
	return Notify("EXTEND_TIMEOUT_USEC=" + strconv.FormatInt(by.Microseconds(), 10))
}

// Settle blocks until the manager has done what it was told before, for five seconds at
// most (sd_notify_barrier(3)).
func Settle() error {
	if !Listens() {
		return nil
	}
	r, w, err := os.Pipe()
	if err == nil {
		conn, failed := w.SyscallConn()
		err = failed
		if err == nil {
			failed = conn.Control(func(fd uintptr) { err = send([]string{"BARRIER=1"}, unix.UnixRights(int(fd))) })
		}
		err = errors.Join(err, failed, w.Close(), r.SetReadDeadline(time.Now().Add(5*time.Second)))
		if err == nil {
			if _, err = r.Read(make([]byte, 1)); errors.Is(err, io.EOF) { // the manager has closed its copy
				err = nil
			}
		}
		_ = r.Close()
	}
	if err != nil {
		return fmt.Errorf("cannot wait for the service manager: %w", err)
	}
	return nil
}

// Listens reports whether a manager listens.
func Listens() bool { return os.Getenv(socketEnv) != "" }

// send sends assignments and perhaps descriptors in one message.
func send(state []string, rights []byte) error {
	name := os.Getenv(socketEnv)
	if name == "" {
		return nil
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }() // nothing is left to be sent
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_SNDTIMEO, &unix.Timeval{Sec: 1}); err != nil {
		return err
	}
	// A leading '@' becomes the zero byte of an abstract address.
	to := &unix.SockaddrUnix{Name: name}
	err = error(unix.EINTR)
	for errors.Is(err, unix.EINTR) {
		err = unix.Sendmsg(fd, []byte(strings.Join(state, "\n")), rights, to, unix.MSG_NOSIGNAL)
	}
	return err
}
