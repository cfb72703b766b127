package proc

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What the daemon's unit protects the daemon by, programs do not inherit; what
// makes them die sooner they do.
func TestProtected(t *testing.T) {
	for before, want := range map[string]bool{"-500\n": true, "-1000\n": true, "0\n": false, "300\n": false} {
		file := filepath.Join(t.TempDir(), "oom_score_adj")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := protected(file); err != nil || got != want {
			t.Errorf("%q is protected: %t, %v", before, got, err)
		}
	}
	if _, err := protected("/none"); err == nil || !strings.HasPrefix(err.Error(), "cannot read /none: ") {
		t.Errorf("without /proc: %v", err)
	}
}
