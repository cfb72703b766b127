package fdstore

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
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
	_, _ = c.Write([]byte{requestHeld})
	if n, err := c.Read(make([]byte, 100)); n > 0 || err == nil {
		return "answered"
	}
	return "hung up"
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
