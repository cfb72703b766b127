package proc

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"berth/proc/sandbox"
)

// orders is what the daemon tells its child over descriptor 3.
type orders struct {
	Joins   []string // tasks files of v1 hierarchies
	Argv    []string
	Env     []string
	Dir     string
	Sandbox sandbox.Spec
	Try     bool // end where the program would begin
}

const (
	ordersFD = 3
	errorFD  = 4
)

// Init is the life of the child between its birth in the control group and
// the program: read the orders, join the v1 groups, enter the sandbox,
// execve. It does not return, but ends at once after a try. What becomes of it is
// written to descriptor 4, which the daemon reads until execve closes it: readyMark
// in front of execve or the end of a try, and an error, which ends the child with status 127.
func Init() {
	runtime.LockOSThread()
	err := become(os.NewFile(ordersFD, "orders"))
	if err == nil { // it was a try
		os.Exit(0)
	}
	text := err.Error()
	if _, own := errors.AsType[*programError](err); own {
		text = ownMark + text
	}
	if _, missing := errors.AsType[*sandbox.Missing](err); missing {
		text = missingMark + text
	}
	_, _ = unix.Write(errorFD, []byte(text))
	os.Exit(127)
}

// programError is an error of the program's own making, which its owner can
// mend; all others are the host's.
type programError struct{ error }

// notExecuted begins the text of the one that there is: its end is the kernel's.
func notExecuted(program string) string { return fmt.Sprintf("cannot execute %q: ", program) }

// What begins a text on the error pipe. A child that ended without a mark and
// without an error was none of the kernel's refusals: something ended it.
const (
	readyMark   = "." // it is behind its walls
	ownMark     = "!" // a programError
	missingMark = "#" // a sandbox.Missing
)

// oomScore is where a process says how soon it is killed when the host itself
// has no memory left (proc_pid_oom_score_adj(5)).
const oomScore = "/proc/self/oom_score_adj"

// standForOOM gives up what the daemon's unit may protect the daemon by.
func standForOOM(file string) error {
	b, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", file, err)
	}
	if !strings.HasPrefix(string(b), "-") {
		return nil
	}
	if err := os.WriteFile(file, []byte("0"), 0); err != nil {
		return fmt.Errorf("cannot give up the daemon's protection: %w", err)
	}
	return nil
}

func become(r *os.File) error {
	unix.CloseOnExec(errorFD)
	var o orders
	if err := json.NewDecoder(r).Decode(&o); err != nil {
		return fmt.Errorf("cannot read the orders: %w", err)
	}
	_ = r.Close()
	if len(o.Argv) == 0 && !o.Try {
		return fmt.Errorf("cannot start the program: no command")
	}
	if err := standForOOM(oomScore); err != nil {
		return err
	}
	// v1 knows no birth into a group; the limits hold from here on, before a
	// byte of the program runs. This thread is the program, whatever others the
	// runtime has: execve ends them (cgroup.Group.Joins).
	for _, file := range o.Joins {
		if err := os.WriteFile(file, []byte("0"), 0); err != nil {
			return fmt.Errorf("cannot join the control group: %w", err)
		}
	}
	if err := sandbox.Enter(o.Sandbox); err != nil {
		return err
	}
	if !o.Try {
		if err := syscall.Chdir(o.Dir); err != nil { // as the program's user: it must reach it
			return fmt.Errorf("cannot enter the application's directory: %w", err)
		}
	}
	if _, err := unix.Write(errorFD, []byte(readyMark)); err != nil {
		return fmt.Errorf("cannot tell of the start: %w", err)
	}
	if o.Try {
		return nil
	}
	return &programError{fmt.Errorf("%s%w", notExecuted(o.Argv[0]), execute(o.Argv, o.Env))}
}

// busyPatience is how long a program that is open for writing is waited for.
const busyPatience = 2 * time.Second

// execute is execve(2), tried again while somebody has the file open for writing:
// a child that the daemon forked while it unpacked the file has a copy of the
// descriptor until its own execve.
func execute(argv, env []string) error {
	for end := time.Now().Add(busyPatience); ; {
		err := syscall.Exec(argv[0], argv, env)
		if !errors.Is(err, unix.ETXTBSY) || time.Now().After(end) {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}
