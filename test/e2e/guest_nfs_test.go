//go:build guest

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/test/harness"
)

// nfs is Debian's NFS server, which exports one directory of this guest, and one other
// machine, which is a network namespace of the guest.
type nfs struct {
	t *testing.T
}

// The network between the two: a cable, at one end of which the server is.
const (
	nfsMachine  = "machine"
	nfsCable    = "cable"
	nfsServer   = "10.9.0.1"
	nfsNetworks = `ip netns add machine && ip link add cable type veth peer name cable netns machine &&
	ip addr add 10.9.0.1/24 dev cable && ip link set cable up &&
	ip -n machine addr add 10.9.0.2/24 dev cable && ip -n machine link set cable up`
)

// nfsThreads are as many as Debian starts.
const nfsThreads = 8

// nfsConf is NFSv4.2 alone: it needs one port, and no rpcbind.
const nfsConf = "[general]\npipefs-directory=/run/rpc_pipefs\n[nfsd]\nvers3=n\nvers4.0=n\nvers4.1=n\n"

// unpacksNFS lays the packages of test/vm/nfs over the guest's root directory. No script of
// them runs: these prepare a system that is kept.
const unpacksNFS = `cd "$0" && for deb in *.deb; do
	[ ! -e "$deb" ] || dpkg-deb --fsys-tarfile "$deb" | tar -C / -x --keep-directory-symlink || exit
done`

// serveNFS exports a directory until the test ends, as a host with programs on other machines
// would: nothing beside it, and to root of the others as to nobody.
func serveNFS(t *testing.T, dir string) *nfs {
	t.Helper()
	n := &nfs{t}
	n.command("bash", "-o", "pipefail", "-c", unpacksNFS, filepath.Join(filepath.Dir(harness.Binary), "nfs"))
	harness.Write(t, "/etc/nfs.conf", nfsConf)
	harness.Write(t, "/etc/exports", dir+" *(rw,sync,no_subtree_check,root_squash,fsid=0)\n")
	for _, made := range []string{"/run/rpc_pipefs", "/var/lib/nfs/nfsdcld"} {
		if err := os.MkdirAll(made, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, module := range []string{"nfsd", "nfsv4"} {
		n.command("modprobe", module)
	}
	// Without delegations, which are leases: with them a change of a file waits 90 s for a machine
	// that has read it and is gone since.
	n.command("sysctl", "-q", "fs.leases-enable=0")
	n.command("sh", "-c", nfsNetworks)
	t.Cleanup(func() { n.command("ip", "netns", "del", nfsMachine) })
	n.command("mount", "-t", "nfsd", "nfsd", "/proc/fs/nfsd")
	n.command("mount", "-t", "rpc_pipefs", "rpc_pipefs", "/run/rpc_pipefs")
	n.daemon("inotify", "nfsdcld", "-F") // remembers the clients, so that a server which comes back waits for nobody else
	n.daemon("/nfsd.export/channel", "rpc.mountd", "-F")
	n.command("exportfs", "-ra")
	n.threads(nfsThreads)
	t.Cleanup(func() {
		n.threads(0)
		n.command("exportfs", "-ua")
	})
	if versions := n.read("/proc/fs/nfsd/versions"); versions != "-3 +4 -4.0 -4.1 +4.2\n" {
		t.Errorf("the versions of the server are %q", versions)
	}
	return n
}

// command must succeed; its tools are in directories for root.
func (n *nfs) command(name string, args ...string) {
	n.t.Helper()
	if out, err := n.tool(name, args...).CombinedOutput(); err != nil {
		n.t.Fatalf("%s %v: %v: %s", name, args, err, out)
	}
}

func (n *nfs) tool(name string, args ...string) *exec.Cmd {
	return exec.Command("env", append([]string{"PATH=" + os.Getenv("PATH") + ":/usr/sbin:/sbin", name}, args...)...)
}

// daemon runs a command until the test ends, and returns once the command has opened a file
// whose name ends so: then the kernel finds it.
func (n *nfs) daemon(opens, name string, args ...string) {
	n.t.Helper()
	cmd := n.tool(name, args...)
	out := &harness.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if n.t.Failed() {
			n.t.Logf("%s said: %s", name, out)
		}
	})
	harness.Eventually(n.t, name+" is ready", func() bool {
		all, _ := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", cmd.Process.Pid)) // the pattern is well-formed
		return slices.ContainsFunc(all, func(fd string) bool {
			name, _ := os.Readlink(fd) // none of one that was closed
			return strings.HasSuffix(name, opens)
		})
	})
}

func (n *nfs) read(path string) string {
	n.t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		n.t.Fatal(err)
	}
	return string(text)
}

// threads starts the server with so many threads, or stops it with none.
func (n *nfs) threads(count int) {
	n.t.Helper()
	n.command("rpc.nfsd", fmt.Sprint(count))
	if now := strings.TrimSpace(n.read("/proc/fs/nfsd/threads")); now != fmt.Sprint(count) {
		n.t.Fatalf("the server has %s threads, want %d", now, count)
	}
}

// cut takes the other machine from the network, and join brings it back.
func (n *nfs) cut()  { n.command("ip", "link", "set", nfsCable, "down") }
func (n *nfs) join() { n.command("ip", "link", "set", nfsCable, "up") }

// mount mounts the export on the other machine with these options, "" for none, until the
// test ends.
func (n *nfs) mount(options string) (dir string) {
	n.t.Helper()
	dir, err := os.MkdirTemp("/mnt", "berth-nfs.") // t.TempDir is closed to other users
	if err != nil {
		n.t.Fatal(err)
	}
	all := "vers=4.2"
	if options != "" {
		all += "," + options
	}
	n.command("nsenter", "--net=/run/netns/"+nfsMachine, "mount", "-t", "nfs4", "-o", all, nfsServer+":/", dir)
	n.t.Cleanup(func() {
		n.command("umount", dir) // fails while a program is left
		_ = os.Remove(dir)
	})
	return dir
}

// podProcess is a program in a pod, on this side of its pipes.
type podProcess struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.Closer
	out  *bufio.Reader
	what string
}

// podPatience bounds the life of a program: some of them write for minutes in an emulated guest.
const podPatience = 40 * time.Minute

// startPod starts a program with a user id on the other machine.
func startPod(t *testing.T, uid int, verb, path string, args ...string) *podProcess {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), podPatience)
	line := append([]string{"--net=/run/netns/" + nfsMachine, self, asPod, fmt.Sprint(uid), verb, path}, args...)
	cmd := exec.CommandContext(ctx, "nsenter", line...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // before the mount goes
		cancel()
		_ = cmd.Wait()
	})
	return &podProcess{t, cmd, in, bufio.NewReader(out), verb}
}

// says is the next line of the program, which it must write.
func (p *podProcess) says() string {
	p.t.Helper()
	line, err := p.out.ReadString('\n')
	if err != nil {
		p.t.Fatalf("the program that is to %s said %q: %v", p.what, line, err)
	}
	return strings.TrimSuffix(line, "\n")
}

// end tells the program to end, and returns the rest of what it says.
func (p *podProcess) end() string {
	p.t.Helper()
	_ = p.in.Close()
	rest, err := io.ReadAll(p.out)
	_ = p.cmd.Wait() // what it says tells
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSuffix(string(rest), "\n")
}

// podView is what a new program sees.
func podView(t *testing.T, uid int, top string, names []string) (v view) {
	t.Helper()
	said := startPod(t, uid, "look", top, names...).end()
	if err := json.Unmarshal([]byte(said), &v); err != nil {
		t.Fatalf("the program said %q: %v", said, err)
	}
	return v
}
