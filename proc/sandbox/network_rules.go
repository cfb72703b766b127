package sandbox

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/cilium/ebpf"
)

// Rules are the owner's: beside what is built in, and stronger.
type Rules struct {
	Allow, Deny []Rule
}

// Rule is a network, or one port of one address.
type Rule struct {
	Net  netip.Prefix
	Port uint16 // 0: every port
}

// ParseRule reads "10.0.0.0/8", "10.1.2.3", "10.1.2.3:5432", "::1" or
// "[::1]:5432".
func ParseRule(text string) (Rule, error) {
	if net, err := netip.ParsePrefix(text); err == nil {
		return Rule{Net: net.Masked()}, nil
	}
	if at, err := netip.ParseAddrPort(text); err == nil && at.Port() != 0 && at.Addr().Zone() == "" {
		return Rule{netip.PrefixFrom(at.Addr(), at.Addr().BitLen()), at.Port()}, nil
	}
	if at, err := netip.ParseAddr(text); err == nil && at.Zone() == "" {
		return Rule{Net: netip.PrefixFrom(at, at.BitLen())}, nil
	}
	return Rule{}, fmt.Errorf("%q is not an address, an address with a port, or a network", text)
}

const (
	netDeny, netAllow = 1, 2
	// freshFor is how old the list of the host's addresses may be when a
	// program is started. One that came later is denied by the packet.
	freshFor   = 5 * time.Second
	resolvConf = "/etc/resolv.conf"
)

// closed are the addresses that no program reaches unless its owner says so:
// the host, the link, and where clouds keep what a machine may know of itself.
// IPv4 holds for its forms in IPv6 too (netKeys).
var closed = []string{
	"0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "224.0.0.0/4", "255.255.255.255/32",
	"100.100.100.200/32", // Alibaba Cloud
	"168.63.129.16/32",   // Azure
	"192.0.0.192/32",     // Oracle Cloud
	"::/96", "fe80::/10", "fec0::/10", "ff00::/8",
	"fd00:ec2::254/128",      // Amazon EC2
	"fd20:ce::254/128",       // Google Cloud
	"fd00:c1::a9fe:a9fe/128", // Oracle Cloud
}

// netKey is a key of a longest prefix match: IPv4 in its mapped form.
type netKey struct {
	Bits uint32
	Addr [16]byte
}

type doorKey struct {
	Addr [16]byte
	Port uint16 // in network order
	_    uint16
}

// netKeys are the keys of a network: one of IPv4 has a second below the
// prefix of translators (RFC 6052), which would bring packets to it.
func netKeys(p netip.Prefix) []netKey {
	bits := uint32(p.Bits())
	if !p.Addr().Is4() {
		return []netKey{{bits, p.Addr().As16()}}
	}
	mapped := netKey{96 + bits, p.Addr().As16()}
	translated := mapped
	copy(translated.Addr[:], []byte{0, 0x64, 0xff, 0x9b, 0, 0, 0, 0, 0, 0, 0, 0})
	return []netKey{mapped, translated}
}

// writeRules writes what does not change, the owner's rules last.
func (n *Network) writeRules() error {
	for _, text := range closed {
		if err := n.writeNet(netip.MustParsePrefix(text), netDeny); err != nil {
			return err
		}
	}
	for _, r := range n.rules.Deny {
		if err := n.writeNet(r.Net, netDeny); err != nil {
			return err
		}
	}
	for _, r := range n.rules.Allow {
		if r.Port != 0 {
			if err := n.writeDoor(netip.AddrPortFrom(r.Net.Addr(), r.Port), true); err != nil {
				return err
			}
			continue
		}
		if err := n.writeNet(r.Net, netAllow); err != nil {
			return err
		}
	}
	return n.Refresh()
}

func (n *Network) writeNet(p netip.Prefix, verdict uint32) error {
	for _, key := range netKeys(p) {
		if err := n.nets.Put(key, verdict); err != nil {
			return fmt.Errorf("cannot write the rule for %s: %w", p, err)
		}
	}
	return nil
}

func (n *Network) writeDoor(at netip.AddrPort, open bool) error {
	key := doorKey{Addr: at.Addr().As16(), Port: htons(at.Port())}
	var err error
	if open {
		err = n.doors.Put(key, uint32(1))
	} else if err = n.doors.Delete(key); errors.Is(err, ebpf.ErrKeyNotExist) {
		err = nil
	}
	if err != nil {
		return fmt.Errorf("cannot write the rule for %s: %w", at, err)
	}
	return nil
}

// Refresh reads the host's addresses and name servers again, unless it did so
// a moment ago. It blocks for two system calls or so.
func (n *Network) Refresh() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if time.Since(n.fresh) < freshFor {
		return nil
	}
	list, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("cannot list the host's addresses: %w", err)
	}
	hosts := map[netip.Addr]struct{}{}
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil && !n.ruled(p.Addr()) {
			hosts[p.Addr().WithZone("")] = struct{}{}
		}
	}
	conf, err := os.ReadFile(resolvConf)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cannot read the host's name servers: %w", err)
	}
	names := nameServers(string(conf))
	if err := errors.Join(n.refreshHosts(hosts), n.refreshNames(names)); err != nil {
		return err
	}
	n.fresh = time.Now()
	return nil
}

// ruled tells whether the owner has a rule for exactly this address.
func (n *Network) ruled(a netip.Addr) bool {
	return slices.ContainsFunc(slices.Concat(n.rules.Allow, n.rules.Deny), func(r Rule) bool {
		return r.Port == 0 && r.Net.IsSingleIP() && r.Net.Addr() == a
	})
}

func (n *Network) refreshHosts(now map[netip.Addr]struct{}) error {
	for a := range n.hosts {
		if _, still := now[a]; !still {
			for _, key := range netKeys(netip.PrefixFrom(a, a.BitLen())) {
				if err := n.nets.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
					return fmt.Errorf("cannot forget an address of the host: %w", err)
				}
			}
			delete(n.hosts, a)
		}
	}
	for a := range now {
		if _, known := n.hosts[a]; !known {
			if err := n.writeNet(netip.PrefixFrom(a, a.BitLen()), netDeny); err != nil {
				return err
			}
			n.hosts[a] = struct{}{}
		}
	}
	return nil
}

func (n *Network) refreshNames(now map[netip.AddrPort]struct{}) error {
	for at := range n.names {
		if _, still := now[at]; !still && !n.isDoor(at) {
			if err := n.writeDoor(at, false); err != nil {
				return err
			}
		}
	}
	for at := range now {
		if err := n.writeDoor(at, true); err != nil {
			return err
		}
	}
	n.names = now
	return nil
}

// isDoor tells whether the owner allowed exactly this.
func (n *Network) isDoor(at netip.AddrPort) bool {
	return slices.ContainsFunc(n.rules.Allow, func(r Rule) bool {
		return r.Port == at.Port() && r.Net.Addr() == at.Addr()
	})
}

// nameServers are those of a resolv.conf; without one the C library asks
// 127.0.0.1 (resolv.conf(5)).
func nameServers(conf string) map[netip.AddrPort]struct{} {
	found := map[netip.AddrPort]struct{}{}
	for line := range strings.Lines(conf) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(f[1]); err == nil {
			found[netip.AddrPortFrom(a.WithZone(""), 53)] = struct{}{}
		}
	}
	if len(found) == 0 {
		found[netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), 53)] = struct{}{}
	}
	return found
}
