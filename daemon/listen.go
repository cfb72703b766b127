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

	"berth/daemon/settings"
	"berth/proc"
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
	return settings.NewProblem(settings.ExitFailure, fmt.Errorf("cannot listen on %s: address already in use by %s", address, WhoListens(ctx, address)),
		"Hint: stop that, or choose another address: listen, proxy.listen, proxy.http and proxy.https are settings.")
}

// Takers are the processes that listen on a port.
type Takers []proc.Listener

// WhoListens returns those that listen on the port of an address, HOST:PORT. Where
// systemd listens for a service, Unit is the unit of its socket. It asks systemctl for
// that, for two seconds at most.
func WhoListens(ctx context.Context, address string) Takers {
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	all, _ := proc.Listeners(port) // without them nobody is seen
	for i, l := range all {
		if l.Pid == 1 {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
			out, _ := exec.CommandContext(ctx, "systemctl", "list-sockets", "--no-legend", "--full").Output()
			cancel()
			all[i].Unit = socketUnit(string(out), port)
		}
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
