package sandbox

import (
	"errors"
	"fmt"
	"os"

	"github.com/cilium/ebpf"
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
	loaded   *programs
	counters *ebpf.Map
}

// traffic is what the kernel keeps for one group and one processor.
type traffic struct{ In, Out uint64 }

// NewMeter loads the programs. It fails where the kernel lets nobody load
// eBPF, or not this process: without CAP_BPF and CAP_NET_ADMIN, in most
// containers. Then the error is a Missing.
func NewMeter() (*Meter, error) {
	o, err := readObject()
	var p *programs
	if err == nil {
		p, err = o.load(counterName, nil, nil, "count_in", "count_out")
	}
	if err != nil {
		return nil, unloaded("the programs that count traffic", err)
	}
	return &Meter{p, p.maps[countersName]}, nil
}

// Attach begins to count for a cgroup v2 group, given by its directory. A
// socket's traffic counts for the group of the process that made it.
func (m *Meter) Attach(group *os.File) (*Counter, error) {
	id, err := m.loaded.attach(group)
	if err != nil {
		return nil, fmt.Errorf("cannot count the group's traffic: %w", err)
	}
	return &Counter{counters: m.counters, group: id}, nil
}

// AdoptCounter returns the counter of a group that an earlier daemon attached
// its programs to: they count on. Close it.
func AdoptCounter(group *os.File) (*Counter, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(group.Fd()), &st); err != nil {
		return nil, fmt.Errorf("cannot tell the group's id: %w", err)
	}
	found, err := mapsAt(group, ebpf.AttachCGroupInetIngress, counterName, countersName)
	if err != nil {
		return nil, fmt.Errorf("cannot find the group's counter: %w", err)
	}
	if found == nil {
		return nil, errors.New("cannot find the group's counter: nobody counts")
	}
	return &Counter{counters: found[countersName], group: st.Ino, own: true}, nil
}

// The names by which a later daemon knows the programs that count, and their map.
const counterName, countersName = "berth_count", "berth_traffic"

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
func (m *Meter) Close() error { return m.loaded.Close() }
