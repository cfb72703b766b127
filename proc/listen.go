package proc

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
)

// usualPort is the port that programs of this API's sites listen on.
const usualPort = 8080

// dialPatience bounds a connection to this machine itself.
const dialPatience = time.Second

// Listens tells where the program takes connections now. Behind the network
// policy that is its own port or nowhere, and one connection is made to see.
// Elsewhere the listening sockets of the processes in its group are looked up:
// its own port comes first, then 8080, then the only one there is.
func (r *Run) Listens() (app.Listening, error) {
	if r.spec.Port == 0 {
		return app.Listening{}, nil
	}
	if r.private {
		if answers(r.spec.Port) {
			return app.Listening{Port: r.spec.Port, Own: true}, nil
		}
		return app.Listening{}, nil
	}
	pids, err := r.group.Procs()
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		if r.gone {
			return app.Listening{}, nil // it has ended meanwhile
		}
		return app.Listening{}, fmt.Errorf("cannot tell where the program listens: %w", err)
	}
	ports, err := listening(pids)
	if err != nil {
		return app.Listening{}, fmt.Errorf("cannot tell where the program listens: %w", err)
	}
	return choose(ports, r.spec.Port), nil
}

// answers reports whether somebody takes connections on a port of loopback.
func answers(port int) bool {
	for _, host := range []string{"127.0.0.1", "::1"} {
		c, err := (&net.Dialer{Timeout: dialPatience}).Dial("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err == nil {
			_ = c.Close() // nothing was sent
			return true
		}
	}
	return false
}

// choose takes one of the ports on which a program listens.
func choose(ports []int, own int) app.Listening {
	switch {
	case slices.Contains(ports, own):
		return app.Listening{Port: own, Own: true}
	case slices.Contains(ports, usualPort):
		return app.Listening{Port: usualPort}
	case len(ports) == 1:
		return app.Listening{Port: ports[0]}
	}
	return app.Listening{Several: len(ports) > 1}
}

// listening returns the ports on which processes take connections that come
// over loopback.
func listening(pids []int) ([]int, error) {
	var ports []int
	var tables map[string]int
	for _, pid := range pids {
		inodes, err := socketsOf(pid)
		if err != nil {
			return nil, err
		}
		if len(inodes) > 0 && tables == nil { // only now: they are long
			if tables, err = listeners(); err != nil {
				return nil, err
			}
		}
		for _, inode := range inodes {
			if port := tables[inode]; port > 0 && !slices.Contains(ports, port) {
				ports = append(ports, port)
			}
		}
	}
	return ports, nil
}

// socketsOf returns the inodes of the sockets that a process has open, none of
// one that has ended.
func socketsOf(pid int) ([]string, error) {
	dir := "/proc/" + strconv.Itoa(pid) + "/fd"
	list, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil, nil
	}
	var inodes []string
	for _, e := range list {
		to, _ := os.Readlink(dir + "/" + e.Name()) // it may be closed by now
		if inode, ok := strings.CutPrefix(to, "socket:["); ok {
			inodes = append(inodes, strings.TrimSuffix(inode, "]"))
		}
	}
	return inodes, err
}

// listeners returns the ports of listening sockets by their inodes.
func listeners() (map[string]int, error) {
	ports := map[string]int{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) { // a kernel without IPv6
			continue
		}
		if err != nil {
			return nil, err
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if inode, port := listener(lines.Text()); port > 0 {
				ports[inode] = port
			}
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	return ports, nil
}

// listener reads a line of /proc/net/tcp or tcp6 (proc_net_tcp.rst); port is 0
// when that is no socket which listens where loopback reaches it.
func listener(line string) (inode string, port int) {
	const local, state, node, listen = 1, 3, 9, "0A"
	f := strings.Fields(line)
	if len(f) <= node || f[state] != listen {
		return "", 0
	}
	address, text, _ := strings.Cut(f[local], ":")
	n, err := strconv.ParseUint(text, 16, 16)
	if err != nil || !onLoopback(address) {
		return "", 0
	}
	return f[node], int(n)
}

// onLoopback reports whether a socket bound to an address, as the kernel prints
// it, is reached at 127.0.0.1 or ::1: words of four bytes in the machine's order.
func onLoopback(address string) bool {
	b, err := hex.DecodeString(address)
	if err != nil || len(b)%4 != 0 {
		return false
	}
	for word := range slices.Chunk(b, 4) {
		if nativeLittle {
			slices.Reverse(word)
		}
	}
	ip := net.IP(b)
	return len(b) > 0 && (ip.IsUnspecified() || ip.Equal(net.IPv4(127, 0, 0, 1)) || ip.Equal(net.IPv6loopback))
}

// nativeLittle is the order of bytes in a word of this machine.
var nativeLittle = binary.NativeEndian.Uint16([]byte{1, 0}) == 1
