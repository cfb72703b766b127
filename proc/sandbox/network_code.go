package sandbox

import (
	"encoding/binary"
	"fmt"

	"github.com/cilium/ebpf/asm"
)

// Where the contexts of the hooks hold what (include/uapi/linux/bpf.h).
const (
	addrIP4, addrIP6, addrPort, addrProtocol, addrSock    = 4, 8, 24, 36, 64 // struct bpf_sock_addr
	sockProtocol, sockIP6, sockPort, sockState            = 12, 28, 44, 72   // struct bpf_sock
	packetMark, packetEther, packetInterface, packetOwner = 8, 16, 40, 168   // struct __sk_buff
)

// Where the programs keep what on their stack, below the frame pointer.
const (
	stackKey   = -8   // portKey
	stackValue = -16  // portValue
	stackNet   = -40  // netKey
	stackDoor  = -64  // doorKey
	stackAsked = -96  // what is noted on a socket
	stackBytes = -160 // of a socket or packet
	stackPorts = -184 // source and destination of a packet, and of TCP the flags
)

// The registers that keep their meaning through a program: those that calls
// leave alone.
const (
	ctx  = asm.R6
	own  = asm.R7 // appRecord
	port = asm.R8 // in network order
	kind = asm.R9 // of a portKey
)

// assembly is a program in the making.
type assembly struct {
	asm.Instructions
	pending string // the label of the instruction that comes next
	labels  int
}

// add appends instructions.
func (c *assembly) add(list ...asm.Instruction) {
	for _, i := range list {
		if c.pending != "" {
			i = i.WithSymbol(c.pending)
			c.pending = ""
		}
		c.Instructions = append(c.Instructions, i)
	}
}

// label names the instruction that comes next.
func (c *assembly) label(name string) {
	if c.pending != "" { // it has a name: both lead there
		c.add(asm.Ja.Label(name))
	}
	c.pending = name
}

// fresh returns a label that is used nowhere else.
func (c *assembly) fresh() string {
	c.labels++
	return fmt.Sprintf("l%d", c.labels)
}

// end returns a value of the whole program, at a label unless that is "".
func (c *assembly) end(label string, value int32) {
	if label != "" {
		c.label(label)
	}
	c.add(asm.Mov.Imm(asm.R0, value), asm.Return())
}

// begin saves the context and finds the record of the application whose
// program it is.
func (n *Network) begin(c *assembly) {
	c.add(
		asm.Mov.Reg(ctx, asm.R1),
		asm.LoadMapPtr(asm.R1, n.apps.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnGetLocalStorage.Call(), // never NULL: made when the program was attached
		asm.Mov.Reg(own, asm.R0),
	)
}

// protocol puts the kind of the socket into kind, and leads those that are
// neither TCP nor UDP to other. offset is where the context has it.
func (c *assembly) protocol(offset int16, other string) {
	done := c.fresh()
	c.add(
		asm.LoadMem(asm.R2, ctx, offset, asm.Word),
		asm.Mov.Imm(kind, 0),
		asm.JEq.Imm(asm.R2, protoTCP, done),
		asm.Mov.Imm(kind, kindUDP),
		asm.JNE.Imm(asm.R2, protoUDP, other),
	)
	c.label(done)
}

// lookup finds the entry of kind and port, as they stand; R0 is NULL or the
// portValue.
func (n *Network) lookup(c *assembly) {
	c.add(
		asm.LoadMem(asm.R2, own, recordTag, asm.Word),
		asm.StoreMem(asm.RFP, stackKey, asm.R2, asm.Word),
		asm.StoreMem(asm.RFP, stackKey+4, kind, asm.Half),
		asm.StoreMem(asm.RFP, stackKey+6, port, asm.Half),
		asm.LoadMapPtr(asm.R1, n.ports.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapLookupElem.Call(),
	)
}

// lookupKind is lookup with bits of the kind set for its time.
func (n *Network) lookupKind(c *assembly, bits int32) {
	c.add(asm.Or.Imm(kind, bits))
	n.lookup(c)
	c.add(asm.And.Imm(kind, ^bits))
}

// canonical makes one of the two numbers under which a program may ask for
// its own port.
func (c *assembly) canonical() {
	same := c.fresh()
	c.add(
		asm.LoadMem(asm.R2, own, recordPort, asm.Half),
		asm.JEq.Imm(asm.R2, 0, same),
		asm.JNE.Reg(asm.R2, port, same),
		asm.Mov.Imm(port, htons(sitePort)),
	)
	c.label(same)
}

// netIP4 puts the IPv4 address in r where verdict wants it.
func (c *assembly) netIP4(r asm.Register) {
	c.add(
		asm.StoreImm(asm.RFP, stackNet+4, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackNet+8, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackNet+12, mappedWord, asm.Word),
		asm.StoreMem(asm.RFP, stackNet+16, r, asm.Word),
	)
}

// netIP6 puts the IPv6 address at base+offset where verdict wants it.
func (c *assembly) netIP6(base asm.Register, offset int16) {
	for i := int16(0); i < 16; i += 4 {
		c.add(
			asm.LoadMem(asm.R2, base, offset+i, asm.Word),
			asm.StoreMem(asm.RFP, stackNet+4+i, asm.R2, asm.Word),
		)
	}
}

// verdict asks the rules about the address at stackNet and the port, and goes
// to one of the labels.
func (n *Network) verdict(c *assembly, allow, deny, silent string) {
	for i := int16(0); i < 16; i += 4 {
		c.add(
			asm.LoadMem(asm.R2, asm.RFP, stackNet+4+i, asm.Word),
			asm.StoreMem(asm.RFP, stackDoor+i, asm.R2, asm.Word),
		)
	}
	c.add(
		asm.StoreMem(asm.RFP, stackDoor+16, port, asm.Half),
		asm.StoreImm(asm.RFP, stackDoor+18, 0, asm.Half),
		asm.LoadMapPtr(asm.R1, n.doors.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackDoor),
		asm.FnMapLookupElem.Call(),
		asm.JNE.Imm(asm.R0, 0, allow),
		asm.StoreImm(asm.RFP, stackNet, 128, asm.Word),
		asm.LoadMapPtr(asm.R1, n.nets.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP),
		asm.Add.Imm(asm.R2, stackNet),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, silent),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Word),
		asm.JEq.Imm(asm.R2, netAllow, allow),
		asm.Ja.Label(deny),
	)
}

// htons returns the number that a load of the port in network order gives.
func htons(port uint16) int32 {
	return int32(binary.NativeEndian.Uint16(binary.BigEndian.AppendUint16(nil, port)))
}

// htonl is htons for a word that is compared with or stored.
func htonl(word uint32) int64 {
	return int64(binary.NativeEndian.Uint32(binary.BigEndian.AppendUint32(nil, word)))
}

// fetchAdd adds r to the word at base+offset and puts what was there into r.
func fetchAdd(base asm.Register, offset int16, r asm.Register) asm.Instruction {
	i := asm.FetchAdd.Mem(base, r, asm.Word, offset)
	i.Constant = 1 // BPF_FETCH, which cilium/ebpf 0.22 drops when it encodes the instruction
	return i
}
