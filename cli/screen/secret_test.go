//go:build linux

package screen_test

import (
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/cli/screen"
	"berth/test/harness"
)

// A person pastes a secret in the moment in which the prompt is there.
func TestSecretIsNotShown(t *testing.T) {
	person, terminal := harness.OpenPTY(t, 80, 24)
	defer person.Close()
	seen := make(chan string)
	go func() {
		b, _ := io.ReadAll(person) // EIO at the end
		seen <- string(b)
	}()
	before, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	prompt := writer(func(b []byte) (int, error) {
		n, err := terminal.Write(b)
		if err != nil {
			return n, err
		}
		if _, err := person.WriteString("a secret\n"); err != nil {
			return n, err
		}
		// The terminal has shown the line, or not, when it can be read.
		ready := []unix.PollFd{{Fd: int32(terminal.Fd()), Events: unix.POLLIN}}
		if got, err := unix.Poll(ready, int(time.Minute.Milliseconds())); got != 1 || err != nil {
			t.Errorf("nothing can be read: %d, %v", got, err)
		}
		return n, nil
	})
	text, err := screen.AskSecret(terminal, prompt, "Token: ")
	if string(text) != "a secret" || err != nil {
		t.Errorf("AskSecret() = %q, %v", text, err)
	}
	if after, err := unix.IoctlGetTermios(int(terminal.Fd()), unix.TCGETS); err != nil || *after != *before {
		t.Errorf("the terminal has the modes %v afterwards, %v; before it had %v", after, err, before)
	}
	_ = terminal.Close()
	if got := <-seen; strings.TrimSpace(got) != "Token:" {
		t.Errorf("the terminal shows %q", got)
	}
}

func TestSecretWithoutATerminal(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := screen.AskSecret(f, io.Discard, ""); err == nil || !strings.HasPrefix(err.Error(), "cannot hide what is typed: ") {
		t.Errorf("AskSecret() of a file: %v", err)
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }
