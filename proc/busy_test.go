package proc

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// busyProgram is a program whose file is still open for writing.
func busyProgram(t *testing.T, b bench) (Spec, *os.File) {
	t.Helper()
	s := b.spec(t, "")
	path := filepath.Join(s.Dir, "program")
	code, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	w, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	if _, err := w.Write(code); err != nil {
		t.Fatal(err)
	}
	s.Argv = []string{path}
	return s, w
}

var switches = regexp.MustCompile(`(?m)^voluntary_ctxt_switches:\s*(\d+)`)

// sleeps returns how often the one process of the group has gone to sleep since it
// entered its directory, the last step before it executes the program; nothing
// when it has not.
func sleeps(b bench, s Spec) string {
	pids, err := os.ReadFile(filepath.Join(b.Tree.Root(), s.Group, "cgroup.procs"))
	pid := strings.TrimSpace(string(pids))
	if err != nil || pid == "" {
		return ""
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%s/cwd/program", pid)); err != nil {
		return ""
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%s/status", pid))
	if m := switches.FindSubmatch(status); err == nil && m != nil {
		return string(m[1])
	}
	return ""
}

// A program whose file is open for writing is waited for, and not for ever.
func TestStartOfABusyFile(t *testing.T) {
	b := newBench(t)
	t.Run("for a moment", func(t *testing.T) {
		s, w := busyProgram(t, b)
		go func() {
			first := ""
			for t.Context().Err() == nil {
				now := sleeps(b, s)
				if first == "" {
					first = now
				}
				if now != first { // it sleeps before it tries again
					_ = w.Close()
					return
				}
			}
		}()
		if e := b.launch(t, s).Wait(); e.Code != 0 || e.Signal != 0 {
			t.Errorf("got %+v, want exit 0", e)
		}
	})
	t.Run("for ever", func(t *testing.T) {
		s, _ := busyProgram(t, b)
		if _, err := b.Launch(s); err == nil || !strings.Contains(err.Error(), "text file busy") {
			t.Errorf("got %v, want a refusal", err)
		}
	})
}
