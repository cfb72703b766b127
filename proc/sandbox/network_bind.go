package sandbox

import "github.com/cilium/ebpf/asm"

// bind4 and bind6 send a program that asks for a port to a place on loopback
// that is nobody else's: its own port for 8080 and $PORT, one that the kernel
// chooses for every other. Who asks for port 0 gets what it asks for. The
// privilege that ports below 1024 want is not asked for: nobody sees them.
func (n *Network) bind4() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(asm.LoadMem(port, ctx, addrPort, asm.Word), asm.JEq.Imm(port, 0, "as-is"))
	c.protocol(addrProtocol, "as-is")
	c.add(
		asm.LoadMem(asm.R2, ctx, addrIP4, asm.Word), asm.StoreMem(asm.RFP, stackAsked, asm.R2, asm.Word),
		asm.StoreImm(asm.RFP, stackAsked+4, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackAsked+8, 0, asm.Word),
		asm.StoreImm(asm.RFP, stackAsked+12, 0, asm.Word),
	)
	n.place(c)
	c.add(asm.StoreMem(ctx, addrPort, port, asm.Word), asm.Mov.Imm(asm.R2, int32(htonl(loopback4))), asm.StoreMem(ctx, addrIP4, asm.R2, asm.Word))
	c.end("done", bindUnprivileged)
	c.end("as-is", 1)
	c.end("deny", 0)
	return c.Instructions
}

func (n *Network) bind6() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(asm.LoadMem(port, ctx, addrPort, asm.Word), asm.JEq.Imm(port, 0, "as-is"))
	c.protocol(addrProtocol, "as-is")
	for i := int16(0); i < 16; i += 4 {
		c.add(asm.LoadMem(asm.R2, ctx, addrIP6+i, asm.Word), asm.StoreMem(asm.RFP, stackAsked+i, asm.R2, asm.Word))
	}
	n.family(c)
	n.place(c)
	c.add(
		asm.StoreMem(ctx, addrPort, port, asm.Word),
		asm.Mov.Imm(asm.R2, 0),
		asm.StoreMem(ctx, addrIP6, asm.R2, asm.Word), asm.StoreMem(ctx, addrIP6+4, asm.R2, asm.Word),
		asm.JSet.Imm(kind, kindIP6, "six"),
		asm.LoadImm(asm.R2, mappedWord, asm.DWord), asm.StoreMem(ctx, addrIP6+8, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R2, int32(htonl(loopback4))), asm.StoreMem(ctx, addrIP6+12, asm.R2, asm.Word),
		asm.Ja.Label("done"),
	)
	c.label("six")
	c.add(
		asm.StoreMem(ctx, addrIP6+8, asm.R2, asm.Word),
		asm.LoadImm(asm.R2, htonl(1), asm.DWord), asm.StoreMem(ctx, addrIP6+12, asm.R2, asm.Word),
	)
	c.end("done", bindUnprivileged)
	c.end("as-is", 1)
	c.end("deny", 0)
	return c.Instructions
}

// family adds kindIP6 to the kind of a socket that serves IPv6 alone: one that
// said so (IPV6_V6ONLY), or that asks for an IPv6 address other than "any".
// All others serve IPv4 as well, which is where they are put.
func (n *Network) family(c *assembly) {
	word := func(i int16) asm.Instruction {
		return asm.LoadMem(asm.R2, asm.RFP, stackAsked+4*i, asm.Word)
	}
	c.add(
		word(0), asm.JNE.Imm(asm.R2, 0, "only"),
		word(1), asm.JNE.Imm(asm.R2, 0, "only"),
		word(2), asm.LoadImm(asm.R3, mappedWord, asm.DWord), asm.JEq.Reg(asm.R2, asm.R3, "both"),
		asm.JNE.Imm(asm.R2, 0, "only"),
		word(3), asm.JNE.Imm(asm.R2, 0, "only"),
	)
	if n.readsSockets {
		// skc_ipv6only is no field that the verifier knows, but where it is has
		// not changed since Linux 3.14: behind skc_family and skc_state
		// (struct sock_common, include/net/sock.h).
		c.add(
			asm.LoadMem(asm.R3, ctx, addrSock, asm.DWord),
			asm.Mov.Reg(asm.R1, asm.RFP), asm.Add.Imm(asm.R1, stackBytes),
			asm.Mov.Imm(asm.R2, 20),
			asm.FnProbeReadKernel.Call(),
			asm.JNE.Imm(asm.R0, 0, "both"),
			asm.LoadMem(asm.R2, asm.RFP, stackBytes+19, asm.Byte),
			asm.And.Imm(asm.R2, 0x20),
			asm.JNE.Imm(asm.R2, 0, "only"),
		)
	}
	c.add(asm.Ja.Label("both"))
	c.label("only")
	c.add(asm.Or.Imm(kind, kindIP6))
	c.label("both")
}

// place notes on the socket what was asked for, and replaces the port by the
// one it gets: 0 lets the kernel choose.
func (n *Network) place(c *assembly) {
	c.add(
		asm.StoreMem(asm.RFP, stackAsked+askedPort, port, asm.Half),
		asm.StoreImm(asm.RFP, stackAsked+askedReal, 0, asm.Half),
		asm.StoreMem(asm.RFP, stackAsked+askedKind, kind, asm.Half),
		asm.StoreImm(asm.RFP, stackAsked+askedFlags, flagShown, asm.Half),
		asm.LoadMem(asm.R2, ctx, addrSock, asm.DWord),
	)
	n.note(c, "deny")
	c.add(
		// Bound already, so the kernel will refuse: what is noted stays true.
		asm.LoadMem(asm.R2, asm.R0, askedFlags, asm.Half), asm.JSet.Imm(asm.R2, flagCounted, "as-is"),
	)
	for i := int16(0); i < askedSize; i += 8 {
		c.add(asm.LoadMem(asm.R2, asm.RFP, stackAsked+i, asm.DWord), asm.StoreMem(asm.R0, i, asm.R2, asm.DWord))
	}
	c.add(
		asm.Mov.Reg(asm.R3, asm.R0),
		asm.LoadMem(asm.R2, own, recordPort, asm.Half),
		asm.JEq.Imm(asm.R2, 0, "other"),
		asm.JEq.Reg(asm.R2, port, "own"),
		asm.JNE.Imm(port, htons(sitePort), "other"),
	)
	c.label("own")
	c.add(asm.Mov.Reg(port, asm.R2), asm.Ja.Label("placed"))
	c.label("other")
	c.add(asm.StoreImm(asm.R3, askedFlags, flagShown|flagPrivate, asm.Half))
	n.lookup(c) // a second worker with SO_REUSEPORT goes where the first is
	c.add(
		asm.Mov.Imm(port, 0),
		asm.JEq.Imm(asm.R0, 0, "placed"),
		asm.LoadMem(port, asm.R0, 0, asm.Half),
	)
	c.label("placed")
}

// note makes the socket in R2 remember what stands at stackAsked, unless it
// remembers something: R0 is that.
func (n *Network) note(c *assembly, failed string) {
	c.add(
		asm.LoadMapPtr(asm.R1, n.asked.FD()),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, stackAsked),
		asm.Mov.Imm(asm.R4, storageCreate),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, failed),
	)
}

// bound runs when a port was given, and remembers both directions: what was
// asked for and what it became. A port that the kernel chose by the program's
// own wish is remembered as itself.
func (n *Network) bound() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(
		asm.LoadMem(port, ctx, sockPort, asm.Word), // in host order
		asm.HostTo(asm.BE, port, asm.Half),
		asm.JEq.Imm(port, 0, "ok"),
	)
	c.protocol(sockProtocol, "ok")
	c.add(
		asm.Or.Imm(kind, kindFree), // unless something was asked for
		asm.Mov.Reg(asm.R2, ctx),
	)
	c.itself()
	n.note(c, "deny")
	c.add(
		asm.StoreMem(asm.R0, askedReal, port, asm.Half),
		asm.Mov.Reg(ctx, asm.R0), // the socket itself is not needed any more
	)
	n.count(c, "deny")
	c.add(
		asm.LoadMem(asm.R2, ctx, askedFlags, asm.Half), asm.Or.Imm(asm.R2, flagCounted), asm.StoreMem(ctx, askedFlags, asm.R2, asm.Half),
		asm.LoadMem(kind, ctx, askedKind, asm.Half),
		asm.StoreMem(asm.RFP, stackValue, port, asm.Half), // forward: asked to real
		asm.LoadMem(port, ctx, askedPort, asm.Half),
		asm.JSet.Imm(kind, kindFree, "forward"),
	)
	c.canonical()
	c.label("forward")
	n.enter(c, "deny")
	c.add(
		asm.JSet.Imm(kind, kindFree, "ok"),
		asm.LoadMem(asm.R2, ctx, askedPort, asm.Half),
		asm.StoreMem(asm.RFP, stackValue, asm.R2, asm.Half), // backward: real to asked
		asm.LoadMem(port, ctx, askedReal, asm.Half),
		asm.Or.Imm(kind, kindBack),
	)
	n.enter(c, "deny")
	c.end("ok", 1)
	c.end("deny", 0)
	return c.Instructions
}

// itself puts at stackAsked what is noted on a socket whose port is what it
// seems to be.
func (c *assembly) itself() {
	for i := int16(0); i < 16; i += 4 {
		c.add(asm.StoreImm(asm.RFP, stackAsked+i, 0, asm.Word))
	}
	c.add(
		asm.StoreMem(asm.RFP, stackAsked+askedPort, port, asm.Half),
		asm.StoreMem(asm.RFP, stackAsked+askedReal, port, asm.Half),
		asm.StoreMem(asm.RFP, stackAsked+askedKind, kind, asm.Half),
		asm.StoreImm(asm.RFP, stackAsked+askedFlags, 0, asm.Half),
	)
}

// count adds a socket to those of the program that hold ports. The limit keeps
// one program from filling a table that serves all.
func (n *Network) count(c *assembly, full string) {
	room := c.fresh()
	c.add(
		asm.Mov.Imm(asm.R2, 1),
		fetchAdd(own, recordBound, asm.R2),
		asm.JLT.Imm(asm.R2, mostPorts, room),
		asm.Mov.Imm(asm.R2, -1), asm.AddAtomic.Mem(own, asm.R2, asm.Word, recordBound),
		asm.Ja.Label(full),
	)
	c.label(room)
}

// enter adds an entry of kind and port with the port at stackValue, or one to
// the sockets that share it. It goes to failed when there is another: two
// sockets at once asked for one port, and the kernel chose twice.
func (n *Network) enter(c *assembly, failed string) {
	made, there := c.fresh(), c.fresh()
	n.lookup(c)
	c.add(
		asm.JNE.Imm(asm.R0, 0, there),
		asm.StoreImm(asm.RFP, stackValue+2, 0, asm.Half),
		asm.StoreImm(asm.RFP, stackValue+4, 1, asm.Word),
		asm.LoadMapPtr(asm.R1, n.ports.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackKey),
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, stackValue),
		asm.Mov.Imm(asm.R4, 1), // BPF_NOEXIST
		asm.FnMapUpdateElem.Call(),
		asm.JNE.Imm(asm.R0, 0, failed),
		asm.Ja.Label(made),
	)
	c.label(there)
	c.add(
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Half),
		asm.LoadMem(asm.R3, asm.RFP, stackValue, asm.Half),
		asm.JNE.Reg(asm.R2, asm.R3, failed),
		asm.Mov.Imm(asm.R2, 1),
		asm.AddAtomic.Mem(asm.R0, asm.R2, asm.Word, 4),
	)
	c.label(made)
}

// released forgets what bound remembered, with the last socket that shares it.
func (n *Network) released() asm.Instructions {
	c := &assembly{}
	n.begin(c)
	c.add(
		asm.LoadMapPtr(asm.R1, n.asked.FD()),
		asm.Mov.Reg(asm.R2, ctx), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "ok"),
		asm.Mov.Reg(ctx, asm.R0),
		asm.LoadMem(asm.R2, ctx, askedFlags, asm.Half), asm.And.Imm(asm.R2, flagCounted), asm.JEq.Imm(asm.R2, 0, "ok"),
		asm.StoreImm(ctx, askedFlags, 0, asm.Half),
		asm.Mov.Imm(asm.R2, -1), asm.AddAtomic.Mem(own, asm.R2, asm.Word, recordBound),
		asm.LoadMem(kind, ctx, askedKind, asm.Half),
		asm.LoadMem(port, ctx, askedPort, asm.Half),
		asm.JSet.Imm(kind, kindFree, "forward"),
	)
	c.canonical()
	c.label("forward")
	n.leave(c)
	c.add(
		asm.JSet.Imm(kind, kindFree, "ok"),
		asm.LoadMem(port, ctx, askedReal, asm.Half),
		asm.Or.Imm(kind, kindBack),
	)
	n.leave(c)
	c.end("ok", 1)
	return c.Instructions
}

// leave takes one from the sockets that share an entry.
func (n *Network) leave(c *assembly) {
	done := c.fresh()
	n.lookup(c)
	c.add(
		asm.JEq.Imm(asm.R0, 0, done),
		asm.Mov.Imm(asm.R2, -1),
		fetchAdd(asm.R0, 4, asm.R2),
		asm.JNE.Imm(asm.R2, 1, done),
		asm.LoadMapPtr(asm.R1, n.ports.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapDeleteElem.Call(),
	)
	c.label(done)
}
