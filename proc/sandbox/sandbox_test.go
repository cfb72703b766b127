package sandbox

import (
	"os"
	"strings"
	"testing"
)

// What Enter does to a child is tested where children are made (proc); here
// is what it refuses before it has changed anything.
func TestEnterRefusesRoot(t *testing.T) {
	for _, uid := range []int{0, -1} {
		before := os.Getuid()
		if err := Enter(Spec{UID: uid, Limits: Limits{Files: 64}}); err == nil || !strings.Contains(err.Error(), "cannot run a program as user") {
			t.Errorf("Enter as %d = %v", uid, err)
		}
		if os.Getuid() != before {
			t.Fatal("the test's own user has changed")
		}
	}
}

func TestProbeChangesNothingAndAnswers(t *testing.T) {
	a, b := Probe(), Probe()
	if a.Landlock != b.Landlock || (a.BPF == nil) != (b.BPF == nil) {
		t.Errorf("two answers: %+v and %+v", a, b)
	}
	if os.Getuid() != 0 && a.BPF == nil {
		if text, err := os.ReadFile("/proc/sys/kernel/unprivileged_bpf_disabled"); err == nil && strings.TrimSpace(string(text)) != "0" {
			t.Error("eBPF is said to work without root")
		}
	}
}
