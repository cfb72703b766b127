package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// Meter counts the bytes that the programs of control groups send and
// receive, IPv4 and IPv6, loopback included. Two small eBPF programs serve
// every group; the kernel keeps a pair of counters for each group they are
// attached to and frees it with the group, so nothing is pinned and nothing is
// left behind (Linux, bpf/map_cgroup_storage.rst; 5.9 or newer). A packet
// counts with its IP header.
//
// Its methods are safe for concurrent use, but for Close, which MUST be the
// last call.
type Meter struct {
	counters *ebpf.Map
	in, out  *ebpf.Program
}

// traffic is what the kernel keeps for one group and one processor.
type traffic struct{ In, Out uint64 }

// NewMeter loads the programs. It fails where the kernel lets nobody load
// eBPF, or not this process: without CAP_BPF and CAP_NET_ADMIN, in most
// containers. Then the error is a Missing.
func NewMeter() (*Meter, error) {
	m := &Meter{}
	var err error
	// A key of 8 bytes, the group's id, makes both programs share one entry.
	m.counters, err = ebpf.NewMap(&ebpf.MapSpec{Name: "berth_traffic", Type: ebpf.PerCPUCGroupStorage, KeySize: 8, ValueSize: 16})
	if err == nil {
		m.in, err = m.load(ebpf.AttachCGroupInetIngress, 0)
	}
	if err == nil {
		m.out, err = m.load(ebpf.AttachCGroupInetEgress, 8)
	}
	if errors.Is(err, unix.EPERM) {
		err = unix.EPERM // the library adds a guess at a limit that Linux has given up in 5.11
	}
	if err != nil {
		return nil, errors.Join(refusal(fmt.Errorf("cannot load the programs that count traffic: %w", err)), m.Close())
	}
	return m, nil
}

// load loads a program that adds the length of each packet to the counter at
// offset in the group's entry, and lets the packet pass. The addition is
// atomic: a packet that is sent may be interrupted by one that arrives.
func (m *Meter) load(at ebpf.AttachType, offset int16) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: counterName, Type: ebpf.CGroupSKB, AttachType: at, License: "GPL",
		Instructions: asm.Instructions{
			asm.LoadMem(asm.R6, asm.R1, 0, asm.Word), // __sk_buff.len
			asm.LoadMapPtr(asm.R1, m.counters.FD()),
			asm.Mov.Imm(asm.R2, 0),
			asm.FnGetLocalStorage.Call(),
			asm.AddAtomic.Mem(asm.R0, asm.R6, asm.DWord, offset),
			asm.Mov.Imm(asm.R0, 1),
			asm.Return(),
		},
	})
}

// Attach begins to count for a cgroup v2 group, given by its directory. A
// socket's traffic counts for the group of the process that made it.
func (m *Meter) Attach(group *os.File) (*Counter, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(group.Fd()), &st); err != nil {
		return nil, fmt.Errorf("cannot tell the group's id: %w", err)
	}
	for _, p := range []struct {
		program *ebpf.Program
		at      ebpf.AttachType
	}{{m.in, ebpf.AttachCGroupInetIngress}, {m.out, ebpf.AttachCGroupInetEgress}} {
		err := link.RawAttachProgram(link.RawAttachProgramOptions{
			Target: int(group.Fd()), Program: p.program, Attach: p.at,
			Flags: unix.BPF_F_ALLOW_MULTI, // beside those of systemd, and of groups above
		})
		if err != nil {
			return nil, fmt.Errorf("cannot count the group's traffic: %w", err)
		}
	}
	return &Counter{counters: m.counters, group: st.Ino}, nil
}

// AdoptCounter returns the counter of a group that an earlier daemon attached
// its programs to: they count on. Close it.
func AdoptCounter(group *os.File) (*Counter, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(group.Fd()), &st); err != nil {
		return nil, fmt.Errorf("cannot tell the group's id: %w", err)
	}
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: ebpf.AttachCGroupInetIngress})
	if err != nil {
		return nil, fmt.Errorf("cannot find the group's counter: %w", err)
	}
	for _, p := range attached.Programs {
		counters, err := countersOf(p.ID)
		if err != nil {
			return nil, fmt.Errorf("cannot find the group's counter: %w", err)
		}
		if counters != nil {
			return &Counter{counters: counters, group: st.Ino, own: true}, nil
		}
	}
	return nil, errors.New("cannot find the group's counter: nobody counts")
}

// countersOf returns the map of a program that counts, nil of any other.
func countersOf(id ebpf.ProgramID) (*ebpf.Map, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = program.Close() }() // the group keeps it
	info, err := program.Info()
	if err != nil || info.Name != counterName {
		return nil, err
	}
	maps, ok := info.MapIDs()
	if !ok || len(maps) != 1 {
		return nil, errors.New("the program that counts has not one map")
	}
	return ebpf.NewMapFromID(maps[0])
}

// counterName is the name of the programs that count.
const counterName = "berth_count"

// Counter is the traffic of one group. It counts as long as the group is
// there. Its methods are safe for concurrent use, but for Close, which MUST be
// the last call; nil has counted nothing.
type Counter struct {
	counters *ebpf.Map
	group    uint64 // its id, which is the inode number of its directory
	own      bool   // counters is nobody else's
}

// Close gives up the counter. The group is counted on. Of nil, it does nothing.
func (c *Counter) Close() error {
	if c == nil || !c.own {
		return nil
	}
	return c.counters.Close()
}

// Read returns the bytes that were received and sent since Attach.
func (c *Counter) Read() (in, out int64, err error) {
	if c == nil {
		return 0, 0, nil
	}
	var perCPU []traffic
	if err := c.counters.Lookup(c.group, &perCPU); err != nil {
		return 0, 0, fmt.Errorf("cannot read the group's traffic: %w", err)
	}
	for _, t := range perCPU {
		in, out = in+int64(t.In), out+int64(t.Out)
	}
	return in, out, nil
}

// Close gives up the programs. Groups that are still there go on counting.
func (m *Meter) Close() error {
	var errs []error
	for _, p := range []*ebpf.Program{m.in, m.out} {
		errs = append(errs, p.Close()) // of nil, nothing
	}
	if m.counters != nil {
		errs = append(errs, m.counters.Close())
	}
	return errors.Join(errs...)
}
