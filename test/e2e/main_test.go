package e2e

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"berth/test/harness"
)

var (
	berth     string // the binary
	unready   string // why this machine cannot run the tests, "" when it can
	unweighed string // why shares of the processor are not enforced, "" when they are
)

// TestMain builds berth once. The tests mostly wait for programs, so more of
// them run at once than there are processors.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == withoutBPF {
		fmt.Fprintln(os.Stderr, forbidBPF(os.Args[2:]))
		os.Exit(1)
	}
	parallel := "6"
	if os.Getenv("BERTH_E2E_SLOW") != "" { // emulated: 30 times slower, and to ask it every moment is most of its work
		parallel = "10" // they wait longer
		harness.Patience *= 6
		harness.Pause *= 20
		web.Timeout *= 6
	}
	if err := flag.Set("test.parallel", parallel); err != nil { // the command line beats it
		panic(err)
	}
	os.Exit(buildAndRun(m))
}

func buildAndRun(m *testing.M) int {
	if os.Getuid() != 0 {
		unready = "needs root: berth gives every application a user and a control group"
		return m.Run()
	}
	// One run on a machine at a time: each looks for what its user ids left.
	lock, err := os.OpenFile("/tmp/berth-e2e.lock", os.O_CREATE|os.O_RDWR, 0o666)
	if err == nil {
		defer lock.Close()
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot take the lock of these tests:", err)
		return 1
	}
	dir, err := os.MkdirTemp("/tmp", "berth-e2e-bin.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	berth = filepath.Join(dir, "berth")
	if made := os.Getenv("BERTH_E2E_BINARY"); made != "" {
		// A guest, which must be able to run everything; there doctor takes a
		// minute for the versions of the runtimes.
		berth = made
		return m.Run()
	}
	build := exec.Command("scripts/build", berth)
	build.Dir = "../.."
	if os.Getenv("BERTH_E2E_RACE") != "" { // races of the daemon itself make its exit status 66
		build = exec.Command("go", "build", "-race", "-o", berth, ".")
		build.Dir = "../.."
	}
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := errors.Join(os.Chmod(dir, 0o711), build.Run()); err != nil {
		fmt.Fprintln(os.Stderr, "cannot build berth:", err)
		return 1
	}
	unready = examine()
	return m.Run()
}

// examine asks berth itself whether this machine can limit programs.
func examine() string {
	if os.Getuid() != 0 {
		return "needs root: programs run in control groups as other users"
	}
	cmd := exec.Command(berth, "doctor", "--json", "--data-dir", "/tmp/berth-e2e-doctor")
	cmd.Env = harness.CleanEnv()
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
			unweighed = f.Text
		case f.Verdict == "FAIL", (f.Name == "node" || f.Name == "python3") && f.Verdict != "ok":
			return fmt.Sprintf("berth doctor says of %s: %s", f.Name, f.Text)
		}
	}
	if !limited {
		return "berth doctor could not prove the RAM limit"
	}
	return ""
}
