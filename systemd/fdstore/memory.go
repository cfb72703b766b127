package fdstore

import (
	"bytes"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Shrink gives back the memory that this process does not need to wait: what Go
// has freed, and the pages of the binary, which is a whole daemon; those that are
// used again come back from the file, or from the cache that still has it. It
// blocks for a garbage collection, and is safe for concurrent use.
func Shrink() {
	debug.FreeOSMemory()
	DropPages()
}

// DropPages gives back the pages of the binary alone: of what ran once and is over.
func DropPages() {
	text, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range filePages(text) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, m.from, m.to-m.from, unix.MADV_DONTNEED)
	}
}

// span is a part of the address space.
type span struct{ from, to uintptr }

// filePages finds in smaps (proc_pid_smaps(5)) what is mapped from a file,
// cannot be written, and has no page that differs from the file's: relocation
// leaves some.
func filePages(smaps []byte) (all []span) {
	var at span
	for line := range bytes.Lines(smaps) {
		f := strings.Fields(string(line))
		if len(f) >= 5 && strings.Contains(f[0], "-") {
			at = span{}
			if low, high, _ := strings.Cut(f[0], "-"); (f[1] == "r-xp" || f[1] == "r--p") && f[4] != "0" {
				at = span{address(low), address(high)}
			}
		}
		if len(f) == 3 && f[0] == "Anonymous:" && f[1] == "0" && at.to > at.from {
			all = append(all, at)
		}
	}
	return all
}

// address reads a hexadecimal address, 0 if it is none.
func address(s string) uintptr {
	n, err := strconv.ParseUint(s, 16, int(unsafe.Sizeof(uintptr(0)))*8)
	if err != nil {
		return 0
	}
	return uintptr(n)
}
