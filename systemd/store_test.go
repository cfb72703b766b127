package systemd

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The binary of the tests is also the daemon that the manager starts.
func TestMain(m *testing.M) {
	if os.Getenv("BERTH_TEST_ROLE") == "daemon" {
		os.Setenv(pidEnv, strings.ReplaceAll(os.Getenv(pidEnv), "self", fmt.Sprint(os.Getpid())))
		if err := takeHanded(); err != nil {
			fmt.Println("error:", err)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// takeHanded says what was handed over, and what a child of it has of that.
func takeHanded() error {
	before := links()
	all, err := Handed()
	if err != nil {
		return err
	}
	var said []string
	for name, files := range all {
		for _, f := range files {
			if name == "api" {
				l, err := net.FileListener(f)
				if err != nil {
					return err
				}
				said = append(said, "api listens on "+l.Addr().Network())
				continue
			}
			text, err := io.ReadAll(f)
			if err != nil {
				return err
			}
			said = append(said, fmt.Sprintf("%s: %s", name, text))
		}
	}
	sort.Strings(said)
	again, err := Handed()
	child := exec.Command("/bin/sh", "-c", `for fd in 3 4 5; do readlink /proc/self/fd/$fd; done; env | grep ^LISTEN`)
	out, _ := child.Output()
	inherited := 0
	for _, link := range strings.Fields(string(out)) {
		if slices.Contains(before, link) || strings.HasPrefix(link, "LISTEN") {
			inherited++
		}
	}
	fmt.Println(strings.Join(said, "; "), len(again), err, inherited)
	return nil
}

// links are what the descriptors are that a manager would hand over.
func links() (all []string) {
	for fd := range 3 {
		link, _ := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", firstFD+fd))
		all = append(all, link)
	}
	return all
}

func TestHanded(t *testing.T) {
	for name, tt := range map[string]struct {
		env  []string
		want string
	}{
		"by name":        {[]string{"LISTEN_PID=self", "LISTEN_FDS=3", "LISTEN_FDNAMES=log-a:api:log-b"}, "api listens on tcp; log-a: first; log-b: second 0 <nil> 0"},
		"one name twice": {[]string{"LISTEN_PID=self", "LISTEN_FDS=3", "LISTEN_FDNAMES=log:api:log"}, "api listens on tcp; log: first; log: second 0 <nil> 0"},
		"fewer names":    {[]string{"LISTEN_PID=self", "LISTEN_FDS=1", "LISTEN_FDNAMES="}, "unknown: first 0 <nil> 2"},
		"not there":      {[]string{"LISTEN_PID=self", "LISTEN_FDS=900", "LISTEN_FDNAMES=log-a:api:log-b"}, "error: cannot take the service manager's descriptors: it announced 900, and "},
		"another's":      {[]string{"LISTEN_PID=1", "LISTEN_FDS=3", "LISTEN_FDNAMES=log-a:api:log-b"}, " 0 <nil> 3"},
		"none":           {nil, " 0 <nil> 3"},
		"nonsense":       {[]string{"LISTEN_PID=self", "LISTEN_FDS=many"}, `error: cannot take the service manager's descriptors: LISTEN_FDS="many"`},
		"negative":       {[]string{"LISTEN_PID=self", "LISTEN_FDS=-1"}, `error: cannot take the service manager's descriptors: LISTEN_FDS="-1"`},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "LISTEN") }), "BERTH_TEST_ROLE=daemon")
			cmd.Env = append(cmd.Env, tt.env...)
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			socket, err := l.(*net.TCPListener).File()
			if err != nil {
				t.Fatal(err)
			}
			cmd.ExtraFiles = []*os.File{filled(t, "first"), socket, filled(t, "second")}
			out, err := cmd.CombinedOutput()
			if got := strings.TrimSuffix(string(out), "\n"); err != nil || got != tt.want && (!strings.HasSuffix(tt.want, "and ") || !strings.HasPrefix(got, tt.want)) {
				t.Errorf("got %q, %v\nwant %q", got, err, tt.want)
			}
		})
	}
}

// filled is a pipe with a text in it.
func filled(t *testing.T, text string) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	if _, err := w.WriteString(text); err != nil {
		t.Fatal(err)
	}
	w.Close()
	return r
}

func TestHold(t *testing.T) {
	name := filepath.Join(t.TempDir(), "notify")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	t.Setenv(socketEnv, name)
	if err := Hold("log-a", filled(t, "kept")); err != nil {
		t.Fatal(err)
	}
	receive := func() (string, []int) {
		t.Helper()
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		b, oob := make([]byte, 4096), make([]byte, 1024)
		n, on, _, _, err := conn.ReadMsgUnix(b, oob)
		if err != nil {
			t.Fatal(err)
		}
		var fds []int
		if list, err := unix.ParseSocketControlMessage(oob[:on]); err == nil && len(list) > 0 {
			fds, _ = unix.ParseUnixRights(&list[0])
		}
		return string(b[:n]), fds
	}
	if got, fds := receive(); got != "FDSTOREREMOVE=1\nFDNAME=log-a" || len(fds) > 0 {
		t.Errorf("first %q with %v", got, fds)
	}
	got, fds := receive()
	if got != "FDSTORE=1\nFDNAME=log-a\nFDPOLL=0" || len(fds) != 1 {
		t.Fatalf("got %q with %v", got, fds)
	}
	f := os.NewFile(uintptr(fds[0]), "kept")
	defer f.Close()
	if text, err := io.ReadAll(f); err != nil || string(text) != "kept" {
		t.Errorf("the descriptor has %q, %v", text, err)
	}
	if err := Release("log-a"); err != nil {
		t.Fatal(err)
	}
	if got, fds := receive(); got != "FDSTOREREMOVE=1\nFDNAME=log-a" || len(fds) > 0 {
		t.Errorf("at the end %q with %v", got, fds)
	}
	for _, bad := range []string{"", "a:b", "a b", "é", "a\nFDSTOREREMOVE=1", strings.Repeat("x", 256)} {
		for _, err := range []error{Hold(bad, f), Release(bad)} {
			if err == nil || !strings.HasPrefix(err.Error(), "cannot keep a descriptor named ") {
				t.Errorf("%q: %v", bad, err)
			}
		}
	}
	closed := filled(t, "")
	closed.Close()
	if err := Hold("log-a", closed); err == nil || !strings.HasPrefix(err.Error(), "cannot store a descriptor: ") {
		t.Errorf("a closed file: %v", err)
	}
}

func TestHoldWithAManagerThatIsGone(t *testing.T) {
	t.Setenv(socketEnv, filepath.Join(t.TempDir(), "nobody"))
	if err := Hold("log-a", filled(t, "")); err == nil || !strings.HasPrefix(err.Error(), "cannot notify the service manager: ") {
		t.Errorf("got %v", err)
	}
}

func TestKeeps(t *testing.T) {
	for _, tt := range []struct {
		socket, store string
		want          bool
	}{{"/run/x", "4096", true}, {"/run/x", "0", false}, {"/run/x", "", false}, {"", "4096", false}, {"/run/x", "-1", false}, {"/run/x", "yes", false}} {
		t.Setenv(socketEnv, tt.socket)
		t.Setenv(storeEnv, tt.store)
		if got := Keeps(); got != tt.want {
			t.Errorf("NOTIFY_SOCKET=%q FDSTORE=%q: %t", tt.socket, tt.store, got)
		}
	}
}
