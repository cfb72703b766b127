package sandbox

import (
	"errors"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Features is what the kernel offers for walls around programs.
type Features struct {
	Landlock int   // its ABI version, 0 when there is none
	BPF      error // why eBPF programs cannot be loaded, nil when they can
}

// Probe asks the kernel what it offers. It changes nothing. What of it a
// program gets is found out by trying: see Judge.
func Probe() Features {
	f := Features{Landlock: landlockABI()}
	// BPF_PROG_GET_NEXT_ID needs the same rights as loading a program, and
	// answers ENOENT when there is none (bpf(2)).
	attr := struct{ start, next, flags uint32 }{}
	_, _, errno := unix.Syscall(unix.SYS_BPF, unix.BPF_PROG_GET_NEXT_ID, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr))
	if errno != 0 && !errors.Is(errno, unix.ENOENT) {
		f.BPF = errno
	}
	return f
}
