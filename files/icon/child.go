package icon

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Word is the argument with which the binary hands over to Main.
const Word = "make-icon"

const (
	nobody = 65534
	// childMemory is how much more the child may write to than at its start (RLIMIT_DATA): less than the 64 MB by which
	// Go's heap grows beyond its first 64 MB. A WebP of MaxBytes can describe codes that take 140 MB.
	childMemory  = 48 << 20
	childSeconds = 10 // of processor time
	childTime    = time.Minute
	// How the child ends when the picture is damaged. Any other end but 0 is that of a process that reached a bound.
	exitBroken = 3
)

// Make makes an icon of a picture. It fails with app.TooLarge for one that is too long, has too many pixels or would take
// too much to decode, and with app.Unusable for what is no picture of a known format.
//
// A child process decodes it, this binary with Word: a user of no rights, with bounded memory and time. It blocks
// until the child has ended, and kills it when ctx ends. A child that cannot be started is a plain error.
func Make(ctx context.Context, data []byte) ([]byte, error) {
	if _, err := judge(data); err != nil {
		return nil, err
	}
	bounded, cancel := context.WithTimeout(ctx, childTime)
	defer cancel()
	cmd := exec.CommandContext(bounded, "/proc/self/exe", Word)
	// One processor, and so nothing that the runtime has to ask the control group for.
	cmd.Env = []string{"GOMAXPROCS=1", "GODEBUG=containermaxprocs=0,updatemaxprocs=0", "GOGC=20"}
	cmd.Dir, cmd.WaitDelay = "/", time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if os.Getuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
	}
	var made bytes.Buffer
	cmd.Stdin, cmd.Stdout = bytes.NewReader(data), &made
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start what decodes pictures: %w", err)
	}
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err == nil:
		return made.Bytes(), nil
	case cmd.ProcessState.ExitCode() == exitBroken:
		return nil, errBroken
	}
	return nil, errCostly
}

// Main is the child of Make: a picture from the input becomes an icon at the output. It never returns.
func Main() {
	now, err := dataSize()
	if err != nil {
		os.Exit(1)
	}
	for resource, most := range map[int]uint64{unix.RLIMIT_DATA: now + childMemory, unix.RLIMIT_CPU: childSeconds, unix.RLIMIT_CORE: 0} {
		if err := unix.Prlimit(0, resource, &unix.Rlimit{Cur: most, Max: most}, nil); err != nil {
			os.Exit(1)
		}
	}
	data, err := io.ReadAll(io.LimitReader(os.Stdin, MaxBytes+1))
	if err == nil {
		var f format
		if f, err = judge(data); err == nil {
			data, err = f.draw(data)
		}
	}
	if err == nil {
		_, err = os.Stdout.Write(data)
	}
	if err != nil {
		os.Exit(exitBroken)
	}
	os.Exit(0)
}

// dataSize is what RLIMIT_DATA counts of this process, with its stack (data in statm, proc_pid_statm(5)).
func dataSize() (uint64, error) {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0, err
	}
	var pages [6]uint64
	_, err = fmt.Sscan(string(text), &pages[0], &pages[1], &pages[2], &pages[3], &pages[4], &pages[5])
	return pages[5] * uint64(os.Getpagesize()), err
}
