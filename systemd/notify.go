package systemd

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"
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
	name := os.Getenv(socketEnv)
	if name == "" {
		return nil
	}
	// net turns a leading '@' into the zero byte of an abstract address.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	defer func() { _ = conn.Close() }() // nothing is left to be sent
	if err := conn.SetWriteDeadline(time.Now().Add(time.Second)); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	if _, err := conn.Write([]byte(strings.Join(state, "\n"))); err != nil {
		return fmt.Errorf("cannot notify the service manager: %w", err)
	}
	return nil
}
