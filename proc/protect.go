package proc

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// oomScore is where a process says how soon it is killed when the host itself
// has no memory left (proc_pid_oom_score_adj(5)).
const oomScore = "/proc/self/oom_score_adj"

// daemonScore is berth's own, as the unit of berth install sets it: programs have more
// than 0. It is not the lowest: a daemon that took all memory itself would be the last
// to be killed, after everything else of the host.
const daemonScore = -500

// Protect puts berth itself, and what it starts from now on, behind every program in the
// kernel's order of kills, unless it stands there already. To stand behind other services
// of the host too it needs CAP_SYS_RESOURCE.
func Protect() error { return protect(oomScore) }

func protect(file string) error {
	now, err := scoreIn(file)
	if err != nil || now <= daemonScore {
		return err
	}
	err = os.WriteFile(file, []byte(strconv.Itoa(daemonScore)), 0)
	if errors.Is(err, os.ErrPermission) && now <= 0 { // behind them all the same
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot put berth behind its programs in the order of kills: %w", err)
	}
	return nil
}

// Lock keeps what berth has in memory there: its code above all, which the kernel drops
// first where little is left, and reads from the disk again at each step. What it never
// touches is not read (MCL_ONFAULT). What it starts is not locked (mlockall(2)). It needs
// CAP_IPC_LOCK.
//
// The runtime gives memory back all the same: where MADV_DONTNEED fails, as it does on
// locked pages, it maps the range anew (sysUnusedOS in runtime/mem_linux.go).
func Lock() error {
	if err := unix.Mlockall(unix.MCL_CURRENT | unix.MCL_FUTURE | unix.MCL_ONFAULT); err != nil {
		return fmt.Errorf("cannot keep berth in memory: %w", err)
	}
	return nil
}

// Unlock lets the kernel have what is idle again.
func Unlock() error {
	if err := unix.Munlockall(); err != nil {
		return fmt.Errorf("cannot give back what berth keeps in memory: %w", err)
	}
	return nil
}

func scoreIn(file string) (int, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, fmt.Errorf("cannot read the order of kills: %w", err)
	}
	score, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0, fmt.Errorf("cannot read the order of kills in %s: %w", file, err)
	}
	return score, nil
}
