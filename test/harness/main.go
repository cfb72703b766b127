package harness

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// What Main finds out about the binary and this machine.
var (
	Binary    string // berth
	Unready   string // why this machine cannot run the tests, "" when it can
	Unweighed string // why shares of the processor are not enforced, "" when they are
	Emulated  = os.Getenv("BERTH_E2E_SLOW") != ""
)

// lane tells packages of tests that run at the same time apart: their daemons
// have other users and ports.
var lane int

// perLane is how many daemons one of them may have.
const perLane = 1000

// Main builds berth once and runs the tests of a package on it, and returns the
// exit status. The tests mostly wait for programs, so more of them run at once
// than there are processors. Each package has a number of its own, from 0 to 2.
func Main(m *testing.M, number int) int {
	lane = number
	parallel := "6"
	if Emulated { // 30 times slower, and to ask it every moment is most of its work
		parallel = "10" // they wait longer
		Patience *= 3
		Pause *= 20
		Web.Timeout *= 6
	}
	if err := flag.Set("test.parallel", parallel); err != nil { // the command line beats it
		panic(err)
	}
	return buildAndRun(m)
}

// Alone waits until no other run of the tests of this name is on the machine, for each looks
// for what its user ids left, and keeps others waiting until release.
func Alone(name string) (release func(), err error) {
	lock, err := lockFile(name)
	if err == nil {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot take the lock of these tests: %w", err)
	}
	return func() { _ = lock.Close() }, nil
}

// lockFile opens an empty file, which the tests of all users of the machine lock.
func lockFile(name string) (*os.File, error) {
	path := "/tmp/berth-" + name + ".lock"
	f, err := os.OpenFile(path, os.O_RDWR, 0) // with O_CREATE, fs.protected_regular refuses the file of another user
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o666) //nolint:gosec // as above
	}
	if err == nil {
		_ = f.Chmod(0o666) // if it is ours
	}
	return f, err
}

func buildAndRun(m *testing.M) int {
	if os.Getuid() != 0 {
		Unready = "needs root: berth gives every application a user and a control group"
		return m.Run()
	}
	release, err := Alone([]string{"e2e", "faults", "programs"}[lane])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer release()
	dir, err := os.MkdirTemp("/tmp", "berth-e2e-bin.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	Binary = filepath.Join(dir, "berth")
	if made := os.Getenv("BERTH_E2E_BINARY"); made != "" {
		// A guest, which must be able to run everything; there doctor takes a
		// minute for the versions of the runtimes.
		Binary = made
		return m.Run()
	}
	build := exec.CommandContext(context.Background(), "test/scripts/build", Binary)
	build.Dir = "../.."
	if os.Getenv("BERTH_E2E_RACE") != "" { // races of the daemon itself make its exit status 66
		build = exec.CommandContext(context.Background(), "go", "build", "-race", "-o", Binary, ".")
		build.Dir = "../.."
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := errors.Join(os.Chmod(dir, 0o711), build.Run()); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build berth:", err)
		return 1
	}
	Unready = examine()
	return m.Run()
}

// examine asks berth itself whether this machine can limit programs.
func examine() string {
	if os.Getuid() != 0 {
		return "needs root: programs run in control groups as other users"
	}
	cmd := exec.CommandContext(context.Background(), Binary, "doctor", "--json", "--data-dir", "/tmp/berth-e2e-doctor")
	cmd.Env = CleanEnv()
	out, _ := cmd.Output()
	var findings []struct{ Name, Verdict, Text string }
	if err := json.Unmarshal(out, &findings); err != nil {
		return fmt.Sprintf("berth doctor --json printed %q", out)
	}
	limited := false
	for _, f := range findings {
		switch {
		case f.Name == "limit" && f.Verdict == "ok":
			limited = true
		case f.Name == "cpu" && f.Verdict != "ok":
			Unweighed = f.Text
		case f.Verdict == "FAIL", (f.Name == "node" || f.Name == "python3") && f.Verdict != "ok":
			return fmt.Sprintf("berth doctor says of %s: %s", f.Name, f.Text)
		}
	}
	if !limited {
		return "berth doctor could not prove the RAM limit"
	}
	return ""
}
