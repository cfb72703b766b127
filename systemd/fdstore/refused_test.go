package fdstore

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What no daemon can ask for any more is not kept.
func TestKeeperOfADirectoryThatIsGone(t *testing.T) {
	c := client(t, t.TempDir())
	listener, err := c.listen()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.Open(c.dir.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	k := &store{listener: int(listener.Fd()), dir: int(dir.Fd()), uid: uint32(os.Geteuid()), held: map[string]int{}, look: time.Millisecond}
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
	if err := os.Remove(filepath.Join(dir.Name(), socketName)); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(60 * time.Second):
		t.Error("it keeps what nobody can ask for")
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
	}{{0o600, "permission denied"}, {0o666, "hung up"}} { // the mode refuses, and the keeper itself
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
		letter, text, _, err := c.answer()
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

func TestShrink(t *testing.T) {
	const pages = 64
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, bytes.Repeat([]byte("x"), pages*os.Getpagesize()), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	mapped, err := unix.Mmap(int(f.Fd()), 0, pages*os.Getpagesize(), unix.PROT_READ, unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Munmap(mapped); err != nil {
			t.Error(err)
		}
	}()
	if n := bytes.Count(mapped, []byte("x")); n != len(mapped) {
		t.Fatalf("%d bytes", n)
	}
	if got := residentKB(t, name); got != len(mapped)>>10 {
		t.Fatalf("%d KB are mapped before", got)
	}
	Shrink()
	if got := residentKB(t, name); got != 0 {
		t.Errorf("%d KB are mapped still", got)
	}
	if n := bytes.Count(mapped, []byte("x")); n != len(mapped) {
		t.Errorf("%d bytes came back", n)
	}
}

// residentKB is how much of a file's mapping this process has pages of.
func residentKB(t *testing.T, name string) (kb int) {
	t.Helper()
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	_, after, found := strings.Cut(string(text), name)
	_, after, rss := strings.Cut(after, "\nRss:")
	if _, err := fmt.Sscan(after, &kb); err != nil || !found || !rss {
		t.Fatalf("no mapping of %s: %v", name, err)
	}
	return kb
}
