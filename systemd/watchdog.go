package systemd

import (
	"os"
	"strconv"
	"time"
)

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

// Listens reports whether a manager listens.
func Listens() bool { return os.Getenv(socketEnv) != "" }
