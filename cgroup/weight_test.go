package cgroup

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// weighing is a tree on this machine's kernel with weights.
func weighing(t *testing.T) *Tree {
	t.Helper()
	tree := openTree(t)
	if _, err := tree.Weights(); err != nil {
		t.Skip(err)
	}
	return tree
}

// weightOf is the weight of an application as the kernel tells it, in the
// scale of v2.
func weightOf(t *testing.T, tree *Tree, app string) string {
	t.Helper()
	file, err := tree.Weights()
	if err != nil {
		t.Fatal(err)
	}
	got := content(t, tree.weights.root, filepath.Join("apps", app, file))
	v2 := map[string]string{"1024": "100", "4096": "400", "328": "32", "10": "1", "102400": "10000"}
	if file == weightV1 && v2[got] != "" {
		return v2[got]
	}
	return got
}

func TestKernelCPUWeight(t *testing.T) {
	tree := weighing(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, Weight: 400})
	if got := weightOf(t, tree, "a"); got != "400" {
		t.Errorf("the weight is %s, want 400", got)
	}
	for _, tt := range []struct {
		weight int64
		want   string
	}{{32, "32"}, {0, "32"}, {-1, "1"}, {100, "100"}, {20000, "10000"}} {
		if err := g.SetWeight(tt.weight); err != nil {
			t.Errorf("SetWeight(%d): %v", tt.weight, err)
		}
		if got := weightOf(t, tree, "a"); got != tt.want {
			t.Errorf("after SetWeight(%d) it is %s, want %s", tt.weight, got, tt.want)
		}
	}
	create(t, tree, "apps/a/build-1", Limits{Memory: 32 << 20})
	if got := weightOf(t, tree, "a"); got != "10000" {
		t.Errorf("a group without a weight made it %s", got)
	}
	create(t, tree, "apps/b/1", Limits{Memory: 32 << 20})
	if got := weightOf(t, tree, "b"); got != "100" {
		t.Errorf("without a weight it is %s, want the kernel's 100", got)
	}
	file, err := tree.Weights()
	if err != nil {
		t.Fatal(err)
	}
	all := filepath.Dir(tree.weights.root)
	top := filepath.Dir(all)
	if _, err := os.Stat(filepath.Join(top, "system.slice")); filepath.Base(all) != "berth" || err == nil {
		return // the manager weighs the unit
	}
	if got, want := content(t, all, file), weightText(file, 100*int64(runtime.NumCPU())); got != want {
		t.Errorf("all programs together have the weight %s, want %s", got, want)
	}
}

func TestKernelCPUWeightGoesWithTheApplication(t *testing.T) {
	tree := weighing(t)
	var groups []*Group
	for _, run := range []string{"1", "build-1"} {
		g, err := tree.Create("apps/a/"+run, Limits{Memory: 32 << 20, Weight: 400})
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
	}
	if err := groups[0].Remove(); err != nil {
		t.Fatal(err)
	}
	if got := weightOf(t, tree, "a"); got != "400" {
		t.Errorf("while one of its groups is left the weight is %s, want 400", got)
	}
	if err := groups[1].Remove(); err != nil {
		t.Fatal(err)
	}
	for _, root := range tree.roots() {
		if _, err := os.Stat(filepath.Join(root, "apps", "a")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the application left its directory in %s: %v", root, err)
		}
	}
	if err := groups[1].SetWeight(100); err != nil {
		t.Errorf("SetWeight of an application that is gone: %v", err)
	}
}

// A host without the cpu controller runs programs all the same.
func TestKernelCPUWeightIsNoCondition(t *testing.T) {
	h := openTree(t).host
	cpu := h.V1CPU
	h.V1CPU = ""
	h.Controllers = slices.DeleteFunc(slices.Clone(h.Controllers), func(c string) bool { return c == "cpu" })
	tree := openTreeOn(t, h)
	if file, err := tree.Weights(); err == nil || file != "" {
		t.Errorf("Weights() = %q, %v; want why there are none", file, err)
	}
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, Weight: 400})
	if err := g.SetWeight(100); err != nil {
		t.Error(err)
	}
	if err := child(t, g, "exit 0").Wait(); err != nil {
		t.Error(err)
	}
	if cpu != "" {
		if _, err := os.Stat(filepath.Join(cpu, "berth", filepath.Base(tree.root))); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a group was made in the cpu hierarchy: %v", err)
		}
	}
	for _, dir := range g.dirs {
		if _, err := os.Stat(filepath.Join(filepath.Dir(dir), weightV2)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the cpu controller was enabled: %v", err)
		}
	}
}

// Two programs want the whole of one processor, one of them with four times
// the other's weight.
func TestKernelCPUWeightCounts(t *testing.T) {
	tree := weighing(t)
	burn := func(app string, weight int64) *Group {
		g := create(t, tree, "apps/"+app+"/1", Limits{Memory: 32 << 20, Weight: weight})
		cmd := child(t, g, "while :; do :; done")
		t.Cleanup(func() { _ = g.Kill(); _ = cmd.Wait() })
		pin(t, cmd.Process.Pid)
		return g
	}
	light, heavy := burn("light", 100), burn("heavy", 400)
	used := func() (l, h time.Duration) {
		l, lerr := light.CPU()
		h, herr := heavy.CPU()
		if err := errors.Join(lerr, herr); err != nil {
			t.Fatal(err)
		}
		return l, h
	}
	l0, h0 := used() // from here on both are pinned
	var l, h time.Duration
	// What a busy machine takes from a guest is charged to whom it takes it from, so that a
	// short while may say anything; a longer one does not.
	poll(t, "they have used the processor as they should, or 20 s of it", func() bool {
		l, h = used()
		l, h = l-l0, h-h0
		return l+h >= 20*time.Second || l+h >= 2*time.Second && h > 2*l && h < 8*l
	})
	if ratio := float64(h) / float64(l); ratio < 2 || ratio > 8 {
		t.Errorf("the heavy one used %v and the light one %v: %.2f times as much, want about 4", h, l, ratio)
	} else {
		t.Logf("%v and %v: %.2f times as much", h, l, ratio)
	}
}

// pin keeps a process on the first processor that this test may use.
func pin(t *testing.T, pid int) {
	t.Helper()
	var may, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &may); err != nil {
		t.Fatal(err)
	}
	n := 0
	for !may.IsSet(n) {
		n++
	}
	one.Set(n)
	if err := unix.SchedSetaffinity(pid, &one); err != nil {
		t.Fatal(err)
	}
}

func TestSetWeight(t *testing.T) {
	for file, scale := range map[string]map[int64]string{
		ioWeight:  {1: "1", 100: "100", 400: "400", 1 << 40: "10000", -5: "1"},
		bfqWeight: {1: "1", 32: "3", 100: "10", 400: "40", 404: "40", 406: "41", 1 << 40: "1000", -5: "1"},
		bfqV1:     {100: "10", 1 << 40: "1000"},
		weightV2:  {1: "1", 100: "100", 400: "400", 1 << 40: "10000", -5: "1"},
		weightV1:  {1: "10", 32: "328", 100: "1024", 400: "4096", 1 << 40: "102400", -5: "10"},
	} {
		for weight, want := range scale {
			dir := fakeFiles(t, map[string]string{"apps/a/" + file: ""})
			g := &Group{weights: []string{weights{root: dir, file: file}.of("apps/a")}}
			if err := errors.Join(g.SetWeight(weight), g.SetWeight(0)); err != nil || content(t, dir, "apps/a/"+file) != want {
				t.Errorf("SetWeight(%d) = %v: %s is %s, want %s", weight, err, file, content(t, dir, "apps/a/"+file), want)
			}
		}
	}
	dir := t.TempDir()
	g := &Group{weights: []string{filepath.Join(dir, weightV2), filepath.Join(dir, ioWeight)}}
	if err := g.SetWeight(100); err != nil {
		t.Errorf("a controller that is gone: %v", err)
	}
	if list, err := os.ReadDir(dir); err != nil || len(list) != 0 {
		t.Errorf("made %v, %v", list, err)
	}
	if err := (&Group{weights: []string{dir}}).SetWeight(100); !errors.Is(err, unix.EISDIR) {
		t.Errorf("a file that cannot be written: %v", err)
	}
}

func TestSettleWeights(t *testing.T) {
	v2 := fakeFiles(t, map[string]string{
		"cgroup.subtree_control": "memory", "berth/cgroup.subtree_control": "", "berth/x/cgroup.subtree_control": "", "berth/x/apps/cgroup.subtree_control": "",
	})
	root := filepath.Join(v2, "berth", "x")
	v1 := t.TempDir()
	file := filepath.Join(fakeFiles(t, map[string]string{"file": ""}), "file")
	for _, tt := range []struct {
		name string
		host Host
		top  string
		want weights
		says string
	}{
		{"unified", Host{Mode: Unified, Controllers: []string{"memory", "cpu"}}, v2, weights{root: root, file: "cpu.weight"}, ""},
		{"unified without it", Host{Mode: Unified, Controllers: []string{"memory", "cpuset"}}, v2, weights{}, "no cpu controller"},
		{"not delegated", Host{Mode: Unified, Controllers: []string{"cpu"}}, filepath.Join(root, "apps", "none"), weights{}, "not delegated"},
		{"hybrid", Host{Mode: Hybrid, V1CPU: v1}, v2, weights{root: filepath.Join(v1, "berth", "x"), file: "cpu.shares"}, ""},
		{"hybrid with it in v2", Host{Mode: Hybrid, Controllers: []string{"cpu"}}, v2, weights{root: root, file: "cpu.weight"}, ""},
		{"hybrid without it", Host{Mode: Hybrid}, v2, weights{}, "no cpu controller"},
		{"hybrid, closed", Host{Mode: Hybrid, V1CPU: file}, v2, weights{}, "not a directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tree := &Tree{layout: layout{host: tt.host, root: root}}
			if tt.says == "not delegated" {
				tree.root = filepath.Join(root, "apps", "none")
			}
			got := tree.settleWeights(tt.top, "x")
			if got.root != tt.want.root || got.file != tt.want.file || (got.err == nil) != (tt.says == "") {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.err != nil && !strings.Contains(got.err.Error(), tt.says) {
				t.Errorf("%q does not say %q", got.err, tt.says)
			}
			if (got.file == weightV1) != (len(tree.v1) == 1) {
				t.Errorf("%s with the v1 places %v", got.file, tree.v1)
			}
			tree.removeOwn(0)
		})
	}
	for _, name := range []string{".", "berth", "berth/x", "berth/x/apps"} {
		if got := content(t, v2, name+"/cgroup.subtree_control"); got != "+cpu" {
			t.Errorf("%s: wrote %q, want +cpu", name, got)
		}
	}
}

// Controllers that share a hierarchy share the group in it.
func TestRootsOfJoinedHierarchies(t *testing.T) {
	tree := &Tree{layout: layout{host: Host{V1Memory: "/m"}, root: "/u", v1: []place{{"memory", "/m", "/m/b"}, {"pids", "/p", "/p/b"}, {"cpu", "/m", "/m/b"}}}}
	if got := tree.roots(); !slices.Equal(got, []string{"/u", "/m/b", "/p/b"}) {
		t.Errorf("roots() = %v", got)
	}
	g := tree.group("apps/a/1")
	if !slices.Equal(g.Joins(), []string{"/m/b/apps/a/1/tasks", "/p/b/apps/a/1/tasks"}) {
		t.Errorf("Joins() = %v", g.Joins())
	}
	if _, v1 := g.mem.(*memoryV1); !v1 {
		t.Errorf("the memory controller is %T", g.mem)
	}
}
