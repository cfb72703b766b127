package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"berth/app/exit"
	"berth/proc"
	"berth/systemd"
)

// NetworkOf keeps 0.0.0.0 what it says: Go takes it for all addresses, IPv6 too.
func NetworkOf(listen string) string {
	if addr, err := netip.ParseAddrPort(listen); err == nil && addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// listenProblem says why berth cannot listen on an address: for one that is taken, who
// has it.
func listenProblem(ctx context.Context, address string, err error) error {
	if !errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: %w", address, err)
	}
	return exit.NewProblem(exit.Failure, fmt.Errorf("cannot listen on %s: address already in use by %s", address, WhoListens(ctx, address)),
		"Hint: stop that, or choose another address: listen, proxy.listen, proxy.http and proxy.https are settings.")
}

// Takers are the processes that listen on a port.
type Takers []proc.Listener

// WhoListens returns those that listen on the port of an address, HOST:PORT. Where
// systemd listens for a service, Unit is the unit of its socket, and where it keeps the
// sites' socket of a berth that is started again, Unit is berth's. It asks systemctl for
// that, for two seconds at most.
func WhoListens(ctx context.Context, address string) Takers {
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	all, _ := proc.Listeners(port) // without them nobody is seen
	if len(all) == 0 || all[0].Pid != 1 {
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ask := func(args ...string) string {
		out, _ := exec.CommandContext(ctx, "systemctl", args...).Output()
		return string(out)
	}
	all[0].Unit = socketUnit(ask("list-sockets", "--no-legend", "--full"), port)
	return withoutKeeper(all, func() bool {
		kept, err := strconv.Atoi(strings.TrimSpace(ask("show", "--property=NFileDescriptorStore", "--value", systemd.DaemonUnit)))
		return err == nil && kept > 0
	})
}

// withoutKeeper drops the systemd that comes first, if it has no socket unit there and so
// keeps the socket for another process of the list. If there is no other, and keeps reports
// that systemd keeps something for berth, it is berth's.
func withoutKeeper(all Takers, keeps func() bool) Takers {
	switch {
	case all[0].Name != "systemd" || all[0].Unit != "":
	case len(all) > 1:
		return all[1:]
	case keeps():
		all[0].Unit = systemd.DaemonUnit
	}
	return all
}

// socketUnit finds the unit that listens on a port in the lines of systemctl
// list-sockets: ADDRESS UNIT ACTIVATES.
func socketUnit(list string, port int) string {
	for line := range strings.Lines(list) {
		f := strings.Fields(line)
		if len(f) >= 2 && strings.HasSuffix(f[0], ":"+strconv.Itoa(port)) {
			return f[1]
		}
	}
	return ""
}

// String names them in a sentence.
func (t Takers) String() string {
	if len(t) == 0 {
		return "a process that cannot be seen from here"
	}
	names := make([]string, len(t))
	for i, l := range t {
		names[i] = l.String()
	}
	return strings.Join(names, ", ")
}
