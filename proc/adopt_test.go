package proc

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

// earlierEnv makes the test binary a daemon that starts one program and is
// killed then.
const earlierEnv = "BERTH_TEST_EARLIER"

// earlier is what that daemon is to do.
type earlier struct {
	Tree   string
	Spec   Spec
	Output string
	Meter  bool
	Walled bool                  // by a network policy
	Counts *sandbox.SocketBounds // nil when it counts no sockets
}

func earlierDaemon(order string) {
	var e earlier
	err := json.Unmarshal([]byte(order), &e)
	var h cgroup.Host
	if err == nil {
		h, err = cgroup.Detect()
	}
	l := Launcher{Log: slog.New(slog.DiscardHandler), Init: []string{"/proc/self/exe", InitWord}}
	if err == nil {
		l.Tree, err = cgroup.Open(h, e.Tree)
	}
	if err == nil && e.Meter {
		l.Meter, err = sandbox.NewMeter()
	}
	if err == nil && e.Walled {
		l.Network, err = sandbox.NewNetwork(sandbox.Rules{})
	}
	if err == nil && e.Counts != nil {
		l.Sockets, err = sandbox.NewSockets(*e.Counts)
	}
	if err == nil {
		e.Spec.Output, err = os.OpenFile(e.Output, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err == nil {
		_, err = l.Launch(e.Spec)
	}
	if err == nil && e.Counts != nil {
		err = forgetBinds(filepath.Join(l.Tree.Root(), e.Spec.Group))
	}
	fmt.Println("started", err)
	select {}
}

// forgetBinds takes from a group what the first daemons that counted sockets did not have.
func forgetBinds(group string) error {
	dir, err := os.Open(group)
	if err != nil {
		return err
	}
	defer dir.Close()
	for _, at := range []ebpf.AttachType{ebpf.AttachCGroupInet4Bind, ebpf.AttachCGroupInet6Bind, ebpf.AttachCGroupSockOps} {
		there, err := link.QueryPrograms(link.QueryOptions{Target: int(dir.Fd()), Attach: at})
		if err != nil || len(there.Programs) == 0 {
			return fmt.Errorf("%v at %s, %w", there, at, err)
		}
		p, err := ebpf.NewProgramFromID(there.Programs[0].ID) // of two, the one that was attached first
		if err != nil {
			return err
		}
		defer p.Close()
		if err := link.RawDetachProgram(link.RawDetachProgramOptions{Target: int(dir.Fd()), Program: p, Attach: at}); err != nil {
			return err
		}
	}
	return nil
}

// startedBefore starts s by a daemon that is dead when it returns.
func (b bench) startedBefore(t *testing.T, s Spec) Survivor {
	t.Helper()
	return b.startedCounted(t, s, nil)
}

// startedCounted is startedBefore by a daemon that counts sockets, within bounds.
func (b bench) startedCounted(t *testing.T, s Spec, bounds *sandbox.SocketBounds) Survivor {
	t.Helper()
	order, err := json.Marshal(earlier{b.name, s, s.Output.Name(), b.Meter != nil, b.Network != nil, bounds})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), earlierEnv+"="+string(order))
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started <nil>\n" {
		t.Fatalf("the earlier daemon said %q, %v", line, err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	all := b.Survivors()
	if len(all) != 1 || all[s.Group].PID == 0 {
		t.Fatalf("Survivors() = %+v", all)
	}
	return all[s.Group]
}

func (b bench) adopt(t *testing.T, v Survivor, s Spec) *Run {
	t.Helper()
	r, err := b.Adopt(v, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop(0); r.Wait() })
	return r
}

// exitIsSeen tells whether this kernel says how another's child has ended.
func exitIsSeen(t *testing.T) bool {
	t.Helper()
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		t.Fatal(err)
	}
	var major, minor int
	if _, err := fmt.Sscanf(unix.ByteSliceToString(name.Release[:]), "%d.%d", &major, &minor); err != nil {
		t.Fatal(err)
	}
	return major > 6 || major == 6 && minor >= 15
}

// A later daemon goes on with the same process, limit and counters, and sees
// how it ends.
func TestKernelAdopt(t *testing.T) {
	b := newBench(t)
	if sandbox.Probe().BPF == nil {
		m, err := sandbox.NewMeter()
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		b.Meter = m
	}
	s := b.spec(t, "trap 'echo stopped; exit 7' TERM; echo up $$; while :; do sleep 0.01; done")
	before := time.Now()
	v := b.startedBefore(t, s)
	poll(t, "the program is up", func() bool { return strings.Contains(output(t, s), "up") })
	r := b.adopt(t, v, s)
	if want := fmt.Sprintf("up %d\n", v.PID); output(t, s) != want || r.main.pid != v.PID {
		t.Errorf("the program said %q, want %q", output(t, s), want)
	}
	if v.Started.Before(before) || v.Started.After(time.Now()) {
		t.Errorf("it was started at %s", v.Started)
	}
	u, err := r.Usage(t.Context())
	if err != nil || u.LimitBytes != 64<<20 || u.MemoryBytes == 0 {
		t.Errorf("Usage() = %+v, %v", u, err)
	}
	if err := r.SetMemory(96); err != nil {
		t.Error(err)
	}
	r.Stop(time.Minute)
	e := r.Wait()
	if e.Code != 7 && (e.Code != app.UnknownCode || exitIsSeen(t)) || e.LimitMB != 96 || e.Ran < time.Millisecond {
		t.Errorf("it ended as %+v", e)
	}
	if all := b.Survivors(); len(all) != 0 {
		t.Errorf("left are %+v", all)
	}
}

// Limits that somebody changed in the kernel are what they were, but for a
// program that would be killed by it.
func TestKernelAdoptedLimits(t *testing.T) {
	b := newBench(t)
	python, _ := FindTools().Find("python3")
	for _, tt := range []struct {
		name        string
		takes, want int // MB
	}{
		{"little", 1, 96},
		{"too much", 150, 256},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := b.spec(t, "")
			s.Argv = []string{python, "-c", fmt.Sprintf("x = bytearray(%d << 20); print('up', flush=True); import time; time.sleep(600)", tt.takes)}
			s.MemoryMB, s.Pids = 256, 500
			v := b.startedBefore(t, s)
			poll(t, "the program is up", func() bool { return strings.Contains(output(t, s), "up") })
			s.MemoryMB, s.Pids = 96, 64
			r := b.adopt(t, v, s)
			if u, err := r.Usage(t.Context()); err != nil || u.LimitBytes != int64(tt.want)<<20 {
				t.Errorf("Usage() = %+v, %v", u, err)
			}
			found := 0
			for _, dir := range append([]string{filepath.Join(b.Tree.Root(), s.Group)}, r.group.Joins()...) {
				text, err := os.ReadFile(filepath.Join(strings.TrimSuffix(dir, "/tasks"), "pids.max"))
				if err != nil {
					continue // it is of something else
				}
				if found++; string(text) != "64\n" {
					t.Errorf("it may have %q processes", text)
				}
			}
			if found == 0 && b.Tree.BoundsPids() {
				t.Error("nothing limits its processes")
			}
			r.Stop(0)
			if e := r.Wait(); e.LimitMB != app.MB(tt.want) || e.OOM {
				t.Errorf("it ended as %+v", e)
			}
		})
	}
}

// The bytes that an earlier daemon counted are counted on.
func TestKernelAdoptedTraffic(t *testing.T) {
	b := newBench(t)
	if err := sandbox.Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	m, err := sandbox.NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b.Meter = m
	python, _ := FindTools().Find("python3")
	s := b.spec(t, "")
	s.Argv = []string{python, "-c", chatter}
	v := b.startedBefore(t, s)
	poll(t, "the datagrams are sent", func() bool { return strings.Contains(output(t, s), "datagrams\n") })
	r := b.adopt(t, v, s)
	const sent = 3*(1000+8+20) + 2*(500+8+40)
	if u, err := r.Usage(t.Context()); err != nil || u.NetIn != sent || u.NetOut != sent {
		t.Errorf("counted before: %+v, %v, want %d", u, err, sent)
	}
	if err := os.WriteFile(b.dir+"/go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	poll(t, "the stream is sent", func() bool { return strings.Contains(output(t, s), "stream\n") })
	if u, err := r.Usage(t.Context()); err != nil || u.NetIn < sent+100000 {
		t.Errorf("counted since: %+v, %v", u, err)
	}
}

// What ended while nobody looked is told, with what the group counted.
func TestKernelAdoptTheDead(t *testing.T) {
	b := newBench(t)
	for _, c := range []struct {
		name, script string
		code         int
		oom          bool
	}{
		{"exit", "exit 3", 3, false},
		{"out of memory", "exec tail /dev/zero", 137, true},
		{"with a child that goes on", "sleep 600 & exit 4", 4, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := b.spec(t, "until [ -e ended ]; do sleep 0.02; done; "+c.script) // not before the earlier daemon
			v := b.startedBefore(t, s)
			if err := os.WriteFile(filepath.Join(s.Dir, "ended"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Remove(filepath.Join(s.Dir, "ended")) })
			poll(t, "the program is gone", func() bool {
				p, err := openProcess(v.PID, v.Birth)
				if err != nil {
					return errors.Is(err, unix.ESRCH)
				}
				defer p.pidfd.Close()
				n, _ := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd.Fd()), Events: unix.POLLIN}}, 0)
				return n > 0
			})
			e := b.adopt(t, v, s).Wait()
			if e.OOM != c.oom || c.oom && e.Code != 137 {
				t.Errorf("it ended as %+v", e)
			}
			if !c.oom && e.Code != c.code && e.Code != app.UnknownCode { // seen when nobody had waited for it yet
				t.Errorf("it ended as %+v, want code %d", e, c.code)
			}
		})
	}
}

// A pid that is somebody else's by now is not taken for the program's.
func TestKernelAdoptNoStranger(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "sleep 600")
	v := b.startedBefore(t, s)
	if err := syscall.Kill(v.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	stranger := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	if err := stranger.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = stranger.Process.Kill(); _ = stranger.Wait() }()
	v.PID = stranger.Process.Pid // as if it had been given again
	s2, err := readStat(v.PID)
	if err != nil {
		t.Fatal(err)
	}
	v.Birth = s2.birth // in the same hundredth of a second
	r := b.adopt(t, v, s)
	if p := r.Process(); p != nil {
		t.Errorf("its first process is said to be %v", p.Name())
	}
	e := r.Wait()
	if e.Code != app.UnknownCode || e.OOM {
		t.Errorf("it ended as %+v", e)
	}
	if err := stranger.Process.Signal(syscall.Signal(0)); err != nil {
		t.Error("the stranger was ended:", err)
	}
}

// Console commands of an earlier daemon end, the program goes on.
func TestKernelAdoptEndsConsoles(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "sleep 600")
	v := b.startedBefore(t, s)
	group, err := b.Tree.Find(s.Group, false)
	if err != nil {
		t.Fatal(err)
	}
	child, err := group.Child("console-1")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := child.Open()
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), "/bin/sleep", "600")
	command.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	err = command.Start()
	_ = dir.Close()
	if err != nil {
		t.Fatal(err)
	}
	r := b.adopt(t, v, s)
	if err := command.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("the command ended with %v", err)
	}
	if u, err := r.Usage(t.Context()); err != nil || u == (app.Usage{}) {
		t.Errorf("the program: %+v, %v", u, err)
	}
}
