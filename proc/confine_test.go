package proc

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/cgroup"
)

func TestKernelConfinement(t *testing.T) {
	b := newBench(t)
	t.Setenv("BERTH_SECRET", "leak")
	leak, err := os.Open("/dev/null") // a descriptor without close-on-exec, as a shell may hand down
	if err != nil {
		t.Fatal(err)
	}
	defer leak.Close()
	if _, err := unix.FcntlInt(leak.Fd(), unix.F_SETFD, 0); err != nil { // os.Open sets it
		t.Fatal(err)
	}
	s := b.spec(t, `id -u; id -g; id -G; umask; ulimit -c; ulimit -n; env; ls /proc/self/fd | wc -l
grep -E '^(NoNewPrivs|CapBnd|CapEff|CapPrm|CapInh|CapAmb)' /proc/self/status; echo to-stderr >&2`)
	if e := b.launch(t, s).Wait(); e.Code != 0 {
		t.Fatalf("got %+v: %s", e, output(t, s))
	}
	got := output(t, s)
	want := fmt.Sprintf("%d\n%d\n%d\n0027\n0\n4096\n", testUID, testUID, testUID)
	if !strings.HasPrefix(got, want) {
		t.Errorf("identity is\n%s\nwant it to begin\n%s", got, want)
	}
	for _, line := range []string{"NoNewPrivs:\t1", "CapBnd:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "to-stderr"} {
		if !strings.Contains(got, line) {
			t.Errorf("%q is missing in\n%s", line, got)
		}
	}
	if !strings.Contains(got, "\n4\n") { // 0, 1, 2 and ls's own
		t.Errorf("descriptors leaked:\n%s", got)
	}
	for line := range strings.Lines(got) {
		name, _, isVar := strings.Cut(line, "=")
		if isVar && name != "PATH" && name != "PWD" { // PWD is the shell's own
			t.Errorf("the environment holds %q", line)
		}
	}
}

// TestKernelResourceLimits reads the limits from inside.
func TestKernelResourceLimits(t *testing.T) {
	b := newBench(t)
	file := filepath.Join(b.dir, "large")
	s := b.spec(t, "cat /proc/self/limits; head -c 2000000 /dev/zero >"+file)
	s.FileSize = 1 << 20
	if e := b.launch(t, s).Wait(); e.Code != 128+int(unix.SIGXFSZ) {
		t.Errorf("a file that is too large: %+v", e)
	}
	if info, err := os.Stat(file); err != nil || info.Size() != 1<<20 {
		t.Errorf("of the file there is %v, %v", info, err)
	}
	own, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Fatal(err)
	}
	got, left := limitsIn(output(t, s)), limitsIn(string(own))
	for name, want := range map[string]string{
		"Max core file size": "0", "Max open files": "4096", "Max locked memory": "8388608", "Max file size": "1048576",
		"Max pending signals": "4096", "Max msgqueue size": "819200", "Max nice priority": "0", "Max realtime priority": "0",
	} {
		if !slices.Equal(got[name], []string{want, want}) {
			t.Errorf("%s: %v, want %s", name, got[name], want)
		}
	}
	for _, name := range []string{"Max stack size", "Max processes", "Max address space", "Max data size", "Max cpu time"} {
		if len(got[name]) != 2 || !slices.Equal(got[name], left[name]) {
			t.Errorf("%s: %v, want it left as it is, %v", name, got[name], left[name])
		}
	}
}

// limitsIn reads /proc/self/limits: soft and hard by name.
func limitsIn(text string) map[string][]string {
	all := map[string][]string{}
	for line := range strings.Lines(text) {
		if len(line) < 27 || !strings.HasPrefix(line, "Max ") {
			continue
		}
		if values := strings.Fields(line[26:]); len(values) > 1 {
			all[strings.TrimSpace(line[:26])] = values[:2]
		}
	}
	return all
}

// The limit of processes is the user's only where no group can have one.
func TestLimitOfProcesses(t *testing.T) {
	b := newBench(t)
	if l := b.limits(Spec{Pids: 64}); b.Tree.BoundsPids() == (l.Processes != 0) {
		t.Errorf("beside a group's: %+v", l)
	}
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if h.Mode != cgroup.Hybrid {
		return // groups always have one
	}
	h.V1Pids = ""
	tree, err := cgroup.Open(h, fmt.Sprintf("proc-test-%d-%d", os.Getpid(), names.Add(1)))
	if err != nil {
		t.Fatal(err)
	}
	defer tree.Close()
	b.Tree = tree
	s := b.spec(t, "cat /proc/self/limits")
	if e := b.launch(t, s).Wait(); e.Code != 0 {
		t.Fatalf("got %+v: %s", e, output(t, s))
	}
	if got := limitsIn(output(t, s))["Max processes"]; !slices.Equal(got, []string{"1088", "1088"}) {
		t.Errorf("without a group's: %v, want 64 and 1024", got)
	}
	if l := b.limits(Spec{}); l.Processes != 0 {
		t.Errorf("without any: %+v", l)
	}
}

// The program is in its group of every hierarchy that limits it from its first
// instruction on, alone.
func TestKernelProgramIsInEveryGroup(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "set -e; echo $$ >pid.new; mv pid.new pid; exec sleep 600")
	r := b.launch(t, s)
	groups := b.groupsOf(t, r.done, func() any { return fmt.Sprint(r.Wait(), output(t, s)) })
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	hierarchies := map[string]string{"": h.V2}
	if h.Mode == cgroup.Hybrid {
		hierarchies["memory"], hierarchies["pids"], hierarchies["cpu"] = h.V1Memory, h.V1Pids, h.V1CPU
	}
	for of, mount := range hierarchies {
		if mount == "" {
			continue
		}
		path := groupOf(groups, of)
		if !strings.HasSuffix(path, "/"+s.Group) {
			t.Errorf("the program is in %s of %s, want %s", path, of, s.Group)
		}
		// What it has told its groups with may be there a moment longer.
		poll(t, "the program is alone in "+of, func() bool {
			procs, err := os.ReadFile(filepath.Join(mount, path, "cgroup.procs"))
			return err == nil && string(procs) == fmt.Sprintln(r.main.pid)
		})
	}
}

// groupsOf waits for a program to write its pid to the file pid, and returns its
// groups as the host sees them. end tells how it ended, once done is closed.
func (b bench) groupsOf(t *testing.T, done <-chan struct{}, end func() any) string {
	t.Helper()
	var pid []byte
	poll(t, "the pid is told", func() bool {
		select {
		case <-done:
			t.Fatalf("it has ended before its pid was told: %+v", end())
		default:
		}
		var err error
		pid, err = os.ReadFile(filepath.Join(b.dir, "pid"))
		return err == nil
	})
	text, err := os.ReadFile(filepath.Join("/proc", strings.TrimSpace(string(pid)), "cgroup"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// groupOf finds the group in the hierarchy of a controller, "" for v2, in the
// text of /proc/self/cgroup.
func groupOf(text, controller string) string {
	for line := range strings.Lines(text) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return f[2]
		}
	}
	return ""
}

func TestKernelBindShowsAnotherDirectory(t *testing.T) {
	b := newBench(t)
	work, place := filepath.Join(b.dir, "work"), filepath.Join(b.dir, "place")
	for _, dir := range []string{work, place} {
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, testUID, testUID)); err != nil {
			t.Fatal(err)
		}
	}
	s := b.spec(t, `pwd; echo made > here`)
	s.Dir, s.From = place, work
	if e := b.launch(t, s).Wait(); e.Code != 0 || !strings.Contains(output(t, s), place) {
		t.Fatalf("got %+v: %s", e, output(t, s))
	}
	if _, err := os.Stat(filepath.Join(work, "here")); err != nil {
		t.Errorf("the file is not in the bound directory: %v", err)
	}
	if _, err := os.Stat(filepath.Join(place, "here")); err == nil {
		t.Error("the bind was seen outside the program")
	}
}

func TestNoLeaks(t *testing.T) {
	b := newBench(t)
	once := func() {
		r := b.launch(t, b.spec(t, "sleep 600"))
		b.console(t, r, b.command("sleep 600 & exit 0")).Wait()
		b.console(t, r, b.command("sleep 600"))
		r.Stop(0)
		r.Wait()
		b.console(t, nil, b.command("exit 0")).Wait()
		b.launch(t, b.spec(t, "sleep 600 & exit 0")).Wait()
	}
	once()
	fds, routines := countFDs(t), runtime.NumGoroutine()
	for range 10 {
		once()
	}
	poll(t, "descriptors and goroutines are back", func() bool {
		return countFDs(t) <= fds+20 && runtime.NumGoroutine() <= routines // each spec keeps its output open
	})
}

func countFDs(t *testing.T) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}
