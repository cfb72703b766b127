package scripts_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// The lines of test2json.
const (
	passedA  = `{"Action":"pass","Package":"unified/a","Test":"A"}` + "\n"
	passedB  = `{"Action":"pass","Package":"unified/b","Test":"B"}` + "\n"
	passedC  = `{"Action":"pass","Package":"unified/b","Test":"C"}` + "\n"
	skippedB = `{"Action":"output","Package":"unified/a","Test":"B","Output":"    a_test.go:1: no such kernel\n"}
{"Action":"skip","Package":"unified/a","Test":"B"}` + "\n"
	packageB = `{"Action":"pass","Package":"unified/b"}` + "\n"
	other    = `{"Action":"pass","Package":"rare/a","Test":"A"}` + "\n"
	absent   = `{"Action":"skip","Package":"rare"}` + "\n"
	failedB  = `{"Action":"output","Package":"unified/b","Test":"B","Output":"    b_test.go:1: boom\n"}
{"Action":"fail","Package":"unified/b","Test":"B"}` + "\n"
	failed = `{"Action":"output","Package":"unified","Output":"the guest ended with status 3\n"}
{"Action":"fail","Package":"unified"}` + "\n"
	lost = `{"Action":"run","Package":"unified/a","Test":"Z"}
{"Action":"output","Package":"unified/a","Test":"Z","Output":"last words\n"}
{"Action":"fail","Package":"unified/a"}` + "\n"
)

// Tests pass when all did, at least one, and with CI=true none was skipped; a mode
// passes with its number of tests alone, or when it said that it cannot be had.
func TestSummary(t *testing.T) {
	harness.Tools(t, "jq")
	counts := filepath.Join(t.TempDir(), "counts")
	if err := os.WriteFile(counts, []byte("unified 2\nrare 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		events string
		ci     string
		args   string // with counts: the modes
		right  bool
		says   string
	}{
		"passed":                  {passedA + passedB + packageB, "true", "", true, "\n\n2 passed, 0 failed, 0 skipped\n"},
		"skipped":                 {passedA + skippedB, "", "", true, "a_test.go:1: no such kernel\n"},
		"skipped in CI":           {passedA + skippedB, "true", "", false, "CI=true: a skipped test is a failure\n\n1 passed, 0 failed, 1 skipped\n"},
		"failed":                  {passedA + failedB, "", "", false, "b_test.go:1: boom\n"},
		"failed as a whole":       {passedA + failed, "", "", false, "the guest ended with status 3\n"},
		"ended in a test":         {passedA + lost, "", "", false, "last words\n"},
		"nothing ran":             {packageB, "", "", false, "\n\n0 passed, 0 failed, 0 skipped\n"},
		"nothing was said":        {"", "", "", false, "\n\n0 passed, 0 failed, 0 skipped\n"},
		"no line of test2json":    {passedA + "go: a message\n", "", "", true, "go: a message"},
		"an event in two":         {passedA + `{"Action":"pass`, "", "", true, `{"Action":"pass`},
		"as many":                 {passedA + passedB + packageB, "", "unified", true, "\n2 passed, 0 failed, 0 skipped\nunified: 2 kernel tests ran\n"},
		"twice":                   {passedA + passedB + passedA + passedB, "", "unified unified", true, "unified: 4 kernel tests ran\n"},
		"once of two":             {passedA + passedB, "", "unified unified", false, "unified: 2 kernel tests ran\nunified: " + counts + " says 2 each time;"},
		"one is lost":             {passedA, "", "unified", false, "unified: 1 kernel tests ran\n"},
		"one more":                {passedA + passedB + passedC, "", "unified", false, "unified: 3 kernel tests ran\n"},
		"of another mode":         {other, "", "unified", false, "unified: 0 kernel tests ran\n"},
		"one was skipped":         {passedA + skippedB, "", "unified", false, "unified: 1 kernel tests ran\n"},
		"not to be had":           {passedA + passedB + absent, "", "unified rare", true, "rare: cannot be had here, no kernel test ran\n"},
		"not to be had, yet ran":  {other + other + absent, "", "rare", false, "rare: 2 kernel tests ran\n"},
		"a package without tests": {passedA + passedB + `{"Action":"skip","Package":"rare/a"}` + "\n", "", "unified rare", false, "rare: 0 kernel tests ran\n"},
		"a mode without a number": {passedA, "", "other", false, "other: " + counts + " says nothing each time;"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var args []string
			if tt.args != "" {
				args = append([]string{counts}, strings.Fields(tt.args)...)
			}
			cmd := exec.Command("./summary", args...)
			cmd.Env, cmd.Stdin = append(os.Environ(), "CI="+tt.ci), strings.NewReader(tt.events)
			out, err := cmd.CombinedOutput()
			if (err == nil) != tt.right || !strings.Contains(string(out), tt.says) {
				t.Errorf("%v, %q", err, out)
			}
		})
	}
}
