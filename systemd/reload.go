package systemd

import (
	"fmt"

	"golang.org/x/sys/unix"
)

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
