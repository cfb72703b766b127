package systemd

import "fmt"

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
