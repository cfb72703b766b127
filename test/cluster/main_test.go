//go:build cluster

package cluster

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/kube"
	"berth/test/harness"
)

// inside is the environment of the process in the network of the control plane.
const inside = "BERTH_TEST_CLUSTER"

// world is the cluster of the tests of this package.
var world *Cluster

// TestMain starts the cluster, in a process in the network of its control plane: there the tests reach machines and
// pods, and loopback is as it is elsewhere.
func TestMain(m *testing.M) {
	flag.Parse()
	run := outside
	if os.Getenv(inside) != "" {
		run = func() (int, error) { return tests(m) }
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, "cannot run the tests on a cluster:", err)
		code = 1
	}
	os.Exit(code)
}

// outside makes the network, and runs this program again in it.
func outside() (code int, err error) {
	lock, err := os.OpenFile("/tmp/berth-cluster.lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return 0, err
	}
	defer func() { _ = lock.Close() }() // which gives it back
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return 0, err
	}
	if err := run("ip", "netns", "add", prefix+"cp"); err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, run("ip", "netns", "del", prefix+"cp")) }()
	argv := in(prefix+"cp", append([]string{"/proc/self/exe"}, os.Args[1:]...)...)
	argv[len(argv)-len(os.Args)], err = os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	err = cmd.Run()
	if _, ended := errors.AsType[*exec.ExitError](err); ended {
		err = nil
	}
	return cmd.ProcessState.ExitCode(), err
}

func tests(m *testing.M) (code int, err error) {
	out, err := exec.Command("../scripts/kubernetes").Output()
	if err != nil {
		return 0, fmt.Errorf("cannot build Kubernetes: %w", err)
	}
	dir, err := os.MkdirTemp("", "berth-cluster.")
	if err != nil {
		return 0, err
	}
	began := time.Now()
	machines := 2
	if harness.Emulated { // thirty times slower, so the tests that need one are enough there
		machines = 1
	}
	if world, err = New(strings.TrimSpace(string(out)), dir, machines); err != nil {
		return 0, err
	}
	fmt.Printf("the cluster is ready after %.1f s\n", time.Since(began).Seconds())
	defer func() { err = errors.Join(err, world.Close()) }()
	return harness.Main(m, 2), nil
}

// client is berth at the cluster: a service account with the rights that deploy/kubernetes gives it.
func client(t *testing.T) *kube.Client {
	t.Helper()
	c, err := kube.New(kube.Config{Server: world.Server, CAFile: world.CA, TokenFile: token(t), Namespace: "berth-apps"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func token(t *testing.T) string {
	t.Helper()
	manifest, err := os.ReadFile("../../deploy/kubernetes/berth.yaml")
	if err == nil {
		err = world.Apply(string(manifest))
	}
	harness.Eventually(t, "the namespace has its account", func() bool { // which a controller makes
		return world.kubectl("get", "serviceaccount", "default", "-n", "berth-apps").Run() == nil
	})
	file := filepath.Join(t.TempDir(), "token")
	if err == nil {
		err = world.Token("berth-apps", "berth", file)
	}
	if err != nil {
		t.Fatal(err)
	}
	return file
}
