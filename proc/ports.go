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

// portRange is where the kernel tells which ports it gives to connections.
const portRange = "/proc/sys/net/ipv4/ip_local_port_range"

// ConnectionPorts returns how many ports the kernel gives to sockets that do not
// ask for one.
func ConnectionPorts() (int, error) {
	text, err := os.ReadFile(portRange)
	if err != nil {
		return 0, fmt.Errorf("cannot read the range of ports for connections: %w", err)
	}
	var first, last int
	if _, err := fmt.Sscan(string(text), &first, &last); err != nil || last < first {
		return 0, fmt.Errorf("cannot read the range of ports for connections: %q in %s", text, portRange)
	}
	return last - first + 1, nil
}
