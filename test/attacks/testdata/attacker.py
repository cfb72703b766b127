# The attacker in Python: see c/attacker.c, of which it does the same by the roads
# that Python offers.
import ctypes, errno, fcntl, glob, multiprocessing.shared_memory, os, resource, signal, socket, subprocess, sys, threading, time, urllib.error, urllib.request

targets = dict(line.rstrip("\n").split(" ", 1) for line in open("targets"))
control = len(sys.argv) > 1
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
attacks = {}
def attack(name):
    def add(f): attacks[name] = f
    return add
def target(name): return targets[name]
def number(name): return int(targets[name])
def reads(path):
    with open(path, "rb") as f: return f.read(1) or "none"
def opens(path, flags): os.close(os.open(path, flags | os.O_NONBLOCK))
def others(path, own=()):
    if not set(os.listdir(path)) - set(own): return "none"

# Files.
attacks |= {
    "read the victim's file": lambda: reads(target("victim-dir") + "/secret"),
    "write to the victim's directory": lambda: opens(target("victim-dir") + "/planted", os.O_CREAT | os.O_WRONLY),
    "read the database": lambda: reads(target("data") + "/berth.db"),
    "read the write-ahead log": lambda: reads(target("data") + "/berth.db-wal"),
    "read a file of the host": lambda: reads(target("host-file")),
    "read the passwords of the host": lambda: reads("/etc/shadow"),
    "link to the victim's file": lambda: os.link(target("victim-dir") + "/secret", "stolen"),
    "write to a program of the system": lambda: opens("/usr/bin/env", os.O_WRONLY),
    "write to an installed runtime": lambda: opens(target("data") + "/runtimes/node/0.0.1/bin/node", os.O_WRONLY),
    "list the applications": lambda: others(target("data") + "/apps", [] if control else [os.path.basename(os.getcwd())]),
    "list the data directory": lambda: others(target("data"), ["apps"]),
    "find the victim's file in /tmp": lambda: reads("/tmp/" + target("token")),
    "find the victim's shared memory": lambda: multiprocessing.shared_memory.SharedMemory(target("token")).close(),
    "enter the victim's root directory": lambda: reads("/proc/%s/root%s/secret" % (target("victim"), target("victim-dir"))),
    "read the victim's environment": lambda: reads("/proc/%s/environ" % target("victim")),
    "read the daemon's environment": lambda: reads("/proc/%s/environ" % target("daemon")),
    "read the daemon's command line": lambda: reads("/proc/%s/cmdline" % target("daemon")),
    "open the daemon's memory": lambda: opens("/proc/%s/mem" % target("daemon"), os.O_RDWR),
    "list the daemon's descriptors": lambda: others("/proc/%s/fd" % target("daemon")),
    "find the daemon's environment in its own": lambda: "BERTH_ATTACKS_SECRET" in os.environ or "none",
    "make a character device": lambda: os.mknod("device", 0o20666, os.makedev(1, 1)),
    "write the core pattern": lambda: opens("/proc/sys/kernel/core_pattern", os.O_WRONLY),
    "write to sysrq-trigger": lambda: opens("/proc/sysrq-trigger", os.O_WRONLY),
    "read the kernel's messages": lambda: opens("/proc/kmsg", os.O_RDONLY),
    "change the root directory by chroot": lambda: os.chroot("/tmp"),
}
@attack("see processes of others")
def _():
    if not [p for p in glob.glob("/proc/[0-9]*") if control or os.path.exists(p) and os.stat(p).st_uid != os.getuid()]: return "none"
@attack("use descriptors that leaked")
def _():
    seen = os.open("/proc/self/fd", os.O_RDONLY)
    if not [fd for fd in os.listdir(seen) if int(fd) > 2 and int(fd) != seen and os.path.exists("/proc/self/fd/" + fd) and os.get_inheritable(int(fd))]: return "none"
@attack("write to cgroup.procs of its own group")
def _(): opens(target("groups-outside" if control else "groups") + "/cgroup.procs", os.O_WRONLY)
@attack("lower its own oom_score_adj")
def _():
    with open("/proc/self/oom_score_adj", "w") as f: f.write("-1000")

# Processes and privileges.
libc = ctypes.CDLL(None, use_errno=True)
def apart():
    "gives root mounts and a host name of its own, to change"
    if control: call("unshare", 0x4020000); call("mount", b"", b"/", b"", 0x44000, b"")
def call(name, *args):
    if getattr(libc, name)(*args) < 0: raise OSError(ctypes.get_errno(), name)
attacks |= {
    "signal the daemon": lambda: os.kill(number("daemon"), 0),
    "signal the victim": lambda: os.kill(number("victim"), 0),
    "signal process 1": lambda: os.kill(1, 0),
    "signal everybody": lambda: control or os.kill(-1, signal.SIGUSR1),
    "signal the victim's descriptor": lambda: signal.pidfd_send_signal(os.pidfd_open(number("victim")), 0),
    "set the victim's limits": lambda: resource.prlimit(number("victim"), resource.RLIMIT_NOFILE),
    "set the victim's priority": lambda: os.setpriority(os.PRIO_PROCESS, number("victim"), 0),
    "become root": lambda: os.setuid(0),
    "become root's group": lambda: os.setgid(0),
    "join groups": lambda: os.setgroups([0, 27]),
    "become the victim": lambda: os.setresuid(number("victim-uid"), -1, -1),
    "raise its priority": lambda: os.nice(-5) and None,
    "run in real time": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "raise its limit of files": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 19, 1 << 19)),
    "be traced": lambda: call("ptrace", 0, 0, 0, 0),
    "mount a file system": lambda: apart() or call("mount", b"x", b"/tmp", b"tmpfs", 0, b""),
    "make a user namespace": lambda: call("unshare", 0x10000000),
    "make a mount namespace": lambda: call("unshare", 0x20000),
    "change the host's name": lambda: apart() or socket.sethostname("planted"),
    "set the time": lambda: time.clock_settime(time.CLOCK_REALTIME, -1),
}
@attack("run a set-uid program")
def _():
    if subprocess.run([target("setuid"), "--euid"], user=65534 if control else None, group=65534 if control else None).returncode != 77: return "none"
@attack("run su")
def _():
    if subprocess.run(["/bin/su", "-c", "exit 77"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 77: return "none"
@attack("become root in a thread")
def _():
    got = []
    def f(): got.append(libc.syscall(105, 0)); got.append(ctypes.get_errno()) # setuid, of amd64
    t = threading.Thread(target=f); t.start(); t.join()
    if got[0] < 0: raise OSError(got[1], "")
@attack("type into its terminal")
def _():
    m, s = os.openpty(); os.setsid()
    s = os.open(os.ttyname(s), os.O_RDWR); fcntl.ioctl(s, 0x5412, b"x")

# Sockets.
def tcp(host, port, family=0):
    family = family or (socket.AF_INET6 if ":" in host else socket.AF_INET)
    with socket.socket(family) as s: s.settimeout(5); s.connect((host, port))
def udp(host, port, connected=False):
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.settimeout(1.25); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if connected: s.connect((host, port)); s.send(b"ping")
        else: s.sendto(b"ping", (host, port))
        s.recv(9)
def local(name, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as s: s.connect(name)
def asks(name):
    with socket.socket(socket.AF_UNIX) as s:
        s.settimeout(20); s.connect(name); s.sendall(b"GET /host HTTP/1.0\r\nHost: localhost\r\n\r\n")
        if not s.recv(12).startswith(b"HTTP/1.0 200"): return "none"
@attack("ask the daemon by the names of all local sockets")
def _():
    for line in open("/proc/net/unix"):
        name = line.split()[-1]
        if name != target("local-socket") and (control or not name.endswith("/berth.sock")): continue
        try:
            if asks(name) is None: return
        except OSError: pass
    return "none"
@attack("inherit the daemon's local socket")
def _():
    for fd in range(4096):
        try: s = socket.socket(fileno=os.dup(fd))
        except OSError: continue
        with s:
            for name in (s.getsockname, s.getpeername):
                try:
                    if name() == target("local-socket"): return
                except OSError: pass
    return "none"
loop = number("loop")
attacks |= {
    "connect to the API": lambda: urllib.request.urlopen("http://127.0.0.1:%s/v2/user" % target("api"), timeout=5),
    "connect to loopback": lambda: tcp("127.0.0.1", loop),
    "connect to loopback by another address": lambda: tcp("127.1.2.3", loop),
    "connect to loopback by 0.0.0.0": lambda: tcp("0.0.0.0", loop),
    "connect to loopback by IPv6": lambda: tcp("::1", loop),
    "connect to loopback by a mapped address": lambda: tcp("::ffff:127.0.0.1", loop),
    "connect to the host by its address": lambda: tcp(target("host4"), loop),
    "connect to the host by its IPv6 address": lambda: tcp(target("host6"), loop),
    "send to loopback": lambda: udp("127.0.0.1", loop),
    "send to loopback when connected": lambda: udp("127.0.0.1", loop, True),
    "send to loopback by IPv6": lambda: udp("::1", loop),
    "send to all hosts by broadcast": lambda: udp("255.255.255.255", loop),
    "connect to metadata": lambda: tcp("169.254.169.254", 80),
    "connect to metadata by IPv6": lambda: tcp("fd00:ec2::254", 80),
    "connect to the victim's port": lambda: tcp("127.0.0.1", number("victim-port")),
    "connect to the victim on 8080": lambda: tcp("127.0.0.1", 8080),
    "connect to an abstract socket of the host": lambda: local("\0" + target("abstract")),
    "connect to an abstract datagram socket of the host": lambda: local("\0" + target("abstract") + ".dgram", socket.SOCK_DGRAM),
    "connect to an abstract socket of the victim": lambda: local("\0" + target("token")),
    "ask the daemon by its local socket": lambda: asks(target("local-socket")),
    "ask the daemon by the root directory of its process": lambda: asks("/proc/%s/root%s" % (target("daemon"), target("local-socket"))),
    "ask the daemon by an abstract name": lambda: local("\0" + target("local-socket")),
    "connect to a socket of the host by its path": lambda: local(target("host-socket")),
    "open a raw socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close(),
    "open a packet socket": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0x0300).close(),
    "open a socket to the hypervisor": lambda: socket.socket(socket.AF_VSOCK).close(),
    "open a socket of the kernel's ciphers": lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET).close(),
    "mark its packets": lambda: socket.socket().setsockopt(socket.SOL_SOCKET, 36, 1),
}

def outcome(f):
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)
        try:
            said = "none" if f() == "none" else "ok"
        except TimeoutError: said = "silent"
        except urllib.error.HTTPError: said = "ok" # it was heard
        except OSError as e:
            e = getattr(e, "reason", e) # urllib's
            said = errno.errorcode.get(e.errno, str(e))
        except BaseException as e: said = type(e).__name__
        os.write(w, said.encode()); os._exit(0)
    os.close(w)
    said = os.read(r, 1000).decode() or "ended"
    os.close(r); os.waitpid(pid, 0)
    return said

for name, f in attacks.items():
    if not control or name in sys.argv: print("attack: %s: %s" % (name, outcome(f)), flush=True)
print("attacks: done", flush=True)
if not control and targets.get("then") != "end": signal.pause()
