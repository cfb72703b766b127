package sandbox

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
	"golang.org/x/sys/unix"
)

// unloaded is the error of eBPF programs that did not load: a Missing where the
// kernel does not let this process load any, or lacks what they need.
//
// The library explains an error of the kernel by asking what the kernel can do, takes
// every error of that question for a no, and remembers it for the life of the
// process. So "not supported" is its guess, in place of an error that it does not
// tell: it says nothing before loadable has asked again.
func unloaded(what string, err error) error {
	if errors.Is(err, ebpf.ErrNotSupported) && !errors.Is(err, enotsupp) {
		because := loadable()
		if because == nil {
			return &passed{fmt.Errorf("cannot load %s, for an error of a moment: %w", what, err)}
		}
		err = because
	}
	if errors.Is(err, unix.EPERM) {
		err = unix.EPERM // the library adds a guess at a limit that Linux has given up in 5.11
	}
	return refusal(fmt.Errorf("cannot load %s: %w", what, err))
}

// enotsupp is what the kernel itself says "not supported" with.
const enotsupp = syscall.Errno(524)

// passed is an error that was one of the moment, whatever it says.
type passed struct{ error }

// Unwrap returns the error.
func (p *passed) Unwrap() error { return p.error }

// Is tells Passes.
func (p *passed) Is(err error) bool { return err == unix.EAGAIN }

// loadable asks the kernel for one of each kind that the programs are made of, in
// ways that tell errors apart, and returns its error.
func loadable() error {
	for _, m := range []mapAttributes{
		{kind: uint32(ebpf.Hash), key: 4, value: 4, entries: 1, flags: unix.BPF_F_NO_PREALLOC},
		{kind: uint32(ebpf.Array), key: 4, value: 4, entries: 1, flags: unix.BPF_F_RDONLY_PROG},
	} {
		fd, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_MAP_CREATE, uintptr(unsafe.Pointer(&m)), unsafe.Sizeof(m))
		if errno != 0 {
			return errno
		}
		_ = unix.Close(int(fd)) // it was only a question
	}
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.CGroupSKB, License: "MIT", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 1), asm.Return()},
	})
	if err != nil {
		return err
	}
	_ = p.Close() // it was only a question
	types, err := btf.NewBuilder([]btf.Type{&btf.Int{Name: "int", Size: 4}}, nil)
	if err != nil {
		return err
	}
	h, err := btf.NewHandle(types)
	if err != nil {
		return err
	}
	return h.Close()
}

// mapAttributes are the first of those of BPF_MAP_CREATE (bpf(2)).
type mapAttributes struct{ kind, key, value, entries, flags uint32 }
