// Package harness is what tests of the built daemon share: it starts one and
// waits for it, packs the ZIPs that clients upload and writes the frames in which
// they offer them. No test is in it, and nothing but tests and measures uses it.
package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Patience bounds every wait: far more than anything takes on a busy machine.
// Pause is between two looks. Change them before the first test.
var (
	Patience = 2 * time.Minute
	Pause    = 10 * time.Millisecond
)

// Eventually polls until ok, or ends the test.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(Patience); !ok(); time.Sleep(Pause) {
		if time.Now().After(deadline) {
			t.Fatalf("waited too long until %s", what)
		}
	}
}

// CleanEnv is this process's environment without settings of berth. Its runtime directory
// cannot be made: of several daemons with one directory, the first alone has a local socket.
func CleanEnv() []string {
	env := []string{"BERTH_CONFIG=/dev/null", "BERTH_RUNTIME_DIR=/run/berth-tests/none"}
	for _, v := range os.Environ() {
		if !strings.HasPrefix(v, "BERTH_") {
			env = append(env, v)
		}
	}
	return env
}

// Ready skips a test that this machine cannot run for a reason, "" for none; CI
// must be able to.
func Ready(t testing.TB, unready string) {
	t.Helper()
	switch {
	case unready != "" && os.Getenv("CI") == "true":
		t.Fatal(unready)
	case unready != "":
		t.Skip(unready)
	}
}

// Needs skips a test of programs that call commands which this machine has not installed; CI
// must have them. It looks where the daemon finds the machine's own runtimes.
func Needs(t testing.TB, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if !installed(command) {
			Ready(t, "needs "+command+": make languages installs it")
		}
	}
}

// Tools skips a test that itself calls these commands, if one is not on its path. In CI it fails.
func Tools(t testing.TB, commands ...string) {
	t.Helper()
	for _, command := range commands {
		if _, err := exec.LookPath(command); err != nil {
			Ready(t, "needs "+command+": test/scripts/setup test installs it")
		}
	}
}

// OldNode returns "" if the Node.js on the path has at least this major version, and otherwise
// the reason to skip a test. Debian 12 has version 18.
func OldNode(least int) string {
	out, err := exec.CommandContext(context.Background(), "node", "--version").Output()
	version, _, _ := strings.Cut(strings.TrimPrefix(string(out), "v"), ".")
	if major, bad := strconv.Atoi(version); err != nil || bad != nil || major < least {
		return fmt.Sprintf("needs Node.js %d or newer in PATH: node --version prints %q, %v", least, out, err)
	}
	return ""
}

// Root skips a test that needs root. The reason says for what. CI runs as root, so there it fails.
func Root(t testing.TB, why string) {
	t.Helper()
	if os.Getuid() != 0 {
		Ready(t, "needs root: "+why)
	}
}

func installed(command string) bool {
	for _, dir := range []string{"/usr/local/bin", "/usr/local/go/bin", "/usr/bin", "/bin"} {
		if info, err := os.Stat(filepath.Join(dir, command)); err == nil && info.Mode()&0o111 != 0 {
			return true
		}
	}
	return false
}

// Daemon is a berth serve. One that ended may be started again. Its methods end
// the test when they fail, so they are for its goroutine, but for Ended.
type Daemon struct {
	Cmd   *exec.Cmd // nil before the first start
	Out   *Output   // what it said since the last
	Base  string    // http://...
	Group string    // the name of its control groups

	t     testing.TB
	ended chan struct{}
}

// Start starts cmd and returns once the daemon answers. The caller ends it.
func (d *Daemon) Start(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	d.Out = &Output{}
	cmd.Stderr = d.Out
	d.Spawn(t, cmd)
	d.Listens()
}

// Listens waits until the daemon that Spawn has started answers. What it says is in Out.
func (d *Daemon) Listens() {
	d.t.Helper()
	Eventually(d.t, "the daemon listens", func() bool {
		if d.Hear(d.Out.String()) {
			return true
		}
		if d.Ended() {
			d.t.Fatalf("the daemon ended: %s", d.Out)
		}
		return false
	})
}

// Spawn starts cmd and does not wait: Hear has to learn its address.
func (d *Daemon) Spawn(t testing.TB, cmd *exec.Cmd) {
	t.Helper()
	d.t, d.Cmd = t, cmd
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	d.ended = ended
	go func() {
		defer close(ended)
		_ = cmd.Wait() // the state is in cmd
	}()
}

var listening = regexp.MustCompile(`listening on (http://[0-9.:]+).* groups=\S*/([0-9a-f]+)`)

// Hear reports whether the daemon says in a text that it listens, and where.
func (d *Daemon) Hear(text string) bool {
	m := listening.FindStringSubmatch(text)
	if m != nil {
		d.Base, d.Group = m[1], m[2]
	}
	return m != nil
}

// Ended reports whether the daemon that was started has ended.
func (d *Daemon) Ended() bool {
	select {
	case <-d.ended:
		return true
	default:
		return false
	}
}

// Signal sends the daemon a signal.
func (d *Daemon) Signal(s syscall.Signal) {
	d.t.Helper()
	if err := d.Cmd.Process.Signal(s); err != nil {
		d.t.Fatal(err)
	}
}

// End sends a signal and returns the exit status, -1 for a death by signal.
func (d *Daemon) End(s syscall.Signal) int {
	d.t.Helper()
	d.Signal(s)
	Eventually(d.t, "the daemon ends", d.Ended)
	return d.Cmd.ProcessState.ExitCode()
}

// fell is what the daemon says of a program that ended and was not asked to.
var fell = regexp.MustCompile(`msg="program ended" app=(\S+) .*asked=false`)

// Fallen tells of a test that failed what the programs printed last that ended by
// themselves. It is called while their logs in the data directory are still there.
func (d *Daemon) Fallen(data string) {
	d.t.Helper()
	if !d.t.Failed() || d.Out == nil {
		return
	}
	told := map[string]bool{}
	for _, m := range fell.FindAllStringSubmatch(d.Out.String(), -1) {
		if told[m[1]] {
			continue
		}
		told[m[1]] = true
		log, err := os.ReadFile(filepath.Join(data, "logs", m[1], "run.log"))
		d.t.Logf("%s ended by itself, having printed (%v):\n%s", m[1], err, Tail(string(log), 2000))
	}
}

// Output collects what a process prints, for reading while it does.
type Output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

// String is what was printed so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}
