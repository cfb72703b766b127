package attacks

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

var (
	berth    string // the binary
	attacker string // the program of testdata/c
	unready  string // why this machine cannot run the tests, "" when it can
	slow     = os.Getenv("BERTH_E2E_SLOW") != ""
)

// inside is set in the process that has its own network, and names what was
// built.
const inside = "BERTH_ATTACKS_INSIDE"

// TestMain runs the tests in a child with a network and mounts of its own.
func TestMain(m *testing.M) {
	if _, err := os.Stat(asProgram); err == nil {
		program() // for ever
	}
	harness.Patience = time.Minute // several attackers are busy at a time
	if slow {                      // emulated: 30 times slower
		harness.Patience *= 6
		harness.Pause *= 20
		web.Timeout *= 6
	}
	if os.Getuid() != 0 {
		unready = "needs root: berth gives every application a user and a control group"
		os.Exit(m.Run())
	}
	if dir := os.Getenv(inside); dir != "" {
		os.Exit(within(m, dir))
	}
	release, err := harness.Alone("attacks")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	defer release()
	code, err := build()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// within runs the tests, in a network that is empty still.
func within(m *testing.M, dir string) int {
	berth, attacker = filepath.Join(dir, "berth"), filepath.Join(dir, "attacker")
	if made := os.Getenv("BERTH_E2E_BINARY"); made != "" {
		berth = made
	}
	// They mostly wait for programs. The command line beats it.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	if err := network(dir); err != nil {
		fmt.Fprintln(os.Stderr, "cannot make a network for the tests:", err)
		return 1
	}
	return m.Run()
}

// build makes the programs and runs this one again, inside.
func build() (code int, err error) {
	dir, err := os.MkdirTemp("/tmp", "berth-attacks-bin.")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil {
		return 1, err
	}
	if os.Getenv("BERTH_E2E_BINARY") == "" {
		build := exec.Command("test/scripts/build", filepath.Join(dir, "berth"))
		build.Dir = "../.."
		if out, err := build.CombinedOutput(); err != nil {
			return 1, fmt.Errorf("cannot build berth: %w\n%s", err, out)
		}
	}
	if err := compile(dir); err != nil {
		return 1, err
	}
	runtime.LockOSThread() // whose end would be the child's (prctl(2), PR_SET_PDEATHSIG)
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"="+dir)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return 1, fmt.Errorf("cannot run the tests in a network of their own: %w", err)
	}
	return max(cmd.ProcessState.ExitCode(), -cmd.ProcessState.ExitCode()), nil
}

// compile makes the attacker in C, with everything in it that it needs.
func compile(dir string) error {
	if made := os.Getenv("BERTH_ATTACKS_C"); made != "" { // in a guest a compiler takes a minute
		program, err := os.ReadFile(made)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "attacker"), program, 0o755)
	}
	sources, err := filepath.Glob("testdata/c/*.c")
	if err != nil {
		return err
	}
	cmd := exec.Command("gcc", append([]string{"-O1", "-Wall", "-static", "-pthread", "-o", filepath.Join(dir, "attacker")}, sources...)...)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		return fmt.Errorf("cannot compile the attacker: %w\n%s", err, out)
	}
	return nil
}

// network makes this process's network: lo, a way to the other one, and the
// internet's names.
func network(dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	names := filepath.Join(dir, "resolv.conf")
	// A stub, as systemd-resolved has one, and a server that is elsewhere.
	text := "nameserver " + stub4 + "\nnameserver " + peer4 + "\noptions timeout:2 attempts:2\n"
	if err := os.WriteFile(names, []byte(text), 0o644); err != nil {
		return err
	}
	if err := os.Chmod(names, 0o644); err != nil {
		return err
	}
	if err := syscall.Mount(names, "/etc/resolv.conf", "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("/etc/resolv.conf: %w", err)
	}
	return ips("link set lo up", "link add berth0 type veth peer name berth1")
}

// ips configures the network of the calling thread.
func ips(lines ...string) error {
	for _, line := range lines {
		if out, err := exec.Command("/sbin/ip", strings.Fields(line)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, out)
		}
	}
	return nil
}
