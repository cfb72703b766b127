package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Network is what programs may reach and who may reach them: eBPF programs at
// the hooks of sockets and packets, attached to the control group of each run.
// They live as long as the group, whatever becomes of the daemon.
//
// A program finds the internet as it is. Of the host it finds nothing but its
// own sockets, the name servers and what the rules allow; link-local addresses
// and those where clouds keep their metadata are denied. Whatever port it binds
// is its own: 8080 and its Port become that port on loopback, every other one
// becomes a port there that the kernel chooses and that answers nobody but the program
// and who knows its Mark, and getsockname, getpeername and connect speak of the numbers it asked for.
//
// The hooks were there by Linux 5.12. Before 5.18 what is refused on loopback is
// EPERM instead of ECONNREFUSED.
//
// Its methods are safe for concurrent use, but for Close, which MUST be the
// last call.
type Network struct {
	apps  *ebpf.Map // group to appRecord
	ports *ebpf.Map // portKey to portValue
	nets  *ebpf.Map // netKey to netAllow or netDeny
	doors *ebpf.Map // doorKey to nothing: single ports that are allowed

	loaded  *programs
	refuses bool // can answer ECONNREFUSED
	reads   bool // can tell which sockets serve IPv6 alone
	lastTag atomic.Uint32

	mu    sync.Mutex // over the rest
	rules Rules
	hosts map[netip.Addr]struct{} // the addresses denied as the host's own
	names map[netip.AddrPort]struct{}
	fresh time.Time
}

// appRecord is what the programs know of the group they run for.
type appRecord struct {
	Tag   uint32 // of its entries, and of the packets it sends itself
	Port  uint16 // its own, in network order; 0 when it has none
	_     uint16
	Bound uint32 // sockets that hold ports
	_     uint32
}

// portKey names a port of a program: asked for and, with KIND_BACK (bpf/programs.c), real.
type portKey struct {
	Tag  uint32
	Kind uint16
	Port uint16 // in network order
}

type portValue struct {
	Port    uint16 // in network order
	Flags   uint16
	Sockets uint32 // that share it
}

// As in bpf/programs.c.
const (
	kindIP6  = 2
	kindBack = 4
	portOpen = 1
)

// NewNetwork loads the programs. It fails where the kernel lets nobody load
// eBPF, or not this process: then the error is a Missing.
func NewNetwork(rules Rules) (*Network, error) {
	n := &Network{rules: rules, hosts: map[netip.Addr]struct{}{}, names: map[netip.AddrPort]struct{}{}}
	err := n.load()
	if err == nil {
		err = n.writeRules()
	}
	if err != nil {
		return nil, errors.Join(unloaded("the network policy", err), n.Close())
	}
	return n, nil
}

func (n *Network) load() error {
	o, err := readObject()
	if err != nil {
		return err
	}
	if n.refuses, err = o.can("can_set_retval"); err != nil {
		return err
	}
	if n.reads, err = o.can("can_read_sockets"); err != nil {
		return err
	}
	constants := o.constants(map[string]uint32{"sets_retval": word(n.refuses), "reads_sockets": word(n.reads)})
	n.loaded, err = o.load(networkName, map[string]*ebpf.MapSpec{constantsName: constants}, nil,
		"net_bind4", "net_bind6", "net_bound4", "net_bound6", "net_released",
		"net_connect4", "net_connect6", "net_sendmsg4", "net_sendmsg6",
		"net_recvmsg4", "net_recvmsg6", "net_getpeername4", "net_getpeername6", "net_getsockname4", "net_getsockname6",
		"net_sent", "net_arrived")
	if err != nil {
		return err
	}
	n.apps, n.ports, n.nets, n.doors = n.loaded.maps["berth_apps"], n.loaded.maps["berth_ports"], n.loaded.maps["berth_nets"], n.loaded.maps["berth_doors"]
	return nil
}

// Enclosure is the network of one group.
type Enclosure struct {
	tag   uint32
	found bool // by FindEnclosure: the map is its own

	mu    sync.Mutex // over ports
	ports *ebpf.Map  // nil: it is closed
}

// Enclose puts a cgroup v2 group, given by its directory, under the policy;
// groups below it are part of it. port is the program's own, in the range of no
// other program and of no connection; 0 when it has none. The group MUST have
// no socket yet.
func (n *Network) Enclose(group *os.File, port uint16) (*Enclosure, error) {
	if err := n.Refresh(); err != nil {
		return nil, err
	}
	id, err := n.loaded.attach(group)
	if err != nil {
		return nil, fmt.Errorf("cannot put the program under the network policy: %w", err)
	}
	e := &Enclosure{tag: n.lastTag.Add(1) | tagged, ports: n.ports}
	record := appRecord{Tag: e.tag, Port: htons(port)}
	if err := n.apps.Update(id, record, ebpf.UpdateExist); err != nil {
		return nil, fmt.Errorf("cannot put the program under the network policy: %w", err)
	}
	return e, nil
}

// networkName is that of the programs in the kernel.
const networkName = "berth_net"

// FindEnclosure returns the network of a group that an earlier daemon put under its
// policy, given by its directory; nil when none did.
func FindEnclosure(group *os.File) (*Enclosure, error) {
	maps, err := mapsAt(group, ebpf.AttachCGroupInetEgress, networkName, "berth_apps", "berth_ports")
	if err != nil || maps == nil {
		return nil, err
	}
	apps, ports := maps["berth_apps"], maps["berth_ports"]
	defer func() { _ = apps.Close() }() // the group keeps it
	var st unix.Stat_t
	var record appRecord
	if err = unix.Fstat(int(group.Fd()), &st); err == nil {
		err = apps.Lookup(st.Ino, &record)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot find the network of a program: %w", err), ports.Close())
	}
	return &Enclosure{tag: record.Tag, ports: ports, found: true}, nil
}

// Mark is what packets carry to the ports of the program that answer nobody else
// (SO_MARK, for which one needs CAP_NET_ADMIN).
func (e *Enclosure) Mark() uint32 { return e.tag }

// Asked returns the port that the program asked for where it takes TCP connections at
// an address of loopback, and whether it asked for all addresses of the host. The port
// is 0 where it asked for none, or nobody knows.
func (e *Enclosure) Asked(at netip.AddrPort) (port uint16, open bool, err error) {
	key := portKey{Tag: e.tag, Kind: kindBack, Port: htons(at.Port())}
	if at.Addr() == netip.IPv6Loopback() {
		key.Kind |= kindIP6
	}
	var value portValue
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ports == nil {
		return 0, false, nil
	}
	switch err := e.ports.Lookup(key, &value); {
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return 0, false, nil
	case err != nil:
		return 0, false, fmt.Errorf("cannot tell which port a program asked for: %w", err)
	}
	return htons(value.Port), value.Flags&portOpen != 0, nil
}

// tagged tells our marks on packets from most that others use.
const tagged = 0xbe << 24

// Close forgets what sockets that the kernel has not released yet hold. The
// group MUST be gone, or about to be. Of nil, it does nothing.
func (e *Enclosure) Close() error {
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	ports := e.ports
	e.ports = nil
	if e.found { // its entries go with its programs
		return ports.Close() // of nil, nothing
	}
	if ports == nil {
		return nil
	}
	var key portKey
	var value portValue
	var stale []portKey
	for all := ports.Iterate(); all.Next(&key, &value); {
		if key.Tag == e.tag {
			stale = append(stale, key)
		}
	}
	var errs []error
	for _, key := range stale {
		if err := ports.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("cannot forget a program's ports: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Close gives up the programs. Groups that are still there stay under the
// policy as it is.
func (n *Network) Close() error { return n.loaded.Close() }

// Ports returns how many ports are remembered for programs that run.
func (n *Network) Ports() (int, error) {
	var key portKey
	var value portValue
	count, all := 0, n.ports.Iterate()
	for all.Next(&key, &value) {
		count++
	}
	return count, all.Err()
}

// ReadsSockets tells whether a socket that serves IPv6 alone is told from one that serves
// both.
func (n *Network) ReadsSockets() bool { return n.reads }

// Refuses tells whether what is denied on loopback looks like a port where
// nobody listens (ECONNREFUSED) or is EPERM.
func (n *Network) Refuses() bool { return n.refuses }
