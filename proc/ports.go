package proc

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener is a process that listens on a port.
type Listener struct {
	Pid  int
	Name string // of its program, as the kernel cuts it: 15 characters
}

// Listeners returns the processes that listen on a TCP port of this network
// namespace, by pid. Those of other users are seen by root alone. It fails when
// the port's sockets cannot be read (proc(5), /proc/net/tcp).
func Listeners(port int) ([]Listener, error) {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		if err := readListening(table, port, inodes); err != nil && !os.IsNotExist(err) { // no IPv6
			return nil, fmt.Errorf("cannot read who listens on a port: %w", err)
		}
	}
	var all []Listener
	if len(inodes) == 0 {
		return nil, nil
	}
	dirs, err := filepath.Glob("/proc/[0-9]*/fd")
	if err != nil {
		return nil, err
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(dir)))
		if err != nil || !holds(dir, inodes) {
			continue
		}
		name, _ := os.ReadFile(filepath.Join(filepath.Dir(dir), "comm")) // it may have ended
		all = append(all, Listener{pid, strings.TrimSpace(string(name))})
	}
	slices.SortFunc(all, func(a, b Listener) int { return a.Pid - b.Pid })
	return all, nil
}

// readListening adds the inodes of the sockets that listen on a port.
func readListening(table string, port int, inodes map[string]bool) error {
	f, err := os.Open(table)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		const listens = "0A" // TCP_LISTEN, include/net/tcp_states.h
		words := strings.Fields(lines.Text())
		if len(words) < 10 || words[3] != listens {
			continue
		}
		_, text, _ := strings.Cut(words[1], ":")
		if b, err := hex.DecodeString(text); err == nil && len(b) == 2 && int(b[0])<<8|int(b[1]) == port {
			inodes["socket:["+words[9]+"]"] = true
		}
	}
	return lines.Err()
}

// holds reports whether a directory of descriptors has one of some sockets.
func holds(dir string, sockets map[string]bool) bool {
	list, err := os.ReadDir(dir)
	if err != nil {
		return false // it has ended, or is another's
	}
	return slices.ContainsFunc(list, func(e os.DirEntry) bool {
		to, err := os.Readlink(filepath.Join(dir, e.Name()))
		return err == nil && sockets[to]
	})
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
// connection has it, of whoever on this host, and up to a minute longer.
func (p ConnectionPorts) Among(first, last int) int {
	n := 0
	for port := max(first, p.First); port <= min(last, p.Last); port++ {
		if !slices.ContainsFunc(p.reserved, func(r [2]int) bool { return r[0] <= port && port <= r[1] }) {
			n++
		}
	}
	return n
}
