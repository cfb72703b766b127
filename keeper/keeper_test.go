package keeper

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The binary of the tests is also the keeper, a daemon that is to be killed,
// and a user who must not be obeyed.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Word {
		Main()
	}
	switch dir := os.Getenv("BERTH_TEST_DIR"); os.Getenv("BERTH_TEST_ROLE") {
	case "daemon":
		c, err := Open(dir, "/proc/self/exe")
		if err == nil {
			_, err = c.Hold("log", os.NewFile(3, "fifo"))
		}
		fmt.Println("holding", err)
		_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		os.Exit(0)
	case "intruder":
		fmt.Println(intrude(dir + "/" + socketName))
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// intrude asks a keeper for everything it has.
func intrude(path string) string {
	c, err := net.DialUnix("unixpacket", nil, &net.UnixAddr{Name: path, Net: "unixpacket"})
	if err != nil {
		return err.Error()
	}
	_, _ = c.Write([]byte{askHeld})
	n, err := c.Read(make([]byte, 100))
	return fmt.Sprint(n, err)
}

func client(t *testing.T, dir string) *Client {
	t.Helper()
	c, err := Open(dir, "/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// fifo is a FIFO that a program could have.
func fifo(t *testing.T) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func hold(t *testing.T, c *Client, name string, f *os.File, started bool) {
	t.Helper()
	if got, err := c.Hold(name, f); err != nil || got != started {
		t.Fatalf("Hold(%q) = %t, %v; want %t", name, got, err, started)
	}
}

// held returns the names of what is held, and closes it.
func held(t *testing.T, c *Client) (names []string) {
	t.Helper()
	all, err := c.Held()
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range all {
		names = append(names, name)
		f.Close()
	}
	slices.Sort(names)
	return names
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("held are %q, want %q", got, want)
	}
}

// closeEmpty releases what is held; then the keeper ends.
func closeEmpty(t *testing.T, c *Client) {
	t.Helper()
	for _, name := range held(t, c) {
		if err := c.Release(name); err != nil {
			t.Error(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// pidOf is the keeper that a client talks to.
func pidOf(t *testing.T, c *Client) int {
	t.Helper()
	if c.process == nil {
		t.Fatal("it started no keeper")
	}
	return c.process.Pid
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// gone reports whether there is no process any more, or a dead one.
func gone(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(stat), ") Z ")
}

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
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE} {
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

// What no daemon can ask for any more is not kept.
func TestKeeperOfADirectoryThatIsGone(t *testing.T) {
	c := client(t, t.TempDir())
	listener, err := c.listen()
	if err != nil {
		t.Fatal(err)
	}
	k := &keeper{listener: int(listener.Fd()), uid: uint32(os.Geteuid()), held: map[string]int{}, look: time.Millisecond}
	ended := make(chan error, 1)
	go func() { ended <- k.run() }()
	f := fifo(t)
	hold(t, c, "a", f, false)
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		t.Fatalf("it ended with something to keep: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(60 * time.Second):
		t.Error("it keeps a FIFO that nobody can open")
	}
	listener.Close()
}

func TestOthersAreNotObeyed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: somebody else connects")
	}
	dir, err := os.MkdirTemp("", "berth-keeper-") //nolint:usetesting // t.TempDir is closed to other users
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	c := client(t, dir)
	hold(t, c, "a", fifo(t), true)
	defer closeEmpty(t, c)
	exe := filepath.Join(dir, "intruder")
	if text, err := os.ReadFile("/proc/self/exe"); err != nil || os.WriteFile(exe, text, 0o755) != nil {
		t.Fatal("cannot copy the binary", err)
	}
	for _, tt := range []struct {
		mode os.FileMode
		want string
	}{{0o600, "permission denied"}, {0o666, "0 EOF"}} { // the mode refuses, and the keeper itself
		if err := os.Chmod(filepath.Join(dir, socketName), tt.mode); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(exe)
		cmd.Env = []string{"BERTH_TEST_ROLE=intruder", "BERTH_TEST_DIR=" + dir}
		cmd.Dir = "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), tt.want) {
			t.Errorf("mode %o: %q, %v; want %q", tt.mode, out, err, tt.want)
		}
	}
	wantNames(t, held(t, c), "a")
}

func TestRefusals(t *testing.T) {
	dir := t.TempDir()
	c := client(t, dir)
	f := fifo(t)
	hold(t, c, "a", f, true)
	defer closeEmpty(t, c)
	for said, want := range map[string]string{
		"X":                            "-not a name",
		"Xa":                           "-unknown request",
		"Ha":                           "-no descriptor came with it; too many are open",
		"H":                            "-not a name",
		"R":                            "-not a name",
		"H" + strings.Repeat("x", 300): "-not a name",
	} {
		if err := send(c.conn, said[0], said[1:], -1); err != nil {
			t.Fatal(err)
		}
		letter, text, _, err := c.hear()
		if got := string(letter) + text; err != nil || got != want {
			t.Errorf("%.20q: got %q, %v; want %q", said, got, err, want)
		}
	}
	for _, name := range []string{"", strings.Repeat("x", 256)} {
		if _, err := c.Hold(name, f); err == nil || !strings.HasPrefix(err.Error(), "cannot keep a descriptor: ") {
			t.Errorf("Hold(%.10q): %v", name, err)
		}
		if err := c.Release(name); err == nil || !strings.HasPrefix(err.Error(), "cannot release a descriptor: ") {
			t.Errorf("Release(%.10q): %v", name, err)
		}
	}
	closed := fifo(t)
	closed.Close()
	if _, err := c.Hold("b", closed); err == nil || !strings.HasPrefix(err.Error(), "cannot keep a descriptor: ") {
		t.Errorf("a closed file: %v", err)
	}
	wantNames(t, held(t, c), "a")
	if _, err := Open(filepath.Join(dir, "nothing"), ""); err == nil || !strings.HasPrefix(err.Error(), "cannot open the keeper's directory: ") {
		t.Errorf("no directory: %v", err)
	}
	other, err := Open(t.TempDir(), "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Hold("a", f); err == nil || !strings.Contains(err.Error(), "cannot start a keeper") {
		t.Errorf("no binary: %v", err)
	}
	if err := other.Close(); err != nil {
		t.Error(err)
	}
}

func TestFilePages(t *testing.T) {
	text := `00400000-00401000 r-xp 00000000 fe:00 9988633 /usr/bin/berth
Rss:                   0 kB
Anonymous:             0 kB
00401000-00402000 r--p 00001000 fe:00 9988633 /usr/bin/berth
Anonymous:             0 kB
00402000-00403000 r--p 00002000 fe:00 9988633 /usr/bin/relocated
Anonymous:             4 kB
00403000-00404000 rw-p 00003000 fe:00 9988633 /usr/bin/data
Anonymous:             0 kB
7f000000-7f001000 r-xp 00000000 00:00 0 [vdso]
Anonymous:             0 kB
`
	want := []span{{0x400000, 0x401000}, {0x401000, 0x402000}}
	if got := filePages([]byte(text)); !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
}
