package sandbox

import "github.com/cilium/ebpf/asm"

// The programs of packets are the second wall: they see what is sent whatever
// the call that sent it, and addresses that became the host's own a moment ago.
// They also keep a program's ports private, on whatever address they are.

// packet describes where one version of IP has what.
type packet struct {
	header             int32 // bytes without options
	protocol, to, last int16 // offsets; last is of the last word of the receiver
}

var (
	packet4 = packet{20, 9, 16, 16}
	packet6 = packet{40, 6, 24, 36}
)

// Of the header of TCP (RFC 9293).
const tcpFlags, tcpSYN, tcpACK = 13, 0x02, 0x10

// sent lets a packet leave for another host unless the rules deny it, and on
// this host only between the program's own sockets, to and from its own port,
// and to what the owner allows. A packet for a socket of its own is marked.
func (n *Network) sent() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(
		asm.LoadMem(asm.R2, ctx, packetEther, asm.Word),
		asm.JEq.Imm(asm.R2, htons(0x86dd), "ip6"),
		asm.JNE.Imm(asm.R2, htons(0x0800), "pass"),
	)
	c.load(0, stackBytes, packet4.header)
	c.add(asm.LoadMem(asm.R2, asm.RFP, stackBytes+packet4.to, asm.Word))
	c.netIP4(asm.R2)
	c.add(asm.LoadMem(asm.R2, asm.RFP, stackBytes, asm.Byte), asm.And.Imm(asm.R2, 15), asm.LSh.Imm(asm.R2, 2)) // with options
	n.ports4or6(c, packet4)
	c.add(
		asm.LoadMem(asm.R2, asm.RFP, stackBytes+packet4.to, asm.Byte),
		asm.JNE.Imm(asm.R2, 127, "rules"),
		asm.Ja.Label("own"),
	)
	c.label("ip6")
	c.load(0, stackBytes, packet6.header)
	c.netIP6(asm.RFP, stackBytes+packet6.to)
	c.add(asm.Mov.Imm(asm.R2, packet6.header))
	n.ports4or6(c, packet6)
	for i := packet6.to; i < packet6.last; i += 4 {
		c.add(asm.LoadMem(asm.R2, asm.RFP, stackBytes+i, asm.Word), asm.JNE.Imm(asm.R2, 0, "rules"))
	}
	c.add(
		asm.LoadMem(asm.R2, asm.RFP, stackBytes+packet6.last, asm.Word), asm.LoadImm(asm.R3, htonl(1), asm.DWord), asm.JNE.Reg(asm.R2, asm.R3, "rules"),
		asm.Or.Imm(kind, kindIP6),
	)
	n.ownPackets(c)
	c.label("rules")
	c.add(
		asm.LoadMem(port, asm.RFP, stackPorts+2, asm.Half),
		asm.LoadMem(asm.R2, ctx, packetInterface, asm.Word),
		asm.JEq.Imm(asm.R2, loopbackIndex, "here"),
	)
	n.verdict(c, "pass", "drop", "pass")
	c.label("here") // some address of the host
	n.verdict(c, "pass", "drop", "drop")
	c.end("pass", 1)
	c.end("drop", 0)
	return c.Instructions
}

// load copies bytes of the packet from its IP header on.
func (c *assembly) load(from int32, to int16, size int32) {
	c.add(asm.Mov.Imm(asm.R2, from))
	c.loadAt(to, size)
}

// loadAt is load with the place in R2.
func (c *assembly) loadAt(to int16, size int32) {
	c.add(
		asm.Mov.Reg(asm.R1, ctx),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, int32(to)),
		asm.Mov.Imm(asm.R4, size),
		asm.FnSkbLoadBytes.Call(),
		asm.JNE.Imm(asm.R0, 0, "drop"),
	)
}

// ports4or6 loads the kind and, of TCP and UDP, both ports, and the flags of TCP; R2 is the length
// of the IP header. Others, and IPv6 with further headers, have neither.
func (n *Network) ports4or6(c *assembly, p packet) {
	tcp, udp, done := c.fresh(), c.fresh(), c.fresh()
	c.add(
		asm.StoreImm(asm.RFP, stackPorts, 0, asm.Word),
		asm.Mov.Imm(kind, 0),
		asm.LoadMem(asm.R3, asm.RFP, stackBytes+p.protocol, asm.Byte),
		asm.JEq.Imm(asm.R3, protoTCP, tcp),
		asm.Mov.Imm(kind, kindUDP),
		asm.JEq.Imm(asm.R3, protoUDP, udp),
		asm.Mov.Imm(kind, kindNone),
		asm.Ja.Label(done),
	)
	c.label(tcp)
	c.loadAt(stackPorts, tcpFlags+1)
	c.add(asm.Ja.Label(done))
	c.label(udp)
	c.loadAt(stackPorts, 4)
	c.label(done)
}

// ownPackets passes what goes from one socket of the program to another, and
// marks it on its way.
func (n *Network) ownPackets(c *assembly) {
	c.label("own")
	for _, side := range []struct {
		offset int16
		found  string
	}{{2, "mark"}, {0, "pass"}} { // to one that asked for its port, from one
		c.add(asm.LoadMem(port, asm.RFP, stackPorts+side.offset, asm.Half))
		n.lookupKind(c, kindBack)
		c.add(asm.JNE.Imm(asm.R0, 0, side.found))
		c.add(asm.StoreMem(asm.RFP, stackBytes, kind, asm.DWord), asm.And.Imm(kind, kindUDP|kindNone))
		n.lookupKind(c, kindFree)
		c.add(asm.LoadMem(kind, asm.RFP, stackBytes, asm.DWord), asm.JNE.Imm(asm.R0, 0, side.found))
	}
	// A connection was judged when it began. Its listener may be gone by now, for
	// the program that ends well closes that first.
	c.add(
		asm.JSet.Imm(kind, kindUDP|kindNone, "rules"),
		asm.LoadMem(asm.R2, asm.RFP, stackPorts+tcpFlags, asm.Byte), asm.And.Imm(asm.R2, tcpSYN|tcpACK),
		asm.JNE.Imm(asm.R2, tcpSYN, "pass"),
		asm.Ja.Label("rules"),
	)
	c.label("mark")
	c.add(
		asm.LoadMem(asm.R2, own, recordTag, asm.Word),
		asm.StoreMem(ctx, packetMark, asm.R2, asm.Word),
		asm.JSet.Imm(kind, kindUDP, "sender"),
		asm.Ja.Label("pass"),
	)
	n.sender(c)
}

// sender remembers the port of a datagram socket that was never bound, as bound
// does for others: the receiver will want to answer.
func (n *Network) sender(c *assembly) {
	c.label("sender")
	c.add(
		asm.LoadMem(asm.R1, ctx, packetOwner, asm.DWord), asm.JEq.Imm(asm.R1, 0, "pass"),
		asm.FnSkFullsock.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.Mov.Imm(kind, kindUDP|kindFree),
		asm.LoadMem(port, asm.RFP, stackPorts, asm.Half),
		asm.Mov.Reg(asm.R2, asm.R0),
	)
	c.itself()
	n.note(c, "pass")
	c.add(
		asm.LoadMem(asm.R2, asm.R0, askedFlags, asm.Half), asm.JSet.Imm(asm.R2, flagCounted, "pass"),
		asm.Mov.Reg(ctx, asm.R0), // the packet itself is not needed any more
	)
	n.count(c, "pass")
	c.add(
		asm.StoreMem(ctx, askedPort, port, asm.Half), asm.StoreMem(ctx, askedKind, kind, asm.Half),
		asm.StoreImm(ctx, askedFlags, flagCounted, asm.Half),
		asm.StoreMem(asm.RFP, stackValue, port, asm.Half),
	)
	n.enter(c, "pass")
	c.add(asm.Ja.Label("pass"))
}

// arrived keeps everybody but the program itself from its listeners, except
// the one on its own port, and from datagram sockets that asked for a port.
func (n *Network) arrived() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(
		asm.LoadMem(asm.R1, ctx, packetOwner, asm.DWord), asm.JEq.Imm(asm.R1, 0, "pass"),
		asm.FnSkFullsock.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"), // a connection under way: its first packet was judged
		asm.LoadMem(asm.R2, asm.R0, sockProtocol, asm.Word),
		asm.JEq.Imm(asm.R2, protoTCP, "tcp"),
		asm.JNE.Imm(asm.R2, protoUDP, "pass"),
		asm.Mov.Reg(asm.R2, asm.R0),
		asm.LoadMapPtr(asm.R1, n.asked.FD()), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "pass"),
		asm.LoadMem(asm.R2, asm.R0, askedFlags, asm.Half), asm.JSet.Imm(asm.R2, flagPrivate, "private"),
		asm.Ja.Label("pass"),
	)
	c.label("tcp")
	c.add(
		asm.LoadMem(asm.R2, asm.R0, sockState, asm.Word), asm.JNE.Imm(asm.R2, stateListen, "pass"),
		asm.LoadMem(asm.R2, asm.R0, sockPort, asm.Word), asm.HostTo(asm.BE, asm.R2, asm.Half),
		asm.LoadMem(asm.R3, own, recordPort, asm.Half), asm.JEq.Reg(asm.R2, asm.R3, "pass"),
	)
	c.label("private")
	c.add(
		asm.LoadMem(asm.R2, ctx, packetMark, asm.Word),
		asm.LoadMem(asm.R3, own, recordTag, asm.Word),
		asm.JEq.Reg(asm.R2, asm.R3, "pass"),
	)
	c.end("drop", 0)
	c.end("pass", 1)
	return c.Instructions
}
