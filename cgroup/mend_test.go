package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What somebody else takes away of the tree is made again, by the next program
// that starts or by Mend, which says what it was; a program that runs has its
// limit of processes again.
func TestKernelMend(t *testing.T) {
	tree := openTree(t)
	mended := func(want int) {
		t.Helper()
		missing, err := tree.Mend(7)
		if err != nil || len(missing) != want {
			t.Errorf("%d were missing, %q, want %d; %v", len(missing), missing, want, err)
		}
	}
	mended(0)
	remove := func() {
		t.Helper()
		for _, root := range tree.roots() {
			if err := os.Remove(filepath.Join(root, appsDir)); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove()
	lost := len(tree.roots())
	if tree.host.Mode == Unified {
		lost += 2 // a new directory hands nothing down
	}
	mended(lost)
	mended(0)
	remove()
	g, err := tree.Create("apps/1/1", Limits{Memory: 32 << 20, Pids: 20})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(); err != nil {
			t.Error(err)
		}
	}()
	if m, err := g.Memory(); err != nil || m.Limit != 32<<20 {
		t.Errorf("its memory is %+v, %v", m, err)
	}
	mended(0)
	if tree.host.Mode != Unified {
		return
	}
	for _, dir := range []string{filepath.Dir(g.path), filepath.Join(tree.root, appsDir)} {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("-memory -pids"), 0); err != nil {
			t.Fatal(err)
		}
	}
	if m, err := g.Memory(); err == nil && m.Limit == 32<<20 {
		t.Errorf("the group has a limit without a controller: %+v", m)
	}
	mended(4)
	if b, err := os.ReadFile(filepath.Join(g.path, "pids.max")); err != nil || strings.TrimSpace(string(b)) != "7" {
		t.Errorf("it may have %s processes, %v", b, err)
	}
	if err := g.SetMemory(64 << 20); err != nil {
		t.Error(err)
	}
	if m, err := g.Memory(); err != nil || m.Limit != 64<<20 {
		t.Errorf("its memory is %+v, %v", m, err)
	}
}
