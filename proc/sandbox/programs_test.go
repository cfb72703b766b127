package sandbox

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
)

// A daemon finds the programs and maps of an earlier one by their names, and reads
// what they hold: this is the layout of every binary so far.
func TestObjectKeepsItsLayout(t *testing.T) {
	o, err := readObject()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, name := range slices.Sorted(maps.Keys(o.spec.Maps)) {
		m := o.spec.Maps[name]
		got = append(got, fmt.Sprintf("%s %s %d %d %d %#x", name, m.Type, m.KeySize, m.ValueSize, m.MaxEntries, m.Flags))
	}
	for _, name := range slices.Sorted(maps.Keys(o.spec.Programs)) {
		p := o.spec.Programs[name]
		got = append(got, fmt.Sprintf("%s %s %s", name, p.Type, p.AttachType))
	}
	// The library says None of the type of ingress, which is 0.
	want := `.rodata Array 4 20 1 0x80
berth_apps CGroupStorage 8 16 0 0x0
berth_asked SkStorage 4 24 0 0x1
berth_doors Hash 20 4 16384 0x1
berth_nets LPMTrie 20 4 16384 0x1
berth_ports Hash 8 8 262144 0x1
berth_sock_acc Hash 4 4 65536 0x1
berth_sock_grp CGroupStorage 8 24 0 0x0
berth_sock_mark SkStorage 4 4 0 0x1
berth_sock_over RingBuf 0 0 4096 0x0
berth_sock_port Hash 16 8 262144 0x1
berth_sock_uses SkStorage 4 4 0 0x1
berth_traffic PerCPUCGroupStorage 8 16 0 0x0
can_read_sockets CGroupSockAddr CGroupInet4Connect
can_set_retval CGroupSockAddr CGroupInet4Connect
can_set_retval_of_socket CGroupSock CGroupInetSockCreate
count_in CGroupSKB None
count_out CGroupSKB CGroupInetEgress
net_arrived CGroupSKB None
net_bind4 CGroupSockAddr CGroupInet4Bind
net_bind6 CGroupSockAddr CGroupInet6Bind
net_bound4 CGroupSock CGroupInet4PostBind
net_bound6 CGroupSock CGroupInet6PostBind
net_connect4 CGroupSockAddr CGroupInet4Connect
net_connect6 CGroupSockAddr CGroupInet6Connect
net_getpeername4 CGroupSockAddr CgroupInet4GetPeername
net_getpeername6 CGroupSockAddr CgroupInet6GetPeername
net_getsockname4 CGroupSockAddr CgroupInet4GetSockname
net_getsockname6 CGroupSockAddr CgroupInet6GetSockname
net_recvmsg4 CGroupSockAddr CGroupUDP4Recvmsg
net_recvmsg6 CGroupSockAddr CGroupUDP6Recvmsg
net_released CGroupSock CgroupInetSockRelease
net_sendmsg4 CGroupSockAddr CGroupUDP4Sendmsg
net_sendmsg6 CGroupSockAddr CGroupUDP6Sendmsg
net_sent CGroupSKB CGroupInetEgress
port_used SockOps CGroupSockOps
socket_binds4 CGroupSockAddr CGroupInet4Bind
socket_binds6 CGroupSockAddr CGroupInet6Bind
socket_connects4 CGroupSockAddr CGroupInet4Connect
socket_connects6 CGroupSockAddr CGroupInet6Connect
socket_gone CGroupSock CgroupInetSockRelease
socket_listens SockOps CGroupSockOps
socket_made CGroupSock CGroupInetSockCreate`
	if s := strings.Join(got, "\n"); s != want {
		t.Errorf("the object has\n%s\nwant\n%s", s, want)
	}
	for name, is := range map[string]int{
		"berth_apps": binary.Size(appRecord{}), "berth_ports": binary.Size(portValue{}), "berth_sock_grp": binary.Size(socketRecord{}), "berth_traffic": binary.Size(traffic{}),
	} {
		if int(o.spec.Maps[name].ValueSize) != is {
			t.Errorf("a value of %s has %d bytes, and here %d", name, o.spec.Maps[name].ValueSize, is)
		}
	}
	for name, is := range map[string]int{"berth_ports": binary.Size(portKey{}), "berth_nets": binary.Size(netKey{}), "berth_doors": binary.Size(doorKey{})} {
		if int(o.spec.Maps[name].KeySize) != is {
			t.Errorf("a key of %s has %d bytes, and here %d", name, o.spec.Maps[name].KeySize, is)
		}
	}
}

// The object serves every little-endian processor, and says nothing of the machine
// that made it.
func TestObjectIsOfNoMachine(t *testing.T) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	if f.Machine != elf.EM_BPF || f.ByteOrder != binary.LittleEndian {
		t.Errorf("it is for %s, %s", f.Machine, f.ByteOrder)
	}
	for _, s := range f.Sections {
		if strings.HasPrefix(s.Name, ".debug") || s.Name == ".BTF.ext" {
			t.Errorf("it has %s, which debuggers want", s.Name)
		}
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{here, "/home/", "/tmp/", "/usr/"} {
		if bytes.Contains(object, []byte(path)) {
			t.Errorf("it holds the path %s", path)
		}
	}
}

// A kernel that does not know a helper loads the programs: the verifier drops the calls
// with the constants that say so. Here all kernels know them, so the programs call ones
// that no kernel knows.
func TestKernelProgramsWithoutWhatOlderKernelsLack(t *testing.T) {
	if err := Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	const unknown = asm.BuiltinFunc(1 << 20)
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object)) // which nobody shares
	if err != nil {
		t.Fatal(err)
	}
	o := source{spec}
	calls := 0
	for _, p := range o.spec.Programs {
		for i := range p.Instructions {
			if c := &p.Instructions[i]; c.IsBuiltinCall() && (c.Constant == int64(asm.FnSetRetval) || c.Constant == int64(asm.FnProbeReadKernel)) {
				c.Constant = int64(unknown)
				calls++
			}
		}
	}
	o.spec.Maps[straysName].MaxEntries = uint32(os.Getpagesize())
	for _, name := range []string{"can_set_retval", "can_set_retval_of_socket", "can_read_sockets"} {
		if can, err := o.can(name); can || err != nil {
			t.Errorf("%s = %t, %v", name, can, err)
		}
	}
	var names []string
	for name := range o.spec.Programs {
		if !strings.HasPrefix(name, "can_") {
			names = append(names, name)
		}
	}
	if calls < 10 || len(names) != 27 {
		t.Fatalf("%d calls in %d programs", calls, len(names))
	}
	p, err := o.load("berth_test", nil, nil, names...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	// The proof that the calls are there.
	can := map[string]*ebpf.MapSpec{constantsName: o.constants(map[string]uint32{"sets_retval": 1})}
	if p, err := o.load("berth_test", can, nil, "net_connect4"); err == nil {
		t.Error("a call that no kernel knows has loaded", p.Close())
	}
}

// The constants reach the programs, each its own.
func TestObjectTakesItsConstants(t *testing.T) {
	o, err := readObject()
	if err != nil {
		t.Fatal(err)
	}
	values, want := map[string]uint32{}, []byte{}
	for i, name := range []string{"sets_retval", "reads_sockets", "program_sockets", "account_sockets", "all_sockets"} {
		values[name] = uint32(i + 1)
		want = binary.NativeEndian.AppendUint32(want, values[name])
	}
	if got := o.constants(values).Contents[0].Value.([]byte); !slices.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	if b := o.spec.Maps[constantsName].Contents[0].Value.([]byte); !slices.Equal(b, make([]byte, len(want))) {
		t.Errorf("the object itself, which others share, has changed: % x", b)
	}
}
