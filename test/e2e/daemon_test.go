package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"berth/test/harness"
)

// daemon is a berth serve with a data directory of its own.
type daemon struct {
	harness.Daemon
	t       *testing.T
	root    string // a test keeps its files here
	gates   string // shown to programs: files here tell them to go on
	data    string
	uid     int // the first of its user ids
	args    []string
	binary  string   // that serves; berth when empty
	env     []string // beside a clean environment
	under   []string // a command that berth is an argument of; nil for none
	clients []*client
}

// uids are the user ids of one daemon, so that each looks for its own alone.
const uids = 100

var daemons atomic.Int64

// launch starts a daemon that ends with the test, which fails unless nothing
// is left. args are flags of serve that beat the short defaults here.
func launch(t *testing.T, args ...string) *daemon {
	t.Helper()
	d := prepare(t, args...)
	d.start()
	return d
}

// prepare is launch without the start.
func prepare(t *testing.T, args ...string) *daemon {
	t.Helper()
	harness.Ready(t, unready)
	root, err := os.MkdirTemp("/tmp", "berth-e2e.") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(root, 0o711); err != nil {
		t.Fatal(err)
	}
	gates, err := os.MkdirTemp("/run", "berth-e2e.") //nolint:usetesting // /tmp is each program's own
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gates, 0o755); err != nil {
		t.Fatal(err)
	}
	n := int(daemons.Add(1))
	d := &daemon{t: t, root: root, gates: gates, data: filepath.Join(root, "data"), uid: 100000 + uids*n} // beyond the default range, which a daemon beside may use
	d.args = append([]string{
		"serve", "--data-dir", d.data, "--listen", "127.0.0.1:0", "--rate-limit", "100000",
		"--sandbox-paths", "/opt," + gates, "--apps-ok-delay", "400ms", "--apps-stop-timeout", "5s",
		"--apps-uid-base", strconv.Itoa(d.uid), "--apps-uid-count", strconv.Itoa(uids),
		"--apps-port-first", strconv.Itoa(21000 + uids*n), "--apps-port-last", strconv.Itoa(21000 + uids*n + uids - 1),
	}, args...)
	t.Cleanup(d.finish)
	return d
}

// start starts the daemon, again if need be, and returns once it answers.
func (d *daemon) start() {
	d.t.Helper()
	cmd := d.command(d.args...)
	if d.binary != "" {
		cmd = exec.Command(d.binary, d.args...)
	}
	cmd.Env = append(harness.CleanEnv(), d.env...)
	d.Start(d.t, cmd)
}

// command is berth with arguments.
func (d *daemon) command(args ...string) *exec.Cmd {
	line := append(append(slices.Clone(d.under), berth), args...)
	return exec.Command(line[0], line[1:]...)
}

// restart stops the daemon cleanly and starts it on the same data.
func (d *daemon) restart() {
	d.t.Helper()
	if code := d.End(syscall.SIGTERM); code != 0 {
		d.t.Fatalf("the daemon's exit status is %d: %s", code, d.Out)
	}
	d.start()
}

// finish deletes everything, stops the daemon and looks for what is left.
func (d *daemon) finish() {
	if d.Cmd != nil && !d.Ended() {
		for _, c := range d.clients {
			c.t = d.t
			c.deleteAll()
		}
		for _, dir := range []string{"apps", "logs", "staging", "rollback", "tmp"} {
			if left := d.files(dir); len(left) > 0 {
				d.t.Errorf("left in %s: %v", dir, left)
			}
		}
		web.CloseIdleConnections() // a server waits five seconds for those that were never used
		if code := d.End(syscall.SIGTERM); code != 0 {
			d.t.Errorf("the daemon's exit status is %d", code)
		}
		for _, p := range d.processes() {
			d.t.Errorf("left running: %v", p)
		}
		if left := d.groups(); len(left) > 0 {
			d.t.Errorf("left groups: %v", left)
		}
		harness.Eventually(d.t, "its keeper has ended too", func() bool { return d.keeper() == 0 })
	}
	if d.t.Failed() && d.Out != nil {
		d.t.Logf("the daemon said:\n%s", tail(besidesRequests(d.Out.String()), 6000))
	}
	if err := errors.Join(os.RemoveAll(d.root), os.RemoveAll(d.gates)); err != nil {
		d.t.Error(err)
	}
}

// files lists what is in a directory below the data directory.
func (d *daemon) files(dir string) []string {
	list, err := os.ReadDir(filepath.Join(d.data, dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.t.Error(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// run is berth with these arguments on the daemon's data; it returns the exit
// status and what was printed.
func (d *daemon) run(args ...string) (code int, stdout, stderr string) {
	d.t.Helper()
	cmd := d.command(append(args, "--data-dir", d.data)...)
	cmd.Env = harness.CleanEnv()
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	_ = cmd.Run() // the code tells
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// berth is run for commands that must succeed.
func (d *daemon) berth(args ...string) string {
	d.t.Helper()
	code, stdout, stderr := d.run(args...)
	if code != 0 {
		d.t.Fatalf("berth %v: exit status %d: %s", args, code, stderr)
	}
	return strings.TrimSpace(stdout)
}

// account makes an account and returns a client with a token of it.
func (d *daemon) account(name string, ram int) *client {
	d.t.Helper()
	id := d.berth("account", "create", name, "--ram", strconv.Itoa(ram))
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		d.t.Fatalf("account create printed %q, want a number", id)
	}
	c := &client{t: d.t, d: d, name: name, account: id, token: d.berth("token", "create", name)}
	d.clients = append(d.clients, c)
	return c
}

// besidesRequests is the daemon's log without the line of each request.
func besidesRequests(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=INFO msg=request ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// tail is the end of a text.
func tail(s string, n int) string { return s[max(0, len(s)-n):] }
