package faults

import (
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"berth/test/harness"
)

// mountsAreOwn says that this process and its daemons have mounts of their own.
const mountsAreOwn = "BERTH_FAULTS_MOUNTS"

// TestMain goes on in a mount namespace of its own: disks that the tests make are
// seen by nobody else, and go with the last process.
func TestMain(m *testing.M) {
	if os.Getuid() == 0 && os.Getenv(mountsAreOwn) == "" && os.Getenv("BERTH_E2E_BINARY") == "" { // a guest is its own
		if err := again(); err != nil {
			fmt.Fprintln(os.Stderr, "cannot get a mount namespace:", err)
			os.Exit(1)
		}
	}
	// Where mkfs is.
	if err := os.Setenv("PATH", os.Getenv("PATH")+":/usr/sbin:/sbin"); err != nil {
		panic(err)
	}
	os.Exit(harness.Main(m, 1))
}

// again executes this program anew behind unshare(1).
func again() error {
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append([]string{"unshare", "--mount", "--propagation", "private", self}, os.Args[1:]...)
	return syscall.Exec(unshare, args, append(os.Environ(), mountsAreOwn+"=1"))
}
