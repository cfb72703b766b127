package proc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Dial connects to an address of loopback where the program listens that nobody else
// may reach. Behind the network policy the packets carry its mark, which none but berth
// can set. A connection is returned only when the socket that listens there is one of the
// program's group: the program may have closed its own meanwhile, and another process of
// the host has the port. It fails with a *net.OpError of "dial".
func (r *Run) Dial(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout, KeepAlive: -1}
	if r.private {
		if r.network == nil {
			return nil, notDialed(at, errors.New("the program's network is not known"))
		}
		d.Control = func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, int(r.network.Mark()))
			}), err)
		}
	}
	c, err := d.DialContext(ctx, "tcp", at.String())
	if err != nil {
		return nil, err
	}
	if err := r.owns(at); err != nil {
		_ = c.Close() // nothing was sent
		return nil, notDialed(at, err)
	}
	return c, nil
}

// dialTimeout bounds a connection to a program.
const dialTimeout = 5 * time.Second

func notDialed(at netip.AddrPort, why error) error {
	return &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: why}
}

// owns fails unless the socket that listens at an address of loopback is of the run's
// group.
func (r *Run) owns(at netip.AddrPort) error {
	dir, err := r.group.Open()
	if err != nil {
		return err
	}
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil {
		return err
	}
	group, err := groupListening(at)
	if err == nil && group != st.Ino {
		err = errors.New("the port is not the program's any more")
	}
	return err
}

// What the kernel is asked with, and answers with, about a socket
// (include/uapi/linux/inet_diag.h).
type (
	diagSocket struct {
		Sport, Dport [2]byte // in network order, as all of it
		Src, Dst     [16]byte
		Interface    uint32
		Cookie       [2]uint32
	}
	diagRequest struct {
		Header                     unix.NlMsghdr
		Family, Protocol, Ext, Pad uint8
		States                     uint32
		Socket                     diagSocket
	}
	diagAnswer struct {
		Header                       unix.NlMsghdr
		Family, State, Timer, Resent uint8
		Socket                       diagSocket
		Expires, Rqueue, Wqueue      uint32
		UID, Inode                   uint32
	}
)

const (
	diagCgroupID = 21         // INET_DIAG_CGROUP_ID, Linux 5.8
	diagNoCookie = ^uint32(0) // INET_DIAG_NOCOOKIE
	tcpListen    = 10         // TCP_LISTEN
)

// groupListening returns the id of the control group of the socket that listens at an
// address of loopback, as the kernel would choose it for a connection.
func groupListening(at netip.AddrPort) (uint64, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return 0, fmt.Errorf("cannot ask the kernel who listens: %w", err)
	}
	defer unix.Close(fd) //nolint:errcheck // it has no data to lose
	q := diagRequest{Family: unix.AF_INET6, Protocol: unix.IPPROTO_TCP, States: 1 << tcpListen}
	size := uint32(binary.Size(q)) //nolint:gosec // of a struct
	q.Header = unix.NlMsghdr{Len: size, Type: unix.SOCK_DIAG_BY_FAMILY, Flags: unix.NLM_F_REQUEST}
	q.Socket.Cookie = [2]uint32{diagNoCookie, diagNoCookie}
	binary.BigEndian.PutUint16(q.Socket.Sport[:], at.Port())
	if copy(q.Socket.Src[:], at.Addr().AsSlice()); at.Addr().Is4() {
		q.Family = unix.AF_INET
	}
	text, err := binary.Append(nil, binary.NativeEndian, q)
	if err == nil {
		err = unix.Sendto(fd, text, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	}
	answer := make([]byte, 4096)
	n := 0
	if err == nil {
		n, _, err = unix.Recvfrom(fd, answer, 0)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot ask the kernel who listens: %w", err)
	}
	return parseGroup(answer[:n])
}

// parseGroup reads the answer to groupListening's question.
func parseGroup(text []byte) (uint64, error) {
	var a diagAnswer
	n, err := binary.Decode(text, binary.NativeEndian, &a.Header)
	if err == nil && a.Header.Type == unix.NLMSG_ERROR && len(text) >= n+4 {
		errno := syscall.Errno(-int32(binary.NativeEndian.Uint32(text[n:]))) //nolint:gosec // a negative number of an error
		return 0, fmt.Errorf("nobody listens at the port: %w", errno)
	}
	if err == nil {
		n, err = binary.Decode(text, binary.NativeEndian, &a)
	}
	if err != nil || a.State != tcpListen {
		return 0, errors.New("nobody listens at the port")
	}
	for rest := text[n:]; len(rest) >= unix.SizeofNlAttr; {
		size, kind := int(binary.NativeEndian.Uint16(rest)), binary.NativeEndian.Uint16(rest[2:])
		if size < unix.SizeofNlAttr || size > len(rest) {
			break
		}
		if kind == diagCgroupID && size == unix.SizeofNlAttr+8 {
			return binary.NativeEndian.Uint64(rest[unix.SizeofNlAttr:]), nil
		}
		rest = rest[min((size+unix.NLA_ALIGNTO-1)&^(unix.NLA_ALIGNTO-1), len(rest)):]
	}
	return 0, errors.New("this kernel does not tell which group a socket is of")
}
