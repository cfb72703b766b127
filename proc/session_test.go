package proc

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/proc/sandbox"
)

// sitting is somebody at a session.
type sitting struct {
	*Console
	t *testing.T
	s app.Streams

	mu   sync.Mutex
	seen bytes.Buffer
	read chan struct{} // closed when the output has ended

	release func()
}

// sit starts a session beside r, or alone when r is nil, and reads what it prints.
func (b bench) sit(t *testing.T, r *Run, s Spec, e app.Exec) *sitting {
	t.Helper()
	c, err := b.Console(s, r, &e)
	if err != nil {
		t.Fatal(err)
	}
	streams, release := c.Streams()
	v := &sitting{Console: c, t: t, s: streams, read: make(chan struct{}), release: release}
	go func() {
		defer close(v.read)
		buf := make([]byte, 4096)
		for {
			n, err := streams.Output.Read(buf)
			v.mu.Lock()
			v.seen.Write(buf[:n])
			v.mu.Unlock()
			if err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		c.End()
		c.Wait()
		<-v.read
		release()
	})
	return v
}

func (v *sitting) output() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.seen.String()
}

func (v *sitting) types(text string) {
	v.t.Helper()
	if _, err := io.WriteString(v.s.Input, text); err != nil {
		v.t.Errorf("cannot type %q: %v", text, err)
	}
}

// until waits for a text after what was seen before it, and returns what came since.
func (v *sitting) until(text string) {
	v.t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !strings.Contains(v.output(), text) {
		if time.Now().After(deadline) {
			v.t.Fatalf("no %q in %q", text, v.output())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (v *sitting) ends() app.Shell {
	v.t.Helper()
	select {
	case <-v.s.Ended:
	case <-time.After(time.Minute):
		v.t.Fatalf("it does not end: %q", v.output())
	}
	<-v.read
	return v.Wait()
}

var atTerminal = app.Exec{TTY: true, Size: app.Size{Cols: 100, Rows: 30}}

// walled is a bench whose programs are behind every wall of this host, or none.
func walled(t *testing.T, all bool) bench {
	t.Helper()
	b := newBench(t)
	if !all {
		return b
	}
	verdicts, err := b.Try(t.Context(), TryPatience)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verdicts {
		if v.Err == nil {
			b.Walls.Layers = append(b.Walls.Layers, v.Layer)
		}
	}
	return b
}

// A session has a terminal of its own: controlling, of the size it was given, in whose
// foreground jobs are stopped, resumed and interrupted.
func TestSessionHasATerminal(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, in := range []bool{false, true} {
			t.Run(fmt.Sprintf("walls=%t beside=%t", all, in), func(t *testing.T) {
				b := walled(t, all)
				var r *Run
				if in {
					r = b.launch(t, b.spec(t, "exec sleep 600"))
				}
				s := b.command("exec sh -i")
				s.Env = append(s.Env, "PS1=$ ", "TERM=xterm", "ENV=")
				v := b.sit(t, r, s, atTerminal)
				v.until("$ ")
				v.types("stty size; stty -a | tr ' ' '\\n' | grep -c iutf8\n")
				v.until("30 100\r\n1\r\n")
				v.types("tty; id -u >/dev/tty\n")
				v.until("/dev/pts/")
				v.until(fmt.Sprintf("\n%d\r\n", testUID))
				if err := v.s.Resize(app.Size{Cols: 132, Rows: 43}); err != nil {
					t.Error(err)
				}
				v.types("stty size\n")
				v.until("43 132\r\n")
				v.types("sleep 1000\n")
				v.until("sleep 1000\r\n")
				poll(t, "sleep runs", func() bool { return strings.Contains(foreground(v), "sleep") })
				v.types("\x1a")
				v.until("Stopped")
				v.types("fg\n")
				poll(t, "sleep runs again", func() bool { return strings.Contains(foreground(v), "sleep") })
				v.types("\x03")
				v.types("echo $((3+4))over\n")
				v.until("7over")
				v.types("exit 5\n")
				if got := v.ends(); got.Exit.Code != 5 || got.Exit.Signal != 0 || got.Online != in {
					t.Errorf("%+v", got)
				}
				if in {
					alive(t, r)
				}
			})
		}
	}
}

// foreground names who is in the foreground of the terminal.
func foreground(v *sitting) string {
	group := 0
	_ = control(v.session.terminal.master, func(fd int) (err error) {
		group, err = unix.IoctlGetInt(fd, unix.TIOCGPGRP)
		return err
	})
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", group))
	return string(name)
}

func TestSessionWithPipes(t *testing.T) {
	b := newBench(t)
	v := b.sit(t, nil, b.command("[ -t 0 ] && echo terminal; echo wrong >/dev/stderr; cat; exit 3"), app.Exec{})
	go func() {
		_, _ = io.WriteString(v.s.Input, strings.Repeat("0123456789", 100_000))
		_ = v.s.Input.Close()
	}()
	complaint, err := io.ReadAll(v.s.Errors)
	if got := v.ends(); err != nil || got.Exit.Code != 3 || string(complaint) != "wrong\n" || v.output() != strings.Repeat("0123456789", 100_000) {
		t.Errorf("%v, %q, %d bytes, %+v", err, complaint, len(v.output()), got)
	}
}

// A command whose output nobody reads waits; it is not held in memory, and can be ended.
func TestSessionWithUnreadOutput(t *testing.T) {
	b := newBench(t)
	for _, tty := range []bool{false, true} {
		s := b.command("exec yes")
		c, err := b.Console(s, nil, &app.Exec{TTY: tty})
		if err != nil {
			t.Fatal(err)
		}
		streams, release := c.Streams()
		poll(t, "it waits", func() bool { st, err := readStat(c.main.pid); return err == nil && st.state == "S" })
		c.End()
		if got := c.Wait(); got.Exit.Signal != 9 {
			t.Errorf("%+v", got)
		}
		left, err := io.Copy(io.Discard, streams.Output)
		if err != nil || left == 0 || left > lastBytes {
			t.Errorf("%d bytes were left, %v", left, err)
		}
		release()
	}
}

// Nothing of a session survives it, and nothing of it stays open here.
func TestSessionLeavesNothing(t *testing.T) {
	b := walled(t, true)
	r := b.launch(t, b.spec(t, "exec sleep 600"))
	session := func() {
		v := b.sit(t, r, b.command("trap '' HUP TERM; sleep 1000 & setsid sleep 1000 & nohup sleep 1000 >/dev/null 2>&1 & exit 0"), atTerminal)
		if got := v.ends(); got.Exit.Code != 0 {
			t.Errorf("%+v", got)
		}
		v.release()
	}
	session() // the first opens what all later ones share
	before := openFiles(t)
	for range 5 {
		session()
	}
	poll(t, "descriptors are closed", func() bool { return openFiles(t) <= before })
	if pids, err := r.group.Procs(); err != nil || len(pids) != 1 {
		t.Errorf("beside the program %v run, %v", pids, err)
	}
}

func openFiles(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// A run that is stopped takes its sessions along: a shell that ignores SIGTERM too.
func TestSessionEndsWithTheRun(t *testing.T) {
	b := newBench(t)
	// One that ignores what a terminal's end means is killed after the grace.
	for name, script := range map[string]string{"a shell": "exec sh -i", "deaf": "trap '' HUP TERM INT; echo ready; while :; do sleep 1; done"} {
		t.Run(name, func(t *testing.T) {
			r := b.launch(t, b.spec(t, "exec sleep 600"))
			s := b.command(script)
			s.Env = append(s.Env, "PS1=ready ")
			v := b.sit(t, r, s, atTerminal)
			v.until("ready")
			r.Stop(map[string]time.Duration{"a shell": 10 * time.Minute, "deaf": time.Second}[name])
			if got := v.ends(); got.Program == nil || got.Exit.Code == 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// What a session may not do with terminals: type into one, take another's, or reach the
// host's.
func TestSessionCannotReachOtherTerminals(t *testing.T) {
	b := walled(t, true)
	if !hasLayers(b, sandbox.Mounts, sandbox.Seccomp) {
		t.Skip("this host has not all walls")
	}
	r := b.launch(t, b.spec(t, "exec sleep 600"))
	victim := b.sit(t, r, b.command("exec sleep 600"), atTerminal)
	script := filepath.Join(b.dir, "attack.py")
	if err := os.WriteFile(script, []byte(attack), 0o644); err != nil {
		t.Fatal(err)
	}
	v := b.sit(t, r, b.command("ls /dev/pts; python3 attack.py"), atTerminal)
	if got := v.ends(); got.Exit.Code != 0 {
		t.Errorf("%+v\n%s", got, v.output())
	}
	if !strings.Contains(v.output(), "0  ptmx") && !strings.Contains(v.output(), "0\r\nptmx") {
		t.Errorf("it sees more terminals than its own: %q", v.output())
	}
	if victim.output() != "" {
		t.Errorf("another terminal has shown %q", victim.output())
	}
}

func hasLayers(b bench, want ...sandbox.Layer) bool {
	for _, w := range want {
		found := false
		for _, l := range b.Walls.Layers {
			found = found || l == w
		}
		if !found {
			return false
		}
	}
	return true
}

// attack fails where something works that must not.
const attack = `
import errno, fcntl, os, struct, termios, sys
def refused(what, do):
    try:
        do()
    except OSError as e:
        print("refused", what, e.errno)
        return
    print("POSSIBLE", what)
    sys.exit(1)
refused("TIOCSTI", lambda: fcntl.ioctl(0, termios.TIOCSTI, b"x"))
refused("TIOCLINUX", lambda: fcntl.ioctl(0, 0x541C, b"\x02"))
refused("TIOCCONS", lambda: fcntl.ioctl(0, termios.TIOCCONS))
for n in range(32): # line disciplines: no number of one reaches the kernel
    try:
        fcntl.ioctl(0, 0x5423, struct.pack("i", n))
        print("POSSIBLE line discipline", n)
        sys.exit(1)
    except OSError as e:
        if e.errno != errno.EPERM:
            print("POSSIBLE: the kernel was asked for line discipline", n, e.errno)
            sys.exit(1)
refused("/dev/console", lambda: os.open("/dev/console", os.O_RDWR|os.O_NOCTTY))
refused("/dev/tty0", lambda: os.open("/dev/tty0", os.O_RDWR|os.O_NOCTTY))
refused("/dev/pts/1", lambda: os.open("/dev/pts/1", os.O_RDWR|os.O_NOCTTY))
for pid in filter(str.isdigit, os.listdir("/proc")):
    if int(pid) == os.getpid(): continue
    for fd in range(3):
        try:
            to = os.readlink("/proc/%s/fd/%d" % (pid, fd))
        except OSError:
            continue
        if "pts" in to:
            try:
                f = os.open("/proc/%s/fd/%d" % (pid, fd), os.O_RDWR|os.O_NOCTTY)
            except OSError:
                continue
            if os.fstat(f).st_dev != os.fstat(0).st_dev:
                print("POSSIBLE: opened the terminal of", pid)
                sys.exit(1)
print("own", os.ttyname(0))
`
