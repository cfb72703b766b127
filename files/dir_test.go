package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// openDir opens a directory of the test.
func openDir(t *testing.T, path string) dir {
	t.Helper()
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	d := dir(fd)
	t.Cleanup(d.close)
	return d
}

// Nothing but a regular file beneath the directory is ever opened.
func TestDirFile(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	put(t, top, map[string]string{
		"out": "secret", "in/a": "a", "in/d/b": "b", "in/link": "->a", "in/up": "->../out", "in/abs": "->/etc/passwd",
		"in/dlink": "->d", "in/loop": "->loop", "in/proc": "->/proc/self/fd",
	})
	in := filepath.Join(top, "in")
	must(t, mkfifo(filepath.Join(in, "fifo")))
	must(t, unix.Mknod(filepath.Join(in, "null"), unix.S_IFCHR|0o666, 1<<8|3))
	sock, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	must(t, err)
	defer unix.Close(sock)
	must(t, unix.Bind(sock, &unix.SockaddrUnix{Name: filepath.Join(in, "sock")}))
	d := openDir(t, in)
	tests := []struct {
		path string
		ok   bool
	}{
		{"a", true},
		{"d/b", true},
		{"./a", true},
		{"d/../a", true},
		{"link", false},
		{"up", false},
		{"abs", false},
		{"dlink/b", false},
		{"loop", false},
		{"proc/0", false},
		{"../out", false},
		{"d/../../out", false},
		{"/etc/passwd", false},
		{"", false},
		{".", false},
		{"d", false},
		{"fifo", false},
		{"null", false},
		{"sock", false},
		{"none", false},
		{"a/b", false},
	}
	for _, tt := range tests {
		f, st, err := d.file(tt.path)
		if (err == nil) != tt.ok {
			t.Errorf("%q: %v", tt.path, err)
		}
		if err == nil {
			if st.Size != 1 {
				t.Errorf("%q: %d bytes", tt.path, st.Size)
			}
			must(t, f.Close())
		} else if !gone(err) {
			t.Errorf("%q would stop a walk: %v", tt.path, err)
		}
	}
}

func TestDirSub(t *testing.T) {
	top := t.TempDir()
	put(t, top, map[string]string{"in/d/e/": "", "in/link": "->d", "in/file": "x", "out/": ""})
	d := openDir(t, filepath.Join(top, "in"))
	for path, ok := range map[string]bool{
		".": true, "d": true, "d/e": true, "link": false, "link/e": false, "file": false, "none": false, "../out": false,
		"/tmp": false, "..": false, "": false,
	} {
		below, err := d.sub(path)
		if (err == nil) != ok {
			t.Errorf("%q: %v", path, err)
		}
		below.close()
	}
}

func TestDirMakes(t *testing.T) {
	needRoot(t)
	top := t.TempDir()
	put(t, top, map[string]string{"there": "x", "link": "->nowhere"})
	d := openDir(t, top)
	for _, name := range []string{"there", "link"} {
		if f, err := d.create(name); !errors.Is(err, unix.EEXIST) && !errors.Is(err, unix.ELOOP) {
			t.Errorf("create %s: %v, %v", name, f, err)
		}
		if _, err := d.mkdir(name, 0o700, testUID); !errors.Is(err, unix.EEXIST) {
			t.Errorf("mkdir %s: %v", name, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(top, "nowhere")); err == nil {
		t.Error("made through a link")
	}
	made, err := d.mkdir("new", 0o2751, testUID)
	must(t, err)
	made.close()
	if got := snapshot(t, filepath.Join(top, "new"))["."]; got != "dgrwxr-x--x 54321:54321" {
		t.Errorf("made %s", got)
	}
	if err := move(d, "there", d, "link"); !errors.Is(err, unix.EEXIST) {
		t.Errorf("a move replaced something: %v", err)
	}
	noDir.close()
	if _, err := noDir.stat("x"); !errors.Is(err, unix.ENOENT) {
		t.Errorf("noDir: %v", err)
	}
}

func TestDirEach(t *testing.T) {
	top := t.TempDir()
	var want []string
	for i := range 2000 {
		name := fmt.Sprintf("%04d%s", i, strings.Repeat("x", i%200))
		want = append(want, name)
		must(t, os.WriteFile(filepath.Join(top, name), nil, 0o600))
	}
	d := openDir(t, top)
	for range 2 { // it starts over each time
		var got []string
		must(t, d.each(func(name string) error { got = append(got, name); return nil }))
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("%d names", len(got))
		}
	}
	stop := errors.New("stop")
	n := 0
	if err := d.each(func(string) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
	// list keeps out of the way of a reader that is half through.
	n = 0
	must(t, d.each(func(string) error {
		if n++; n == 1 {
			return d.list(func(string) error { return nil })
		}
		return nil
	}))
	if n != len(want) {
		t.Errorf("%d names", n)
	}
}

func TestPaths(t *testing.T) {
	for _, tt := range []struct{ parent, name, path string }{{".", "a", "a"}, {"a", "b", "a/b"}, {"a/b", "c", "a/b/c"}} {
		if got := join(tt.parent, tt.name); got != tt.path {
			t.Errorf("join %q %q: %q", tt.parent, tt.name, got)
		}
		if parent, name := split(tt.path); parent != tt.parent || name != tt.name {
			t.Errorf("split %q: %q %q", tt.path, parent, name)
		}
	}
}

func TestRandNames(t *testing.T) {
	a, b := randName(), randName()
	if a == b || !isRandName(a) || !isRandName(b) {
		t.Errorf("%s %s", a, b)
	}
	for _, s := range []string{"", "a", strings.Repeat("a", 31), strings.Repeat("a", 33), strings.Repeat("G", 32), strings.Repeat("/", 32)} {
		if isRandName(s) {
			t.Errorf("%q is one", s)
		}
	}
}
