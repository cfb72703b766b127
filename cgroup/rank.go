package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// rankStep is by how much an oom_score_adj may differ from what it should be: a program
// whose use is between two steps is not written to at every look.
const rankStep = 1

// Rank sets the oom_score_adj (proc_pid_oom_score_adj(5)) of the processes in the group
// name and in its children to what score makes of the bytes that the largest of them has
// in memory, from 0 to 1000. What they start later inherits it. They can raise it
// themselves, until the next call, but not lower it: that takes CAP_SYS_RESOURCE, and the
// value that a process with that capability has set is the lowest that others may
// (oom_score_adj_min in fs/proc/base.c). A group that is gone is no error.
func (t *Tree) Rank(name string, score func(largest int64) int) error {
	g := &Group{path: filepath.Join(t.root, name)}
	before, err := g.All()
	if err != nil {
		return notEnded(err)
	}
	processes := make([]process, 0, len(before))
	defer func() {
		for _, p := range processes {
			_ = p.dir.Close()
		}
	}()
	var largest int64
	for _, pid := range before {
		if p, err := openProcess(pid); err == nil { // else it has ended meanwhile
			processes = append(processes, p)
			largest = max(largest, p.resident)
		}
	}
	want := score(largest)
	processes = slices.DeleteFunc(processes, func(p process) bool {
		right := max(p.score-want, want-p.score) <= rankStep
		if right {
			_ = p.dir.Close()
		}
		return right
	})
	if len(processes) == 0 {
		return nil
	}
	after, err := g.All() // a pid could have become somebody else's before its directory was opened
	if err != nil {
		return notEnded(err)
	}
	var errs []error
	for _, p := range processes {
		if slices.Contains(after, p.pid) {
			errs = append(errs, p.setScore(want))
		}
	}
	return errors.Join(errs...)
}

func notEnded(err error) error {
	if ended(err) {
		return nil
	}
	return err
}

// process is one of a group, by its directory in /proc, which stays its own.
type process struct {
	pid      int
	dir      *os.Root
	resident int64 // bytes
	score    int
}

func openProcess(pid int) (p process, err error) {
	p.pid = pid
	if p.dir, err = os.OpenRoot("/proc/" + strconv.Itoa(pid)); err != nil {
		return p, err
	}
	statm, err := p.dir.ReadFile("statm")
	if fields := strings.Fields(string(statm)); err == nil && len(fields) > 1 { // size, resident, ...
		var pages int64
		pages, err = strconv.ParseInt(fields[1], 10, 64)
		p.resident = pages * int64(os.Getpagesize())
	}
	if err == nil {
		var text []byte
		if text, err = p.dir.ReadFile("oom_score_adj"); err == nil {
			p.score, err = strconv.Atoi(strings.TrimSpace(string(text)))
		}
	}
	if err != nil {
		err = errors.Join(err, p.dir.Close())
	}
	return p, err
}

// setScore sets the process's oom_score_adj; one that has ended meanwhile has none.
func (p process) setScore(to int) error {
	f, err := p.dir.OpenFile("oom_score_adj", os.O_WRONLY, 0)
	if err == nil {
		_, err = f.WriteString(strconv.Itoa(to))
		err = errors.Join(err, f.Close())
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return nil
	}
	return fmt.Errorf("cannot set the order of kills for process %d: %w", p.pid, err)
}
