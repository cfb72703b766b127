package sandbox

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
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
// becomes a port there that the kernel chooses and that answers nobody else, and
// getsockname, getpeername and connect speak of the numbers it asked for.
//
// The hooks were there by Linux 5.12. Before 5.18 what is refused on loopback is
// EPERM instead of ECONNREFUSED.
//
// Its methods are safe for concurrent use, but for Close, which MUST be the
// last call.
type Network struct {
	apps  *ebpf.Map // group to appRecord
	ports *ebpf.Map // portKey to portValue
	asked *ebpf.Map // socket to what it asked for
	nets  *ebpf.Map // netKey to netAllow or netDeny
	doors *ebpf.Map // doorKey to nothing: single ports that are allowed

	refuses      bool // can answer ECONNREFUSED
	readsSockets bool // can read IPV6_V6ONLY
	hooks        []hook
	lastTag      atomic.Uint32

	mu    sync.Mutex // over the rest
	rules Rules
	hosts map[netip.Addr]struct{} // the addresses denied as the host's own
	names map[netip.AddrPort]struct{}
	fresh time.Time
}

// hook is a program and where it belongs.
type hook struct {
	at      ebpf.AttachType
	program *ebpf.Program
}

// appRecord is what the programs know of the group they run for.
type appRecord struct {
	Tag   uint32 // of its entries, and of the packets it sends itself
	Port  uint16 // its own, in network order; 0 when it has none
	_     uint16
	Bound uint32 // sockets that hold ports
	_     uint32
}

const recordTag, recordPort, recordBound = 0, 4, 8 // offsets

// portKey names a port of a program: asked for and, with kindBack, real.
type portKey struct {
	Tag  uint32
	Kind uint16
	Port uint16 // in network order
}

type portValue struct {
	Port    uint16 // in network order
	_       uint16
	Sockets uint32 // that share it
}

const (
	kindUDP  = 1 << iota
	kindIP6  // serves IPv6 alone
	kindBack // from the real port to the one asked for
	kindFree // chosen by the kernel by the program's own wish: both are one
	kindNone // has no ports
)

// What is noted on a socket: the address it asked for in network order, IPv4 in
// the first of four words; the port it asked for and the one it got; its kind,
// and flags. The programs alone read and write it.
const (
	askedPort, askedReal, askedKind, askedFlags = 16, 18, 20, 22 // offsets
	askedSize                                   = 24

	flagShown   = 1 << 0 // getsockname tells of it
	flagPrivate = 1 << 1 // answers the program alone
	flagCounted = 1 << 2 // has its entries
)

const (
	protoTCP, protoUDP = unix.IPPROTO_TCP, unix.IPPROTO_UDP
	stateListen        = 10 // BPF_TCP_LISTEN
	loopbackIndex      = 1  // of lo in every network namespace (LOOPBACK_IFINDEX)
	storageCreate      = 1  // BPF_SK_STORAGE_GET_F_CREATE
	bindUnprivileged   = 3  // allow, and ask for no CAP_NET_BIND_SERVICE (Linux 5.12)

	// sitePort is the port that programs of this API's sites listen on.
	sitePort = 8080
	// mostPorts is how many sockets of one program may hold a port at a time.
	mostPorts = 1024
	// allPorts bounds the entries of all programs together.
	allPorts = 1 << 18
)

const loopback4 = 0x7f000001

// mappedWord is the word before the IPv4 address in an IPv6 one (RFC 4291).
var mappedWord = htonl(0xffff)

// NewNetwork loads the programs. It fails where the kernel lets nobody load
// eBPF, or not this process: then the error is a Missing.
func NewNetwork(rules Rules) (*Network, error) {
	n := &Network{rules: rules, hosts: map[netip.Addr]struct{}{}, names: map[netip.AddrPort]struct{}{}}
	err := n.load()
	if err == nil {
		err = n.writeRules()
	}
	if errors.Is(err, unix.EPERM) {
		err = unix.EPERM // the library adds a guess at a limit that Linux has given up in 5.11
	}
	if err != nil {
		return nil, errors.Join(refusal(fmt.Errorf("cannot load the network policy: %w", err)), n.Close())
	}
	return n, nil
}

func (n *Network) load() error {
	word := &btf.Int{Name: "u32", Size: 4}
	for _, m := range []struct {
		to   **ebpf.Map
		spec ebpf.MapSpec
	}{
		// A key of 8 bytes, the group's id, makes all programs share one entry.
		{&n.apps, ebpf.MapSpec{Name: "berth_apps", Type: ebpf.CGroupStorage, KeySize: 8, ValueSize: 16}},
		{&n.ports, ebpf.MapSpec{Name: "berth_ports", Type: ebpf.Hash, KeySize: 8, ValueSize: 8, MaxEntries: allPorts, Flags: unix.BPF_F_NO_PREALLOC}},
		{&n.asked, ebpf.MapSpec{
			Name: "berth_asked", Type: ebpf.SkStorage, KeySize: 4, ValueSize: askedSize, Flags: unix.BPF_F_NO_PREALLOC,
			// The kernel wants to know the types (bpf_sk_storage_map_alloc_check).
			Key: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Value: &btf.Array{Index: word, Type: word, Nelems: askedSize / 4},
		}},
		{&n.nets, ebpf.MapSpec{Name: "berth_nets", Type: ebpf.LPMTrie, KeySize: 20, ValueSize: 4, MaxEntries: mostRules, Flags: unix.BPF_F_NO_PREALLOC}},
		{&n.doors, ebpf.MapSpec{Name: "berth_doors", Type: ebpf.Hash, KeySize: 20, ValueSize: 4, MaxEntries: mostRules, Flags: unix.BPF_F_NO_PREALLOC}},
	} {
		var err error
		if *m.to, err = ebpf.NewMap(&m.spec); err != nil {
			return err
		}
	}
	var err error
	if n.refuses, err = n.can(asm.Instructions{asm.Mov.Imm(asm.R1, -111), asm.FnSetRetval.Call()}); err != nil {
		return err
	}
	n.readsSockets, err = n.can(asm.Instructions{
		asm.LoadMem(asm.R3, asm.R1, addrSock, asm.DWord), asm.Mov.Imm(asm.R2, 8),
		asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, -8), asm.FnProbeReadKernel.Call(),
	})
	if err != nil {
		return err
	}
	for _, p := range n.programs() {
		program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "berth_net", Type: p.kind, AttachType: p.at, License: "GPL", Instructions: p.code})
		if err != nil {
			return fmt.Errorf("%s: %w", p.at, err)
		}
		n.hooks = append(n.hooks, hook{p.at, program})
	}
	return nil
}

// can tells whether a program of connect may do this. It fails when nobody can
// tell just now.
func (n *Network) can(what asm.Instructions) (bool, error) {
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupSockAddr, AttachType: ebpf.AttachCGroupInet4Connect, License: "GPL",
		Instructions: append(slices.Clone(what), asm.Mov.Imm(asm.R0, 1), asm.Return()),
	})
	if err == nil {
		_ = p.Close() // it was only a question
	}
	if Passes(err) {
		return false, err
	}
	return err == nil, nil
}

// source is a program before the kernel has it.
type source struct {
	at   ebpf.AttachType
	kind ebpf.ProgramType
	code asm.Instructions
}

func (n *Network) programs() []source {
	const addr, sock, skb = ebpf.CGroupSockAddr, ebpf.CGroupSock, ebpf.CGroupSKB
	return []source{
		{ebpf.AttachCGroupInet4Bind, addr, n.bind4()},
		{ebpf.AttachCGroupInet6Bind, addr, n.bind6()},
		{ebpf.AttachCGroupInet4PostBind, sock, n.bound()},
		{ebpf.AttachCGroupInet6PostBind, sock, n.bound()},
		{ebpf.AttachCgroupInetSockRelease, sock, n.released()},
		{ebpf.AttachCGroupInet4Connect, addr, n.connect4()},
		{ebpf.AttachCGroupInet6Connect, addr, n.connect6(false)},
		{ebpf.AttachCGroupUDP4Sendmsg, addr, n.connect4()},
		{ebpf.AttachCGroupUDP6Sendmsg, addr, n.connect6(true)},
		{ebpf.AttachCGroupUDP4Recvmsg, addr, n.received(false)},
		{ebpf.AttachCGroupUDP6Recvmsg, addr, n.received(true)},
		{ebpf.AttachCgroupInet4GetPeername, addr, n.received(false)},
		{ebpf.AttachCgroupInet6GetPeername, addr, n.received(true)},
		{ebpf.AttachCgroupInet4GetSockname, addr, n.named(false)},
		{ebpf.AttachCgroupInet6GetSockname, addr, n.named(true)},
		{ebpf.AttachCGroupInetEgress, skb, n.sent()},
		{ebpf.AttachCGroupInetIngress, skb, n.arrived()},
	}
}

// Enclosure is the network of one group.
type Enclosure struct {
	network *Network
	tag     uint32
}

// Enclose puts a cgroup v2 group, given by its directory, under the policy;
// groups below it are part of it. port is the program's own, in the range of no
// other program and of no connection; 0 when it has none. The group MUST be
// empty still.
func (n *Network) Enclose(group *os.File, port uint16) (*Enclosure, error) {
	if err := n.Refresh(); err != nil {
		return nil, err
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(group.Fd()), &st); err != nil {
		return nil, fmt.Errorf("cannot tell the group's id: %w", err)
	}
	for _, h := range n.hooks {
		err := link.RawAttachProgram(link.RawAttachProgramOptions{
			Target: int(group.Fd()), Program: h.program, Attach: h.at,
			Flags: unix.BPF_F_ALLOW_MULTI, // beside those of systemd, and of groups above
		})
		if err != nil {
			return nil, fmt.Errorf("cannot put the program under the network policy: %s: %w", h.at, err)
		}
	}
	e := &Enclosure{n, n.lastTag.Add(1) | tagged}
	record := appRecord{Tag: e.tag, Port: uint16(htons(port))}
	if err := n.apps.Update(st.Ino, record, ebpf.UpdateExist); err != nil {
		return nil, fmt.Errorf("cannot put the program under the network policy: %w", err)
	}
	return e, nil
}

// tagged tells our marks on packets from most that others use.
const tagged = 0xbe << 24

// Close forgets what sockets that the kernel has not released yet hold. The
// group MUST be gone, or about to be. Of nil, it does nothing.
func (e *Enclosure) Close() error {
	if e == nil {
		return nil
	}
	var key portKey
	var value portValue
	var stale []portKey
	for all := e.network.ports.Iterate(); all.Next(&key, &value); {
		if key.Tag == e.tag {
			stale = append(stale, key)
		}
	}
	var errs []error
	for _, key := range stale {
		if err := e.network.ports.Delete(key); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			errs = append(errs, fmt.Errorf("cannot forget a program's ports: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Close gives up the programs. Groups that are still there stay under the
// policy as it is.
func (n *Network) Close() error {
	var errs []error
	for _, h := range n.hooks {
		errs = append(errs, h.program.Close())
	}
	for _, m := range []*ebpf.Map{n.apps, n.ports, n.asked, n.nets, n.doors} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

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

// Refuses tells whether what is denied on loopback looks like a port where
// nobody listens (ECONNREFUSED) or is EPERM.
func (n *Network) Refuses() bool { return n.refuses }
