package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app/exit"
	"berth/systemd"
)

// said is what the owner reads of an error.
func said(err error) string {
	if p, ok := errors.AsType[*exit.Problem](err); ok {
		return p.Error() + "\n" + p.Hint
	}
	return fmt.Sprint(err)
}

// What runs is told from what is at its path, and from the unit it was started under.
func TestServiceOfAProcess(t *testing.T) {
	dir := t.TempDir()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(dir, "sleep")
	replace := func() {
		t.Helper()
		if out, err := exec.Command("sh", "-c", "cp "+sleep+" "+at+".new && mv "+at+".new "+at).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	replace()
	text, err := systemd.Unit(systemd.DaemonUnit, systemd.UnitFacts{Berth: at})
	if err != nil {
		t.Fatal(err)
	}
	unit, other := filepath.Join(dir, "unit"), filepath.Join(dir, "other")
	_, environment, _ := strings.Cut(text, "\nEnvironment=")
	environment, _, _ = strings.Cut(environment, "\n")
	for path, text := range map[string]string{unit: text, other: strings.Replace(text, systemd.UnitEnv+"=", systemd.UnitEnv+"=1", 1)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(at, "1000")
	cmd.Env = strings.Fields(environment)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	s := service{pid: cmd.Process.Pid}
	// The kernel tells of the exec before the environment of the new program can be read (load_elf_binary, create_elf_tables).
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", s.pid)); len(text) > 0 || time.Now().After(deadline) {
			break
		}
	}
	if !s.runs(at) || s.runs(sleep) || !s.canBecome(at) || s.canBecome(sleep) {
		t.Error("it is not known what runs")
	}
	if !s.startedAs(unit) || s.startedAs(other) || s.startedAs(filepath.Join(dir, "none")) {
		t.Error("it is not known under which unit it was started")
	}
	replace()
	if s.runs(at) || !s.canBecome(at) {
		t.Error("the process is taken for what replaced its file")
	}
	if none := (service{}); none.runs(at) || none.canBecome(at) || none.startedAs(unit) {
		t.Error("no process is taken for one")
	}
}

// replaced waits for the one that follows, and says why none does.
func TestServiceReplaced(t *testing.T) {
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	state := func(active, status string, pid int) string {
		return fmt.Sprintf("ActiveState=%s\nStatusText=%s\nMainPID=%d\nInvocationID=7\n", active, status, pid)
	}
	const refusal = "not upgraded, serving as before: its self check failed: of a test"
	for _, tt := range []struct {
		name   string
		states []string // one after another, the last for good
		path   string
		want   string
		within time.Duration
	}{
		{"it follows", []string{state("active", "", 1), state("reloading", "", 1), state("reloading", "", os.Getpid()), state("active", "", os.Getpid())}, own, "<nil>", time.Minute},
		{"it refuses", []string{state("active", "an old one", 1), state("reloading", "", 1), state("active", refusal, 1)}, "/x", "berth serves as before, and not as /x: its self check failed: of a test\nHint: journalctl -u berth -n 20", time.Minute},
		{"it does not start", []string{state("reloading", "", 1), state("activating", "failed: cannot serve: of a test | Hint: do it", 0)}, "/x", "/x does not start: cannot serve: of a test\nHint: do it", time.Minute},
		{"it says nothing", []string{state("reloading", "", 1), state("failed", "", 0)}, "/x", "/x does not start: nothing says why\nHint: journalctl -u berth -n 20", time.Minute},
		{"it hangs", []string{state("reloading", "", 1)}, "/x", "berth serves as before: /x has not followed in time\nHint: journalctl -u berth -n 20", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for n, text := range tt.states {
				if err := os.WriteFile(fmt.Sprintf("%s/%d", dir, n), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			// It fails the first time, as while systemd executes itself; then it gives the states.
			fakeCommand(t, dir, "systemctl", fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *berth.socket*) exit;; esac\ncd %s; [ -e n ] || { echo 0 > n; exit 1; }\nread n < n; cat $n\n[ $n = %d ] || echo $((n+1)) > n\n", dir, len(tt.states)-1))
			fakeCommand(t, dir, "journalctl", "#!/bin/sh\n")
			ctx, cancel := context.WithTimeout(t.Context(), tt.within)
			defer cancel()
			err := (service{}).replaced(ctx, tt.path)
			if got := said(err); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
