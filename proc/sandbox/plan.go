package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Plan is what a child does before it is a program: system calls, one after the other.
// The daemon decides all of it, and the child (helper/helper.c, Execute) only makes the
// calls. The first that fails ends the child, and Refused says what that means.
type Plan struct {
	calls []call
	data  []byte // what arguments point to

	doing string // completes "cannot ..." for the calls that are added now
	wall  bool   // they put up a wall: see Missing
}

// call is one system call.
type call struct {
	callWords
	doing string
	wall  bool
}

// callWords is struct call of helper.c.
type callWords struct {
	nr    uint64
	args  [5]uint64
	pass  [2]uint16
	again uint16
	skip  uint16
}

// headWords is struct plan of helper.c.
type headWords struct{ count, calls uint64 }

// What helper.c and the daemon agree on.
const (
	ErrorsFD    = 3   // of a child: the socket of the daemon where it says what failed
	PlanFD      = 4   // of a child: its plan
	Refusal     = 127 // is the status of a child whose plan failed
	nextFD      = 4   // what the next open returns, once the plan's descriptor is closed
	planAddress = 1 << 32
	planSize    = 1 << 24 // more than execve takes (MAX_ARG_STRINGS in kernels with pages of 4096 bytes)
	anyError    = math.MaxUint16
	tries       = 400
	pauseOfTry  = 5e6 // nanoseconds
	signals     = 64  // _NSIG of the kernel
)

// NewPlan begins a plan: the child closes what it was not to inherit, and ignores no signal.
func NewPlan() *Plan {
	p := &Plan{data: make([]byte, unsafe.Sizeof(headWords{}), 16<<10)}
	p.To("close its descriptors")
	p.call(unix.SYS_FCNTL, ErrorsFD, unix.F_SETFD, unix.FD_CLOEXEC)
	p.call(unix.SYS_CLOSE, PlanFD)
	p.call(unix.SYS_CLOSE_RANGE, PlanFD, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC) // at execve: Go's runtime needs its own
	// What is ignored where the daemon was started, by nohup or for a job of a shell, the Go
	// runtime leaves so, and execve(2) keeps it: no Ctrl-C would reach a program.
	p.To("take signals as they come")
	byDefault := p.keep(words(0, 0, 0, 0)) // struct sigaction of the kernel: SIG_DFL
	for s := 1; s <= signals; s++ {
		if s != int(unix.SIGKILL) && s != int(unix.SIGSTOP) {
			p.call(unix.SYS_RT_SIGACTION, s, byDefault, 0, signals/8)
		}
	}
	return p
}

// To says what the calls are for that are added from now on: it completes "cannot ...".
func (p *Plan) To(do string, args ...any) {
	p.doing = fmt.Sprintf(do, args...)
}

// call adds a system call. Strings and bytes are handed to it by their address.
func (p *Plan) call(nr uintptr, args ...any) *call {
	c := call{callWords: callWords{nr: uint64(nr)}, doing: p.doing, wall: p.wall}
	for i, arg := range args {
		switch a := arg.(type) {
		case int:
			c.args[i] = uint64(a)
		case uint64:
			c.args[i] = a
		case string:
			c.args[i] = p.keep(append([]byte(a), 0))
		case []byte:
			c.args[i] = p.keep(a)
		default:
			panic(fmt.Sprintf("argument %d of a system call is a %T", i, arg))
		}
	}
	p.calls = append(p.calls, c)
	return &p.calls[len(p.calls)-1]
}

// passes says which errnos of the call do no harm.
func (c *call) passes(errnos ...syscall.Errno) {
	for i, errno := range errnos {
		c.pass[i] = uint16(errno)
	}
}

// keep returns where the child finds some bytes.
func (p *Plan) keep(b []byte) uint64 {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	p.data = append(p.data, b...)
	return planAddress + uint64(len(p.data)-len(b))
}

// words returns the bytes of words.
func words(w ...uint64) []byte {
	var b []byte
	for _, v := range w {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// Write adds that the child writes a text to a file, which it makes when there is none.
func (p *Plan) Write(path, text string) {
	p.call(unix.SYS_OPENAT, unix.AT_FDCWD, path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
	p.call(unix.SYS_WRITE, nextFD, text, len(text))
	p.call(unix.SYS_CLOSE, nextFD)
}

// Agree adds that the child waits for a byte on the socket and writes a text there, which
// fails when the daemon has died in the meantime.
func (p *Plan) Agree(text string) {
	p.call(unix.SYS_READ, ErrorsFD, []byte{0}, 1)
	p.call(unix.SYS_WRITE, ErrorsFD, text, len(text))
}

// Chdir adds that the child enters a directory.
func (p *Plan) Chdir(dir string) { p.call(unix.SYS_CHDIR, dir) }

// Execute adds the last call, which makes the child a program. A program that is open
// for writing is waited for, two seconds: a child that the daemon forked while it
// unpacked the file has a copy of the descriptor until its own execve. It fails with a
// NotExecuted where no kernel could be told of these.
func (p *Plan) Execute(argv, env []string) error {
	for _, s := range slices.Concat(argv, env) {
		if strings.ContainsRune(s, 0) {
			return &NotExecuted{unix.EINVAL}
		}
	}
	p.call(unix.SYS_EXECVE, argv[0], p.strings(argv), p.strings(env)).again = uint16(unix.ETXTBSY)
	return nil
}

// strings keeps a list as execve wants it.
func (p *Plan) strings(list []string) []byte {
	var at []uint64
	for _, s := range list {
		at = append(at, p.keep(append([]byte(s), 0)))
	}
	return words(append(at, 0)...)
}

// File returns the plan as a child reads it. The caller closes it.
func (p *Plan) File() (*os.File, error) {
	calls := p.keep(nil)
	b := p.data
	for _, c := range p.calls {
		b = append(b, words(c.nr)...)
		b = append(b, words(c.args[:]...)...)
		for _, v := range []uint16{c.pass[0], c.pass[1], c.again, c.skip} {
			b = binary.NativeEndian.AppendUint16(b, v)
		}
	}
	copy(b, words(uint64(len(p.calls)), calls))
	if len(b) > planSize {
		return nil, &NotExecuted{unix.E2BIG}
	}
	return inMemory("plan", b, 0)
}

// Helper returns the program that makes the calls of a plan, or nil where there is none
// for this processor. The caller closes it.
func Helper() (*os.File, error) {
	if helper == nil {
		return nil, nil
	}
	// Kernels before 6.3 do not know MFD_EXEC, and later ones may want to be told.
	f, err := inMemory("helper", helper, unix.MFD_EXEC|unix.MFD_ALLOW_SEALING)
	if errors.Is(err, unix.EINVAL) {
		f, err = inMemory("helper", helper, unix.MFD_ALLOW_SEALING)
	}
	if err != nil {
		return nil, err
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_SEAL|unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK); err != nil {
		return nil, errors.Join(fmt.Errorf("cannot seal a file in memory: %w", err), f.Close())
	}
	return f, nil
}

// inMemory makes a file that is nowhere but in memory.
func inMemory(name string, content []byte, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|flags)
	if err != nil {
		return nil, fmt.Errorf("cannot make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := f.Write(content); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// NotExecuted is the error of a plan whose last call, execve, failed.
type NotExecuted struct{ Errno syscall.Errno }

func (e *NotExecuted) Error() string { return e.Errno.Error() }

// Refused returns the error that a child's report means, which is what it wrote when a
// call of the plan failed, and nil of an empty one.
func (p *Plan) Refused(report string) error {
	if report == "" {
		return nil
	}
	if len(report) != 8 {
		return fmt.Errorf("cannot start the program: its first process said %q", report)
	}
	i := int(int32(binary.NativeEndian.Uint32([]byte(report)))) //nolint:gosec // as it was written
	errno := syscall.Errno(binary.NativeEndian.Uint32([]byte(report)[4:]))
	if i < 0 || i >= len(p.calls) {
		return fmt.Errorf("cannot read the orders: %w", errno)
	}
	c := p.calls[i]
	if c.nr == unix.SYS_EXECVE {
		return &NotExecuted{errno}
	}
	err := fmt.Errorf("cannot %s: %w", c.doing, errno)
	if c.wall {
		return refusal(err)
	}
	return err
}

// Execute is what the helper does, for where no helper can be executed: it never
// returns. It MUST be called on a locked thread of a child whose only work this is, and
// before anything else is opened.
func Execute() {
	address := unsafe.Add(nil, planAddress)
	at, err := unix.MmapPtr(PlanFD, 0, address, planSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED_NOREPLACE)
	if err != nil || at != address {
		errno, _ := errors.AsType[syscall.Errno](err)
		fail(-1, errno)
	}
	head := (*headWords)(at)
	for i := uint64(0); i < head.count; i++ {
		c := (*callWords)(unsafe.Add(nil, head.calls+i*uint64(unsafe.Sizeof(callWords{}))))
		errno := c.make()
		switch {
		case errno == 0:
			i += uint64(c.skip)
		case c.pass[0] != anyError && errno != syscall.Errno(c.pass[0]) && errno != syscall.Errno(c.pass[1]):
			fail(int32(i), errno)
		}
	}
	os.Exit(0)
}

// make makes the call.
func (c *callWords) make() syscall.Errno {
	for try := 0; ; try++ {
		_, _, errno := unix.RawSyscall6(uintptr(c.nr), uintptr(c.args[0]), uintptr(c.args[1]), uintptr(c.args[2]),
			uintptr(c.args[3]), uintptr(c.args[4]), 0)
		if errno == 0 || errno != syscall.Errno(c.again) || try == tries {
			return errno
		}
		_ = unix.Nanosleep(&unix.Timespec{Nsec: pauseOfTry}, nil)
	}
}

// fail ends the child.
func fail(number int32, errno syscall.Errno) {
	said := binary.NativeEndian.AppendUint32(nil, uint32(number)) //nolint:gosec // as the daemon reads it
	_, _ = unix.Write(ErrorsFD, binary.NativeEndian.AppendUint32(said, uint32(errno)))
	os.Exit(Refusal)
}

// mount mounts something at a path of the host's.
func (p *Plan) mount(from, at, kind string, flags int, options string) *call {
	c := p.call(unix.SYS_MOUNT, from, at, kind, flags)
	if options != "" {
		c.args[4] = p.keep(append([]byte(options), 0))
	}
	return c
}
