package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/cgroup"
	"berth/proc/sandbox"
)

// console starts a command beside r, or alone when r is nil.
func (b bench) console(t *testing.T, r *Run, s Spec) *Console {
	t.Helper()
	c, err := b.Console(s, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.End(); c.Wait() })
	return c
}

// command is a shell command in a group of its own name.
func (b bench) command(script string) Spec {
	return Spec{
		Group: fmt.Sprintf("apps/a/console-%d", names.Add(1)), Argv: []string{"/bin/sh", "-c", script},
		Env: []string{"PATH=" + FindTools().Path()}, Dir: b.dir, UID: testUID, MemoryMB: 64, Pids: 64, OOMGroup: true,
	}
}

// alive fails when the program has ended.
func alive(t *testing.T, r *Run) {
	t.Helper()
	select {
	case <-r.done:
		t.Errorf("the program has ended: %+v", r.Wait())
	default:
	}
}

func TestConsole(t *testing.T) {
	b := newBench(t)
	r := b.launch(t, b.spec(t, "exec sleep 600"))
	for name, in := range map[string]*Run{"beside a program": r, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			for _, tt := range []struct {
				script, out, errs string
				code, signal      int
			}{
				{"echo out; echo err >/dev/stderr; echo more >/dev/stdout", "out\nmore\n", "err\n", 0, 0},
				{"id -u; pwd; cat; exit 3", fmt.Sprintf("%d\n%s\n", testUID, b.dir), "", 3, 0},
				{"kill -SEGV $$", "", "", 139, 11},
				{"no-such-command", "", "/bin/sh: 1: no-such-command: not found\n", 127, 0},
				{`printf 'a\000b\377c\303'`, "a\x00b\uFFFDc\uFFFD", "", 0, 0},
			} {
				s := b.console(t, in, b.command(tt.script)).Wait()
				if s.Stdout.Text != tt.out || s.Stderr.Text != tt.errs || s.Stdout.Dropped+s.Stderr.Dropped != 0 {
					t.Errorf("%s: %q and %q, want %q and %q", tt.script, s.Stdout.Text, s.Stderr.Text, tt.out, tt.errs)
				}
				if e := s.Exit; e.Code != tt.code || e.Signal != tt.signal || e.OOM || e.At.IsZero() || e.Ran <= 0 || e.LimitMB != 64 {
					t.Errorf("%s: ended with %+v", tt.script, e)
				}
				if s.Online != (in != nil) || s.Program != nil {
					t.Errorf("%s: %+v", tt.script, s)
				}
			}
		})
	}
	alive(t, r)
}

// A command is in a group of its own below the run's, and in the run's own of
// v1 hierarchies.
func TestKernelConsoleIsInTheGroupOfTheRun(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "exec sleep 600")
	r := b.launch(t, s)
	c := b.command("set -e; echo $$ >pid.new; mv pid.new pid; until [ -e told ]; do sleep 0.01; done; cat /proc/self/cgroup")
	command := b.console(t, r, c)
	text := b.groupsOf(t, command.done, func() any { return command.Wait() })
	if err := os.WriteFile(filepath.Join(b.dir, "told"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(command.Wait().Stdout.Text) {
		// In what no group was made for, it is where the daemon is.
		if groupOf(line, "") != "/" && groupOf(line, "memory") != "/" && strings.Contains(line, "berth") {
			t.Errorf("it sees more than its own groups: %s", line)
		}
	}
	h, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if got := groupOf(text, ""); !strings.HasSuffix(got, "/"+s.Group+"/"+filepath.Base(c.Group)) {
		t.Errorf("the command is in %s, want below %s", got, s.Group)
	}
	for controller, mount := range map[string]string{"memory": h.V1Memory, "pids": h.V1Pids, "cpu": h.V1CPU} {
		if got := groupOf(text, controller); mount != "" && !strings.HasSuffix(got, "/"+s.Group) {
			t.Errorf("the command is in %s of %s, want %s", got, controller, s.Group)
		}
	}
}

// A command has the RAM that the program leaves, and with OOMGroup takes it along.
func TestKernelConsoleSharesTheRAM(t *testing.T) {
	b := newBench(t)
	const holds = `x=$(head -c 25000000 /dev/zero | tr '\0' x); echo up; sleep 600` // the shell holds it once or twice
	for _, all := range []bool{true, false} {
		t.Run(fmt.Sprintf("group=%t", all), func(t *testing.T) {
			s := b.spec(t, holds)
			s.OOMGroup = all
			r := b.launch(t, s)
			poll(t, "the program holds its memory", func() bool { return strings.Contains(output(t, s), "up") })
			// Alone it would fit twice.
			got := b.console(t, r, b.command("head -c 30000000 /dev/zero | tail -c 30000000 | wc -c; tail /dev/zero")).Wait()
			if !got.Exit.OOM || got.Exit.LimitMB != 64 || got.Exit.Code != 137 {
				t.Errorf("the command ended with %+v", got.Exit)
			}
			if !all {
				alive(t, r)
				return
			}
			if got.Program == nil || !got.Program.OOM || got.Program.Code != 137 {
				t.Errorf("the program's end is told as %+v, want out of memory", got.Program)
			}
		})
	}
	s := b.command("exec tail /dev/zero")
	if got := b.console(t, nil, s).Wait(); !got.Exit.OOM || got.Exit.Code != 137 || got.Exit.Signal != 9 || got.Program != nil {
		t.Errorf("alone: %+v", got)
	}
}

// What a command leaves in the background is ended, and does not hold the
// answer up; the program lives on.
func TestConsoleLeavesNothing(t *testing.T) {
	b := newBench(t)
	r := b.launch(t, b.spec(t, "exec sleep 600"))
	for _, in := range []*Run{r, nil} {
		begin := time.Now()
		s := b.command(`(setsid sh -c 'setsid sleep 600 & trap "" TERM HUP; sleep 600' &); sleep 600 & echo done`)
		c := b.console(t, in, s)
		if got := c.Wait(); got.Stdout.Text != "done\n" || got.Exit.Code != 0 || time.Since(begin) > time.Minute {
			t.Errorf("%+v after %s", got, time.Since(begin))
		}
		if pids, err := c.group.Procs(); err == nil && len(pids) > 0 {
			t.Errorf("left running: %v", pids)
		}
	}
	if pids, err := r.group.Procs(); err != nil || len(pids) != 1 {
		t.Errorf("in the run's group are %v, %v", pids, err)
	}
	alive(t, r)
}

func TestKernelConsoleIsEndedAlone(t *testing.T) {
	b := newBench(t)
	r := b.launch(t, b.spec(t, "exec sleep 600"))
	for _, in := range []*Run{r, nil} {
		c := b.console(t, in, b.command(`trap "" TERM; echo begun; touch begun; sleep 600 & sleep 600`))
		poll(t, "it has begun", func() bool { _, err := os.Stat(b.dir + "/begun"); return err == nil })
		c.End()
		if got := c.Wait(); got.Exit.Signal != 9 || got.Exit.OOM || got.Stdout.Text != "begun\n" || got.Program != nil {
			t.Errorf("%+v", got)
		}
		c.End() // of what is gone, nothing
		if err := os.Remove(b.dir + "/begun"); err != nil {
			t.Fatal(err)
		}
	}
	alive(t, r)
}

// The first 64 KiB of each stream are kept, in whole characters; the rest is
// counted, and never holds the command up.
func TestConsoleOutputIsBounded(t *testing.T) {
	b := newBench(t)
	got := b.console(t, nil, b.command(`yes €€ | head -c 7000000; (printf x; yes €€) | head -c 65540 >&2; exit 5`)).Wait()
	if got.Exit.Code != 5 {
		t.Errorf("it ended with %+v", got.Exit)
	}
	if o := got.Stdout; len(o.Text) < app.OutputMax-2 || len(o.Text) > app.OutputMax || o.Dropped != 7000000-app.OutputMax {
		t.Errorf("kept %d bytes and dropped %d", len(o.Text), o.Dropped)
	}
	if o := got.Stderr; len(o.Text) < app.OutputMax-2 || o.Dropped != 4 || strings.Contains(o.Text, "\uFFFD") || !strings.HasPrefix(o.Text, "x€€\n") {
		t.Errorf("kept %d bytes (%q) and dropped %d", len(o.Text), o.Text[len(o.Text)-8:], o.Dropped)
	}
}

// A pipe that somebody outside the group holds open does not hang the answer.
func TestConsoleOutputThatIsHeldOpen(t *testing.T) {
	b := newBench(t)
	b.Walls.Layers = nil // behind them a program does not even see the command
	s := b.spec(t, `until [ -s pid ]; do sleep 0.01; done; exec 5>/proc/$(cat pid)/fd/1; echo held >&5; touch held; sleep 600`)
	r := b.launch(t, s)
	got := b.console(t, r, b.command(`echo $$ >pid.new; mv pid.new pid; until [ -e held ]; do sleep 0.01; done; echo mine`)).Wait()
	if got.Stdout.Text != "held\nmine\n" || got.Exit.Code != 0 {
		t.Errorf("%+v", got)
	}
	alive(t, r)
}

// The end of the run is the command's, whoever asked for it.
func TestKernelConsoleEndsWithTheRun(t *testing.T) {
	b := newBench(t)
	const waits = `trap "" HUP; touch begun; echo begun; exec sleep 600` // a shell could see its child end first
	for name, end := range map[string]struct {
		script string
		stop   func(*Run)
		code   int
	}{
		"by itself": {"until [ -e begun ]; do sleep 0.01; done; exit 7", func(*Run) {}, 7},
		"asked":     {"exec sleep 600", func(r *Run) { r.Stop(time.Minute) }, 143},
		"killed": {"exec sleep 600", func(r *Run) {
			r.Stop(0)
			if err := r.consoles.enter(); app.KindOf(err) != app.Conflict {
				t.Errorf("a command between the kill and the end: %v", err)
			}
		}, 137},
		"being born": {"exit 7", func(*Run) {}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.launch(t, b.spec(t, end.script))
			c, err := b.Console(b.command(waits), r, nil)
			if err != nil {
				if name != "being born" || app.KindOf(err) == app.Unusable {
					t.Fatal(err)
				}
				return // it had ended before, or ended right then
			}
			if name != "being born" {
				poll(t, "the command has begun", func() bool { _, err := os.Stat(b.dir + "/begun"); return err == nil })
			}
			end.stop(r)
			got := c.Wait()
			if got.Program == nil || got.Program.Code != end.code || got.Program.OOM || got.Exit.Signal == 0 {
				t.Errorf("got %+v (program %+v)", got, got.Program)
			}
			if _, err := b.Console(b.command("true"), r, nil); app.KindOf(err) != app.Conflict {
				t.Errorf("a command after the end: %v", err)
			}
			_ = os.Remove(b.dir + "/begun")
		})
	}
}

// A command that is born while the run ends is ended when it is there.
func TestConsoleBornTooLate(t *testing.T) {
	b := newBench(t)
	var of consoles
	if err := of.enter(); err != nil {
		t.Fatal(err)
	}
	none := of.close()
	if err := of.enter(); app.KindOf(err) != app.Conflict {
		t.Errorf("one more: %v", err)
	}
	c := b.console(t, nil, b.command("sleep 600"))
	of.add(c)
	if got := c.Wait(); got.Exit.Signal != 9 {
		t.Errorf("it ended with %+v, want SIGKILL", got.Exit)
	}
	select {
	case <-none:
		t.Error("it was not waited for")
	default:
	}
	if !of.leave(c) {
		t.Error("it is not told of the end")
	}
	<-none
}

// A command is asked to end as the program is, and has its grace.
func TestConsoleIsAskedToEnd(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, `trap 'sleep 0.1; exit 5' TERM; echo up; while :; do sleep 0.01; done`)
	r := b.launch(t, s)
	c := b.console(t, r, b.command(`trap 'echo tidy; exit 6' TERM; touch begun; while :; do sleep 0.01; done`))
	poll(t, "both run", func() bool {
		_, err := os.Stat(b.dir + "/begun")
		return err == nil && strings.Contains(output(t, s), "up")
	})
	r.Stop(time.Minute)
	got := c.Wait()
	if got.Stdout.Text != "tidy\n" || got.Exit.Code != 6 || got.Program == nil || got.Program.Code != 5 {
		t.Errorf("got %+v (program %+v)", got, got.Program)
	}
}

func TestConsoleStartErrors(t *testing.T) {
	b := newBench(t)
	run := b.spec(t, "exec sleep 600")
	r := b.launch(t, run)
	for _, in := range []*Run{r, nil} {
		s := b.command("true")
		s.Argv = []string{"/no/such/shell"}
		if _, err := b.Console(s, in, nil); app.KindOf(err) != app.Unusable {
			t.Errorf("no such shell: %v", err)
		}
		for _, left := range []string{s.Group, run.Group + "/" + filepath.Base(s.Group)} {
			if _, err := os.Stat(filepath.Join(b.Tree.Root(), left)); err == nil {
				t.Errorf("%s was left", left)
			}
		}
	}
	alive(t, r)
	r.Stop(0)
	if e := r.Wait(); e.Signal != 9 { // nobody waits for the commands that were none
		t.Errorf("got %+v", e)
	}
}

// What a command sends counts for the application.
func TestConsoleTrafficIsCounted(t *testing.T) {
	b := newBench(t)
	if err := sandbox.Probe().BPF; err != nil {
		t.Skip("the kernel lets nobody load eBPF programs here:", err)
	}
	meter, err := sandbox.NewMeter()
	if err != nil {
		t.Fatal(err)
	}
	defer meter.Close()
	b.Meter = meter
	r := b.launch(t, b.spec(t, "exec sleep 600"))
	python, _ := FindTools().Find("python3")
	s := b.command("")
	s.Argv = []string{python, "-c", strings.Split(chatter, `print("datagrams"`)[0]}
	if got := b.console(t, r, s).Wait(); got.Exit.Code != 0 {
		t.Fatalf("%+v", got)
	}
	const sent = 3*(1000+8+20) + 2*(500+8+40) // UDP and IP headers
	if u, err := r.Usage(t.Context()); err != nil || u.NetIn != sent || u.NetOut != sent {
		t.Errorf("Usage() = %+v, %v; want %d bytes each way", u, err, sent)
	}
}
