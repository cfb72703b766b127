package proc

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

// dialPatience bounds a connection to this machine itself.
const dialPatience = time.Second

// answers returns where somebody takes connections on a port of loopback, the zero
// value for nowhere. What serves IPv6 alone is at ::1, all else at 127.0.0.1.
func answers(port int) netip.AddrPort {
	for _, host := range []netip.Addr{loopback4, netip.IPv6Loopback()} {
		at := netip.AddrPortFrom(host, uint16(port)) //nolint:gosec // it is a port
		c, err := (&net.Dialer{Timeout: dialPatience}).Dial("tcp", at.String())
		if err == nil {
			_ = c.Close() // nothing was sent
			return at
		}
	}
	return netip.AddrPort{}
}

var loopback4 = netip.AddrFrom4([4]byte{127, 0, 0, 1})

// door is a port at which a program takes connections that come over loopback.
type door struct {
	port int            // as the program knows it
	at   netip.AddrPort // where it is
	open bool           // the program asked for all addresses of the host
}

// choose takes one of the ports at which a program listens, for its visitors: its own,
// then that of sites, then the only one that is open to all addresses. guarded says that
// nobody but berth reaches the last. At stays as the kernel has it.
func choose(doors []door, own int, guarded bool) app.Listening {
	var l app.Listening
	for _, d := range doors {
		list := &l.Private
		switch {
		case d.port == own || d.port == app.SitePort:
			if l.Port != own { // of two at one number, on IPv4 and on IPv6, the last
				l.At, l.Port, l.Own = d.at, d.port, d.port == own
			}
			continue
		case d.open:
			list = &l.Open
		}
		if !slices.Contains(*list, d.port) {
			*list = append(*list, d.port)
		}
	}
	slices.Sort(l.Open)
	slices.Sort(l.Private)
	if l.Port > 0 || len(l.Open) != 1 {
		return l
	}
	for _, d := range doors {
		if d.open && d.port == l.Open[0] && (!l.At.IsValid() || d.at.Addr().Is4()) {
			l.At, l.Port, l.Guarded = d.at, d.port, guarded
		}
	}
	l.Open = nil
	return l
}

// doorsOf returns where processes take connections that come over loopback, as the kernel has
// it.
func doorsOf(pids []int) ([]door, error) {
	var held []string
	for _, pid := range pids {
		sockets, err := socketsOf(pid)
		if err != nil {
			return nil, err
		}
		held = append(held, sockets...)
	}
	if len(held) == 0 { // the tables are long
		return nil, nil
	}
	all, err := listeners()
	var doors []door
	for _, l := range all {
		if slices.Contains(held, l.socket) && onLoopback(l.at.Addr()) {
			doors = append(doors, door{int(l.at.Port()), l.at, l.at.Addr().IsUnspecified()})
		}
	}
	return doors, err
}

// socketsOf returns the sockets that a process has open ("socket:[77]"), none of
// one that has ended.
func socketsOf(pid int) ([]string, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	var sockets []string
	for _, e := range list {
		to, _ := os.Readlink(dir + "/" + e.Name()) // it may be closed by now
		if strings.HasPrefix(to, "socket:[") {
			sockets = append(sockets, to)
		}
	}
	return sockets, err
}

// listener is a socket that takes connections.
type listener struct {
	socket string // "socket:[77]"
	at     netip.AddrPort
}

// listeners returns those of this network namespace.
func listeners() ([]listener, error) {
	var all []listener
	for _, name := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		b, err := os.ReadFile(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			return nil, err
		}
		for line := range strings.Lines(string(b)) {
			if l, ok := parseListener(line); ok {
				all = append(all, l)
			}
		}
	}
	return all, nil
}

// parseListener reads a line of /proc/net/tcp or tcp6 (proc_net_tcp.rst), which may be
// that of another socket.
func parseListener(line string) (l listener, ok bool) {
	const local, state, node, listen = 1, 3, 9, "0A" // TCP_LISTEN, include/net/tcp_states.h
	f := strings.Fields(line)
	if len(f) <= node || f[state] != listen {
		return listener{}, false
	}
	address, text, _ := strings.Cut(f[local], ":")
	port, err := strconv.ParseUint(text, 16, 16)
	ip, known := parseAddress(address)
	return listener{"socket:[" + f[node] + "]", netip.AddrPortFrom(ip, uint16(port))}, err == nil && known
}

// parseAddress reads an address as the kernel prints it: words of four bytes in the
// machine's order.
func parseAddress(text string) (netip.Addr, bool) {
	b, err := hex.DecodeString(text)
	if err != nil || len(b)%4 != 0 {
		return netip.Addr{}, false
	}
	for word := range slices.Chunk(b, 4) {
		if nativeLittle {
			slices.Reverse(word)
		}
	}
	ip, ok := netip.AddrFromSlice(b)
	return ip.Unmap(), ok
}

// onLoopback reports whether a socket bound to an address is reached at 127.0.0.1 or ::1.
func onLoopback(ip netip.Addr) bool {
	return ip.IsUnspecified() || ip == loopback4 || ip == netip.IPv6Loopback()
}

// nativeLittle is the order of bytes in a word of this machine.
var nativeLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1

// Listener is a process that listens on a port.
type Listener struct {
	Pid  int
	Name string // of its program, as the kernel cuts it: 15 characters
	Unit string // of systemd that it runs in; "" when it runs in none
}

// String is the process as a sentence names it.
func (l Listener) String() string {
	if l.Unit == "" {
		return fmt.Sprintf("%s (pid %d)", l.Name, l.Pid)
	}
	return fmt.Sprintf("%s (pid %d, %s)", l.Name, l.Pid, l.Unit)
}

// unitOf returns the unit of systemd that a process runs in, by its control groups
// (proc(5), /proc/PID/cgroup).
func unitOf(groups string) string {
	for line := range strings.Lines(groups) {
		for part := range strings.SplitSeq(strings.TrimSpace(line), "/") {
			if strings.HasSuffix(part, ".service") {
				return part
			}
		}
	}
	return ""
}

// Listeners returns the processes that listen on a TCP port of this network
// namespace, by pid. Those of other users are seen by root alone. It fails when
// the port's sockets cannot be read (proc(5), /proc/net/tcp).
func Listeners(port int) ([]Listener, error) {
	found, err := listeners()
	if err != nil {
		return nil, fmt.Errorf("cannot read who listens on a port: %w", err)
	}
	found = slices.DeleteFunc(found, func(l listener) bool { return int(l.at.Port()) != port })
	var all []Listener
	if len(found) == 0 || port == 0 {
		return nil, nil
	}
	for _, dir := range glob("/proc/[0-9]*") {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		held, _ := socketsOf(pid) // it has ended, or is another's
		if slices.ContainsFunc(found, func(l listener) bool { return slices.Contains(held, l.socket) }) {
			name, _ := os.ReadFile(dir + "/comm") // it may have ended
			groups, _ := os.ReadFile(dir + "/cgroup")
			all = append(all, Listener{pid, strings.TrimSpace(string(name)), unitOf(string(groups))})
		}
	}
	slices.SortFunc(all, func(a, b Listener) int { return a.Pid - b.Pid })
	return all, nil
}

// Where the kernel tells which ports it gives to connections, and which of those
// it does not (Documentation/networking/ip-sysctl.rst).
const (
	portRange     = "/proc/sys/net/ipv4/ip_local_port_range"
	reservedPorts = "/proc/sys/net/ipv4/ip_local_reserved_ports"
)

// ConnectionPorts are those that the kernel gives to sockets that do not ask for
// one. Those that an owner reserved are among them.
type ConnectionPorts struct {
	First, Last int
	reserved    [][2]int // the first and the last of each range
}

// FindConnectionPorts asks the kernel.
func FindConnectionPorts() (ConnectionPorts, error) {
	text, err := os.ReadFile(portRange)
	if err != nil {
		return ConnectionPorts{}, fmt.Errorf("cannot read the range of ports for connections: %w", err)
	}
	reserved, err := os.ReadFile(reservedPorts)
	if err != nil && !os.IsNotExist(err) {
		return ConnectionPorts{}, fmt.Errorf("cannot read which ports are reserved: %w", err)
	}
	return parsePorts(string(text), string(reserved))
}

func parsePorts(text, reserved string) (p ConnectionPorts, err error) {
	if _, err := fmt.Sscan(text, &p.First, &p.Last); err != nil || p.Last < p.First {
		return ConnectionPorts{}, fmt.Errorf("cannot read the range of ports for connections: %q in %s", text, portRange)
	}
	for part := range strings.FieldsFuncSeq(reserved, func(r rune) bool { return r == ',' || r == '\n' }) {
		from, to, isRange := strings.Cut(part, "-")
		if !isRange {
			to = from
		}
		first, err := strconv.Atoi(from)
		last, err2 := strconv.Atoi(to)
		if err != nil || err2 != nil {
			return ConnectionPorts{}, fmt.Errorf("cannot read which ports are reserved: %q in %s", reserved, reservedPorts)
		}
		p.reserved = append(p.reserved, [2]int{first, last})
	}
	return p, nil
}

// Len is how many there are.
func (p ConnectionPorts) Len() int { return p.Last - p.First + 1 }

// Among counts those of the ports from first to last that the kernel may give to a
// connection. A program that is to listen on such a port ends with EADDRINUSE while a
// connection of any process on this host has it, and up to a minute longer.
func (p ConnectionPorts) Among(first, last int) int {
	n := 0
	for port := max(first, p.First); port <= min(last, p.Last); port++ {
		if !slices.ContainsFunc(p.reserved, func(r [2]int) bool { return r[0] <= port && port <= r[1] }) {
			n++
		}
	}
	return n
}
