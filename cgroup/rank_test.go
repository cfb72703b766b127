package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// scores are the oom_score_adj of what is in a group and its children.
func scores(t *testing.T, g *Group) (all []string) {
	t.Helper()
	pids, err := g.All()
	if err != nil {
		t.Fatal(err)
	}
	for _, pid := range pids {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue // it has ended meanwhile
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, strings.TrimSpace(string(text)))
	}
	return all
}

// mayBound reports whether this test has CAP_SYS_RESOURCE, as a daemon has on a host.
func mayBound(t *testing.T) bool {
	t.Helper()
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\nCapEff:")
	line, _, _ := strings.Cut(rest, "\n")
	mask, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return mask&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// A rank is that of every process of the group and its children, of what they start later,
// and the lowest that they can set themselves, where the test may say so.
func TestKernelRank(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 256 << 20})
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	program := child(t, g, "sleep 600 & read line <"+fifo+"; "+
		"setpriv --reuid 65534 --clear-groups --inh-caps -all sh -c 'echo 900 >/proc/$$/oom_score_adj; echo 699 >/proc/$$/oom_score_adj; sleep 600' & sleep 600 & wait")
	other := child(t, below(t, g, "console-1"), "exec sleep 600")
	poll(t, "they run", func() bool { p, err := g.All(); return err == nil && len(p) >= 3 })
	rank := func(want int) (largest int64) {
		t.Helper()
		if err := tree.Rank("apps/a/1", func(bytes int64) int { largest = bytes; return want }); err != nil {
			t.Fatal(err)
		}
		return largest
	}
	if largest := rank(700); largest < 64<<10 || largest > 64<<20 {
		t.Errorf("the largest process has %d bytes", largest)
	}
	all := func(want string) bool {
		for _, score := range scores(t, g) {
			if score != want {
				return false
			}
		}
		return true
	}
	if !all("700") {
		t.Errorf("the scores are %v, want 700", scores(t, g))
	}
	rank(701) // is near enough
	if !all("700") {
		t.Errorf("the scores are %v, want 700 still", scores(t, g))
	}
	if err := os.WriteFile(fifo, []byte("go\n"), 0); err != nil {
		t.Fatal(err)
	}
	own := "900"
	if !mayBound(t) {
		own = "699" // nobody has said how low it may go
	}
	want := []string{"700", "700", "700", "700", own, own}
	slices.Sort(want)
	poll(t, "the others have inherited theirs, and one has raised its own and cannot lower it", func() bool {
		now := scores(t, g)
		slices.Sort(now)
		return slices.Equal(now, want)
	})
	rank(500)
	if !all("500") {
		t.Errorf("the scores are %v, want 500", scores(t, g))
	}
	_ = g.Kill()
	_, _ = program.Wait(), other.Wait()
	poll(t, "nobody is left", func() bool { p, err := g.All(); return err == nil && len(p) == 0 }) // not only who is waited for
	if largest := rank(1000); largest != 0 {
		t.Errorf("nothing runs, and the largest has %d bytes", largest)
	}
	if err := tree.Rank("apps/none/1", func(int64) int { return 1 }); err != nil {
		t.Errorf("of a group that is gone: %v", err)
	}
}
