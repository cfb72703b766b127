//go:build unix

package bundle

import (
	"testing"

	sys "golang.org/x/sys/unix"
)

func fifo(t *testing.T, at string) {
	t.Helper()
	if err := sys.Mkfifo(at, 0o600); err != nil {
		t.Fatal(err)
	}
}
