package files

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// A directory in use is refused with the process that has it.
func TestLockSaysWho(t *testing.T) {
	dir := t.TempDir()
	held, err := Lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	_, err = Lock(dir)
	if want := fmt.Sprintf("cannot use %s: another berth is serving from it (pid %d)", dir, os.Getpid()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if pid := LockedBy(dir); pid != 0 {
		t.Errorf("pid %d has a lock that nobody has", pid)
	}
	if pid := LockedBy(filepath.Join(dir, "none")); pid != 0 {
		t.Errorf("pid %d has a lock on no file", pid)
	}
}
