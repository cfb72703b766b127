package sandbox

import "golang.org/x/sys/unix"

const (
	arch = unix.AUDIT_ARCH_AARCH64
	// foreign is nothing: what this kernel runs beside it is another architecture.
	foreign = 0
)

// refusedHere are calls that only this architecture has.
var refusedHere []uint32
