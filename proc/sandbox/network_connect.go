package sandbox

import "github.com/cilium/ebpf/asm"

// connect4 and connect6 serve connect(2) and the datagrams that name their
// receiver. On loopback a program finds its own sockets by the numbers it
// asked for, and what the owner allows; elsewhere, all that is not denied.
func (n *Network) connect4() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	n.target(c)
	c.add(
		asm.LoadMem(asm.R2, ctx, addrIP4, asm.Word),
		asm.JNE.Imm(asm.R2, 0, "named"), // 0.0.0.0 is this host
		asm.Mov.Imm(asm.R2, int32(htonl(loopback4))),
		asm.StoreMem(ctx, addrIP4, asm.R2, asm.Word),
	)
	c.label("named")
	c.netIP4(asm.R2)
	c.add(
		asm.HostTo(asm.BE, asm.R2, asm.Word), asm.RSh.Imm(asm.R2, 24),
		asm.JNE.Imm(asm.R2, 127, "rules"),
	)
	n.self(c, 0, "moved4")
	n.selfFree(c)
	n.verdict(c, "allow", "refuse", "refuse")
	c.label("moved4")
	c.add(
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Half), asm.StoreMem(ctx, addrPort, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R2, int32(htonl(loopback4))), asm.StoreMem(ctx, addrIP4, asm.R2, asm.Word),
		asm.Ja.Label("allow"),
	)
	n.endConnect(c)
	return c.Instructions
}

// connect6 with datagram leaves IPv4 addresses alone that it would have to put
// into an IPv6 one: Linux takes no such change for a datagram (udpv6_sendmsg).
func (n *Network) connect6(datagram bool) asm.Instructions {
	c := &assembly{}
	n.begin(c)
	n.target(c)
	c.netIP6(ctx, addrIP6)
	word := func(i int16) asm.Instruction {
		return asm.LoadMem(asm.R2, asm.RFP, stackNet+4+4*i, asm.Word)
	}
	c.add(
		word(0), asm.JNE.Imm(asm.R2, 0, "rules"),
		word(1), asm.JNE.Imm(asm.R2, 0, "rules"),
		word(2), asm.LoadImm(asm.R3, mappedWord, asm.DWord), asm.JEq.Reg(asm.R2, asm.R3, "mapped"),
		asm.JNE.Imm(asm.R2, 0, "rules"),
		word(3), asm.LoadImm(asm.R3, htonl(1), asm.DWord),
		asm.JEq.Reg(asm.R2, asm.R3, "loop"),
		asm.JNE.Imm(asm.R2, 0, "rules"),
		asm.StoreMem(ctx, addrIP6+12, asm.R3, asm.Word), // :: is this host
		asm.StoreMem(asm.RFP, stackNet+16, asm.R3, asm.Word),
	)
	c.label("loop")
	n.self(c, kindIP6, "moved6")
	if !datagram {
		n.self(c, 0, "moved4")
	}
	n.selfFree(c)
	n.verdict(c, "allow", "refuse", "refuse")

	c.label("mapped")
	c.add(
		word(3), asm.JNE.Imm(asm.R2, 0, "named"),
		asm.Mov.Imm(asm.R2, int32(htonl(loopback4))),
		asm.StoreMem(ctx, addrIP6+12, asm.R2, asm.Word),
		asm.StoreMem(asm.RFP, stackNet+16, asm.R2, asm.Word),
	)
	c.label("named")
	c.add(
		asm.HostTo(asm.BE, asm.R2, asm.Word), asm.RSh.Imm(asm.R2, 24),
		asm.JNE.Imm(asm.R2, 127, "rules"),
	)
	n.self(c, 0, "moved4")
	n.selfFree(c)
	n.verdict(c, "allow", "refuse", "refuse")

	c.label("moved4")
	c.add(
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Half), asm.StoreMem(ctx, addrPort, asm.R2, asm.Word),
		asm.LoadImm(asm.R2, mappedWord, asm.DWord), asm.StoreMem(ctx, addrIP6+8, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R2, int32(htonl(loopback4))), asm.StoreMem(ctx, addrIP6+12, asm.R2, asm.Word),
		asm.Ja.Label("allow"),
	)
	c.label("moved6")
	c.add(
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Half), asm.StoreMem(ctx, addrPort, asm.R2, asm.Word),
		asm.Ja.Label("allow"),
	)
	n.endConnect(c)
	return c.Instructions
}

// target loads the port that is asked for and the kind of socket. What is
// neither TCP nor UDP (an echo request) has no socket of the program's to find.
func (n *Network) target(c *assembly) {
	plain := c.fresh()
	c.add(asm.LoadMem(port, ctx, addrPort, asm.Word))
	c.protocol(addrProtocol, plain)
	next := c.fresh()
	c.add(asm.Ja.Label(next))
	c.label(plain)
	c.add(asm.Mov.Imm(kind, kindNone))
	c.label(next)
}

// self goes to found, with the portValue in R0, when the program has a socket
// of its own on port.
func (n *Network) self(c *assembly, bits int32, found string) {
	missing := c.fresh()
	c.add(asm.StoreMem(asm.RFP, stackPorts, port, asm.DWord))
	c.canonical()
	n.lookupKind(c, bits)
	c.add(
		asm.LoadMem(port, asm.RFP, stackPorts, asm.DWord),
		asm.JNE.Imm(asm.R0, 0, found),
	)
	c.label(missing)
}

// selfFree goes to "allow" when the kernel gave the program port.
func (n *Network) selfFree(c *assembly) {
	n.lookupKind(c, kindFree)
	c.add(asm.JNE.Imm(asm.R0, 0, "allow"))
}

// endConnect ends a program of connect4 and connect6: by the rules for what is
// not loopback, and with its answers.
func (n *Network) endConnect(c *assembly) {
	c.label("rules")
	n.verdict(c, "allow", "deny", "allow")
	c.end("allow", 1)
	c.label("refuse") // as an address where nobody listens
	if n.refuses {
		c.add(asm.Mov.Imm(asm.R1, -111 /* ECONNREFUSED */), asm.FnSetRetval.Call())
	}
	c.end("deny", 0)
}

// received shows where a datagram came from, and a peer, by the number that
// the program knows.
func (n *Network) received(six bool) asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(asm.LoadMem(port, ctx, addrPort, asm.Word))
	c.protocol(addrProtocol, "done")
	n.asAsked(c, six)
	c.end("done", 1)
	return c.Instructions
}

// asAsked replaces the port of a loopback address in the context by the one
// under which the program knows it, and goes to "done" when it knows none.
func (n *Network) asAsked(c *assembly, six bool) {
	back := c.fresh()
	last := int16(addrIP4)
	if six {
		last = addrIP6 + 12
		v4 := c.fresh()
		c.add(
			asm.LoadMem(asm.R2, ctx, addrIP6, asm.Word), asm.JNE.Imm(asm.R2, 0, "done"),
			asm.LoadMem(asm.R2, ctx, addrIP6+4, asm.Word), asm.JNE.Imm(asm.R2, 0, "done"),
			asm.LoadMem(asm.R2, ctx, addrIP6+8, asm.Word), asm.JNE.Imm(asm.R2, 0, v4),
			asm.LoadMem(asm.R2, ctx, last, asm.Word), asm.LoadImm(asm.R3, htonl(1), asm.DWord), asm.JNE.Reg(asm.R2, asm.R3, "done"),
			asm.Or.Imm(kind, kindIP6),
			asm.Ja.Label(back),
		)
		c.label(v4)
		c.add(asm.LoadImm(asm.R3, mappedWord, asm.DWord), asm.JNE.Reg(asm.R2, asm.R3, "done"))
	}
	c.add(
		asm.LoadMem(asm.R2, ctx, last, asm.Word),
		asm.HostTo(asm.BE, asm.R2, asm.Word), asm.RSh.Imm(asm.R2, 24),
		asm.JNE.Imm(asm.R2, 127, "done"),
	)
	c.label(back)
	n.lookupKind(c, kindBack)
	c.add(
		asm.JEq.Imm(asm.R0, 0, "done"),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Half),
		asm.StoreMem(ctx, addrPort, asm.R2, asm.Word),
	)
}

// named answers getsockname(2) with what the socket asked for.
func (n *Network) named(six bool) asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(asm.LoadMem(port, ctx, addrPort, asm.Word))
	c.protocol(addrProtocol, "done")
	c.add(
		asm.LoadMem(asm.R2, ctx, addrSock, asm.DWord),
		asm.LoadMapPtr(asm.R1, n.asked.FD()), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "another"),
		asm.LoadMem(asm.R2, asm.R0, askedFlags, asm.Half), asm.And.Imm(asm.R2, flagShown), asm.JEq.Imm(asm.R2, 0, "another"),
		asm.LoadMem(asm.R2, asm.R0, askedReal, asm.Half), asm.JNE.Reg(asm.R2, port, "another"),
		asm.LoadMem(asm.R2, asm.R0, askedPort, asm.Half), asm.StoreMem(ctx, addrPort, asm.R2, asm.Word),
	)
	if six {
		for i := int16(0); i < 16; i += 4 {
			c.add(asm.LoadMem(asm.R2, asm.R0, i, asm.Word), asm.StoreMem(ctx, addrIP6+i, asm.R2, asm.Word))
		}
	} else {
		c.add(asm.LoadMem(asm.R2, asm.R0, 0, asm.Word), asm.StoreMem(ctx, addrIP4, asm.R2, asm.Word))
	}
	c.add(asm.Ja.Label("done"))
	c.label("another") // a connection that a listener accepted, or made by connect
	n.asAsked(c, six)
	c.end("done", 1)
	return c.Instructions
}
