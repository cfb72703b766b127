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
	"time"
)

var (
	berth     string // the binary
	unready   string // why this machine cannot run the tests, "" when it can
	unweighed string // why shares of the processor are not enforced, "" when they are
)

// TestMain builds berth once. The tests mostly wait for programs, so more of
// them run at once than there are processors.
func TestMain(m *testing.M) {
	parallel := "6"
	if os.Getenv("BERTH_E2E_SLOW") != "" {
		parallel = "10" // they wait longer
		patience *= 6
		pause *= 20
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
	cmd.Env = cleanEnv()
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

// ready skips a test that this machine cannot run; CI must be able to.
func ready(t *testing.T) {
	t.Helper()
	switch {
	case unready != "" && os.Getenv("CI") == "true":
		t.Fatal(unready)
	case unready != "":
		t.Skip(unready)
	}
}

// patience bounds every wait: far more than anything takes on a busy machine.
// An emulated one, so called by the environment, is about 30 times slower, and
// asking it every moment is most of its work.
var (
	patience = 40 * time.Second
	pause    = 10 * time.Millisecond
)

// eventually polls until ok, or fails.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}
