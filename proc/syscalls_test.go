//go:build amd64 || arm64

package proc

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/proc/sandbox"
)

// caller makes a Python program that makes system calls with no better
// arguments than these, and prints what came of each.
func caller(calls []string) string {
	return `import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    ctypes.set_errno(0)
    r = libc.syscall(ctypes.c_long(nr), *[ctypes.c_long(a) for a in args])
    print("ok" if r >= 0 else errno.errorcode[ctypes.get_errno()])
` + strings.Join(calls, "\n") + "\n"
}

// What no program needs is refused, with the error that makes programs do
// without it. As root each would be something else.
func TestKernelRefusedCalls(t *testing.T) {
	b := newBench(t)
	b.with(t, sandbox.Seccomp)
	type test struct {
		name string
		nr   uintptr
		args string
		want string
	}
	const space = unix.CLONE_NEWUSER
	tests := []test{
		{"clone3", unix.SYS_CLONE3, "0, 0", "ENOSYS"},
		{"a user namespace", unix.SYS_CLONE, fmt.Sprint(space|int(unix.SIGCHLD), ", 0, 0, 0, 0"), "EPERM"},
		{"a raw socket", unix.SYS_SOCKET, "2, 3, 1", "EPERM"},
		{"a raw socket of IPv6, non-blocking", unix.SYS_SOCKET, fmt.Sprintf("10, %d, 58", 3|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC), "EPERM"},
		{"a packet socket the old way", unix.SYS_SOCKET, "2, 10, 0", "EPERM"},
		{"a packet socket", unix.SYS_SOCKET, "17, 3, 0", "EAFNOSUPPORT"},
		{"vsock", unix.SYS_SOCKET, "40, 1, 0", "EAFNOSUPPORT"},
		{"alg", unix.SYS_SOCKET, "38, 5, 0", "EAFNOSUPPORT"},
		{"xdp", unix.SYS_SOCKET, "44, 3, 0", "EAFNOSUPPORT"},
		{"mptcp", unix.SYS_SOCKET, "2, 1, 262", "EPROTONOSUPPORT"},
		{"sctp", unix.SYS_SOCKET, "2, 1, 132", "EPROTONOSUPPORT"},
		{"dccp", unix.SYS_SOCKET, "2, 6, 33", "EPROTONOSUPPORT"},
		{"udplite", unix.SYS_SOCKET, "10, 2, 136", "EPROTONOSUPPORT"},
		{"seqpacket", unix.SYS_SOCKET, "2, 5, 0", "EPROTONOSUPPORT"},
		{"netlink of audit", unix.SYS_SOCKET, "16, 3, 9", "EPROTONOSUPPORT"},
		{"a pair of tipc", unix.SYS_SOCKETPAIR, "30, 1, 0, 0", "EAFNOSUPPORT"},
		{"an upper half that the kernel does not look at", unix.SYS_SOCKET, "2 + (1 << 32), 3, 1", "EPERM"},
		{"typing into a terminal", unix.SYS_IOCTL, "0, 0x5412, 0", "EPERM"},
		{"the project of a file", unix.SYS_IOCTL, "0, 0x401c5820, 0", "EPERM"},
		{"the flags of a file", unix.SYS_IOCTL, "0, 0x40086602, 0", "EPERM"},
	}
	for name, nr := range map[string]uintptr{
		"mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT, "chroot": unix.SYS_CHROOT,
		"open_tree": unix.SYS_OPEN_TREE, "move_mount": unix.SYS_MOVE_MOUNT, "fsopen": unix.SYS_FSOPEN, "fsmount": unix.SYS_FSMOUNT,
		"fsconfig": unix.SYS_FSCONFIG, "fspick": unix.SYS_FSPICK, "mount_setattr": unix.SYS_MOUNT_SETATTR, "open_tree_attr": unix.SYS_OPEN_TREE_ATTR,
		"unshare": unix.SYS_UNSHARE, "setns": unix.SYS_SETNS, "bpf": unix.SYS_BPF, "ptrace": unix.SYS_PTRACE,
		"process_vm_readv": unix.SYS_PROCESS_VM_READV, "process_vm_writev": unix.SYS_PROCESS_VM_WRITEV, "pidfd_getfd": unix.SYS_PIDFD_GETFD,
		"kcmp": unix.SYS_KCMP, "keyctl": unix.SYS_KEYCTL, "add_key": unix.SYS_ADD_KEY, "request_key": unix.SYS_REQUEST_KEY,
		"io_uring_setup": unix.SYS_IO_URING_SETUP, "io_uring_enter": unix.SYS_IO_URING_ENTER, "io_uring_register": unix.SYS_IO_URING_REGISTER,
		"userfaultfd": unix.SYS_USERFAULTFD, "perf_event_open": unix.SYS_PERF_EVENT_OPEN, "kexec_load": unix.SYS_KEXEC_LOAD,
		"init_module": unix.SYS_INIT_MODULE, "finit_module": unix.SYS_FINIT_MODULE, "open_by_handle_at": unix.SYS_OPEN_BY_HANDLE_AT,
		"name_to_handle_at": unix.SYS_NAME_TO_HANDLE_AT, "swapon": unix.SYS_SWAPON, "reboot": unix.SYS_REBOOT, "acct": unix.SYS_ACCT,
		"quotactl": unix.SYS_QUOTACTL, "quotactl_fd": unix.SYS_QUOTACTL_FD, "file_setattr": unix.SYS_FILE_SETATTR, "syslog": unix.SYS_SYSLOG,
		"settimeofday": unix.SYS_SETTIMEOFDAY, "clock_settime": unix.SYS_CLOCK_SETTIME, "adjtimex": unix.SYS_ADJTIMEX,
		"fanotify_init": unix.SYS_FANOTIFY_INIT, "lookup_dcookie": unix.SYS_LOOKUP_DCOOKIE, "move_pages": unix.SYS_MOVE_PAGES,
		"migrate_pages": unix.SYS_MIGRATE_PAGES, "process_madvise": unix.SYS_PROCESS_MADVISE, "sethostname": unix.SYS_SETHOSTNAME, "vhangup": unix.SYS_VHANGUP,
	} {
		tests = append(tests, test{name, nr, "0, 0, 0, 0, 0", "EPERM"})
	}
	var calls []string
	for _, tt := range tests {
		calls = append(calls, fmt.Sprintf("call(%d, %s)", tt.nr, tt.args))
	}
	got := strings.Fields(b.says(t, nil, "exec /usr/bin/python3 -c '"+caller(calls)+"'"))
	if len(got) != len(tests) {
		t.Fatalf("%d answers to %d calls: %v", len(got), len(tests), got)
	}
	for i, tt := range tests {
		if got[i] != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got[i], tt.want)
		}
	}
}

// What programs need works behind all walls.
func TestKernelAllowedCalls(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct{ name, script string }{
		{"threads and their locks", `import threading, queue
q = queue.Queue()
ts = [threading.Thread(target=lambda: q.put(1)) for _ in range(20)]
[x.start() for x in ts]; [x.join() for x in ts]
assert q.qsize() == 20`},
		{"processes that share memory", `import multiprocessing as m
from multiprocessing import shared_memory
def work(name):
    s = shared_memory.SharedMemory(name); s.buf[0] = 7; s.close()
if __name__ == "__main__":
    s = shared_memory.SharedMemory(create=True, size=4096)
    p = m.Process(target=work, args=(s.name,)); p.start(); p.join()
    assert s.buf[0] == 7 and p.exitcode == 0
    s.close(); s.unlink()
    with m.Pool(2) as pool: assert pool.map(abs, [-1, -2]) == [1, 2]`},
		{"commands", `import subprocess
assert subprocess.run(["sh", "-c", "id -un | tr a-z A-Z"], capture_output=True).stdout == b"APP\n"`},
		{"sockets", `import socket
for f in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
        socket.socket(f, kind).close()
a, b = socket.socketpair(); a.send(b"x"); assert b.recv(1) == b"x"
socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close()
assert any(n == "lo" for _, n in socket.if_nameindex())
assert socket.getaddrinfo("localhost", 80)
assert socket.gethostbyname(socket.gethostname()).startswith("127.")`},
		{"a server", `import asyncio
async def main():
    async def hello(r, w): w.write(b"hello"); await w.drain(); w.close()
    s = await asyncio.start_server(hello, "127.0.0.1", 0)
    r, w = await asyncio.open_connection(*s.sockets[0].getsockname()[:2])
    assert await r.read() == b"hello"
asyncio.run(main())`},
		{"certificates", `import ssl
assert len(ssl.create_default_context().get_ca_certs()) > 20`},
		{"events, timers, signals, files in memory", `import os, select, signal, time
e = select.epoll(); r, w = os.pipe(); e.register(r, select.EPOLLIN); os.write(w, b"x"); assert e.poll(5)
hits = []
signal.signal(signal.SIGALRM, lambda *a: hits.append(1)); signal.setitimer(signal.ITIMER_REAL, 0.01)
while not hits: time.sleep(0.01)
f = os.memfd_create("x"); os.write(f, b"y")
fd = os.pidfd_open(os.getpid()); signal.pidfd_send_signal(fd, 0)
os.nice(1); os.sched_getaffinity(0); os.getrandom(8); os.eventfd(1)`},
		{"files", `import os, mmap, fcntl, tempfile, shutil
with open("f", "w+b") as f:
    f.write(b"x" * 8192); f.flush(); fcntl.flock(f, fcntl.LOCK_EX)
    m = mmap.mmap(f.fileno(), 8192); m[0] = 1; m.flush(); os.fsync(f.fileno())
os.chmod("f", 0o600); os.rename("f", "g"); os.symlink("g", "l"); os.link("g", "h"); os.mkfifo("p"); os.truncate("g", 10)
with tempfile.TemporaryFile() as t: t.write(b"z")
assert tempfile.gettempdir() == "/tmp" and shutil.disk_usage("/tmp").total > 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file, err := os.CreateTemp(b.dir, "try-*.py")
			if err == nil {
				_, err = file.WriteString(tt.script)
			}
			if err == nil {
				err = file.Chmod(0o644)
			}
			file.Close()
			if err != nil {
				t.Fatal(err)
			}
			b.says(t, nil, "rm -f f g h l p; exec /usr/bin/python3 "+file.Name())
		})
	}
}

// Runtimes run behind all walls: their threads, their compilers, their JITs.
func TestKernelRuntimesRun(t *testing.T) {
	b := newBench(t)
	tools := FindTools()
	for name, args := range map[string]string{
		"node": `-e 'const w = new (require("worker_threads").Worker)("require(\"worker_threads\").parentPort.postMessage(1)", {eval: true}); w.on("message", () => { require("fs").writeFile("n", "x", () => require("child_process").execSync("true")); console.log("fine") })'`,
		"java": "-version 2>&1 && echo fine", "php": `-r 'echo "fine";'`, "ruby": `-e 'Thread.new { puts "fine" }.join'`, "perl": `-e 'print "fine"'`,
		"go": "version && echo fine", "deno": `eval 'console.log("fine")'`, "bun": `-e 'console.log("fine")'`,
	} {
		path, _ := tools.Find(name)
		if path == "" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			if got := b.says(t, func(s *Spec) { s.MemoryMB = 512; s.Env = append(s.Env, "HOME="+b.dir) }, path+" "+args); !strings.Contains(got, "fine") {
				t.Errorf("it says %q", got)
			}
		})
	}
}
