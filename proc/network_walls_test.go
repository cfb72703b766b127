package proc

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/proc/sandbox"
)

// server is a program that listens where it is told and answers with its name.
const server = `
import threading
listeners = [bound(V4, TCP, "0.0.0.0", 8080), bound(V6, TCP, "::", 8080, 1), bound(V4, TCP, "0.0.0.0", 3000), bound(V6, TCP, "::", 3000, 1),
    bound(V4, TCP, "0.0.0.0", 0), bound(V6, TCP, "::", 0, 0)]
udp = bound(V4, UDP, "0.0.0.0", 4000)
def serve(l):
    while True:
        s, _ = l.accept()
        s.sendall(b"served\n"); s.close()
for l in listeners: threading.Thread(target=serve, args=(l,), daemon=True).start()
def real(path):
    me = {os.readlink("/proc/self/fd/" + f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f) or True and os.path.islink("/proc/self/fd/" + f)}
    return sorted({int(l.split()[1].split(":")[1], 16) for l in open(path).readlines()[1:] if "socket:[%s]" % l.split()[9] in me})
say("tcp:", *real("/proc/self/net/tcp")); say("tcp6:", *real("/proc/self/net/tcp6")); say("udp:", *real("/proc/self/net/udp"))
say("ready")
time.sleep(600)
`

// Two programs listen on the same ports at once. Each is reached on its own port
// on loopback, and on nothing else, by nobody.
func TestKernelNetworkPortsArePrivate(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	type program struct {
		port int
		spec Spec
	}
	var programs []program
	for range 2 {
		port := freePort(t)
		_, s := python(t, b, port, server)
		programs = append(programs, program{port, s})
		poll(t, "the program listens", func() bool {
			if text := output(t, s); strings.Contains(text, "Traceback") {
				t.Fatal(text)
			}
			return strings.Contains(output(t, s), "ready\n")
		})
	}
	for _, p := range programs {
		own, private := 0, 0
		for line := range strings.Lines(output(t, p.spec)) {
			name, ports, ok := strings.Cut(strings.TrimSpace(line), ": ")
			if !ok {
				continue
			}
			for _, text := range strings.Fields(ports) {
				port, _ := strconv.Atoi(text)
				if name == "udp" {
					continue
				}
				for _, host := range []string{"127.0.0.1", "::1"} {
					patience := 300 * time.Millisecond // nothing answers
					if port == p.port {
						patience = 10 * time.Second
					}
					served := dial(host, port, patience) == "served\n"
					if served && port != p.port {
						t.Errorf("the program's listener at %s:%d answers others", host, port)
					}
					if served {
						own++
					}
				}
				private++
			}
		}
		if own != 4 || private < 5 { // 127.0.0.1 and ::1, each as told by tcp and tcp6
			t.Errorf("%d of the own port, want 4; %d listeners; it said\n%s", own, private, output(t, p.spec))
		}
	}
	// The other program, which knows the numbers.
	text := output(t, programs[0].spec)
	got := said(t, b, freePort(t), fmt.Sprintf(`
for line in %q.splitlines():
    kind, _, ports = line.partition(": ")
    for port in ports.split():
        for host in ("127.0.0.1", "::1", "127.0.0.2", "0.0.0.0", "::", "::ffff:127.0.0.1"):
            try: socket.create_connection((host, int(port)), 5); say("reached:", host, port)
            except OSError: pass
say("done: yes")
`, text))
	if got["reached"] != "" || got["done"] != "yes" {
		t.Errorf("another program: %v", got)
	}
}

// dial returns what a server says first, "" when none is reached in time.
func dial(host string, port int, patience time.Duration) string {
	c, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), patience)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return line
}

// guarded is a service of the host on every address, over TCP and UDP.
func guarded(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "secret\n")
			_ = c.Close()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// What a program must not reach, by every road it has.
func TestKernelNetworkDenies(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	service := guarded(t)
	hosts := []string{"127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0", "::127.0.0.1", "64:ff9b::7f00:1"}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !p.Addr().IsLoopback() && !p.Addr().IsLinkLocalUnicast() {
			hosts = append(hosts, p.Addr().String())
		}
	}
	meta := []string{
		"169.254.169.254", "::ffff:169.254.169.254", "169.254.0.1", "64:ff9b::a9fe:a9fe", "fd00:ec2::254", "fd20:ce::254", "fe80::1%lo",
		"100.100.100.200", "168.63.129.16", "192.0.0.192", "224.0.0.251", "255.255.255.255", "ff02::1%lo",
	}
	got := said(t, b, freePort(t), fmt.Sprintf(`
def family(host): return V6 if ":" in host else V4
def target(host, port): return socket.getaddrinfo(host, port, family(host), TCP, 0, socket.AI_NUMERICHOST)[0][4]
def tcp(host, port, proto=0):
    s = socket.socket(family(host), TCP, proto); s.settimeout(5); s.connect(target(host, port)); return "REACHED"
def udpsend(host, port):
    s = socket.socket(family(host), UDP); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b"x", target(host, port)); return "REACHED"
def udpconnect(host, port):
    s = socket.socket(family(host), UDP); s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.connect(target(host, port)); return "REACHED"
def fastopen(host, port):
    s = socket.socket(family(host), TCP); s.settimeout(5); s.sendto(b"x", socket.MSG_FASTOPEN, target(host, port)); return "REACHED"
def mapped(host, port): # an IPv4 address through an IPv6 socket
    s = socket.socket(V6, TCP); s.settimeout(5); s.connect(("::ffff:" + host, port)); return "REACHED"
def fixed(host, port): # from a port of its own choice
    s = socket.socket(family(host), TCP); s.settimeout(5); s.bind(("::" if family(host) == V6 else "0.0.0.0", 7000)); s.connect(target(host, port)); return "REACHED"
for host in %q.split():
    for f in (tcp, udpsend, udpconnect, fastopen, fixed): trial("%%s %%s" %% (f.__name__, host), lambda: f(host, %d))
    trial("mptcp " + host, lambda: tcp(host, %[2]d, 262))
    if family(host) == V4: trial("mapped " + host, lambda: mapped(host, %[2]d))
for host in %[3]q.split(): # nothing is sent, whatever the answer
    trial("udpconnect " + host, lambda: udpconnect(host, 80))
`, strings.Join(hosts, " "), service, strings.Join(meta, " ")))
	if len(got) < 5*len(hosts)+len(meta) {
		t.Errorf("only %d trials: %v", len(got), got)
	}
	for name, result := range got {
		switch result {
		case "EPERM", "ECONNREFUSED", "ENETUNREACH", "EACCES", "EPROTONOSUPPORT", "EADDRNOTAVAIL", "EINVAL":
		default:
			t.Errorf("%s: %s", name, result)
		}
	}
	for _, name := range []string{"tcp 127.0.0.1", "udpsend 127.0.0.1", "udpconnect 169.254.169.254", "udpconnect ::ffff:169.254.169.254"} {
		if r := got[name]; r != "EPERM" && r != "ECONNREFUSED" {
			t.Errorf("%s: %s", name, r)
		}
	}
}

// What the owner allows is reached and nothing beside it; what is denied is not,
// though it is no address of the host.
func TestKernelNetworkRules(t *testing.T) {
	open, closed := guarded(t), guarded(t)
	rule := func(text string) sandbox.Rule {
		r, err := sandbox.ParseRule(text)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	b := networked(t, sandbox.Rules{
		Allow: []sandbox.Rule{rule(fmt.Sprintf("127.0.0.1:%d", open)), rule(fmt.Sprintf("[::1]:%d", open)), rule("127.8.0.0/16"), rule("198.51.100.9")},
		Deny:  []sandbox.Rule{rule("198.51.100.0/24"), rule("2001:db8::/32")},
	})
	got := said(t, b, freePort(t), fmt.Sprintf(`
def word(host, port): return socket.create_connection((host, port), 5).makefile().readline().strip()
def known(host): # nothing is sent
    socket.socket(V6 if ":" in host else V4, UDP).connect((host, 80)); return "open"
for host, port in (("127.0.0.1", %[1]d), ("::1", %[1]d), ("0.0.0.0", %[1]d), ("::ffff:127.0.0.1", %[1]d), ("127.0.0.1", %[2]d), ("::1", %[2]d),
        ("127.8.7.6", %[2]d), ("127.9.7.6", %[2]d), ("127.0.0.2", %[1]d)):
    trial("%%s %%s" %% (host, "open" if port == %[1]d else "closed"), lambda: word(host, port))
for host in ("198.51.100.1", "198.51.100.9", "198.51.101.1", "::ffff:198.51.100.1"): trial("udp " + host, lambda: known(host))
with bound(V4, TCP, "0.0.0.0", %[1]d) as l: # its own listener on a port that is allowed goes first
    trial("own", lambda: through(l, "127.0.0.1", %[1]d).split()[0])
`, open, closed))
	refused := "ECONNREFUSED"
	if !b.Network.Refuses() {
		refused = "EPERM"
	}
	compare(t, got,
		"127.0.0.1 open: secret", "::1 open: secret", "0.0.0.0 open: secret", "::ffff:127.0.0.1 open: secret",
		"127.0.0.1 closed: "+refused, "::1 closed: "+refused, "127.8.7.6 closed: secret", "127.9.7.6 closed: "+refused, "127.0.0.2 open: "+refused,
		"udp 198.51.100.1: EPERM", "udp ::ffff:198.51.100.1: EPERM", "own: pingpong",
	)
	for _, name := range []string{"udp 198.51.100.9", "udp 198.51.101.1"} {
		if r := got[name]; r != "open" && r != "ENETUNREACH" { // as the host has a road there or not
			t.Errorf("%s: %s", name, r)
		}
	}
}
