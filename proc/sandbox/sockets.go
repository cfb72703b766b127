package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"
)

// SocketBounds is how many IP sockets there may be at once: of one program, of
// the programs of one account together, and of all programs.
type SocketBounds struct {
	Program, Account, All int32
}

// Sockets counts the sockets that programs make, and refuses more than the
// bounds: connect(2) and listen(2) give a socket one of the host's ports without
// a bind that a Network would see, and there are fewer of those than programs
// could take. What a listener accepts has its listener's port and is not counted.
//
// eBPF programs are attached to the control group of each run. They mark a socket
// when it is made, and count a marked one down when it is closed. One that is not
// marked because a listener accepted it can be disconnected and used anew: it is
// counted when it connects, or when it listens, which nothing can refuse, so the
// program is told of. They live as long as the group, whatever becomes of the
// daemon; the next one finds their counters by its survivors.
//
// Its methods are safe for concurrent use, but for Close, which MUST be the last
// call.
type Sockets struct {
	bounds  SocketBounds
	groups  *ebpf.Map // group to socketRecord
	strays  *ebpf.Map // groups that listen on more sockets than they may have, as they do
	spent   *ebpf.Map // account to its sockets; allAccounts to those of all
	marks   *ebpf.Map // socket to the account that it counts for
	hooks   []hook    // in the order in which they are attached
	says    bool      // can answer another error than EPERM
	reader  *ringbuf.Reader
	reading sync.WaitGroup

	mu     sync.Mutex
	excess map[uint64]func() // what to do about a group
}

// socketRecord is what is known of a group.
type socketRecord struct {
	Account uint32
	Held    uint32 // sockets that are marked
	Refused uint32
	_       uint32
	Group   uint64 // its id
}

const socketAccount, socketHeld, socketRefused, socketGroup, socketSize = 0, 4, 8, 16, 24 // offsets

const (
	allAccounts = 0
	// mostAccounts bounds the table of accounts.
	mostAccounts = 1 << 16
	// The names by which a later daemon knows them. What the maps hold is part
	// of the names: who changes that changes them.
	socketsName, groupsName, spentName, marksName, straysName = "berth_socket", "berth_sock_grp", "berth_sock_acc", "berth_sock_mark", "berth_sock_over"
)

// NewSockets loads the programs. earlier are the directories of groups that a
// daemon before this one may have put under its own: what those count is counted
// on. It fails where the kernel lets nobody load eBPF, or not this process: then the
// error is a Missing.
func NewSockets(bounds SocketBounds, earlier ...string) (*Sockets, error) {
	s := &Sockets{bounds: bounds}
	err := s.load(earlier)
	if errors.Is(err, unix.EPERM) {
		err = unix.EPERM // the library adds a guess at a limit that Linux has given up in 5.11
	}
	if err != nil {
		return nil, refusal(errors.Join(fmt.Errorf("cannot load the programs that count sockets: %w", err), s.Close()))
	}
	return s, nil
}

func (s *Sockets) load(earlier []string) error {
	for _, dir := range earlier {
		group, err := os.Open(dir)
		if err != nil {
			continue // it has ended
		}
		found, err := socketMaps(group)
		_ = group.Close() // nothing was written
		if err == nil && found != nil {
			s.groups, s.spent, s.marks, s.strays = found[groupsName], found[spentName], found[marksName], found[straysName]
			break
		}
	}
	if s.groups == nil {
		if err := s.makeMaps(); err != nil {
			return err
		}
	}
	if err := s.spent.Update(uint32(allAccounts), uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return err
	}
	s.says = s.can(asm.Instructions{asm.Mov.Imm(asm.R1, -int32(unix.EMFILE)), asm.FnSetRetval.Call()})
	for _, p := range []source{
		// The one that counts down goes first: what the others count is never forgotten.
		{ebpf.AttachCgroupInetSockRelease, ebpf.CGroupSock, s.gone()},
		{ebpf.AttachCGroupInetSockCreate, ebpf.CGroupSock, s.taken(madeSocket)},
		{ebpf.AttachCGroupInet4Connect, ebpf.CGroupSockAddr, s.taken(connectingSocket)},
		{ebpf.AttachCGroupInet6Connect, ebpf.CGroupSockAddr, s.taken(connectingSocket)},
		{ebpf.AttachCGroupSockOps, ebpf.SockOps, s.taken(listeningSocket)},
	} {
		program, err := loadSocketProgram(p)
		if err != nil {
			return err
		}
		s.hooks = append(s.hooks, hook{p.at, program})
	}
	return s.listen()
}

// listen tells of groups that have more sockets than they may.
func (s *Sockets) listen() error {
	var err error
	if s.reader, err = ringbuf.NewReader(s.strays); err != nil {
		return err
	}
	s.reading.Go(func() {
		for {
			r, err := s.reader.Read()
			if err != nil {
				return // it is closed
			}
			if len(r.RawSample) < 8 {
				continue
			}
			s.mu.Lock()
			tell := s.excess[binary.NativeEndian.Uint64(r.RawSample)]
			s.mu.Unlock()
			if tell != nil {
				tell()
			}
		}
	})
	return nil
}

func (s *Sockets) makeMaps() error {
	word := &btf.Int{Name: "u32", Size: 4}
	var err error
	// A key of 8 bytes, the group's id, makes both programs share one entry.
	s.groups, err = ebpf.NewMap(&ebpf.MapSpec{Name: groupsName, Type: ebpf.CGroupStorage, KeySize: 8, ValueSize: socketSize})
	if err == nil {
		s.spent, err = ebpf.NewMap(&ebpf.MapSpec{
			Name: spentName, Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: mostAccounts, Flags: unix.BPF_F_NO_PREALLOC,
		})
	}
	if err == nil {
		s.strays, err = ebpf.NewMap(&ebpf.MapSpec{Name: straysName, Type: ebpf.RingBuf, MaxEntries: uint32(os.Getpagesize())})
	}
	if err == nil {
		s.marks, err = ebpf.NewMap(&ebpf.MapSpec{
			Name: marksName, Type: ebpf.SkStorage, KeySize: 4, ValueSize: 4, Flags: unix.BPF_F_NO_PREALLOC,
			// The kernel wants to know the types (bpf_sk_storage_map_alloc_check).
			Key: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed}, Value: word,
		})
	}
	return err
}

func loadSocketProgram(p source) (*ebpf.Program, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: socketsName, Type: p.kind, AttachType: p.at, License: "GPL", Instructions: p.code})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p.at, err)
	}
	return program, nil
}

// can tells whether a program of socket(2) may do this.
func (s *Sockets) can(what asm.Instructions) bool {
	p, err := loadSocketProgram(source{ebpf.AttachCGroupInetSockCreate, ebpf.CGroupSock, append(what, asm.Mov.Imm(asm.R0, 1), asm.Return())})
	if err == nil {
		_ = p.Close() // it was only a question
	}
	return err == nil
}

// Registers of all these programs, beside ctx and own.
const ofAccount, ofAll = asm.R8, asm.R9

// moment is when a socket is counted.
type moment int

const (
	madeSocket moment = iota
	connectingSocket
	listeningSocket
)

// Of struct bpf_sock_ops (include/uapi/linux/bpf.h).
const (
	opsOp, opsSock = 0, 184 // offsets
	opsListen      = 11     // BPF_SOCK_OPS_TCP_LISTEN_CB
)

// socket puts the socket into R2.
func (m moment) socket(c *assembly) {
	switch m {
	case madeSocket:
		c.add(asm.Mov.Reg(asm.R2, ctx))
	case connectingSocket:
		c.add(asm.LoadMem(asm.R2, ctx, addrSock, asm.DWord))
	case listeningSocket:
		c.add(asm.LoadMem(asm.R2, ctx, opsSock, asm.DWord), asm.JEq.Imm(asm.R2, 0, "ok"))
	}
}

// taken counts a socket in all three places and marks it. When there are more than
// there may be it refuses, unless the moment is one that cannot be: then it tells.
func (s *Sockets) taken(m moment) asm.Instructions {
	c := &assembly{}
	s.begin(c)
	if m == listeningSocket {
		c.add(asm.LoadMem(asm.R2, ctx, opsOp, asm.Word), asm.JNE.Imm(asm.R2, opsListen, "ok"))
	}
	c.add(
		asm.LoadMem(asm.R2, own, socketAccount, asm.Word),
		asm.JEq.Imm(asm.R2, allAccounts, "ok"), // nobody has said yet whose it is
		asm.StoreMem(asm.RFP, stackValue, asm.R2, asm.Word),
	)
	if m != madeSocket {
		c.add(asm.LoadMapPtr(asm.R1, s.marks.FD()))
		m.socket(c)
		c.add(
			asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
			asm.FnSkStorageGet.Call(),
			asm.JNE.Imm(asm.R0, 0, "ok"), // it is counted
		)
	}
	s.counters(c, "ok")
	places := s.places()
	if m == listeningSocket {
		c.add(asm.StoreImm(asm.RFP, stackNet, 0, asm.Word))
	}
	for i, place := range places {
		c.add(asm.Mov.Imm(asm.R2, 1), fetchAdd(place.base, place.offset, asm.R2))
		if m != listeningSocket {
			c.add(asm.JGE.Imm(asm.R2, place.most, "full"+strconv.Itoa(i)))
			continue
		}
		next := c.fresh()
		c.add(asm.JLT.Imm(asm.R2, place.most, next), asm.StoreImm(asm.RFP, stackNet, 1, asm.Word))
		c.label(next)
	}
	c.add(asm.LoadMapPtr(asm.R1, s.marks.FD()))
	m.socket(c)
	c.add(
		asm.Mov.Reg(asm.R3, asm.RFP), asm.Add.Imm(asm.R3, stackValue),
		asm.Mov.Imm(asm.R4, storageCreate),
		asm.FnSkStorageGet.Call(),
		asm.JNE.Imm(asm.R0, 0, "marked"), // else the kernel has no memory for the mark
	)
	for i := len(places) - 1; i >= 0; i-- {
		c.label("full" + strconv.Itoa(i))
		c.add(asm.Mov.Imm(asm.R2, -1), asm.AddAtomic.Mem(places[i].base, asm.R2, asm.Word, places[i].offset))
	}
	c.add(asm.Mov.Imm(asm.R2, 1), asm.AddAtomic.Mem(own, asm.R2, asm.Word, socketRefused))
	if s.says && m != listeningSocket {
		c.add(asm.Mov.Imm(asm.R1, -int32(unix.EMFILE)), asm.FnSetRetval.Call())
	}
	c.end("", 0)
	c.label("marked")
	if m == listeningSocket {
		s.tell(c)
	}
	c.end("ok", 1)
	return c.Instructions
}

// tell writes down the group whose sockets are too many, if they are.
func (s *Sockets) tell(c *assembly) {
	c.add(
		asm.LoadMem(asm.R2, asm.RFP, stackNet, asm.Word), asm.JEq.Imm(asm.R2, 0, "ok"),
		asm.LoadMem(asm.R2, own, socketGroup, asm.DWord), asm.StoreMem(asm.RFP, stackNet, asm.R2, asm.DWord),
		asm.LoadMapPtr(asm.R1, s.strays.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackNet),
		asm.Mov.Imm(asm.R3, 8), asm.Mov.Imm(asm.R4, 0),
		asm.FnRingbufOutput.Call(), // full: somebody is told already
	)
}

// gone counts a marked socket down, once.
func (s *Sockets) gone() asm.Instructions {
	c := &assembly{}
	s.begin(c)
	c.add(
		asm.LoadMapPtr(asm.R1, s.marks.FD()),
		asm.Mov.Reg(asm.R2, ctx), asm.Mov.Imm(asm.R3, 0), asm.Mov.Imm(asm.R4, 0),
		asm.FnSkStorageGet.Call(),
		asm.JEq.Imm(asm.R0, 0, "ok"),
		asm.LoadMem(asm.R2, asm.R0, 0, asm.Word),
		asm.JEq.Imm(asm.R2, 0, "ok"),
		asm.StoreMem(asm.RFP, stackValue, asm.R2, asm.Word),
		asm.StoreImm(asm.R0, 0, 0, asm.Word),
	)
	s.counters(c, "ok")
	for _, place := range s.places() {
		c.add(asm.Mov.Imm(asm.R2, -1), asm.AddAtomic.Mem(place.base, asm.R2, asm.Word, place.offset))
	}
	c.end("ok", 1)
	return c.Instructions
}

func (s *Sockets) begin(c *assembly) {
	c.add(
		asm.Mov.Reg(ctx, asm.R1),
		asm.LoadMapPtr(asm.R1, s.groups.FD()),
		asm.Mov.Imm(asm.R2, 0),
		asm.FnGetLocalStorage.Call(), // never NULL: made when the program was attached
		asm.Mov.Reg(own, asm.R0),
	)
}

// counters finds those of the account at stackValue, and of all. Both were there
// before the group was.
func (s *Sockets) counters(c *assembly, missing string) {
	c.add(
		asm.LoadMapPtr(asm.R1, s.spent.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackValue),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, missing),
		asm.Mov.Reg(ofAccount, asm.R0),
		asm.StoreImm(asm.RFP, stackKey, allAccounts, asm.Word),
		asm.LoadMapPtr(asm.R1, s.spent.FD()),
		asm.Mov.Reg(asm.R2, asm.RFP), asm.Add.Imm(asm.R2, stackKey),
		asm.FnMapLookupElem.Call(),
		asm.JEq.Imm(asm.R0, 0, missing),
		asm.Mov.Reg(ofAll, asm.R0),
	)
}

// socketPlace is where sockets are counted, and how many there may be.
type socketPlace struct {
	base   asm.Register
	offset int16
	most   int32
}

func (s *Sockets) places() []socketPlace {
	return []socketPlace{{own, socketHeld, s.bounds.Program}, {ofAccount, 0, s.bounds.Account}, {ofAll, 0, s.bounds.All}}
}

// Enclose begins to count for a cgroup v2 group, given by its directory, and for
// the account whose program it runs, which is 1 at least. Groups below it are
// part of it. Sockets that are there already are not counted, and a group that is
// counted already is counted on. Close what it returns.
func (s *Sockets) Enclose(group *os.File, account uint32) (*SocketCount, error) {
	fail := func(err error) (*SocketCount, error) {
		return nil, fmt.Errorf("cannot count the program's sockets: %w", err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(group.Fd()), &st); err != nil {
		return fail(err)
	}
	found, err := socketMaps(group)
	if err != nil {
		return fail(err)
	}
	if found != nil {
		count := &SocketCount{of: s, groups: found[groupsName], group: st.Ino, own: true}
		return count, errors.Join(found[spentName].Close(), found[marksName].Close(), found[straysName].Close())
	}
	if err := s.spent.Update(account, uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fail(err)
	}
	for _, h := range s.hooks {
		err := link.RawAttachProgram(link.RawAttachProgramOptions{
			Target: int(group.Fd()), Program: h.program, Attach: h.at,
			Flags: unix.BPF_F_ALLOW_MULTI, // beside those of systemd, and of groups above
		})
		if err != nil {
			return fail(fmt.Errorf("%s: %w", h.at, err))
		}
	}
	if err := s.groups.Update(st.Ino, socketRecord{Account: account, Group: st.Ino}, ebpf.UpdateExist); err != nil {
		return fail(err)
	}
	return &SocketCount{of: s, groups: s.groups, group: st.Ino}, nil
}

// socketMaps returns the maps of the programs that count a group's sockets, by
// their names; nil when none do.
func socketMaps(group *os.File) (map[string]*ebpf.Map, error) {
	attached, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: ebpf.AttachCGroupSockOps}) // which has all of them
	if err != nil {
		return nil, fmt.Errorf("cannot find who counts: %w", err)
	}
	for _, p := range attached.Programs {
		found, err := mapsOf(p.ID, socketsName)
		if err != nil || found[groupsName] != nil && found[spentName] != nil && found[marksName] != nil && found[straysName] != nil {
			return found, err
		}
	}
	return nil, nil
}

// mapsOf returns the maps of a program of that name by theirs, nil of any other.
func mapsOf(id ebpf.ProgramID, name string) (map[string]*ebpf.Map, error) {
	program, err := ebpf.NewProgramFromID(id)
	if err != nil {
		return nil, err
	}
	defer func() { _ = program.Close() }() // the group keeps it
	info, err := program.Info()
	if err != nil || info.Name != name {
		return nil, err
	}
	found := map[string]*ebpf.Map{}
	ids, _ := info.MapIDs()
	for _, id := range ids {
		m, err := ebpf.NewMapFromID(id)
		var of *ebpf.MapInfo
		if err == nil {
			of, err = m.Info()
		}
		if err != nil {
			return nil, err
		}
		found[of.Name] = m
	}
	return found, nil
}

// Close gives up the programs. Groups that are still there are counted on.
func (s *Sockets) Close() error {
	var errs []error
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
		s.reading.Wait()
	}
	for _, h := range s.hooks {
		errs = append(errs, h.program.Close())
	}
	for _, m := range []*ebpf.Map{s.groups, s.spent, s.marks, s.strays} {
		if m != nil {
			errs = append(errs, m.Close())
		}
	}
	return errors.Join(errs...)
}

// Held returns how many sockets an account's programs hold, 0 for those of all.
func (s *Sockets) Held(account uint32) (int, error) {
	var n uint32
	if err := s.spent.Lookup(account, &n); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return 0, fmt.Errorf("cannot read how many sockets there are: %w", err)
	}
	return int(n), nil
}

// Says tells whether a program that has too many sockets finds EMFILE, or EPERM
// (before Linux 5.18).
func (s *Sockets) Says() bool { return s.says }

// SocketCount is the sockets of one group. Its methods are safe for concurrent
// use, but for Close, which MUST be the last call; nil has counted none.
type SocketCount struct {
	of     *Sockets
	groups *ebpf.Map
	group  uint64 // its id, which is the inode number of its directory
	own    bool   // groups is nobody else's
}

// Read returns how many sockets the group holds, and how many it was refused.
func (c *SocketCount) Read() (held, refused int, err error) {
	if c == nil {
		return 0, 0, nil
	}
	var r socketRecord
	if err := c.groups.Lookup(c.group, &r); err != nil {
		return 0, 0, fmt.Errorf("cannot read the group's sockets: %w", err)
	}
	return int(r.Held), int(r.Refused), nil
}

// OnExcess calls tell, on the goroutine of all groups, when the group listens on
// sockets beyond the bounds, which nothing can refuse. Of nil, it does nothing.
func (c *SocketCount) OnExcess(tell func()) {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	if c.of.excess == nil {
		c.of.excess = map[uint64]func(){}
	}
	c.of.excess[c.group] = tell
}

// Close gives up the count. The group is counted on. Of nil, it does nothing.
func (c *SocketCount) Close() error {
	if c == nil {
		return nil
	}
	c.of.mu.Lock()
	delete(c.of.excess, c.group)
	c.of.mu.Unlock()
	if !c.own {
		return nil
	}
	return c.groups.Close()
}
