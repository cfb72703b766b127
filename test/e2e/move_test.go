package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// moving are two hosts on this machine, and an sshd by which the first reaches the second.
type moving struct {
	t        *testing.T
	old, new *daemon
	sshd     *exec.Cmd
	bin      string // where berth is, there
	path     string // of commands here: ssh is a script, for its own files are root's
	both     error  // what the watch saw
	sawHere  bool
	sawThere bool
	watched  chan struct{}
	watching sync.WaitGroup
}

// script writes a shell script.
func script(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text+"\n"), 0o755); err != nil { //nolint:gosec // it is a program
		t.Fatal(err)
	}
}

func newMoving(t *testing.T) *moving {
	t.Helper()
	return movingBetween(t, prepare(t), prepare(t))
}

// movingBetween is newMoving with daemons that were not started yet. Their keys are beside their data.
func movingBetween(t *testing.T, old, there *daemon) *moving {
	t.Helper()
	if _, err := os.Stat("/usr/sbin/sshd"); err != nil {
		harness.Ready(t, "needs sshd: apt-get install openssh-server openssh-client")
	}
	m := &moving{t: t, old: old, new: there, watched: make(chan struct{})}
	keys := func(d *daemon) string { return "BERTH_KEY_FILE=" + filepath.Join(filepath.Dir(d.Data), "keys") }
	for _, d := range []*daemon{m.old, m.new} {
		d.Env = append(d.Env, keys(d))
		d.Serve()
	}
	root := m.new.Root
	m.bin = filepath.Join(root, "bin")
	if err := errors.Join(os.Mkdir(m.bin, 0o755), os.Symlink(harness.Binary, filepath.Join(m.bin, "berth")), os.MkdirAll("/run/sshd", 0o755)); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"host", "user"} {
		if out, err := exec.CommandContext(t.Context(), "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(root, key)).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	port := strconv.Itoa(harness.Ports(t, 1))
	public := func(key string) string {
		text, err := os.ReadFile(filepath.Join(root, key+".pub"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for name, text := range map[string]string{
		"sshd_config": strings.Join([]string{
			"ListenAddress 127.0.0.1:" + port, "HostKey " + filepath.Join(root, "host"), "AuthorizedKeysFile " + filepath.Join(root, "authorized"),
			"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin prohibit-password", "PasswordAuthentication no",
			"SetEnv PATH=" + m.bin + ":/usr/bin:/bin BERTH_CONFIG=/dev/null BERTH_DATA_DIR=" + m.new.Data + " BERTH_RUNTIME_DIR=" + m.new.Runtime() +
				" " + keys(m.new),
		}, "\n"),
		"ssh_config": strings.Join([]string{
			"Host new", "HostName 127.0.0.1", "Port " + port, "User root", "IdentityFile " + filepath.Join(root, "user"), "IdentitiesOnly yes",
			"UserKnownHostsFile " + filepath.Join(root, "known"), "StrictHostKeyChecking yes",
			"Host stranger", "HostName 127.0.0.1", "Port " + port, "User root", "IdentityFile none", "IdentitiesOnly yes",
			"UserKnownHostsFile " + filepath.Join(root, "known"), "StrictHostKeyChecking yes",
		}, "\n"),
		"authorized": public("user"),
		"known":      "[127.0.0.1]:" + port + " " + public("host"),
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	here := filepath.Join(m.old.Root, "bin")
	if err := os.Mkdir(here, 0o755); err != nil {
		t.Fatal(err)
	}
	script(t, filepath.Join(here, "ssh"), "exec /usr/bin/ssh -F "+filepath.Join(root, "ssh_config")+` "$@"`)
	m.path = "PATH=" + here + ":/usr/bin:/bin"
	m.sshd = exec.CommandContext(t.Context(), "/usr/sbin/sshd", "-D", "-e", "-f", filepath.Join(root, "sshd_config"))
	said := &harness.Output{}
	m.sshd.Stderr = said
	if err := m.sshd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = m.sshd.Process.Kill()
		_ = m.sshd.Wait()
		if t.Failed() {
			t.Logf("sshd said:\n%s", said)
		}
	})
	harness.Eventually(t, "sshd listens", func() bool { return strings.Contains(said.String(), "Server listening") })
	return m
}

// command is berth on the old host.
func (m *moving) command(args ...string) *exec.Cmd {
	cmd := m.old.Command(append(args, "--data-dir", m.old.Data)...)
	cmd.Env = append(harness.CleanEnv(), m.old.Env...)
	cmd.Env = append(cmd.Env, m.path)
	return cmd
}

// start starts berth move on the old host, and returns what it says.
func (m *moving) start() (cmd *exec.Cmd, said *harness.Output) {
	m.t.Helper()
	cmd, said = m.command("move", "new", "--yes"), &harness.Output{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		m.t.Fatal(err)
	}
	return cmd, said
}

// bots uploads programs that say for ever where they are, and returns a client of each host.
func (m *moving) bots(n int) (ids []string, old, there *client) {
	m.t.Helper()
	old = m.old.account("ana", 1000)
	for i := range n {
		ids = append(ids, old.Upload(harness.ShellBot(fmt.Sprintf("echo bot %d $SECRET\necho ran >> data.txt\nexec sleep 1000000\n", i), "RAM=32")))
	}
	old.Put("/app/"+ids[0]+"/env", `{"env":{"SECRET":"alpha"}}`).Want(200)
	there = &client{&harness.Client{T: m.t, Berth: m.new.Berth, Name: old.Name, Account: old.Account, Token: old.Token}, m.new}
	return ids, old, there
}

// where returns which programs run on the old host, whose groups have that name, and which on the new one.
func (m *moving) where(old string) (here, there []int) {
	for _, p := range m.old.Processes() { // programs keep their users
		group, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", p.PID)) // it has ended
		switch {
		case strings.Contains(string(group), old):
			here = append(here, p.PID)
		case strings.Contains(string(group), "/berth/"): // the new daemon takes another name, as that one is taken here
			there = append(there, p.PID)
		}
	}
	return here, there
}

// watch looks until the end of the test whether programs run on both hosts at once.
func (m *moving) watch() {
	old := m.old.Group
	m.watching.Go(func() {
		for last := false; m.both == nil && !last; {
			select {
			case <-m.watched:
				last = true // a look at all processes takes a while on a busy machine: one more sees what runs by now
			case <-time.After(harness.Pause):
			}
			here, moved := m.where(old)
			m.sawHere, m.sawThere = m.sawHere || len(here) > 0, m.sawThere || len(moved) > 0
			if len(here) > 0 && len(moved) > 0 {
				m.both = fmt.Errorf("processes %v run here and %v there", here, moved)
			}
		}
	})
	m.t.Cleanup(m.seen)
}

// seen ends the watch and fails if it saw programs on both hosts.
func (m *moving) seen() {
	select {
	case <-m.watched:
		return
	default:
	}
	close(m.watched)
	m.watching.Wait()
	if m.both != nil {
		m.t.Error(m.both)
	}
	if !m.t.Failed() && (!m.sawHere || !m.sawThere) {
		m.t.Errorf("the watch saw programs here %t, and there %t", m.sawHere, m.sawThere)
	}
}

// there looks whether everything runs on the new host and nothing on the old one.
func (m *moving) there(ids []string, old, there *client) {
	m.t.Helper()
	if !slices.Contains(m.new.Clients, there.Client) {
		m.new.Clients = append(m.new.Clients, there.Client)
	}
	for _, id := range ids {
		there.Until(id, "apps.online", true)
		old.Until(id, "apps.online", false)
	}
	there.UntilLog(ids[0], "bot 0 alpha\n")
	a := old.Put("/app/"+ids[0]+"/start", "")
	a.Want(409)
	if !strings.Contains(string(a.Body), "the programs of this host moved to new on") {
		m.t.Errorf("a start on the old host: %s", a.Body)
	}
}

var offline = regexp.MustCompile(`programs were offline for (\S+), and`)

// Twenty applications go to another host and are offline for less than a minute, with their
// files, variables, tokens and the key of the secrets; the old host starts none of them, not
// after a restart either, until it is forced to.
func TestMove(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	ids, old, there := m.bots(20)
	m.watch()
	out, err := m.command("move", "new", "--yes").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	took := offline.FindSubmatch(out)
	if took == nil {
		t.Fatalf("it does not say for how long programs were offline: %s", out)
	}
	long, err := time.ParseDuration(string(took[1]))
	if err != nil || long > time.Minute {
		t.Errorf("programs were offline for %s, %v", took[1], err)
	}
	t.Logf("20 applications were offline for %s: %s", long, out)
	for _, part := range []string{"20 applications", "not moved: logs", "stopping the programs here", "lead DNS names"} {
		if !strings.Contains(string(out), part) {
			t.Errorf("it does not say %q: %s", part, out)
		}
	}
	m.there(ids, old, there)
	if data, err := os.ReadFile(m.new.Path(ids[3], "data.txt")); err != nil || !strings.HasPrefix(string(data), "ran\nran\n") {
		t.Errorf("its data is %q, %v", data, err)
	}
	// A berth refuses to start beside another one on the same machine that runs its programs.
	if code := m.new.End(syscall.SIGTERM); code != 0 {
		t.Errorf("the new daemon's exit status is %d", code)
	}
	m.old.Restart()
	for _, id := range ids {
		old.Until(id, "apps.online", false)
	}
	m.new.Serve()
	m.there(ids, old, there)
	m.seen()

	// Again it does nothing; without --force the old host starts nothing, and with it everything.
	if out, err := m.command("move", "new", "--yes").CombinedOutput(); err != nil || !strings.Contains(string(out), "was moved to new before") {
		t.Errorf("again: %v: %s", err, out)
	}
	if out, err := m.command("resume").CombinedOutput(); err == nil || !strings.Contains(string(out), "cannot start the programs: they moved to new on") {
		t.Errorf("resume: %v: %s", err, out)
	}
	there.DeleteAll()
	if out, err := m.command("resume", "--force").CombinedOutput(); err != nil || !strings.Contains(string(out), "start now") {
		t.Errorf("resume --force: %v: %s", err, out)
	}
	for _, id := range ids {
		old.Until(id, "apps.online", true)
	}
}

// A host without berth, with an older one, without a key, or with applications is refused, and
// nothing has changed.
func TestMoveRefusals(t *testing.T) {
	t.Parallel()
	m := newMoving(t)
	ids, old, _ := m.bots(1)
	berth := filepath.Join(m.bin, "berth")
	refused := func(what, to, says string) {
		t.Helper()
		cmd := m.command("move", "--yes")
		cmd.Args = append(cmd.Args, "--", to)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v: %s", what, err, out)
		}
		if missing := old.Info(ids[0]).Missing([]any{"apps.online", true}); len(missing) > 0 {
			t.Errorf("%s: the program does not run any more", what)
		}
		if out, err := m.command("resume").CombinedOutput(); err != nil || !strings.Contains(string(out), "holds no programs") {
			t.Errorf("%s: resume: %v: %s", what, err, out)
		}
	}
	refused("an option", "-oProxyCommand=touch "+m.old.Root+"/pwned", "cannot be the name of a host")
	refused("no such host", "nowhere.invalid", "ssh cannot reach nowhere.invalid")
	refused("no key", "stranger", "ssh cannot reach stranger as it has to, without a question")
	if err := os.Remove(berth); err != nil {
		t.Fatal(err)
	}
	refused("no berth", "new", "there is no berth on new: install it there first")
	script(t, berth, `echo 'berth: unknown command "move-receive"' >&2; exit 2`)
	refused("an older berth", "new", "the berth on new is older and cannot take a move: upgrade it first")
	script(t, berth, "echo Welcome; exec cat >/dev/null")
	refused("something else", "new", "the connection was lost")
	script(t, berth, "BERTH_RUNTIME_DIR=/none exec "+harness.Binary+` "$@"`)
	refused("no daemon", "new", "no berth serves "+m.new.Data)
	script(t, berth, "exec setpriv --reuid 65534 --clear-groups "+harness.Binary+` "$@"`)
	refused("not root", "new", "berth must run as root")
	if err := errors.Join(os.Remove(berth), os.Symlink(harness.Binary, berth)); err != nil {
		t.Fatal(err)
	}
	m.new.account("bob", 100).Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	refused("not empty", "new", "is not empty: it has 1 applications and 1 accounts")
	if _, err := os.Stat(m.old.Root + "/pwned"); err == nil {
		t.Error("ssh took a name for an option")
	}
}

// kill ends the process of a berth on either host with an argument, and reports whether there was one.
func (m *moving) kill(word string) bool {
	all, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range all {
		line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline")) // it has ended
		env, _ := os.ReadFile(path)
		if bytes.Contains(line, []byte("\x00"+word+"\x00")) && (bytes.Contains(line, []byte(m.old.Data)) || bytes.Contains(env, []byte(m.new.Data))) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path))) // digits
			return syscall.Kill(pid, syscall.SIGKILL) == nil
		}
	}
	return false
}

// A SIGKILL of either side at any step leaves the programs on one host, and the same command
// finishes.
func TestMoveKilled(t *testing.T) {
	t.Parallel()
	exists := func(path string) func(string) bool {
		return func(string) bool {
			found, err := filepath.Glob(path)
			return err == nil && len(found) > 0
		}
	}
	says := func(part string) func(string) bool {
		return func(said string) bool { return strings.Contains(said, part) }
	}
	for name, step := range map[string]struct {
		when func(m *moving) func(said string) bool
		held bool // by then, perhaps
	}{
		"while it copies": {func(m *moving) func(string) bool {
			return exists(filepath.Join(m.new.Data, "move.unfinished", "apps", "*", "heavy"))
		}, false},
		"at the hold": {func(*moving) func(string) bool { return says("stopping the programs here") }, true},
		"at the database": {func(m *moving) func(string) bool {
			return exists(filepath.Join(m.new.Data, "move.unfinished", "berth.db"))
		}, true},
		"at the end": {func(*moving) func(string) bool { return says("berth begins anew on it") }, true},
		"when it is ready": {func(m *moving) func(string) bool {
			return func(string) bool {
				return exists(filepath.Join(m.new.Data, "move.ready"))("") || exists(filepath.Join(m.new.Data, "moved.json"))("")
			}
		}, true},
	} {
		for _, word := range []string{"move", "move-receive"} {
			t.Run(name+", "+word, func(t *testing.T) {
				t.Parallel()
				m := newMoving(t)
				ids, old, there := m.bots(3)
				m.watch()
				// One that takes a moment to copy.
				heavy := m.old.Path(ids[2], "heavy")
				if err := errors.Join(os.WriteFile(heavy, make([]byte, 96<<20), 0o600), os.Lchown(heavy, m.old.UIDOf(ids[2]), m.old.UIDOf(ids[2]))); err != nil {
					t.Fatal(err)
				}
				cmd, said := m.start()
				reached := step.when(m)
				ended := make(chan error, 1)
				go func() { ended <- cmd.Wait() }()
				var err error
				killed, over := false, false
				harness.Eventually(t, "it has ended", func() bool {
					killed = killed || reached(said.String()) && m.kill(word)
					select {
					case err = <-ended:
						over = true
					default:
					}
					return over
				})
				t.Logf("killed %t, %v: %s", killed, err, said)
				if killed && !step.held && word == "move-receive" && !strings.Contains(said.String(), "stopping") {
					if !strings.Contains(said.String(), "nothing was changed here, and programs run on") {
						t.Errorf("it says %s", said)
					}
					old.Until(ids[0], "apps.online", true)
				}
				out, err := m.command("move", "new", "--yes").CombinedOutput()
				if err != nil {
					t.Fatalf("again: %v: %s", err, out)
				}
				m.there(ids, old, there)
				m.seen()
			})
		}
	}
}
