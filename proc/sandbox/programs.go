package sandbox

import (
	"bytes"
	"cmp"
	_ "embed" // of the object
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"slices"
	"sync"
	"weak"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// object is bpf/programs.c as "make bpf" compiled it, for every processor that is
// little-endian.
//
//go:embed bpf/programs.o
var object []byte

// programs are eBPF programs in the kernel, in the order in which they are to be
// attached, and their maps by name.
type programs struct {
	hooks []hook
	maps  map[string]*ebpf.Map
}

// hook is a program, where it belongs, and its name in the kernel.
type hook struct {
	at      ebpf.AttachType
	name    string
	program *ebpf.Program
}

// source is the object before the kernel has any of it.
type source struct{ spec *ebpf.CollectionSpec }

// lastRead is the object as it was read last. A daemon loads its walls one after the
// other at its start, and reading takes 0.4 MB: they share it, and nobody keeps it.
var lastRead struct {
	sync.Mutex
	spec weak.Pointer[ebpf.CollectionSpec]
}

// readObject returns what nobody may change.
func readObject() (source, error) {
	lastRead.Lock()
	defer lastRead.Unlock()
	if spec := lastRead.spec.Value(); spec != nil {
		return source{spec}, nil
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return source{}, fmt.Errorf("cannot read the eBPF programs of this binary: %w", err)
	}
	lastRead.spec = weak.Make(spec)
	return source{spec}, nil
}

// constants is the map of the programs' constants, which are words, with these values.
func (s source) constants(values map[string]uint32) *ebpf.MapSpec {
	m := s.spec.Maps[constantsName].Copy()
	words := make([]byte, m.ValueSize)
	for name, value := range values {
		binary.NativeEndian.PutUint32(words[s.spec.Variables[name].Offset:], value)
	}
	m.Contents = []ebpf.MapKV{{Key: uint32(0), Value: words}}
	return m
}

// constantsName is the section of the object that has them.
const constantsName = ".rodata"

// word is what a constant says yes or no with.
func word(yes bool) uint32 {
	if yes {
		return 1
	}
	return 0
}

// can tells whether a program loads that does one thing that not every kernel can.
// It fails when nobody can tell just now.
func (s source) can(program string) (bool, error) {
	p, err := ebpf.NewProgram(s.spec.Programs[program])
	if err == nil {
		_ = p.Close() // it was only a question
	}
	if Passes(err) {
		return false, err
	}
	return err == nil, nil
}

// load puts programs into the kernel, all under one name but for those that are known
// by their own, and the maps that they use, in place of those of the object where instead has them.
func (s source) load(as string, instead map[string]*ebpf.MapSpec, earlier map[string]*ebpf.Map, names ...string) (*programs, error) {
	part := &ebpf.CollectionSpec{
		Maps: map[string]*ebpf.MapSpec{}, Programs: map[string]*ebpf.ProgramSpec{}, Types: s.spec.Types, ByteOrder: s.spec.ByteOrder,
	}
	for _, name := range names {
		p := s.spec.Programs[name].Copy()
		p.Name = cmp.Or(ownNames[name], as)
		part.Programs[name] = p
		for _, i := range p.Instructions {
			if of := i.Reference(); i.IsLoadFromMap() {
				part.Maps[of] = cmp.Or(instead[of], s.spec.Maps[of])
			}
		}
	}
	all, err := ebpf.NewCollectionWithOptions(part, ebpf.CollectionOptions{MapReplacements: earlier})
	if err != nil {
		return nil, err
	}
	p := &programs{maps: all.Maps}
	for _, name := range names {
		p.hooks = append(p.hooks, hook{part.Programs[name].AttachType, part.Programs[name].Name, all.Programs[name]})
	}
	if err := p.named(p.hooks[0].name); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

// named fails unless the kernel knows the first program by its name: a later daemon
// could not find them, nor their maps. The library asks the kernel for names once in
// the life of a process, and takes any error for a no.
func (p *programs) named(as string) error {
	info, err := p.hooks[0].program.Info()
	if err == nil && info.Name != as {
		err = &passed{errors.New("the kernel was short of something when it was asked for names, and only a new process can ask again")}
	}
	return err
}

// attach puts a cgroup v2 group, given by its directory, under the programs, and
// returns its id.
func (p *programs) attach(group *os.File) (id uint64, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(group.Fd()), &st); err != nil {
		return 0, fmt.Errorf("cannot tell the group's id: %w", err)
	}
	for _, h := range p.hooks {
		if err := h.attach(group); err != nil {
			return 0, err
		}
	}
	return st.Ino, nil
}

// attachSome puts a group under those programs that lacking has the likes of.
func (p *programs) attachSome(group *os.File, lacking []hook) error {
	for _, h := range p.hooks {
		if !slices.ContainsFunc(lacking, func(l hook) bool { return l.at == h.at && l.name == h.name }) {
			continue
		}
		if err := h.attach(group); err != nil {
			return err
		}
	}
	return nil
}

func (h hook) attach(group *os.File) error {
	err := link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(group.Fd()), Program: h.program, Attach: h.at,
		Flags: unix.BPF_F_ALLOW_MULTI, // beside those of systemd, and of groups above
	})
	if err != nil {
		return fmt.Errorf("%s: %w", h.at, err)
	}
	return nil
}

// attached returns what the kernel knows of the programs of a name that a group has at a
// hook.
func attached(group *os.File, at ebpf.AttachType, name string) ([]*ebpf.ProgramInfo, error) {
	all, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: at})
	if err != nil {
		return nil, fmt.Errorf("cannot find who counts at %s: %w", at, err)
	}
	var found []*ebpf.ProgramInfo
	for _, p := range all.Programs {
		program, err := ebpf.NewProgramFromID(p.ID)
		if err != nil {
			return nil, fmt.Errorf("cannot find who counts at %s: %w", at, err)
		}
		info, err := program.Info()
		_ = program.Close() // the group keeps it
		if err != nil {
			return nil, err
		}
		if info.Name == name {
			found = append(found, info)
		}
	}
	return found, nil
}

// mapsAt returns maps of the programs of a name that a group has at a hook, by theirs;
// nil when there is no program with all of them. Maps that are not asked for are the
// program's alone, as its constants are.
func mapsAt(group *os.File, at ebpf.AttachType, name string, names ...string) (map[string]*ebpf.Map, error) {
	programs, err := attached(group, at, name)
	if err != nil {
		return nil, err
	}
	for _, info := range programs {
		found := map[string]*ebpf.Map{}
		ids, _ := info.MapIDs()
		for _, id := range ids {
			m, err := ebpf.NewMapFromID(id)
			var of *ebpf.MapInfo
			if err == nil {
				of, err = m.Info()
			}
			switch {
			case err != nil:
				closeMaps(found)
				return nil, errors.Join(err, m.Close()) // of nil, nothing
			case slices.Contains(names, of.Name):
				found[of.Name] = m
			default:
				_ = m.Close() // the program keeps it
			}
		}
		if len(found) == len(names) {
			return found, nil
		}
		closeMaps(found)
	}
	return nil, nil
}

// Close gives up the programs and maps. Groups keep theirs. Of nil, it does nothing.
func (p *programs) Close() error {
	if p == nil {
		return nil
	}
	var errs []error
	for _, h := range p.hooks {
		errs = append(errs, h.program.Close())
	}
	for _, m := range p.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// htons returns a port as the programs store it, in network order.
func htons(port uint16) uint16 { return bits.ReverseBytes16(port) }
