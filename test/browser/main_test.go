package browser

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

var (
	berth   string // the binary
	unready string // why this machine cannot run the tests, "" when it can
)

// A test waits for pages and programs more than it computes: more of them run at once than
// there are processors.
func TestMain(m *testing.M) {
	if err := flag.Set("test.parallel", "4"); err != nil { // the command line beats it
		panic(err)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if os.Getuid() != 0 {
		unready = "needs root: berth gives every application a user and a control group"
		return m.Run()
	}
	// One run on a machine at a time: user ids and ports are always the same.
	lock, err := os.OpenFile("/tmp/berth-browser.lock", os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // nothing is in it
	if err == nil {
		defer lock.Close()
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot take the lock of these tests:", err)
		return 1
	}
	dir, err := os.MkdirTemp("/tmp", "berth-browser.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	berth = filepath.Join(dir, "berth")
	build := exec.Command("test/scripts/build", berth)
	build.Dir, build.Stdout, build.Stderr = "../..", os.Stderr, os.Stderr
	if err := errors.Join(os.Chmod(dir, 0o711), build.Run()); err != nil { //nolint:gosec // programs pass through
		fmt.Fprintln(os.Stderr, "cannot build berth:", err)
		return 1
	}
	if _, err := os.Stat(program); err != nil {
		unready = "needs Chromium: test/scripts/setup languages installs it"
	}
	return m.Run()
}
