package fdstore

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestHoldReleaseHeld(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("a long name ", 15)) // longer than a socket's may be
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	c := client(t, dir)
	wantNames(t, held(t, c))
	if err := c.Release("nothing"); err != nil {
		t.Error(err)
	}
	if list, _ := os.ReadDir(dir); len(list) > 0 {
		t.Errorf("a keeper was started for nothing: %v", list)
	}
	a, b := fifo(t), fifo(t)
	hold(t, c, "a", a, true)
	hold(t, c, "b", b, false)
	hold(t, c, "a", b, false) // instead
	wantNames(t, held(t, c), "a", "b")
	if err := c.Release("b"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.WriteString("text"); err != nil {
		t.Fatal(err)
	}
	pid := pidOf(t, c)
	st, err := os.Stat(filepath.Join(dir, socketName))
	if err != nil || st.Mode() != os.ModeSocket|0o600 {
		t.Errorf("the socket is %v, %v", st, err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if gone(pid) {
		t.Fatal("the keeper ended with something to keep")
	}

	c = client(t, dir)
	all, err := c.Held()
	if err != nil || len(all) != 1 || all["a"] == nil {
		t.Fatalf("held are %v, %v", all, err)
	}
	p := make([]byte, 10)
	if n, err := all["a"].Read(p); err != nil || string(p[:n]) != "text" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	all["a"].Close()
	hold(t, c, "c", a, false)
	closeEmpty(t, c)
	eventually(t, "the keeper to end", func() bool { return gone(pid) })
	c = client(t, dir) // its socket is still there
	wantNames(t, held(t, c))
	hold(t, c, "a", a, true)
	closeEmpty(t, c)
}

// A keeper has nothing of the daemon: no terminal, no descriptor, no place in
// its session; and signals that end everything of a session do not end it.
// What was held is released also after the keeper did not answer in time once.
func TestReleaseAfterALostConnection(t *testing.T) {
	dir := t.TempDir()
	c := client(t, dir)
	hold(t, c, "a", fifo(t), true)
	hold(t, c, "b", fifo(t), false)
	pid := pidOf(t, c)
	_ = c.disconnect()
	for _, name := range []string{"a", "b"} {
		if err := c.Release(name); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if !gone(pid) {
		t.Error("the keeper lives on with nothing to keep")
	}
}

func TestKeeperStandsAlone(t *testing.T) {
	c := client(t, t.TempDir())
	f := fifo(t)
	hold(t, c, "a", f, true)
	pid := pidOf(t, c)
	if sid, err := unix.Getsid(pid); err != nil || sid != pid {
		t.Errorf("its session is %d, %v", sid, err)
	}
	if comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid)); err != nil || string(comm) != "berth-keeper\n" {
		t.Errorf("it is called %q, %v", comm, err)
	}
	for fd := range 3 {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, fd)); err != nil || link != os.DevNull {
			t.Errorf("its descriptor %d is %s, %v", fd, link, err)
		}
	}
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPIPE} {
		if err := syscall.Kill(pid, s); err != nil {
			t.Fatal(err)
		}
		wantNames(t, held(t, c), "a")
	}
	closeEmpty(t, c)
	if !gone(pid) {
		t.Error("it was not waited for")
	}
}

// A manager that ends what is left of a service need not wait for it.
func TestKeeperObeysSIGTERM(t *testing.T) {
	c := client(t, t.TempDir())
	hold(t, c, "a", fifo(t), true)
	pid := pidOf(t, c)
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return gone(pid) })
	if err := c.Release("a"); err != nil {
		t.Error(err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// A keeper that was killed is found to be dead and replaced; its socket is in
// nobody's way.
func TestDeadKeeper(t *testing.T) {
	dir := t.TempDir()
	c := client(t, dir)
	f := fifo(t)
	hold(t, c, "a", f, true)
	old := pidOf(t, c)
	if err := syscall.Kill(old, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return gone(old) })
	if err := c.Release("other"); err != nil {
		t.Errorf("of a dead keeper: %v", err)
	}
	wantNames(t, held(t, c))
	hold(t, c, "b", f, true)
	wantNames(t, held(t, c), "b")
	if pidOf(t, c) == old {
		t.Error("it is the dead one")
	}
	closeEmpty(t, c)

	for name, put := range map[string]func(string) error{
		"file": func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"link": func(p string) error { return os.Symlink("/nowhere", p) },
	} {
		dir := t.TempDir()
		if err := put(filepath.Join(dir, socketName)); err != nil {
			t.Fatal(err)
		}
		c := client(t, dir)
		if _, err := c.Hold("a", f); err != nil {
			t.Errorf("with a %s in the way: %v", name, err)
		}
		closeEmpty(t, c)
	}
}

// The daemon is killed, then the program prints its last words and dies: the
// next daemon has them.
func TestDaemonIsKilled(t *testing.T) {
	dir := t.TempDir()
	f := fifo(t)
	daemon := exec.Command("/proc/self/exe")
	daemon.Env = append(os.Environ(), "BERTH_TEST_ROLE=daemon", "BERTH_TEST_DIR="+dir)
	daemon.ExtraFiles = []*os.File{f}
	in, err := daemon.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	out, err := daemon.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	p := make([]byte, 100)
	if n, _ := out.Read(p); string(p[:n]) != "holding <nil>\n" {
		t.Fatalf("it says %q", p[:n])
	}
	if err := daemon.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = daemon.Wait()
	program := exec.Command("/bin/sh", "-c", "echo last words")
	program.Stdout = f
	if err := program.Run(); err != nil {
		t.Fatal(err)
	}
	path := f.Name()
	f.Close() // nobody has it but the keeper
	c := client(t, dir)
	all, err := c.Held()
	if err != nil || all["log"] == nil {
		t.Fatalf("held are %v, %v", all, err)
	}
	again, err := os.OpenFile(path, os.O_RDWR|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if n, err := again.Read(p); err != nil || string(p[:n]) != "last words\n" {
		t.Errorf("read %q, %v", p[:n], err)
	}
	all["log"].Close()
	closeEmpty(t, c)
}
