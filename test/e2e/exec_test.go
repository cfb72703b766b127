package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// laptop is the command line of berth with the token of a client, and nothing else of it.
func (c *client) laptop(args ...string) *exec.Cmd {
	c.T.Helper()
	cmd := c.d.Command(args...)
	cmd.Env = append(cmd.Environ(), "BERTH_URL="+c.d.Base, "BERTH_TOKEN="+c.Token, "TERM=vt100", "HOME="+c.T.TempDir())
	return cmd
}

// sitter is somebody who sits at a terminal at which a command runs.
type sitter struct {
	t        *testing.T
	keyboard *os.File
	cmd      *exec.Cmd
	done     chan error
	before   unix.Termios // how the terminal was

	mu   sync.Mutex
	seen bytes.Buffer
}

// sits starts a command at a new terminal.
func sits(t *testing.T, cmd *exec.Cmd, cols, rows uint16) *sitter {
	t.Helper()
	master, slave := harness.OpenPTY(t, cols, rows)
	p := &sitter{t: t, keyboard: master, cmd: cmd, done: make(chan error, 1)}
	p.before = p.modes()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	read := make(chan struct{})
	go func() {
		defer close(read)
		buf := make([]byte, 4096)
		for {
			n, err := master.Read(buf)
			p.mu.Lock()
			p.seen.Write(buf[:n])
			p.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	go func() { p.done <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = master.Close()
		<-read
	})
	return p
}

func (p *sitter) control(do func(fd int) error) {
	p.t.Helper()
	conn, err := p.keyboard.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	var failed error
	if err := conn.Control(func(fd uintptr) { failed = do(int(fd)) }); err != nil || failed != nil {
		p.t.Fatal(err, failed)
	}
}

func (p *sitter) resizes(cols, rows uint16) {
	p.t.Helper()
	p.control(func(fd int) error {
		return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: rows})
	})
}

// modes are those of the terminal.
func (p *sitter) modes() unix.Termios {
	p.t.Helper()
	var modes *unix.Termios
	p.control(func(fd int) (err error) {
		modes, err = unix.IoctlGetTermios(fd, unix.TCGETS)
		return err
	})
	return *modes
}

func (p *sitter) types(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keyboard, text); err != nil {
		p.t.Error(err)
	}
}

func (p *sitter) screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen.String()
}

func (p *sitter) sees(text string) {
	p.t.Helper()
	defer func() {
		if !strings.Contains(p.screen(), text) {
			p.t.Logf("the screen shows %q", p.screen())
		}
	}()
	harness.Eventually(p.t, fmt.Sprintf("%q is seen", text), func() bool { return strings.Contains(p.screen(), text) })
}

// leaves waits for the end of the command, and returns its exit code.
func (p *sitter) leaves() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(harness.Patience):
		p.t.Fatalf("it does not end: %q", p.screen())
	}
	return p.cmd.ProcessState.ExitCode()
}

// TestExec has a person at a terminal work in an application from afar.
func TestExec(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.UntilLog(id, "up")
	p := sits(t, c.laptop("exec", id), 90, 25)
	p.types("PS1='ready$ '; stty size; echo $TERM $HOME; tty\n")
	p.sees("25 90\r\nvt100 " + d.Path(id) + "\r\n/dev/pts/0\r\n")
	p.resizes(111, 33)
	p.sees("ready$ ")
	p.types("until stty size | grep -q '33 111'; do :; done; echo re''sized\n")
	p.sees("resized\r\n")
	p.types("sleep 4711\n")
	harness.Eventually(t, "it sleeps", func() bool { return running(d, id, "sleep 4711") })
	p.types("\x03")
	p.types("echo $((40+2))\n")
	p.sees("42\r\n")
	p.types("exit 7\n")
	if code := p.leaves(); code != 7 {
		t.Errorf("exit %d: %q", code, p.screen())
	}
	if after := p.modes(); after != p.before {
		t.Errorf("the terminal is left with %+v, and had %+v", after, p.before)
	}
	if n := len(d.Of(id)); n != 1 && n != 2 {
		t.Errorf("%d processes are left: %v", n, d.Of(id))
	}
	// Records reach the audit log some 100 ms after what they say.
	audit := ""
	harness.Eventually(t, "the session is in the audit log", func() bool {
		audit = d.CLI("audit", "--json")
		return strings.Contains(audit, `"app.exec"`) && strings.Contains(audit, `"app.exec.end"`) && strings.Contains(audit, "code=7")
	})
	if strings.Contains(audit, "sleep") || strings.Contains(d.Out.String(), "stty") {
		t.Errorf("the audit log is %s", audit)
	}
}

func running(d *daemon, id, command string) bool {
	for _, p := range d.Of(id) {
		if strings.Contains(fmt.Sprint(p), command) {
			return true
		}
	}
	return false
}

// TestExecWithoutATerminal is the same command in a script.
func TestExecWithoutATerminal(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.UntilLog(id, "up")
	for name, tt := range map[string]struct {
		args      []string
		in        string
		out, errs string
		code      int
	}{
		"pipes":         {[]string{"--", "sh", "-c", "cat; echo wrong >&2; exit 3"}, strings.Repeat("0123456789", 100_000), strings.Repeat("0123456789", 100_000), "wrong\n", 3},
		"words":         {[]string{"--", "printf", "%s|", "it's", "a b", "$HOME", "*"}, "", "it's|a b|$HOME|*|", "", 0},
		"a script":      {nil, "echo from the script; exit 4\n", "from the script\n", "", 4},
		"not there":     {[]string{"--", "no-such-command"}, "", "", "/bin/sh: 1: no-such-command: not found\n", 127},
		"killed":        {[]string{"--", "sh", "-c", "kill -9 $$; echo not reached"}, "", "", "", 137},
		"more than RAM": {[]string{"--", "tail", "/dev/zero"}, "", "", "berth: a process was killed: the application needed more than 64 MB of RAM\n", 137},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "more than RAM" { // which takes the program along
				other := c.in(t).Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
				id = other
			}
			cmd := c.laptop(append([]string{"exec", id}, tt.args...)...)
			var out, errs bytes.Buffer
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(tt.in), &out, &errs
			_ = cmd.Run()
			said := errs.String() == tt.errs
			switch name {
			case "killed":
				said = true // the shell around it may say so, or be replaced by it
			case "more than RAM":
				said = strings.Contains(errs.String(), "RAM")
			}
			if code := cmd.ProcessState.ExitCode(); code != tt.code || out.String() != tt.out || !said {
				t.Errorf("exit %d, %d bytes, %q, said %q", code, out.Len(), harness.Tail(out.String(), 100), errs.String())
			}
		})
	}
}

// TestExecEnds: whatever ends a session says why, and leaves neither processes nor groups.
func TestExecEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do   func(t *testing.T, d *daemon, c *client, id string, p *sitter)
		code int
		says string
	}{
		"stop": {func(_ *testing.T, _ *daemon, c *client, id string, _ *sitter) {
			c.Put("/app/"+id+"/stop", "").Want(200)
		}, 137, "the application was stopped"},
		"restart": {func(_ *testing.T, _ *daemon, c *client, id string, _ *sitter) {
			c.Put("/app/"+id+"/restart", "").Want(200)
		}, 137, "the application was restarted"},
		"commit": {func(_ *testing.T, _ *daemon, c *client, id string, _ *sitter) {
			c.Commit(id, harness.ShellBot(harness.IdleShell, "RAM=64")).Want(200)
		}, 137, "the application was deployed"},
		"delete": {func(_ *testing.T, _ *daemon, c *client, id string, _ *sitter) { c.Delete(id).Want(200) }, 137, "the application was deleted"},
		"disabled": {func(_ *testing.T, d *daemon, _ *client, _ string, p *sitter) {
			d.CLI("account", "disable", "ana")
			p.sees("disabled")
			d.CLI("account", "enable", "ana") // the test removes what it made
		}, 137, "disabled"},
		"shutdown": {func(_ *testing.T, d *daemon, _ *client, _ string, _ *sitter) { d.End(syscall.SIGTERM) }, 137, "shutting down"},
		"kill -9 of berth": {func(_ *testing.T, d *daemon, _ *client, _ string, _ *sitter) {
			d.End(syscall.SIGKILL)
			d.Serve()
		}, 7, "lost"},
		"SIGTERM here": {func(_ *testing.T, _ *daemon, _ *client, _ string, p *sitter) {
			_ = p.cmd.Process.Signal(syscall.SIGTERM)
		}, 130, "interrupted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := launch(t)
			c := d.account("ana", 1024)
			id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
			c.UntilLog(id, "up")
			p := sits(t, c.laptop("exec", id), 80, 24)
			p.types("sleep 4321 & setsid sleep 4321 & echo be''gun\n")
			p.sees("begun")
			harness.Eventually(t, "it sleeps", func() bool { return running(d, id, "sleep 4321") })
			tt.do(t, d, c, id, p)
			if code := p.leaves(); code != tt.code && (tt.code != 137 || code != 129) {
				t.Errorf("exit %d: %q", code, p.screen())
			}
			p.sees(tt.says)
			if after := p.modes(); after != p.before {
				t.Errorf("the terminal is left with %+v, and had %+v", after, p.before)
			}
			harness.Eventually(t, "nothing of the session runs", func() bool { return !running(d, id, "sleep 4321") })
			harness.Eventually(t, "its group is gone", func() bool { return !strings.Contains(fmt.Sprint(d.Groups()), "console-") })
		})
	}
}

// TestExecIsTheOwnersAlone: others, members, bounded tokens and other origins get no session.
func TestExecIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, ben := d.account("ana", 1024), d.account("ben", 100)
	id := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	ana.UntilLog(id, "up")
	open := func(c *client, header http.Header) (says string) {
		header.Set("Api-Token", c.Token)
		conn, resp, err := websocket.Dial(t.Context(), strings.Replace(d.Base, "http", "ws", 1)+"/v2/ws/app/"+id+"/exec?tty=false&command=true", &websocket.DialOptions{HTTPHeader: header})
		if err != nil {
			return fmt.Sprint(resp.StatusCode)
		}
		defer func() { _ = conn.CloseNow() }()
		_, text, err := conn.Read(t.Context())
		if err != nil {
			return err.Error()
		}
		return string(text)
	}
	if says := open(ana, http.Header{"Origin": {d.Base}}); !strings.Contains(says, `"exit":{"code":0`) {
		t.Errorf("the owner got %s", says)
	}
	if says := open(ana, http.Header{"Origin": {"https://evil.example"}}); says != "403" {
		t.Errorf("a page of another origin got %s", says)
	}
	if says := open(ben, http.Header{}); !strings.Contains(says, `"statusCode":404`) {
		t.Errorf("another account got %s", says)
	}
	r := ana.Request(http.MethodPost, "/v2/app/"+id+"/team", strings.NewReader(fmt.Sprintf(
		`{"modID":%q,"perms":["start_app","stop_app","restart_app","logs_app","commit_app","status_app","edit_ram","backup_app"]}`, ben.Account)))
	r.Header.Set("Content-Type", "application/json")
	ana.Send(r).Want(200)
	if says := open(ben, http.Header{}); !strings.Contains(says, `"statusCode":403`) || !strings.Contains(says, "Only the owner") {
		t.Errorf("a member got %s", says)
	}
}

// TestExecToASlowReader lets a session print without end to a client that reads nothing:
// the command waits, and the daemon stays as large as it is.
func TestExecToASlowReader(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=64"))
	c.UntilLog(id, "up")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	narrow := &net.Dialer{Control: func(_, _ string, raw syscall.RawConn) error { // full soon, also where all is slow
		var err error
		failed := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUF, 4096) })
		return errors.Join(failed, err)
	}}
	transport := &http.Transport{DialContext: narrow.DialContext}
	defer transport.CloseIdleConnections()
	for range 4 {
		conn, _, err := websocket.Dial(ctx, strings.Replace(d.Base, "http", "ws", 1)+"/v2/ws/app/"+id+"/exec?command=exec+yes", &websocket.DialOptions{
			HTTPHeader: http.Header{"Api-Token": {c.Token}}, HTTPClient: &http.Client{Transport: transport},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.CloseNow() }()
	}
	waiting := func() (n int) {
		for _, p := range d.Of(id) {
			if strings.Contains(fmt.Sprint(p), "yes") { // in the place of its shell, which waits anyway
				stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID))
				if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "S") {
					n++
				}
			}
		}
		return n
	}
	harness.Eventually(t, "all of them wait", func() bool { return waiting() == 4 })
	conn, _, err := websocket.Dial(ctx, strings.Replace(d.Base, "http", "ws", 1)+"/v2/ws/app/"+id+"/exec", &websocket.DialOptions{HTTPHeader: http.Header{"Api-Token": {c.Token}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	if _, text, err := conn.Read(ctx); err != nil || !strings.Contains(string(text), "4 sessions open") {
		t.Errorf("a fifth session: %s, %v", text, err)
	}
	c.Put("/app/"+id+"/stop", "").Want(200) // and nobody waits for the clients
	if left := d.Of(id); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
