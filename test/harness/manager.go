package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// Manager stands for systemd: it keeps descriptors for a daemon, and hands them to the next
// one (FileDescriptorStoreMax= of systemd.service(5)). It has no socket units.
type Manager struct {
	t    testing.TB
	conn *net.UnixConn
	path string
	done chan struct{}

	mu   sync.Mutex
	kept map[string]*os.File
}

// NewManager returns a manager that listens until the test ends.
func NewManager(t testing.TB) *Manager {
	t.Helper()
	m := &Manager{t: t, path: filepath.Join(t.TempDir(), "notify"), done: make(chan struct{}), kept: map[string]*os.File{}}
	var err error
	if m.conn, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: m.path, Net: "unixgram"}); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(m.done)
		b, oob := make([]byte, 64<<10), make([]byte, unix.CmsgSpace(4))
		for {
			n, on, _, _, err := m.conn.ReadMsgUnix(b, oob)
			if err != nil {
				return
			}
			m.take(string(b[:n]), oob[:on])
		}
	}()
	t.Cleanup(func() {
		_ = m.conn.Close()
		<-m.done
		m.Forget()
	})
	return m
}

// take does what a message says. Other descriptors, of barriers, it closes.
func (m *Manager) take(text string, oob []byte) {
	var f *os.File
	if list, err := unix.ParseSocketControlMessage(oob); err == nil && len(list) > 0 {
		if fds, err := unix.ParseUnixRights(&list[0]); err == nil && len(fds) == 1 {
			f = os.NewFile(uintptr(fds[0]), "kept")
		}
	}
	lines := strings.Split(text, "\n")
	name := ""
	for _, line := range lines {
		if value, is := strings.CutPrefix(line, "FDNAME="); is {
			name = value
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case f != nil && slices.Contains(lines, "FDSTORE=1"):
		m.kept[name] = f
	case f != nil:
		_ = f.Close()
	case slices.Contains(lines, "FDSTOREREMOVE=1") && m.kept[name] != nil:
		_ = m.kept[name].Close()
		delete(m.kept, name)
	}
}

// Kept are the names of what it keeps that begin with prefix, in order.
func (m *Manager) Kept(prefix string) (names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name := range m.kept {
		if strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Forget closes what it keeps, as systemd does when a service is stopped.
func (m *Manager) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for name, f := range m.kept {
		_ = f.Close()
		delete(m.kept, name)
	}
}

// Serve starts a daemon, again if need be, and hands over what is kept: Listens waits for it.
// More args are flags of serve.
func (m *Manager) Serve(d *Berth, args ...string) {
	m.t.Helper()
	m.mu.Lock()
	var names []string
	var files []*os.File
	for name, f := range m.kept {
		names, files = append(names, name), append(files, f)
	}
	defer m.mu.Unlock() // and nothing is closed meanwhile
	binary := Binary
	if d.Image != "" {
		binary = d.Image
	}
	// The daemon takes what is handed to its own pid.
	line := append([]string{"-c", `LISTEN_PID=$$ exec "$0" "$@"`, binary}, append(slices.Clone(d.Args), args...)...)
	cmd := exec.CommandContext(context.Background(), "/bin/sh", line...)
	cmd.Env = append(append(CleanEnv(), d.Env...), "NOTIFY_SOCKET="+m.path, "FDSTORE=1000",
		fmt.Sprintf("LISTEN_FDS=%d", len(files)), "LISTEN_FDNAMES="+strings.Join(names, ":"))
	cmd.ExtraFiles = files
	d.Out = &Output{}
	cmd.Stderr = d.Out
	d.Spawn(d.T, cmd)
}
