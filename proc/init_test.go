package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the daemon's unit protects the daemon by, programs do not inherit; what
// makes them die sooner they do.
func TestStandForOOM(t *testing.T) {
	for before, want := range map[string]string{"-500\n": "0", "-1000\n": "0", "0\n": "0\n", "300\n": "300\n"} {
		file := filepath.Join(t.TempDir(), "oom_score_adj")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := standForOOM(file); err != nil {
			t.Error(err)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%q became %q, %v; want %q", before, got, err, want)
		}
	}
	if err := standForOOM("/none"); err == nil || !strings.HasPrefix(err.Error(), "cannot read /none: ") {
		t.Errorf("without /proc: %v", err)
	}
}
