package proc

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/proc/sandbox"
)

// elsewhere is a site that knows neither its port nor 8080, with its debugger.
const elsewhere = `
import threading
def serve(l):
    while True:
        s, _ = l.accept()
        s.sendall(b"served\n"); s.close()
for l in [bound(V4, TCP, "0.0.0.0", 3000), bound(V4, TCP, "127.0.0.1", 9229)]: threading.Thread(target=serve, args=(l,), daemon=True).start()
say("up")
time.sleep(600)
`

// word is what a program says first to who dials it so, or why nobody can.
func word(dial func(context.Context, netip.AddrPort) (net.Conn, error), at netip.AddrPort, patience time.Duration) string {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := dial(ctx, at)
	if err != nil {
		if op := new(net.OpError); !errors.As(err, &op) || op.Op != "dial" {
			return "no error of a dial: " + err.Error()
		}
		return err.Error()
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	line, _ := bufio.NewReader(c).ReadString('\n')
	return strings.TrimSpace(line)
}

// Only berth reaches a port that a program opened to all addresses and that is not its
// own, only with the mark of that program, and only while the socket is that program's.
func TestKernelDialBehindNetworkPolicy(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	var runs []*Run
	var at []netip.AddrPort
	for range 2 {
		r, s := python(t, b, freePort(t), elsewhere)
		poll(t, "it listens", func() bool { return strings.Contains(output(t, s), "up") })
		l, err := r.Listens()
		if err != nil || l.Port != 3000 || !l.Guarded || l.Own || !l.Elsewhere() || len(l.Private) != 1 || l.Private[0] != 9229 || l.Open != nil {
			t.Fatalf("it listens at %+v, %v", l, err)
		}
		runs, at = append(runs, r), append(at, l.At)
	}
	const brief, long = 300 * time.Millisecond, 10 * time.Second
	if got := dial("127.0.0.1", int(at[0].Port()), brief); got != "" {
		t.Errorf("everybody reaches it: %q", got)
	}
	if got := word(runs[0].Dial, at[0], long); got != "served" {
		t.Errorf("berth does not reach it: %q", got)
	}
	if got := word(runs[0].Dial, at[1], brief); got == "served" {
		t.Error("berth reaches another program instead")
	}
	host := netip.AddrPortFrom(loopback4, uint16(guarded(t)))
	if got := word(runs[0].Dial, host, long); !strings.Contains(got, "not the program's any more") {
		t.Errorf("a service of the host instead: %q", got)
	}
	private := netip.AddrPort{}
	all, err := listeners()
	for _, l := range all {
		if port, open, err := runs[0].network.Asked(l.at); err == nil && port == 9229 && !open {
			private = l.at
		}
	}
	if err != nil || !private.IsValid() || dial("127.0.0.1", int(private.Port()), brief) != "" {
		t.Errorf("the debugger is at %s, %v", private, err)
	}
	runs[0].Stop(0)
	runs[0].Wait()
	if got := word(runs[0].Dial, at[0], brief); got == "served" {
		t.Error("somebody is there after its end")
	}
}

// Which of a program's ports are for visitors, by the numbers and addresses it asked for.
func TestKernelPortsBehindNetworkPolicy(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	for name, c := range map[string]struct {
		program string
		want    app.Listening
		six     bool
	}{
		"all of both":              {`bound(V6, TCP, "::", 3000, 0)`, app.Listening{Port: 3000}, false},
		"all of a mapped address":  {`bound(V6, TCP, "::ffff:0.0.0.0", 3000, 0)`, app.Listening{Port: 3000}, false},
		"all of IPv6":              {`bound(V6, TCP, "::", 3000, 1)`, app.Listening{Port: 3000}, true},
		"both apart":               {`bound(V6, TCP, "::", 3000, 1), bound(V4, TCP, "0.0.0.0", 3000)`, app.Listening{Port: 3000}, false},
		"a pool":                   {`bound(V4, TCP, "0.0.0.0", 3000, None, True), bound(V4, TCP, "0.0.0.0", 3000, None, True)`, app.Listening{Port: 3000}, false},
		"and one of the kernel's":  {`bound(V4, TCP, "0.0.0.0", 3000), bound(V4, TCP, "0.0.0.0", 0)`, app.Listening{Port: 3000}, false},
		"two":                      {`bound(V4, TCP, "0.0.0.0", 4000), bound(V4, TCP, "0.0.0.0", 3000)`, app.Listening{Open: []int{3000, 4000}}, false},
		"loopback":                 {`bound(V4, TCP, "127.0.0.1", 3000)`, app.Listening{Private: []int{3000}}, false},
		"loopback of IPv6":         {`bound(V6, TCP, "::1", 3000)`, app.Listening{Private: []int{3000}}, false},
		"a pool that is not alike": {`bound(V4, TCP, "0.0.0.0", 3000, None, True), bound(V4, TCP, "127.0.0.1", 3000, None, True)`, app.Listening{Private: []int{3000}}, false},
		"one of the kernel's":      {`bound(V4, TCP, "0.0.0.0", 0)`, app.Listening{}, false},
		"datagrams":                {`bound(V4, UDP, "0.0.0.0", 3000)`, app.Listening{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.six && !b.readsSockets() {
				t.Skip("this kernel does not tell which sockets serve IPv6 alone")
			}
			r, s := python(t, b, freePort(t), "ls = ["+c.program+"]\nsay('up')\ntime.sleep(600)\n")
			poll(t, "it listens", func() bool { return strings.Contains(output(t, s), "up") })
			got, err := r.Listens()
			at := got.At
			if got.At = (netip.AddrPort{}); at.IsValid() {
				c.want.Guarded = true
			}
			if fmt.Sprint(got) != fmt.Sprint(c.want) || err != nil || at.IsValid() != (c.want.Port > 0) || at.IsValid() && at.Addr().Is6() != c.six {
				t.Errorf("it listens at %s, %+v, %v, want %+v", at, got, err, c.want)
			}
		})
	}
}

// readsSockets reports whether a program that serves IPv6 alone is put on ::1.
func (b bench) readsSockets() bool { return b.Network.ReadsSockets() }

// A program that an earlier daemon started is reached where it listens.
func TestKernelAdoptedElsewhere(t *testing.T) {
	b := networked(t, sandbox.Rules{})
	s := b.spec(t, "")
	s.Argv, s.Port = []string{python3(t), "-c", prelude + elsewhere}, freePort(t)
	r := b.adopt(t, b.startedBefore(t, s), s)
	var l app.Listening
	poll(t, "it listens", func() bool {
		var err error
		if l, err = r.Listens(); err != nil {
			t.Fatal(err)
		}
		return l.At.IsValid()
	})
	if l.Port != 3000 || !l.Guarded || dial("127.0.0.1", int(l.At.Port()), 300*time.Millisecond) != "" {
		t.Errorf("it listens at %+v", l)
	}
	if got := word(r.Dial, l.At, 10*time.Second); got != "served" {
		t.Errorf("berth does not reach it: %q", got)
	}
}

// Without the network policy a port may be another's: a connection to that is closed.
func TestKernelDialWithoutNetworkPolicy(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	r, s := python(t, b, freePort(t), strings.ReplaceAll(elsewhere, "3000", fmt.Sprint(port)))
	poll(t, "it listens", func() bool { return strings.Contains(output(t, s), "up") })
	l, err := r.Listens()
	if err != nil || l.At != at4(port) || l.Guarded || !l.Elsewhere() {
		t.Fatalf("it listens at %+v, %v", l, err)
	}
	if got := word(r.Dial, l.At, 10*time.Second); got != "served" {
		t.Errorf("berth does not reach it: %q", got)
	}
	if got := word(r.Dial, at4(guarded(t)), 10*time.Second); !strings.Contains(got, "not the program's any more") {
		t.Errorf("a service of the host instead: %q", got)
	}
	if got := word(r.Dial, at4(freePort(t)), 10*time.Second); !strings.Contains(got, "refused") {
		t.Errorf("nobody instead: %q", got)
	}
}

func TestParseGroup(t *testing.T) {
	made := func(kind uint16, a any, attributes ...byte) []byte {
		text, err := binary.Append(nil, binary.NativeEndian, unix.NlMsghdr{Type: kind})
		if err == nil {
			text, err = binary.Append(text, binary.NativeEndian, a)
		}
		if err != nil {
			t.Fatal(err)
		}
		return append(text, attributes...)
	}
	body := func(state uint8) any {
		a := diagAnswer{State: state}
		return struct {
			Family, State, Timer, Resent uint8
			Socket                       diagSocket
			Rest                         [5]uint32
		}{State: a.State}
	}
	attribute := func(kind uint16, value ...byte) []byte {
		b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
		b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
		return append(b, make([]byte, -len(b)&3)...)
	}
	group := attribute(diagCgroupID, binary.NativeEndian.AppendUint64(nil, 77)...)
	for name, c := range map[string]struct {
		text []byte
		want uint64
		says string
	}{
		"found":          {made(unix.SOCK_DIAG_BY_FAMILY, body(tcpListen), group...), 77, ""},
		"behind another": {made(unix.SOCK_DIAG_BY_FAMILY, body(tcpListen), append(attribute(8, 1), group...)...), 77, ""},
		"no group":       {made(unix.SOCK_DIAG_BY_FAMILY, body(tcpListen), attribute(8, 1)...), 0, "does not tell"},
		"cut":            {made(unix.SOCK_DIAG_BY_FAMILY, body(tcpListen), group[:8]...), 0, "does not tell"},
		"empty":          {made(unix.SOCK_DIAG_BY_FAMILY, body(tcpListen), 0, 0, 21, 0), 0, "does not tell"},
		"connected":      {made(unix.SOCK_DIAG_BY_FAMILY, body(1), group...), 0, "nobody listens"},
		"an error":       {made(unix.NLMSG_ERROR, -int32(syscall.ENOENT)), 0, "no such file"},
		"nothing":        {nil, 0, "nobody listens"},
	} {
		got, err := parseGroup(c.text)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
}
