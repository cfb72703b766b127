//go:build unix

package bundle

import (
	"syscall"
	"testing"
)

// withUmask sets the umask of the process until the test ends.
func withUmask(t *testing.T, mask int) {
	t.Helper()
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}
