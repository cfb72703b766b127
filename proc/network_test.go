package proc

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"berth/proc/sandbox"
)

// networked is a bench whose programs are under the network policy.
func networked(t *testing.T, rules sandbox.Rules) bench {
	t.Helper()
	b := newBench(t)
	if err := sandbox.Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	n, err := sandbox.NewNetwork(rules)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if left, err := n.Ports(); left != 0 || err != nil {
			t.Errorf("%d ports of programs that have ended are still held, %v", left, err)
		}
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	})
	b.Network = n
	return b
}

// prelude is what the Python programs of these tests have in common.
const prelude = `
import errno, os, socket, sys, time
V4, V6, TCP, UDP = socket.AF_INET, socket.AF_INET6, socket.SOCK_STREAM, socket.SOCK_DGRAM
def say(*words): print(*words, flush=True)
def why(e): return errno.errorcode.get(e.errno, str(e)) if isinstance(e, OSError) else repr(e)
def bound(family, kind, host, port, only=None, reuse=False):
    s = socket.socket(family, kind)
    if only is not None: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only)
    if reuse: s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind((host, port))
    if kind == TCP: s.listen()
    return s
def trial(name, f):
    try: say(name + ":", f())
    except Exception as e: say(name + ":", why(e))
def through(l, host, port):
    "connects to a listener of our own and passes a word both ways"
    c = socket.create_connection((host, port), 5)
    s, peer = l.accept()
    c.sendall(b"ping"); got = s.recv(4); s.sendall(b"pong"); got += c.recv(4)
    seen = "%s %s" % (c.getpeername()[1], s.getsockname()[1])
    c.close(); s.close()
    return got.decode() + " " + seen
def name(s): return "%s %d" % s.getsockname()[:2]
`

// said runs a Python program to its end and returns its lines by their names.
func said(t *testing.T, b bench, port int, program string) map[string]string {
	t.Helper()
	r, s := python(t, b, port, program)
	if e := r.Wait(); e.Code != 0 {
		t.Fatalf("the program ended with %d:\n%s", e.Code, output(t, s))
	}
	lines := map[string]string{}
	for line := range strings.Lines(output(t, s)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		lines[name] = value
	}
	return lines
}

func python(t *testing.T, b bench, port int, program string) (*Run, Spec) {
	t.Helper()
	command, _ := FindTools().Find("python3")
	if command == "" {
		t.Fatal("there is no python3")
	}
	s := b.spec(t, "")
	s.Argv, s.Port = []string{command, "-c", prelude + program}, port
	s.Env = append(s.Env, "PORT="+strconv.Itoa(port))
	return b.launch(t, s), s
}

func compare(t *testing.T, got map[string]string, want ...string) {
	t.Helper()
	for _, line := range want {
		name, value, _ := strings.Cut(line, ": ")
		if got[name] != value {
			t.Errorf("%s: got %q, want %q", name, got[name], value)
		}
	}
}

// freePort is a port that was free a moment ago, outside of those that the
// kernel gives to connections.
func freePort(t *testing.T) int {
	t.Helper()
	for port := 20000 + int(names.Add(7))%5000; port < 30000; port++ {
		l, err := net.Listen("tcp4", fmt.Sprintf("127.0.0.1:%d", port))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port")
	return 0
}

// A program finds its own sockets by the numbers it asked for, and they tell
// them.
func TestKernelNetworkOwnPorts(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	port := freePort(t)
	got := said(t, b, port, `
for label, args in {
    "8080 v4": (V4, TCP, "0.0.0.0", 8080), "8080 loop": (V4, TCP, "127.0.0.1", 8080),
    "8080 dual": (V6, TCP, "::", 8080, 0), "8080 only": (V6, TCP, "::", 8080, 1), "8080 loop6": (V6, TCP, "::1", 8080),
    "PORT v4": (V4, TCP, "0.0.0.0", int(os.environ["PORT"])),
    "3000 v4": (V4, TCP, "0.0.0.0", 3000), "3000 dual": (V6, TCP, "::", 3000, 0), "3000 only": (V6, TCP, "::", 3000, 1),
    "3000 loop6": (V6, TCP, "::1", 3000), "80 v4": (V4, TCP, "0.0.0.0", 80),
}.items():
    with bound(*args) as l:
        say(label + " name:", name(l))
        for host in ("127.0.0.1", "::1"):
            trial(label + " by " + host, lambda: through(l, host, args[3]))
# both at once, in one program
with bound(V4, TCP, "0.0.0.0", 8080) as a, bound(V6, TCP, "::", 8080, 1) as c:
    trial("both by v4", lambda: through(a, "127.0.0.1", 8080))
    trial("both by v6", lambda: through(c, "::1", 8080))
with bound(V4, TCP, "0.0.0.0", 3000) as a, bound(V6, TCP, "::", 3000, 1) as c, bound(V4, TCP, "0.0.0.0", 3001) as d:
    trial("both 3000 by v4", lambda: through(a, "127.0.0.1", 3000))
    trial("both 3000 by v6", lambda: through(c, "::1", 3000))
    trial("3001", lambda: through(d, "localhost", 3001))
    trial("twice", lambda: bound(V4, TCP, "0.0.0.0", 3000))
with bound(V4, TCP, "0.0.0.0", 3000, reuse=True) as a, bound(V4, TCP, "0.0.0.0", 3000, reuse=True) as c:
    trial("shared", lambda: name(a) + " " + name(c))
    a.close()
    trial("shared, one left", lambda: through(c, "127.0.0.1", 3000))
with bound(V4, TCP, "0.0.0.0", 8080, reuse=True) as a, bound(V4, TCP, "0.0.0.0", 8080, reuse=True) as c:
    trial("shared 8080", lambda: name(a) + " " + name(c))
for i in range(300): bound(V4, TCP, "0.0.0.0", 3000).close() # each lets go of its port
def after(port): # a server that closes its listener first, as one does that ends well
    l = bound(V4, TCP, "0.0.0.0", port)
    c = socket.create_connection(("127.0.0.1", port), 5); c.settimeout(5)
    s, _ = l.accept()
    l.close()
    c.sendall(b"ping"); got = s.recv(4); s.sendall(b"pong"); s.close()
    return (got + c.recv(4) + c.recv(4)).decode()
for port in (3000, 8080): trial("%d without its listener" % port, lambda: after(port))
trial("nobody", lambda: socket.create_connection(("127.0.0.1", 3000), 5))
with bound(V4, TCP, "0.0.0.0", 0) as l:
    trial("port 0", lambda: through(l, "127.0.0.1", l.getsockname()[1]).split()[0])
with bound(V6, TCP, "::", 0, 0) as l:
    trial("port 0 dual by v4", lambda: through(l, "127.0.0.1", l.getsockname()[1]).split()[0])
    trial("port 0 dual by v6", lambda: through(l, "::1", l.getsockname()[1]).split()[0])
def echo(family, host, port):
    with bound(family, UDP, host, port) as s, socket.socket(family, UDP) as c:
        to = "127.0.0.1" if family == V4 else "::1"
        c.sendto(b"ping", (to, s.getsockname()[1])); word, who = s.recvfrom(9)
        s.sendto(b"pong", who); answer, frm = c.recvfrom(9)
        c.connect((to, s.getsockname()[1])); c.send(b"more"); word += s.recv(9)
        return (word + answer).decode() + " " + name(s) + " " + ("same" if frm[1] == s.getsockname()[1] else str(frm))
trial("udp 5000", lambda: echo(V4, "0.0.0.0", 5000))
trial("udp 5000 v6", lambda: echo(V6, "::1", 5000))
trial("udp 8080", lambda: echo(V4, "0.0.0.0", 8080))
trial("udp 0", lambda: echo(V4, "127.0.0.1", 0).split()[0])
held = []
def many():
    for port in range(10000, 12000): held.append(bound(V4, UDP, "0.0.0.0", port))
trial("many", many); say("held:", len(held))
held.clear()
trial("after", lambda: name(bound(V4, UDP, "0.0.0.0", 11999)))
`)
	p := strconv.Itoa(port)
	refused := "ECONNREFUSED"
	if !b.Network.Refuses() {
		refused = "EPERM"
	}
	compare(t, got,
		"8080 v4 name: 0.0.0.0 8080", "8080 v4 by 127.0.0.1: pingpong 8080 8080",
		"8080 loop name: 127.0.0.1 8080", "8080 loop by 127.0.0.1: pingpong 8080 8080",
		"8080 dual name: :: 8080", "8080 dual by 127.0.0.1: pingpong 8080 8080", "8080 dual by ::1: pingpong 8080 8080",
		"8080 only name: :: 8080", "8080 only by 127.0.0.1: "+refused, "8080 only by ::1: pingpong 8080 8080",
		"8080 loop6 name: ::1 8080", "8080 loop6 by ::1: pingpong 8080 8080",
		"PORT v4 name: 0.0.0.0 "+p, "PORT v4 by 127.0.0.1: pingpong "+p+" "+p,
		"3000 v4 name: 0.0.0.0 3000", "3000 v4 by 127.0.0.1: pingpong 3000 3000",
		"3000 dual by 127.0.0.1: pingpong 3000 3000", "3000 dual by ::1: pingpong 3000 3000",
		"3000 only name: :: 3000", "3000 only by 127.0.0.1: "+refused, "3000 only by ::1: pingpong 3000 3000",
		"3000 loop6 name: ::1 3000", "3000 loop6 by ::1: pingpong 3000 3000",
		"80 v4 name: 0.0.0.0 80", "80 v4 by 127.0.0.1: pingpong 80 80",
		"both by v4: pingpong 8080 8080", "both by v6: pingpong 8080 8080",
		"both 3000 by v4: pingpong 3000 3000", "both 3000 by v6: pingpong 3000 3000", "3001: pingpong 3001 3001",
		"twice: EADDRINUSE", "shared: 0.0.0.0 3000 0.0.0.0 3000", "shared, one left: pingpong 3000 3000",
		"shared 8080: 0.0.0.0 8080 0.0.0.0 8080", "3000 without its listener: pingpong", "8080 without its listener: pingpong", "nobody: "+refused,
		"port 0: pingpong", "port 0 dual by v4: pingpong", "port 0 dual by v6: pingpong",
		"udp 5000: pingmorepong 0.0.0.0 5000 same", "udp 5000 v6: pingmorepong ::1 5000 same",
		"udp 8080: pingmorepong 0.0.0.0 8080 same", "udp 0: pingmorepong",
		"many: EPERM", "held: 1024", "after: 0.0.0.0 11999", // one program cannot take all
	)
}
