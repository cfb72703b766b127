package proc

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// What a unit protects the daemon by stays; what makes it die sooner does not.
func TestProtect(t *testing.T) {
	for before, want := range map[string]string{"-500\n": "-500\n", "-1000\n": "-1000\n", "0\n": "-500", "300\n": "-500"} {
		file := filepath.Join(t.TempDir(), "oom_score_adj")
		if err := os.WriteFile(file, []byte(before), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := protect(file); err != nil {
			t.Error(err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != want {
			t.Errorf("%q became %q, %v", before, now, err)
		}
	}
	file := filepath.Join(t.TempDir(), "many")
	if err := os.WriteFile(file, []byte("many"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := protect(file); err == nil {
		t.Error("a file without a number is one")
	}
	if err := protect("/none/such"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without /proc: %v", err)
	}
}
