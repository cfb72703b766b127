package sandbox

import (
	"os"
	"strings"
	"testing"
)

// What Confine does to a child is tested where children are made (proc); here
// is what it refuses.
func TestConfineRefusesRoot(t *testing.T) {
	for _, uid := range []int{0, -1} {
		if err := NewPlan().Confine(&Spec{UID: uid, Limits: Limits{Files: 64}}); err == nil || !strings.Contains(err.Error(), "cannot run a program as user") {
			t.Errorf("as %d: %v", uid, err)
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
