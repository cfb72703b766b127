package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

var (
	berth   string // the binary
	clients string // the directory with node_modules
	unready string // why this machine cannot run the tests, "" when it can
)

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if os.Getuid() != 0 {
		unready = "needs root: berth gives every application a user and a control group"
		return m.Run()
	}
	dir, err := os.MkdirTemp("/tmp", "berth-clients.")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	berth = filepath.Join(dir, "berth")
	build := exec.Command("test/scripts/build", berth)
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build berth: %v\n%s", err, out)
		return 1
	}
	if unready = harness.OldNode(20); unready != "" {
		return m.Run()
	}
	if clients, err = install(); err != nil {
		unready = fmt.Sprintf("cannot install the clients: %v", err)
	}
	return m.Run()
}

// install puts the clients below .cache, once for each lock file.
func install() (string, error) {
	lock, err := os.ReadFile("package-lock.json")
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(lock)
	dir, err := filepath.Abs(filepath.Join("../../.cache/clients", hex.EncodeToString(sum[:6])))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(filepath.Join(dir, "done")); err == nil {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // no secret
		return "", err
	}
	for _, name := range []string{"package.json", "package-lock.json"} {
		text, err := os.ReadFile(name)
		if err != nil {
			return "", err
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil { //nolint:gosec // no secret
			return "", err
		}
	}
	cmd := exec.Command("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return dir, os.WriteFile(filepath.Join(dir, "done"), nil, 0o600)
}

// daemon is a berth serve with an account that has a token.
type daemon struct {
	harness.Daemon
	t     *testing.T
	data  string
	token string
	id    string // of the account
}

// launch starts a daemon that ends with the test.
func launch(t *testing.T, args ...string) *daemon {
	t.Helper()
	harness.Ready(t, unready)
	root, err := os.MkdirTemp("/tmp", "berth-clients.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	if err := os.Chmod(root, 0o711); err != nil { //nolint:gosec // programs pass through
		t.Fatal(err)
	}
	d, port := &daemon{t: t, data: filepath.Join(root, "data")}, harness.Ports(t, harness.PortCount)
	cmd := exec.Command(berth, slices.Concat([]string{
		"serve", "--data-dir", d.data, "--listen", "127.0.0.1:0", "--rate-limit", "10000", "--apps-ok-delay", "400ms",
		"--apps-uid-base", "400000", "--apps-uid-count", "100",
		"--apps-port-first", strconv.Itoa(port), "--apps-port-last", strconv.Itoa(port + harness.PortCount - 1),
	}, harness.Engine(t, d.data), args)...)
	cmd.Env = harness.CleanEnv()
	d.Start(t, cmd)
	t.Cleanup(func() {
		d.Fallen(d.data)
		if code := d.End(syscall.SIGTERM); code != 0 {
			t.Errorf("the daemon's exit status is %d", code)
		}
		if t.Failed() {
			t.Logf("the daemon said:\n%s", d.Out)
		}
	})
	d.id, d.token = d.account("ana")
	return d
}

// account makes an account with a token.
func (d *daemon) account(name string) (id, token string) {
	d.t.Helper()
	return d.run("account", "create", name, "--ram", "4096"), d.run("token", "create", name)
}

// run is berth with these arguments on the daemon's data.
func (d *daemon) run(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(berth, append(args, "--data-dir", d.data)...)
	cmd.Env = harness.CleanEnv()
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("berth %v: %v", args, err)
	}
	return strings.TrimSpace(string(out))
}

// bot is the smallest application that every client takes.
func bot(name, code string) map[string]string {
	return map[string]string{
		"discloud.config": "NAME=" + name + "\nTYPE=bot\nMAIN=index.js\nRAM=100\nVERSION=latest\nAUTORESTART=false\n",
		"index.js":        code,
		"package.json":    `{"name":"bot","version":"1.0.0"}`,
	}
}

const idle = "console.log('up', process.pid); setInterval(() => {}, 1e6)\n"

// folder writes files into a directory of their own.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
	}
	return dir
}

// zipped writes files into a ZIP called name.
func zipped(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, harness.Zip(files), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
