package proc

import (
	"os"
	"path/filepath"
	"testing"

	"berth/app"
)

// A run that was left is adopted by the same process with its exit code, also
// when the program has ended meanwhile and is a zombie.
func TestKernelLeave(t *testing.T) {
	for _, between := range []bool{false, true} {
		b := newBench(t)
		s := b.spec(t, "until [ -e go ]; do sleep 0.01; done; exit 7")
		r, err := b.Launch(s)
		if err != nil {
			t.Fatal(err)
		}
		end := func() {
			if err := os.WriteFile(filepath.Join(s.Dir, "go"), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if !r.Leave() || !r.Left() || !r.Leave() {
			t.Fatal("it was not left")
		}
		if e := r.Wait(); e != (app.Exit{}) {
			t.Errorf("Wait() = %+v of one that was left", e)
		}
		all := b.Survivors()
		if len(all) != 1 {
			t.Fatalf("Survivors() = %+v", all)
		}
		v := all[s.Group]
		if between {
			end()
			poll(t, "it is a zombie", func() bool { st, err := readStat(v.PID); return err == nil && st.state == "Z" })
		}
		again, err := b.Adopt(v, s)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { again.Stop(0); again.Wait() })
		if !between {
			end()
		}
		if e := again.Wait(); e.Code != 7 || e.Signal != 0 {
			t.Errorf("ended between the two: %t: Wait() = %+v, want exit code 7", between, e)
		}
		if again.Leave() {
			t.Error("a run that has ended was left")
		}
	}
}

// What is left has no command beside it.
func TestKernelLeaveEndsConsoles(t *testing.T) {
	b := newBench(t)
	s := b.spec(t, "exec sleep 1000")
	r := b.launch(t, s)
	c, err := b.Console(b.command("exec sleep 1000"), r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Leave() {
		t.Fatal("it was not left")
	}
	if out := c.Wait(); out.Exit.Signal != 9 {
		t.Errorf("the command ended with %+v", out.Exit)
	}
	again := b.adopt(t, b.Survivors()[s.Group], s)
	again.Stop(0)
	again.Wait()
}

// Children that nobody will wait for are waited for, but those that are kept.
func TestReap(t *testing.T) {
	var pids []int
	for range 2 {
		p, err := os.StartProcess("/bin/true", []string{"true"}, &os.ProcAttr{})
		if err != nil {
			t.Fatal(err)
		}
		pids = append(pids, p.Pid)
		defer func() { _, _ = p.Wait() }()
	}
	for _, pid := range pids {
		poll(t, "it is a zombie", func() bool { st, err := readStat(pid); return err == nil && st.state == "Z" })
	}
	if err := Reap(func(pid int) bool { return pid != pids[0] }); err != nil {
		t.Fatal(err)
	}
	if _, err := readStat(pids[0]); err == nil {
		t.Error("a zombie is left")
	}
	if st, err := readStat(pids[1]); err != nil || st.state != "Z" {
		t.Errorf("one that was to be kept: %+v, %v", st, err)
	}
}
