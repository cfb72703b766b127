package attacks

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// victims are what attackers want: a program, the daemon, and what the host has.
type victims struct {
	*daemon
	id      string // the program's
	pid     int
	targets map[string]string // what the attackers are told of it all
}

var victimSays = regexp.MustCompile(`victim: (\d+) (\d+)`)

// launchVictims starts everything that is attacked.
func launchVictims(t *testing.T) *victims {
	t.Helper()
	connected(t)
	v := &victims{daemon: launch(t, "--console-timeout", "5m"), targets: map[string]string{}}
	// A name and a key that nobody else on this machine has.
	token, key := "victim-"+filepath.Base(v.root), strconv.Itoa(0x77000000|os.Getpid()&0xffff00)
	victimKey := strconv.Itoa(0x76000000 | os.Getpid()&0xffff00)
	v.id = v.upload(bot("victim.py", map[string]string{"victim.py": source(t, "victim.py"), "token": token, "key": victimKey}))
	said := victimSays.FindStringSubmatch(v.untilLog(v.id, "victim: "))
	v.pid, _ = strconv.Atoi(said[1])
	api, err := url.Parse(v.Base)
	if err != nil {
		t.Fatal(err)
	}
	v.targets = map[string]string{
		"victim": said[1], "victim-port": said[2], "victim-dir": v.path(v.id), "victim-uid": strconv.Itoa(v.uid(v.id)),
		"victim-key": victimKey, "daemon": strconv.Itoa(v.Cmd.Process.Pid), "data": v.data, "api": api.Port(), "token": token,
		"host4": host4, "host6": host6, "peer4": peer4, "peer6": peer6, "peer-link": "fe80::77", "ipc-key": key, "local-socket": filepath.Join(v.runtimeDir, "berth.sock"), "abstract": token + ".host",
	}
	v.targets["victim-group"], v.targets["groups-outside"], v.targets["memory-outside"] = v.group(v.pid)
	v.targets["groups"], v.targets["memory"], v.targets["memory-limit"] = "/sys/fs/cgroup", "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat("/sys/fs/cgroup/unified"); err == nil { // hybrid
		v.targets["groups"], v.targets["memory"], v.targets["memory-limit"] = "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
	}
	v.services(t)
	v.memory(t, key)
	v.programs(t)
	v.runtime(t)
	return v
}

// runtime is one that the owner of the host installed.
func (v *victims) runtime(t *testing.T) {
	t.Helper()
	dir := filepath.Join(v.data, "runtimes", "node", "0.0.1", "bin")
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "node"), []byte("#!/bin/sh\necho v0.0.1\n"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// group is the directory of a process's group, for the host and twice, and that
// of its memory.
func (v *victims) group(pid int) (named, group, memory string) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	if err != nil {
		v.t.Fatal(err)
	}
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/unified"); err == nil {
		root += "/unified"
	}
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if parts[0] == "0" {
			group = root + parts[2]
		} else if parts[1] == "memory" {
			memory = "/sys/fs/cgroup/memory" + parts[2]
		}
	}
	if memory == "" {
		memory = group
	}
	return group, group, memory
}

// services are those of the host.
func (v *victims) services(t *testing.T) {
	t.Helper()
	closing := func(c interface{ Close() error }, err error) {
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
	}
	l, err := net.Listen("tcp", ":0")
	closing(l, err)
	go echoes(l)
	port := l.Addr().(*net.TCPAddr).Port
	v.targets["loop"] = strconv.Itoa(port)
	u, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	closing(u, err)
	go replies(u)
	for _, at := range []struct{ key, network, name string }{
		{"", "unix", "@" + v.targets["abstract"]}, {"host-socket", "unix", filepath.Join(v.root, "socket")},
	} {
		l, err := net.Listen(at.network, at.name)
		closing(l, err)
		go echoes(l)
		v.targets[at.key] = at.name
	}
	delete(v.targets, "")
	c, err := net.ListenPacket("unixgram", "@"+v.targets["abstract"]+".dgram")
	closing(c, err)
	v.shared(t)
	v.targets["host-file"] = filepath.Join(v.root, "file")
	for path, mode := range map[string]os.FileMode{v.targets["host-socket"]: 0o777, v.targets["host-file"]: 0o666} {
		if path == v.targets["host-file"] {
			if err := os.WriteFile(path, []byte("secret"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// shared is a service that lets others share its port, and is spoken to all the
// time.
func (v *victims) shared(t *testing.T) {
	t.Helper()
	share := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	c, err := share.ListenPacket(t.Context(), "udp4", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := c.LocalAddr().(*net.UDPAddr).Port
	v.targets["shared"] = strconv.Itoa(port)
	done := make(chan struct{})
	go func() {
		defer close(done)
		to, b := &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}, make([]byte, 9)
		pace := time.NewTicker(20 * time.Millisecond)
		defer pace.Stop()
		for ; ; <-pace.C {
			// From another socket each time: the kernel chooses among those that share
			// the port by the sender.
			from, err := net.DialUDP("udp4", nil, to)
			if err != nil {
				return
			}
			_, _ = from.Write([]byte("secret"))
			from.Close()
			if _, _, err := c.ReadFrom(b); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { c.Close(); <-done })
}

// memory is what the host's processes share, open to everybody.
func (v *victims) memory(t *testing.T, key string) {
	t.Helper()
	file := "/dev/shm/host-" + v.targets["token"]
	if err := os.WriteFile(file, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(file) })
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	k, _ := strconv.Atoi(key)
	const all = unix.IPC_CREAT | 0o666
	for name, call := range map[string]func() (uintptr, uintptr, unix.Errno){
		"shm": func() (uintptr, uintptr, unix.Errno) { return unix.Syscall(unix.SYS_SHMGET, uintptr(k), 4096, all) },
		"sem": func() (uintptr, uintptr, unix.Errno) { return unix.Syscall(unix.SYS_SEMGET, uintptr(k), 1, all) },
		"msg": func() (uintptr, uintptr, unix.Errno) { return unix.Syscall(unix.SYS_MSGGET, uintptr(k), all, 0) },
	} {
		id, _, errno := call()
		if errno != 0 {
			t.Fatalf("%s: %v", name, errno)
		}
		v.targets[name+"-id"] = strconv.Itoa(int(id))
		t.Cleanup(func() {
			switch name {
			case "shm":
				unix.Syscall(unix.SYS_SHMCTL, id, unix.IPC_RMID, 0)
			case "sem":
				unix.Syscall6(unix.SYS_SEMCTL, id, 0, unix.IPC_RMID, 0, 0, 0)
			case "msg":
				unix.Syscall(unix.SYS_MSGCTL, id, unix.IPC_RMID, 0)
			}
		})
	}
	name := append([]byte(v.targets["token"]), 0)
	fd, _, errno := unix.Syscall6(unix.SYS_MQ_OPEN, uintptr(unsafe.Pointer(&name[0])), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o666, 0, 0, 0)
	if errno != 0 {
		t.Fatal("mq_open: ", errno)
	}
	t.Cleanup(func() {
		unix.Close(int(fd))
		unix.Syscall(unix.SYS_MQ_UNLINK, uintptr(unsafe.Pointer(&name[0])), 0, 0)
	})
}

// programs are two that would gain something, where programs find them.
func (v *victims) programs(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("/opt", "berth-attacks.") //nolint:usetesting // programs are shown /opt
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program, err := os.ReadFile(attacker)
	if err != nil {
		t.Fatal(err)
	}
	v.targets["setuid"], v.targets["capable"] = filepath.Join(dir, "setuid"), filepath.Join(dir, "capable")
	// struct vfs_cap_data: revision 2, effective; CAP_SETUID permitted.
	capability := binary.LittleEndian.AppendUint32(binary.LittleEndian.AppendUint32(nil, 0x02000001), 1<<unix.CAP_SETUID)
	capability = append(capability, make([]byte, 12)...)
	for _, do := range []func() error{
		func() error { return os.Chmod(dir, 0o755) },
		func() error { return os.WriteFile(v.targets["setuid"], program, 0o755) },
		func() error { return os.WriteFile(v.targets["capable"], program, 0o755) },
		func() error { return os.Chmod(v.targets["setuid"], 0o755|os.ModeSetuid) },
		func() error { return unix.Setxattr(v.targets["capable"], "security.capability", capability, 0) },
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
}

// in is the same for a subtest, beside others.
func (v *victims) in(t *testing.T) *victims {
	t.Parallel()
	copied := *v
	copied.daemon = v.daemon.in(t)
	return &copied
}

// told is the file that tells an attacker its targets.
func (v *victims) told(more ...string) string {
	var b strings.Builder
	for key, value := range v.targets {
		fmt.Fprintln(&b, key, value)
	}
	for _, line := range more {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// survive checks that nobody has ended.
func (v *victims) survive(t *testing.T) {
	t.Helper()
	if v.Ended() {
		t.Fatal("the daemon has ended")
	}
	v.get("/app/"+v.id).want(200, "apps.online", true)
	if said := victimSays.FindAllString(v.log(v.id), -1); len(said) != 1 {
		t.Errorf("the victim was started %d times", len(said))
	}
	if err := unix.Kill(v.pid, 0); err != nil {
		t.Error("the victim: ", err)
	}
}
