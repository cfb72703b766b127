package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"berth/app"
)

// A shell that reads what "env pull" writes gets each value, and runs nothing of it.
func TestPulledVariablesAreNothingToRun(t *testing.T) {
	dir := t.TempDir()
	ran := filepath.Join(dir, "ran")
	value := "it's $(touch " + ran + ") `touch " + ran + "` ${HOME} \\$(touch " + ran + ") \"\\"
	file := filepath.Join(dir, "env")
	if err := os.WriteFile(file, []byte(app.FormatEnv([]app.Variable{{Name: "A", Value: value}})), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `. "$0"; printf %s "$A"`, file).CombinedOutput()
	if err != nil || string(out) != value {
		t.Errorf("%q, %v, want %q", out, err, value)
	}
	if _, err := os.Stat(ran); err == nil {
		t.Error("the shell ran what was in a value")
	}
}
