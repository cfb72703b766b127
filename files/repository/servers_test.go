package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// server is a real server on loopback, which a test can kill and start again.
type server struct {
	t       *testing.T
	address string
	command func() *exec.Cmd
	cmd     *exec.Cmd
	said    *tail
}

func (s *server) start() {
	s.t.Helper()
	s.cmd, s.said = s.command(), &tail{}
	s.cmd.Stdout, s.cmd.Stderr = s.said, s.said
	must(s.t, s.cmd.Start())
	harness.Eventually(s.t, "the server listens: "+s.cmd.Path, func() bool {
		c, err := net.Dial("tcp", s.address)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// kill ends it with SIGKILL, and what it has begun for its connections.
func (s *server) kill() {
	if s.cmd == nil {
		return
	}
	for _, pid := range append(children(s.cmd.Process.Pid), s.cmd.Process.Pid) {
		_ = unix.Kill(pid, syscall.SIGKILL)
	}
	_ = s.cmd.Wait()
	s.cmd = nil
}

// children returns what a process has started, and what that has.
func children(pid int) []int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", pid, pid))
	var all []int
	for _, field := range strings.Fields(string(text)) {
		child, _ := strconv.Atoi(field)
		all = append(all, children(child)...)
		all = append(all, child)
	}
	return all
}

const s3User, s3Secret = "the-user", "the-secret-of-s3"

// s3 is a server of S3 that keeps its buckets in a directory.
type s3 struct {
	server
	secret  string
	program string
}

// s3server is the path of the S3 server. To build it takes minutes, so a test does not.
func s3server(t *testing.T) string {
	t.Helper()
	program, err := exec.Command("../../test/scripts/s3server", "there").Output()
	if err != nil {
		harness.Ready(t, "needs an S3 server: test/scripts/s3server builds it, and make languages calls that")
	}
	return strings.TrimSpace(string(program))
}

func newS3(t *testing.T, dir string) *s3 {
	t.Helper()
	s := &s3{server: server{t: t, address: harness.Address(t)}, secret: s3Secret, program: s3server(t)}
	s.command = func() *exec.Cmd {
		c := exec.Command(s.program, "-p", s.address, "posix", dir)
		c.Env = []string{"ROOT_ACCESS_KEY=" + s3User, "ROOT_SECRET_KEY=" + s.secret}
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return c
	}
	s.start()
	t.Cleanup(s.kill)
	return s
}

func (s *s3) options(t *testing.T, address string) Options {
	return Options{
		Place: "s3:http://" + address + "/bucket/berth", Key: key, Host: "host.test", Cache: t.TempDir(), Restic: needRestic(t),
		Env: []string{"AWS_ACCESS_KEY_ID=" + s3User, "AWS_SECRET_ACCESS_KEY=" + s3Secret},
	}
}

// newSSH is sshd with a host key, a port and accounts of the test's own, and the options of a
// repository in a directory there.
func newSSH(t *testing.T, dir string) (*server, func(address string) Options) {
	t.Helper()
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil || os.Geteuid() != 0 {
		t.Skip("needs sshd, and root")
	}
	must(t, os.MkdirAll("/run/sshd", 0o755)) // which sshd wants
	home := t.TempDir()
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(home, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %s", out)
		}
	}
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(home, name)
		must(t, os.WriteFile(path, []byte(text), mode))
		return path
	}
	public := func(name string) string {
		text, err := os.ReadFile(filepath.Join(home, name+".pub"))
		must(t, err)
		return string(text)
	}
	s := &server{t: t, address: harness.Address(t)}
	_, port, _ := net.SplitHostPort(s.address)
	users := write("authorized", public("user"), 0o600)
	config := write("sshd_config", fmt.Sprintf("HostKey %s/host\nAuthorizedKeysFile %s\nListenAddress 127.0.0.1\nPort %s\nStrictModes no\n"+
		"UsePAM no\nPasswordAuthentication no\nPermitRootLogin yes\nPidFile none\nSubsystem sftp internal-sftp\n", home, users, port), 0o600)
	known := write("known", "* "+public("host"), 0o600)
	client := write("ssh_config", fmt.Sprintf("IdentityFile %s/user\nIdentitiesOnly yes\nUserKnownHostsFile %s\nStrictHostKeyChecking yes\nBatchMode yes\n", home, known), 0o600)
	// Whose home directory it is, ssh takes from the list of users, so its settings come by a command of that name.
	must(t, os.Mkdir(filepath.Join(home, "bin"), 0o700))
	write("bin/ssh", fmt.Sprintf("#!/bin/sh\nexec /usr/bin/ssh -F %s \"$@\"\n", client), 0o700)
	s.command = func() *exec.Cmd {
		c := exec.Command(sshd, "-D", "-e", "-f", config)
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		return c
	}
	s.start()
	t.Cleanup(s.kill)
	return s, func(address string) Options {
		return Options{
			Place: "sftp://root@" + address + "/" + dir, Key: key, Host: "host.test", Cache: t.TempDir(), Restic: needRestic(t),
			Env: []string{"PATH=" + filepath.Join(home, "bin") + ":" + os.Getenv("PATH")},
		}
	}
}

// line is a line to a server that a test can make slow, or cut.
type line struct {
	address string
	mu      sync.Mutex
	rate    int // bytes in a second towards the server; 0 for all
	cut     bool
	open    map[net.Conn]bool
}

func newLine(t *testing.T, to string, rate int) *line {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	n := &line{address: l.Addr().String(), rate: rate, open: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { n.carry(c, to) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		n.set(0, true)
		all.Wait()
	})
	return n
}

// set changes the rate; cut closes what is open and refuses what is new.
func (n *line) set(rate int, cut bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rate, n.cut = rate, cut
	for c := range n.open {
		if cut {
			c.Close()
		}
	}
}

func (n *line) carry(c net.Conn, to string) {
	defer c.Close()
	s, err := net.Dial("tcp", to)
	n.mu.Lock()
	if err != nil || n.cut {
		n.mu.Unlock()
		return
	}
	n.open[c], n.open[s] = true, true
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		delete(n.open, c)
		delete(n.open, s)
		n.mu.Unlock()
		s.Close()
	}()
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(c, s)
		c.Close()
	})
	piece := make([]byte, 16<<10)
	for {
		k, err := c.Read(piece)
		if _, werr := s.Write(piece[:k]); err != nil || werr != nil {
			break
		}
		n.mu.Lock()
		rate := n.rate
		n.mu.Unlock()
		if rate > 0 {
			time.Sleep(time.Duration(k) * time.Second / time.Duration(rate))
		}
	}
	s.Close()
	back.Wait()
}

// small is a file system with room for so many megabytes.
func small(t *testing.T, megabytes int) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounts a file system, so it needs root")
	}
	dir := t.TempDir()
	must(t, unix.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)))
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// repairs fails unless a backup is made now, is all that counts, and is whole.
func repairs(t *testing.T, r Repository) {
	t.Helper()
	must(t, r.Open(t.Context(), false))
	if got := Runs(list(t, r), "host"); len(got) > 0 {
		t.Errorf("what failed counts: %q", got)
	}
	shop := noise(77, 2<<20)
	s := save(t, r, "apps/shop", shop)
	commit(t, r, "20260301T000000Z", save(t, r, "host", []byte("after")), s)
	must(t, r.Prune(t.Context()))
	content(t, r, "20260301T000000Z", map[string][]byte{"host": []byte("after"), "apps/shop": shop})
	must(t, r.Check(t.Context(), 0, 1))
	if all := list(t, r); len(all) != 2 {
		t.Errorf("after Prune %+v", all)
	}
}

// endless writes until that fails or ctx ends, and calls at once so many bytes are written.
func endless(ctx context.Context, after int, at func()) func(io.Writer) error {
	return func(w io.Writer) error {
		for n, seed := 0, uint64(1000); ; seed++ {
			k, err := io.Copy(w, bytes.NewReader(noise(seed, 64<<10)))
			if err = errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			if n += int(k); n >= after && at != nil {
				at()
				at = nil
			}
		}
	}
}
