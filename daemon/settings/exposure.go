package settings

import (
	"net"
	"net/netip"

	"berth/app"
)

// carrierNet is what providers give to customers who share an address (RFC 6598).
var carrierNet = netip.MustParsePrefix("100.64.0.0/10")

// Exposure warns when others than this host can reach the setting listen, which speaks
// plain HTTP: tokens and passwords can then be read on the way. It is no sentence when
// only this host can.
func (s Settings) Exposure() app.Text {
	host, _, _ := net.SplitHostPort(s.Listen) // checked when it was set
	if host == "localhost" {
		return app.Text{}
	}
	address, err := netip.ParseAddr(host)
	address = address.Unmap()
	switch {
	case err == nil && address.IsLoopback():
		return app.Text{}
	case err == nil && (address.IsPrivate() || address.IsLinkLocalUnicast() || carrierNet.Contains(address)):
		return app.Textf("The API and the panel use HTTP without encryption at %s: others in that private network can read tokens and passwords on the way.", s.Listen)
	}
	return app.Textf("The API and the panel use HTTP without encryption at %s: anyone on the way can read tokens and passwords.", s.Listen)
}

// ExposureFix is what an owner does about an Exposure.
const ExposureFix = `berth setup gives the panel HTTPS; then set listen = "127.0.0.1:8400", and run berth install --now`
