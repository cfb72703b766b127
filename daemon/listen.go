package daemon

import (
	"context"
	"net"
	"net/netip"
)

// NetworkOf keeps 0.0.0.0 what it says: Go takes it for all addresses, IPv6 too.
func NetworkOf(listen string) string {
	if addr, err := netip.ParseAddrPort(listen); err == nil && addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// listen takes the socket that systemd listens on for the daemon, or makes one.
func (d *daemon) listen(ctx context.Context) (net.Listener, error) {
	d.takeSocket()
	return d.baton.listener(ctx, d.settings.Listen)
}

// takeSocket gives the socket that systemd listens on for the daemon to the
// baton, for this image and those that follow.
func (d *daemon) takeSocket() {
	f, wanted := d.socket, d.settings.Listen
	if f == nil {
		return
	}
	d.socket = nil
	if l, err := net.FileListener(f); err == nil {
		if !sameAddress(l.Addr().String(), wanted) {
			d.log.Warn("the socket unit listens elsewhere than the setting says", "socket", l.Addr(), "listen", wanted, "fix", "berth install")
		}
		_ = l.Close() // a duplicate
	}
	d.baton.give(wanted, f)
}

// closeSocket closes a socket that was never used.
func (d *daemon) closeSocket() error {
	if d.socket == nil {
		return nil
	}
	return d.socket.Close()
}

// sameAddress compares what a socket says with what a person wrote.
func sameAddress(is, wanted string) bool {
	a, err := net.ResolveTCPAddr("tcp", is)
	b, errB := net.ResolveTCPAddr("tcp", wanted)
	if err != nil || errB != nil {
		return false
	}
	anywhere := func(ip net.IP) bool { return len(ip) == 0 || ip.IsUnspecified() }
	return a.Port == b.Port && (a.IP.Equal(b.IP) || anywhere(a.IP) && anywhere(b.IP))
}
