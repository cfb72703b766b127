package harness

import (
	"bytes"
	"context"
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
)

// Berth is a berth serve with a data directory of its own.
type Berth struct {
	Daemon
	T       *testing.T
	Root    string // a test keeps its files here
	Gates   string // shown to programs: files here tell them to go on
	Data    string
	UID     int // the first of its user ids
	Port    int // the first of its programs' ports
	Args    []string
	Image   string   // that serves; berth when empty
	Env     []string // beside a clean environment; the runtime directory is in it
	Under   []string // a command that berth is an argument of; nil for none
	Clients []*Client
}

// UIDs are the user ids of one daemon, so that each looks for its own alone.
const UIDs = 100

var daemons atomic.Int64

// Launch starts a daemon that ends with the test, which fails unless nothing
// is left. args are flags of serve that beat the short defaults here.
func Launch(t *testing.T, args ...string) *Berth {
	t.Helper()
	d := Prepare(t, args...)
	d.Serve()
	return d
}

// Prepare is Launch without the start.
func Prepare(t *testing.T, args ...string) *Berth {
	t.Helper()
	Ready(t, Unready)
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
	n := int(daemons.Add(1)) + lane*perLane
	// The users are beyond the default range, which a daemon beside may use.
	d := &Berth{T: t, Root: root, Gates: gates, Data: filepath.Join(root, "data"), UID: 100000 + UIDs*n, Port: Ports(t, PortCount)}
	d.Env = []string{"BERTH_RUNTIME_DIR=" + d.Runtime()}
	d.Args = append([]string{
		"serve", "--data-dir", d.Data, "--listen", "127.0.0.1:0", "--rate-limit", "100000",
		"--sandbox-paths", "/opt," + gates, "--apps-ok-delay", "400ms", "--apps-stop-timeout", "5s",
		"--apps-uid-base", strconv.Itoa(d.UID), "--apps-uid-count", strconv.Itoa(UIDs),
		"--apps-port-first", strconv.Itoa(d.Port), "--apps-port-last", strconv.Itoa(d.Port + PortCount - 1),
	}, args...)
	d.Args = append(d.Args, Engine(t, d.Data)...)
	t.Cleanup(d.Finish)
	return d
}

// Engine are the flags of serve for the engine that the tests are run with: none for this machine, or what the command in
// BERTH_E2E_ENGINE prints for a data directory, one a line.
func Engine(t *testing.T, data string) []string {
	t.Helper()
	command := os.Getenv("BERTH_E2E_ENGINE")
	if command == "" {
		return nil
	}
	out, err := exec.CommandContext(t.Context(), command, data).Output()
	if err != nil {
		t.Fatal("cannot use the other engine: ", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// Serve starts the daemon, again if need be, and returns once it answers.
func (d *Berth) Serve() {
	d.T.Helper()
	cmd := d.Command(d.Args...)
	if d.Image != "" {
		cmd = exec.CommandContext(context.Background(), d.Image, d.Args...)
	}
	cmd.Env = append(CleanEnv(), d.Env...)
	d.Start(d.T, cmd)
}

// Runtime is the daemon's runtime directory.
func (d *Berth) Runtime() string { return filepath.Join(d.Root, "run") }

// Command is berth with arguments.
func (d *Berth) Command(args ...string) *exec.Cmd {
	line := append(append(slices.Clone(d.Under), Binary), args...)
	return exec.CommandContext(context.Background(), line[0], line[1:]...)
}

// Restart stops the daemon cleanly and starts it on the same data.
func (d *Berth) Restart() {
	d.T.Helper()
	if code := d.End(syscall.SIGTERM); code != 0 {
		d.T.Fatalf("the daemon's exit status is %d: %s", code, d.Out)
	}
	d.Serve()
}

// Finish deletes everything, stops the daemon and looks for what is left.
func (d *Berth) Finish() {
	if d.Cmd != nil {
		d.Fallen(d.Data)
	}
	if d.Cmd != nil && !d.Ended() {
		for _, c := range d.Clients {
			c.T = d.T
			c.DeleteAll()
		}
		for _, dir := range []string{"apps", "logs", "staging", "rollback", "tmp", "lost"} {
			if left := d.Entries(dir); len(left) > 0 {
				d.T.Errorf("left in %s: %v", dir, left)
			}
		}
		Web.CloseIdleConnections() // a server waits five seconds for those that were never used
		if code := d.End(syscall.SIGTERM); code != 0 {
			d.T.Errorf("the daemon's exit status is %d", code)
		}
		for _, p := range d.Processes() {
			d.T.Errorf("left running: %v", p)
		}
		if left := d.Groups(); len(left) > 0 {
			d.T.Errorf("left groups: %v", left)
		}
		Eventually(d.T, "its keeper has ended too", func() bool { return d.Keeper() == 0 })
	}
	if d.T.Failed() && d.Out != nil {
		d.T.Logf("the daemon said:\n%s", Tail(BesidesRequests(d.Out.String()), 6000))
	}
	if err := errors.Join(os.RemoveAll(d.Root), os.RemoveAll(d.Gates)); err != nil {
		d.T.Error(err)
	}
}

// Entries lists what is in a directory below the data directory.
func (d *Berth) Entries(dir string) []string {
	list, err := os.ReadDir(filepath.Join(d.Data, dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		d.T.Error(err)
	}
	var names []string
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names
}

// Run is berth with these arguments on the daemon's data; it returns the exit
// status and what was printed.
func (d *Berth) Run(args ...string) (code int, stdout, stderr string) {
	d.T.Helper()
	cmd := d.Command(append(args, "--data-dir", d.Data)...)
	cmd.Env = append(CleanEnv(), d.Env...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	_ = cmd.Run() // the code tells
	return cmd.ProcessState.ExitCode(), out.String(), problems.String()
}

// CLI is run for commands that must succeed.
func (d *Berth) CLI(args ...string) string {
	d.T.Helper()
	code, stdout, stderr := d.Run(args...)
	if code != 0 {
		d.T.Fatalf("berth %v: exit status %d: %s", args, code, stderr)
	}
	return strings.TrimSpace(stdout)
}

// NewAccount makes an account and returns a client with a token of it.
func (d *Berth) NewAccount(name string, ram int) *Client {
	d.T.Helper()
	id := d.CLI("account", "create", name, "--ram", strconv.Itoa(ram))
	if _, err := strconv.ParseInt(id, 10, 64); err != nil {
		d.T.Fatalf("account create printed %q, want a number", id)
	}
	c := &Client{T: d.T, Berth: d, Name: name, Account: id, Token: d.CLI("token", "create", name)}
	d.Clients = append(d.Clients, c)
	return c
}

// BesidesRequests is the daemon's log without the line of each request.
func BesidesRequests(log string) string {
	var b strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, "level=INFO msg=request ") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// Tail is the end of a text.
func Tail(s string, n int) string { return s[max(0, len(s)-n):] }
