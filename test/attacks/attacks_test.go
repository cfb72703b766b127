package attacks

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/harness"
)

// row is one attack. Results are "ok" for a success, the name of an error,
// "none" for nothing found or gained, "silent" for no answer; several with bars
// between them are as good as each other.
type row struct {
	name string
	by   string // who tries it: c, p(ython), n(ode)
	want string
	// control is what comes of the same as root, outside: that it is no denial
	// shows that the attack is one. "" where root may not either, or where it would
	// be felt.
	control string
	feature string // of the kernel, without which there is no such wall
	without string // what comes of it then
}

// Features of kernels.
const scopes = "landlock scopes, Linux 6.12"

// given are the features that this kernel has.
func given() []string {
	// LANDLOCK_CREATE_RULESET_VERSION; scopes came with 6 (landlock(7)).
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, 1)
	if errno == 0 && abi >= 6 {
		return []string{scopes}
	}
	return nil
}

// attackers are how the programs are uploaded, and how they run outside.
var attackers = []struct {
	key, name, main string
	outside         []string
}{
	{"c", "C", "attacker", nil},
	{"p", "Python", "attacker.py", []string{"/usr/bin/python3", "attacker.py"}},
	{"n", "Node", "attacker.js", []string{"node", "attacker.js"}},
}

// files are those of an attacker's archive but for its targets.
func files(t *testing.T, main string) map[string]string {
	t.Helper()
	if main != "attacker" {
		return map[string]string{main: source(t, main)}
	}
	program, err := os.ReadFile(attacker)
	if err != nil {
		t.Fatal(err)
	}
	return map[string]string{main: string(program)}
}

// results are the lines of an attacker's output.
func results(t *testing.T, output string) map[string]string {
	t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(output) {
		_, rest, ok := strings.Cut(strings.TrimSpace(line), "attack: ")
		if !ok {
			continue
		}
		name, result, _ := strings.Cut(rest, ": ")
		if _, twice := found[name]; twice {
			t.Errorf("%s: told twice", name)
		}
		found[name] = result
	}
	return found
}

// compare holds results against the rows of one attacker: no more and no less.
func compare(t *testing.T, by string, got map[string]string, want func(row) string) {
	t.Helper()
	left := maps.Clone(got)
	for _, r := range table {
		expected := want(r)
		if !strings.Contains(r.by, by) || expected == "" {
			continue
		}
		result, told := got[r.name]
		if !told {
			t.Errorf("%s: nothing is told of it, want %s", r.name, expected)
		} else if !slices.Contains(strings.Split(expected, "|"), result) {
			t.Errorf("%s: %s, want %s", r.name, result, expected)
		}
		delete(left, r.name)
	}
	for name, result := range left {
		t.Errorf("%s: %s, and it is not in the table", name, result)
	}
}

// denied is what an attacker that was uploaded is to tell.
func denied(features []string) func(row) string {
	return func(r row) string {
		if r.feature != "" && !slices.Contains(features, r.feature) {
			return r.without
		}
		return r.want
	}
}

// TestKernelAttacks runs every attack as programs that were uploaded, as a
// build, as a console command, in a session with a terminal, and as root without walls.
func TestKernelAttacks(t *testing.T) {
	t.Parallel()
	v := launchVictims(t)
	features := given()
	for _, a := range attackers {
		t.Run(a.name, func(t *testing.T) {
			v := v.in(t)
			f := files(t, a.main)
			f["targets"] = v.told()
			id := v.upload(bot(a.main, f))
			got := results(t, v.untilLog(id, "attacks: done"))
			compare(t, a.key, got, denied(features))
			t.Logf("%d attacks", len(got))
			v.survive(t)
		})
		if slow && a.key != "c" { // a guest's time is short: that they can was shown on the host
			continue
		}
		t.Run(a.name+" as root", func(t *testing.T) { v.in(t).outside(t, a.key, a.main, a.outside) })
	}
	if !slow {
		t.Run("a build", func(t *testing.T) { v.in(t).build(t, features) })
	}
	t.Run("a console command", func(t *testing.T) { v.in(t).command(t, features) })
	t.Run("a session", func(t *testing.T) { v.in(t).session(t, features) })
}

// build runs the attacks as a build.
func (v *victims) build(t *testing.T, features []string) {
	t.Helper()
	f := files(t, "attacker.py")
	f["targets"], f["main.py"] = v.told("then end"), "print('built')\nimport signal; signal.pause()"
	id := v.upload(bot("main.py", f, "BUILD=exec python3 attacker.py >results"))
	got, err := os.ReadFile(v.path(id, "results"))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "p", results(t, string(got)), denied(features))
	v.survive(t)
}

// command runs them as a console command.
func (v *victims) command(t *testing.T, features []string) {
	t.Helper()
	f := files(t, "attacker")
	f["targets"], f["main.py"] = v.told("then end"), "import signal; signal.signal(signal.SIGUSR1, signal.SIG_IGN)\nwhile True: signal.pause()"
	id := v.upload(bot("main.py", f))
	v.console(id, "chmod u+x attacker; exec ./attacker >results").want(200) // what it says is bounded
	got, err := os.ReadFile(v.path(id, "results"))
	if err != nil {
		t.Fatal(err)
	}
	compare(t, "c", results(t, string(got)), func(r row) string {
		if r.name == "write its memory limit" { // its group is one below the program's, which has the limit
			return r.want + "|ENOENT"
		}
		return denied(features)(r)
	})
	// Of its own user it may end all: that is its own program, no more.
	v.console(id, "kill -KILL -1").want(200)
	harness.Eventually(t, "its program has ended", func() bool { return v.get("/app/"+id).text("apps.online") == "false" })
	v.survive(t)
}

// outside runs the attacks that have a control as root.
func (v *victims) outside(t *testing.T, by, main string, argv []string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files(t, main) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "targets"), []byte(v.told()), 0o600); err != nil {
		t.Fatal(err)
	}
	if argv == nil {
		argv = []string{"./" + main}
	}
	for _, r := range table {
		if strings.Contains(r.by, by) && r.control != "" {
			argv = append(argv, r.name)
		}
	}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	cmd.Dir = dir
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("%v: %s", err, problems.String())
	}
	compare(t, by, results(t, string(out)), func(r row) string { return r.control })
	v.survive(t)
}

// TestAttackTable: the rows are many, each once, and most have a control.
func TestAttackTable(t *testing.T) {
	seen, controls, all := map[string]bool{}, 0, map[string]int{}
	for _, r := range table {
		if seen[r.name] {
			t.Errorf("%s: twice", r.name)
		}
		seen[r.name] = true
		if r.control != "" {
			controls++
		}
		if (r.feature == "") != (r.without == "") {
			t.Errorf("%s: a feature, and what comes without it, belong together", r.name)
		}
		for _, by := range r.by {
			all[string(by)]++
		}
	}
	t.Logf("%d attacks, %d with a control; by %s", len(table), controls, fmt.Sprint(all))
	if len(table) < 60 || controls < len(table)*3/4 {
		t.Errorf("%d attacks, of which %d have a control", len(table), controls)
	}
}
