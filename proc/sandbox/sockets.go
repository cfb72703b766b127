package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/cilium/ebpf"
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
// counted when it binds or connects, or when it listens, which nothing can refuse,
// so the program is told of. A port whose listener is closed counts as a socket until
// the last connection that the listener accepted has ended. They live as long as the group, whatever becomes of the
// daemon; the next one finds their counters by its survivors.
//
// Its methods are safe for concurrent use, but for Close, which MUST be the last
// call.
type Sockets struct {
	bounds  SocketBounds
	loaded  *programs
	groups  *ebpf.Map // group to socketRecord
	spent   *ebpf.Map // account to its sockets; allAccounts to those of all
	says    bool      // can answer another error than EPERM
	reader  *ringbuf.Reader
	reading sync.WaitGroup

	mu     sync.Mutex
	excess map[uint64]*excess // by group
}

// excess is what to do about a group that listens on sockets beyond the bounds.
type excess struct {
	tell   func() // nil until OnExcess
	before bool   // it has done so until then
}

// ownNames are those of programs that an earlier daemon may lack beside what it has at the same hook.
var ownNames = map[string]string{"port_used": "berth_port"}

// socketRecord is what is known of a group.
type socketRecord struct {
	Account uint32
	Held    uint32 // sockets that are marked
	Refused uint32
	_       uint32
	Group   uint64 // its id
}

const (
	allAccounts = 0
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
	if err != nil {
		return nil, errors.Join(unloaded("the programs that count sockets", err), s.Close())
	}
	return s, nil
}

func (s *Sockets) load(earlier []string) error {
	o, err := readObject()
	if err != nil {
		return err
	}
	if s.says, err = o.can("can_set_retval_of_socket"); err != nil {
		return err
	}
	found, err := countedBefore(earlier)
	if err != nil {
		return err
	}
	s.loaded, err = s.programs(o, found)
	closeMaps(found)
	if err != nil {
		return err
	}
	s.groups, s.spent = s.loaded.maps[groupsName], s.loaded.maps[spentName]
	if err := s.spent.Update(uint32(allAccounts), uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return err
	}
	return s.listen()
}

// programs are those that count in these maps, or in new ones when there are none.
func (s *Sockets) programs(o source, found map[string]*ebpf.Map) (*programs, error) {
	strays := o.spec.Maps[straysName].Copy()
	strays.MaxEntries = uint32(os.Getpagesize())
	instead := map[string]*ebpf.MapSpec{straysName: strays, constantsName: o.constants(map[string]uint32{
		"sets_retval": word(s.says), "program_sockets": uint32(s.bounds.Program), "account_sockets": uint32(s.bounds.Account), "all_sockets": uint32(s.bounds.All),
	})}
	// The one that counts down goes first: what the others count is never forgotten. The one
	// that knows all maps goes last: a later daemon finds them once the others are there.
	return o.load(socketsName, instead, found, "socket_gone", "socket_made", "socket_connects4", "socket_connects6", "socket_binds4", "socket_binds6", "port_used", "socket_listens")
}

// socketMaps returns the maps of the programs that count a group's sockets, by
// their names; nil when none do.
func socketMaps(group *os.File) (map[string]*ebpf.Map, error) {
	// At the hook whose program has all of them.
	return mapsAt(group, ebpf.AttachCGroupSockOps, socketsName, groupsName, spentName, marksName, straysName)
}

// countedBefore returns the maps of the first group that an earlier daemon's
// programs count, nil when none do. It fails when nobody can tell just now.
func countedBefore(groups []string) (map[string]*ebpf.Map, error) {
	for _, dir := range groups {
		var found map[string]*ebpf.Map
		group, err := os.Open(dir)
		if err == nil {
			found, err = socketMaps(group)
			_ = group.Close() // nothing was written
		}
		if found != nil || Passes(err) {
			return found, err
		}
		// It has ended, or nobody counts.
	}
	return nil, nil
}

func closeMaps(maps map[string]*ebpf.Map) {
	for _, m := range maps {
		_ = m.Close() // the kernel keeps it as long as somebody uses it
	}
}

// listen tells of groups that have more sockets than they may.
func (s *Sockets) listen() error {
	var err error
	if s.reader, err = ringbuf.NewReader(s.loaded.maps[straysName]); err != nil {
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
			s.exceeded(binary.NativeEndian.Uint64(r.RawSample))
		}
	})
	return nil
}

// exceeded is the event that a group listens on sockets beyond the bounds. It may come
// before anybody asks for it: a program begins before its start is through.
func (s *Sockets) exceeded(group uint64) {
	s.mu.Lock()
	var tell func()
	if e := s.excess[group]; e != nil {
		tell = e.tell
		e.before = tell == nil
	}
	s.mu.Unlock()
	if tell != nil {
		tell()
	}
}

// count returns the count of a group that is enclosed.
func (s *Sockets) count(groups *ebpf.Map, group uint64, own bool) *SocketCount {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.excess == nil {
		s.excess = map[uint64]*excess{}
	}
	s.excess[group] = &excess{}
	return &SocketCount{of: s, groups: groups, group: group, own: own}
}

// Enclose begins to count for a cgroup v2 group, given by its directory, and for
// the account whose program it runs, which is 1 at least. Groups below it are
// part of it. Sockets that are there already are not counted, and a group that is
// counted already is counted on. Close what it returns.
func (s *Sockets) Enclose(group *os.File, account uint32) (*SocketCount, error) {
	fail := func(err error) (*SocketCount, error) {
		return nil, fmt.Errorf("cannot count the program's sockets: %w", err)
	}
	found, err := socketMaps(group)
	if err != nil {
		return fail(err)
	}
	if found != nil {
		var st unix.Stat_t
		err := errors.Join(s.complete(group, found), unix.Fstat(int(group.Fd()), &st))
		groups := found[groupsName]
		delete(found, groupsName)
		closeMaps(found)
		if err != nil {
			return fail(errors.Join(err, groups.Close()))
		}
		return s.count(groups, st.Ino, true), nil
	}
	if err := s.spent.Update(account, uint32(0), ebpf.UpdateNoExist); err != nil && !errors.Is(err, ebpf.ErrKeyExist) {
		return fail(err)
	}
	id, err := s.loaded.attach(group)
	if err != nil {
		return fail(err)
	}
	if err := s.groups.Update(id, socketRecord{Account: account, Group: id}, ebpf.UpdateExist); err != nil {
		return fail(err)
	}
	return s.count(s.groups, id, false), nil
}

// complete attaches what the daemon that began to count a group did not have yet.
// found are the maps that it counts in.
func (s *Sockets) complete(group *os.File, found map[string]*ebpf.Map) error {
	var lacking []hook
	for _, h := range s.loaded.hooks {
		there, err := attached(group, h.at, h.name)
		if err != nil {
			return err
		}
		if len(there) == 0 {
			lacking = append(lacking, h)
		}
	}
	if len(lacking) == 0 {
		return nil
	}
	same, err := sameMap(found[groupsName], s.groups)
	if err != nil {
		return err
	}
	if same {
		return s.loaded.attachSome(group, lacking)
	}
	o, err := readObject()
	if err != nil {
		return err
	}
	own, err := s.programs(o, found)
	if err != nil {
		return err
	}
	return errors.Join(own.attachSome(group, lacking), own.Close())
}

func sameMap(a, b *ebpf.Map) (bool, error) {
	of, err := a.Info()
	if err != nil {
		return false, err
	}
	other, err := b.Info()
	if err != nil {
		return false, err
	}
	mine, there := of.ID()
	its, here := other.ID()
	return there && here && mine == its, nil
}

// Close gives up the programs. Groups that are still there are counted on.
func (s *Sockets) Close() error {
	var errs []error
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
		s.reading.Wait()
	}
	return errors.Join(append(errs, s.loaded.Close())...)
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
// sockets beyond the bounds, which nothing can refuse; at once, when it has done so
// already. Of nil, it does nothing.
func (c *SocketCount) OnExcess(tell func()) {
	if c == nil {
		return
	}
	c.of.mu.Lock()
	e := c.of.excess[c.group]
	e.tell = tell
	before := e.before
	c.of.mu.Unlock()
	if before {
		tell()
	}
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
