package faults

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// inWalls prints what the kernel says of a program's walls.
const inWalls = `import time
fields = dict(line.split(":", 1) for line in open("/proc/self/status"))
print("seccomp", fields["Seccomp"].strip(), "END", flush=True)
time.sleep(100000)
`

// shortOf lets a daemon that is about to start have so many processes and threads
// together with its children, and returns what ends that. The group goes with the
// test that is around the daemon's.
func shortOf(around *testing.T, d *harness.Berth, pids int) (end func()) {
	t := d.T
	t.Helper()
	dir := fmt.Sprintf("/sys/fs/cgroup/pids/berth-faults-%d-%d", os.Getpid(), pids)
	if _, err := os.Stat("/sys/fs/cgroup/pids/cgroup.procs"); err != nil {
		// Where a child counts for the group that it is born in, it is the programs'
		// groups that are limited.
		dir = filepath.Join("/sys/fs/cgroup/berth", harness.GroupOfData(d.Data))
	} else {
		d.Under = []string{"/bin/sh", "-c", `echo $$ >"$0/cgroup.procs" && exec "$@"`, dir}
	}
	err := os.MkdirAll(dir, 0o755)
	for _, above := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/berth"} {
		if strings.HasPrefix(dir, "/sys/fs/cgroup/berth/") {
			err = errors.Join(err, os.WriteFile(filepath.Join(above, "cgroup.subtree_control"), []byte("+pids"), 0o600))
		}
	}
	limit := func(text string) error { return os.WriteFile(filepath.Join(dir, "pids.max"), []byte(text), 0o600) }
	if err := errors.Join(err, limit(strconv.Itoa(pids))); err != nil {
		t.Fatal(err)
	}
	around.Cleanup(func() {
		harness.Eventually(around, "its group can be removed", func() bool {
			err := os.Remove(dir)
			return err == nil || errors.Is(err, os.ErrNotExist)
		})
	})
	return func() {
		if err := limit("max"); err != nil {
			t.Error(err)
		}
	}
}

// TestFaultsWallsAtAStart: a daemon that is short of processes or descriptors when it starts
// finds all walls, or ends; it never runs programs without.
func TestFaultsWallsAtAStart(t *testing.T) {
	t.Parallel()
	whole := harness.Launch(t)
	if strings.Contains(whole.Out.String(), "programs run without a wall") {
		t.Skip("this host lacks walls")
	}
	// Which limit leaves enough for the daemon's own threads and too little for the trial
	// is a matter of the moment.
	for round, some := 0, false; !some; round++ {
		if round == 12 {
			t.Fatal("the daemon was never short of processes in the right moment")
		}
		t.Run("short", func(t *testing.T) { some = shortOfProcesses(t) })
	}
	t.Run("of files", shortOfFiles)
}

// shortOfProcesses starts daemons that may have few processes and threads, and reports
// whether one of them was refused the trial of its walls, and tried again.
func shortOfProcesses(around *testing.T) bool {
	var waited atomic.Bool
	around.Run("of", func(all *testing.T) {
		for _, pids := range []int{3, 5, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18} {
			all.Run(strconv.Itoa(pids), func(t *testing.T) {
				t.Parallel()
				d := harness.Prepare(t)
				end := shortOf(around, d, pids)
				d.Out = &harness.Output{}
				cmd := d.Command(d.Args...)
				cmd.Env, cmd.Stderr = append(harness.CleanEnv(), d.Env...), d.Out
				d.Spawn(t, cmd)
				const trying = "trying again"
				harness.Eventually(t, "it is over, or is tried again", func() bool {
					said := d.Out.String()
					return d.Ended() || d.Hear(said) || strings.Contains(said, trying)
				})
				waits := strings.Contains(d.Out.String(), trying)
				if waits {
					waited.Store(true)
				}
				lifted := waits && pids%2 == 0
				if lifted {
					end()
				}
				harness.Eventually(t, "it is over", func() bool { return d.Ended() || d.Hear(d.Out.String()) })
				end()
				said := d.Out.String()
				for _, text := range []string{"programs run without a wall", "programs reach everything"} {
					if strings.Contains(said, text) {
						t.Errorf("it said %s", said)
					}
				}
				switch {
				case d.Ended() && (strings.Contains(said, "failed to create new OS thread") || strings.Contains(said, "pthread_create failed")): // it had too few for itself
					t.Log("it could not even run")
				case d.Ended():
					if code := d.Cmd.ProcessState.ExitCode(); code != 1 || lifted || !strings.Contains(said, "cannot serve: cannot ") || !strings.Contains(said, "\nHint: programs that run go on") {
						t.Errorf("exit status %d, lifted %t: %s", code, lifted, said)
					}
				default:
					c := d.NewAccount("ana", 400)
					id := c.Upload(harness.PythonBot(inWalls))
					if log := c.UntilLog(id, "END\n"); !strings.Contains(log, "seccomp 2 END") {
						t.Errorf("a program's walls: %s", log)
					}
				}
			})
		}
	})
	return waited.Load()
}

// shortOfFiles: one that is short of descriptors for a moment, while it loads eBPF
// programs, does not take the kernel for one that has none. Nor has the wall gone that
// it remembers, with the status at which nobody starts it again.
func shortOfFiles(t *testing.T) {
	const last = 23
	tried := make(chan bool, last+1)
	t.Run("short", func(t *testing.T) {
		for more := 0; more <= last; more++ {
			t.Run(strconv.Itoa(more), func(t *testing.T) {
				t.Parallel()
				d := harness.Prepare(t)
				remembers := more%3 != 0
				if remembers {
					d.Serve()
					if code := d.End(syscall.SIGTERM); code != 0 {
						t.Fatalf("the daemon's exit status is %d: %s", code, d.Out)
					}
				}
				d.Out = &harness.Output{}
				cmd := d.Command(d.Args...)
				cmd.Env, cmd.Stderr = append(harness.CleanEnv(), d.Env...), d.Out
				d.Spawn(t, cmd)
				over := func() bool { return d.Ended() || d.Hear(d.Out.String()) }
				open, loads := loading(cmd.Process.Pid)
				for ; !over() && !loads; open, loads = loading(cmd.Process.Pid) {
					runtime.Gosched() // the moment is short
				}
				warnings := func() int { return strings.Count(d.Out.String(), "level=WARN") }
				before := warnings()
				softLimit(d, uint64(open+more/2))
				lasts := more%6 == 5
				harness.Eventually(t, "it is over, or says something", func() bool { return over() || !lasts && warnings() > before })
				softLimit(d, 20000)
				harness.Eventually(t, "it is over", over)
				said := d.Out.String()
				tried <- strings.Contains(said, "trying again") || d.Ended()
				for _, text := range []string{"programs run without a wall", "programs reach everything", "a program can take every port", "netIO will not be counted"} {
					if strings.Contains(said, text) {
						t.Errorf("it said %s", said)
					}
				}
				if d.Ended() {
					if code := d.Cmd.ProcessState.ExitCode(); code != 1 {
						t.Errorf("exit status %d: %s", code, said)
					}
					d.Serve()
				}
				walls, err := os.ReadFile(filepath.Join(d.Data, "walls"))
				if text := string(walls); err != nil || !strings.Contains(text, "network\n") || !strings.Contains(text, "sockets\n") {
					t.Errorf("it remembers %q, %v", text, err)
				}
			})
		}
	})
	close(tried)
	for again := range tried {
		if again {
			return
		}
	}
	t.Error("the daemon was never short of descriptors in the right moment")
}

// loading tells how many descriptors a process has, and whether one is an eBPF map. A process
// without one has ended.
func loading(pid int) (open int, loads bool) {
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	list, _ := os.ReadDir(dir)
	for _, e := range list {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil && strings.Contains(to, "bpf-map") {
			loads = true
		}
	}
	return len(list), loads
}

// softLimit lets a daemon open so many files at once from now on.
func softLimit(d *harness.Berth, most uint64) {
	d.T.Helper()
	var was unix.Rlimit
	err := unix.Prlimit(d.Cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was)
	if err == nil {
		err = unix.Prlimit(d.Cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: most, Max: was.Max}, nil)
	}
	if err != nil && !errors.Is(err, unix.ESRCH) {
		d.T.Fatal(err)
	}
}
