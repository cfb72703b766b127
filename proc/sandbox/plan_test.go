package sandbox

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The test binary is a child without a helper, when it is told so.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "execute" {
		runtime.LockOSThread()
		Execute()
	}
	os.Exit(m.Run())
}

// carryOut runs a child with a plan, by the helper or without, and returns what it
// printed and what it reported.
func carryOut(t *testing.T, p *Plan, byHelper bool, flags uintptr) (printed, report string) {
	t.Helper()
	plan, err := p.File()
	if err != nil {
		t.Fatal(err)
	}
	defer plan.Close()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, w := os.NewFile(uintptr(fds[0]), "r"), os.NewFile(uintptr(fds[1]), "w")
	defer r.Close()
	if _, err := r.WriteString("g"); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "execute")
	cmd.ExtraFiles = []*os.File{w, plan}
	if byHelper {
		helper, err := Helper()
		if err != nil {
			t.Fatal(err)
		}
		defer helper.Close()
		cmd = exec.CommandContext(t.Context(), "/proc/self/fd/5")
		cmd.ExtraFiles = []*os.File{w, plan, helper}
	}
	var out, said strings.Builder
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{}, &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flags}
	err = cmd.Start()
	_ = w.Close()
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 4096)
	for n := 1; n > 0; {
		n, _ = r.Read(b)
		said.Write(b[:n])
	}
	_ = cmd.Wait() // what it ended with is in the report
	return out.String(), said.String()
}

// each runs a test with the helper and with what stands in for it.
func each(t *testing.T, do func(t *testing.T, byHelper bool)) {
	t.Run("helper", func(t *testing.T) {
		if helper == nil {
			t.Skip("there is none for this processor")
		}
		do(t, true)
	})
	t.Run("itself", func(t *testing.T) { do(t, false) })
}

func TestPlan(t *testing.T) {
	each(t, func(t *testing.T, byHelper bool) {
		file := t.TempDir() + "/file"
		p := NewPlan()
		p.Write(file, "text")
		root{Plan: p, at: t.TempDir()}.unless("/", func() { p.Write("/none/such", "text") })
		root{Plan: p, at: t.TempDir()}.unless("/none", func() { p.Chdir("/usr") })
		p.Chdir("bin")
		p.Agree("ready")
		if err := p.Execute([]string{"/bin/sh", "-c", `pwd; echo $1 $A; ls /proc/self/fd | wc -l`, "sh", "one"}, []string{"A=two"}); err != nil {
			t.Fatal(err)
		}
		printed, report := carryOut(t, p, byHelper, 0)
		if want := "/usr/bin\none two\n4\n"; printed != want || report != "ready" {
			t.Errorf("it printed %q and said %q, want %q", printed, report, want)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != "text" {
			t.Errorf("it wrote %q, %v", b, err)
		}
	})
}

// What is ignored where the daemon was started, by nohup for example, reaches programs.
func TestPlanIgnoresNoSignal(t *testing.T) {
	all := []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP, unix.SIGTTIN, unix.SIGTTOU}
	signal.Ignore(all...)
	defer signal.Reset(all...)
	each(t, func(t *testing.T, byHelper bool) {
		p := NewPlan()
		p.Agree("ready")
		if err := p.Execute([]string{"/bin/grep", "SigIgn", "/proc/self/status"}, nil); err != nil {
			t.Fatal(err)
		}
		if printed, _ := carryOut(t, p, byHelper, 0); printed != "SigIgn:\t0000000000000000\n" {
			t.Errorf("the program has %q", printed)
		}
	})
}

// The first call that fails ends the child, with what it was for.
func TestPlanFails(t *testing.T) {
	each(t, func(t *testing.T, byHelper bool) {
		for name, tt := range map[string]struct {
			add     func(*Plan)
			err     string
			missing bool
		}{
			"a directory": {func(p *Plan) { p.To("enter %s", "it"); p.Chdir("/none/such") }, "cannot enter it: no such file or directory", false},
			"a wall":      {func(p *Plan) { p.To("build"); p.wall = true; p.Chdir("/none/such") }, "cannot build: no such file or directory", true},
			"for a moment": {func(p *Plan) {
				p.To("build")
				p.wall = true
				p.call(unix.SYS_FCNTL, 0, unix.F_DUPFD, 1<<30) // EINVAL or EMFILE, by the limit
			}, "cannot build: invalid argument", true},
			"none":    {func(p *Plan) { p.Chdir("/none/such"); p.calls[len(p.calls)-1].passes(unix.EPERM, unix.ENOENT) }, "", false},
			"program": {func(p *Plan) { _ = p.Execute([]string{"/none/such"}, nil) }, "no such file or directory", false},
		} {
			p := NewPlan()
			tt.add(p)
			_, report := carryOut(t, p, byHelper, 0)
			err := p.Refused(report)
			_, missing := errors.AsType[*Missing](err)
			if got := errors.Join(err); (tt.err == "") != (err == nil) || err != nil && got.Error() != tt.err || missing != tt.missing {
				t.Errorf("%s: %v (missing %t), want %q (missing %t)", name, err, missing, tt.err, tt.missing)
			}
		}
	})
	if err := NewPlan().Execute([]string{"/bin/true"}, []string{"A=\x00"}); err == nil {
		t.Error("a NUL was taken")
	}
	p := NewPlan()
	for _, report := range []string{"short", "\xff\xff\xff\xff\x16\x00\x00\x00", "\xff\x00\x00\x00\x16\x00\x00\x00"} {
		if err := p.Refused(report); err == nil {
			t.Errorf("%q is taken for a success", report)
		}
	}
}

// A program that is open for writing is waited for.
func TestPlanWaits(t *testing.T) {
	each(t, func(t *testing.T, byHelper bool) {
		path := t.TempDir() + "/program"
		code, err := os.ReadFile("/bin/true")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, code, 0o700); err != nil {
			t.Fatal(err)
		}
		w, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		p := NewPlan()
		p.Agree("ready")
		if err := p.Execute([]string{path}, nil); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(50*time.Millisecond, func() { _ = w.Close() })
		began := time.Now()
		if _, report := carryOut(t, p, byHelper, 0); report != "ready" || time.Since(began) < 50*time.Millisecond {
			t.Errorf("it said %q after %v", report, time.Since(began))
		}
	})
}

// All walls, without a control group.
func TestKernelPlanOfWalls(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root")
	}
	each(t, func(t *testing.T, byHelper bool) {
		s := &Spec{UID: 69999, Limits: Limits{Files: 64}, Layers: []Layer{Mounts, Proc, Cgroup, Seccomp}, Name: "its-name", RAM: 64 << 20}
		p := NewPlan()
		if err := p.Confine(s); err != nil {
			t.Fatal(err)
		}
		if err := p.Execute([]string{"/bin/sh", "-c", `id -u; hostname; umask; ulimit -n; ls / /dev; cat /etc/hostname; ls -d /proc/1 2>&- || echo hidden; echo x >/usr/x || echo read-only; unshare -n true || echo refused`}, []string{"PATH=/usr/bin:/bin"}); err != nil {
			t.Fatal(err)
		}
		printed, report := carryOut(t, p, byHelper, s.Flags())
		if err := p.Refused(report); err != nil {
			if _, missing := errors.AsType[*Missing](err); missing {
				t.Skip(err)
			}
			t.Fatal(err)
		}
		for _, want := range []string{"69999\nits-name\n0027\n64\n", "\nurandom\n", "\nits-name\nhidden\n", "read-only", "refused"} {
			if !strings.Contains(printed, want) {
				t.Errorf("%q is missing in %q", want, printed)
			}
		}
	})
}
