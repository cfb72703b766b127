package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// A failed test passes in a second run alone only where chance can be the reason.
func TestAgain(t *testing.T) {
	t.Parallel()
	harness.Tools(t, "jq")
	module := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":         "module again\n\ngo 1.26\n",
		"a/a_test.go":    "package a\n\nimport \"testing\"\n\nfunc TestA(*testing.T) {}\nfunc TestLeak(*testing.T) {}\nfunc TestB(t *testing.T) { t.Error(\"boom\") }\n",
		"unstable":       "# names\n",
		"unstable-names": "TestA 2026-11-28 once\n",
	} {
		at := filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil { //nolint:gosec // no secret
			t.Fatal(err)
		}
		if err := os.WriteFile(at, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	failed := func(tests ...string) string {
		var text strings.Builder
		for _, test := range tests {
			text.WriteString(`{"Action":"fail","Package":"again/a","Test":"` + test + `"}` + "\n")
		}
		return text.String()
	}
	const whole = `{"Action":"fail","Package":"again/a"}` + "\n"
	for about, tt := range map[string]struct {
		events, unstable string
		right            bool
		says             string
	}{
		"passes":           {failed("TestA/one", "TestA") + whole, "unstable", true, "once more, alone: TestA\n"},
		"is named":         {failed("TestA") + whole, "unstable", true, "\nUNSTABLE: TestA\n"},
		"fails again":      {failed("TestB") + whole, "unstable", false, "a_test.go:7: boom"},
		"failed before":    {failed("TestA") + whole, "unstable-names", false, "no second run: TestA failed before"},
		"a leak":           {failed("TestLeak") + whole, "unstable", false, "no second run: TestLeak is a test of faults"},
		"a race":           {`{"Action":"output","Package":"again/a","Output":"WARNING: DATA RACE\n"}` + "\n" + failed("TestA") + whole, "unstable", false, "there was a race"},
		"a skip":           {`{"Action":"skip","Package":"again/a","Test":"TestC"}` + "\n" + failed("TestA") + whole, "unstable", false, "a test was skipped"},
		"four":             {failed("TestA", "TestB", "TestC", "TestD") + whole, "unstable", false, "more than three tests failed"},
		"another package":  {failed("TestA") + whole + `{"Action":"fail","Package":"again/b"}` + "\n", "unstable", false, "a package failed besides its tests"},
		"no test":          {whole, "unstable", false, "what failed is no test"},
		"nothing was said": {"a.go:1: syntax error\n", "unstable", false, "what failed is no test"},
		"an attack":        {strings.ReplaceAll(failed("TestA")+whole, "again/a", "again/test/attacks"), "unstable", false, "TestA is a test of faults"},
	} {
		t.Run(about, func(t *testing.T) {
			t.Parallel()
			events := filepath.Join(t.TempDir(), "events")
			if err := os.WriteFile(events, []byte(tt.events), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "./again", events)
			cmd.Env = append(os.Environ(), "MODULE="+module, "UNSTABLE="+filepath.Join(module, tt.unstable))
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.right || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v, %s", err, out)
			}
			if tt.right != strings.HasSuffix(string(out), "\nUNSTABLE: TestA\n") {
				t.Errorf("the last line is another: %s", out)
			}
		})
	}
}
