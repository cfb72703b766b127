package cgroup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A host may have weights of disks or not, and says which.
func TestKernelDiskWeight(t *testing.T) {
	tree := openTree(t)
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, Weight: 400})
	file, err := tree.DiskWeights()
	if err != nil {
		if file != "" || strings.Contains(err.Error(), "/") {
			t.Errorf("DiskWeights() = %q, %v", file, err)
		}
		return
	}
	for weight, want := range map[int64][]string{0: {"40", "400"}, 1000: {"100", "1000"}} {
		if err := g.SetWeight(weight); err != nil {
			t.Fatal(err)
		}
		if weight == 0 {
			continue
		}
		got := strings.TrimPrefix(content(t, tree.disks.root, filepath.Join("apps", "a", file)), "default ")
		if !slices.Contains(want, got) {
			t.Errorf("after SetWeight(%d) %s is %q, want one of %q", weight, file, got, want)
		}
	}
}

// The bound can be moved, and taken away, while something runs.
func TestKernelLimitCPU(t *testing.T) {
	tree := weighing(t)
	file, err := tree.MaxCPU()
	if err != nil {
		t.Fatal(err)
	}
	create(t, tree, "apps/a/1", Limits{Memory: 32 << 20})
	for _, tt := range []struct {
		percent int64
		want    []string // of v2 and v1
	}{{50, []string{"50000 100000", "50000"}}, {250, []string{"250000 100000", "250000"}}, {0, []string{"max 100000", "-1"}}} {
		if err := tree.LimitCPU("apps/a", tt.percent); err != nil {
			t.Fatal(err)
		}
		if got := content(t, tree.weights.root, filepath.Join("apps", "a", file)); !slices.Contains(tt.want, got) {
			t.Errorf("after LimitCPU(%d) %s is %q, want one of %q", tt.percent, file, got, tt.want)
		}
	}
	if err := tree.LimitCPU("apps/none", 50); err != nil {
		t.Errorf("of an application that has no group: %v", err)
	}
}

// The processor time of an application is bounded over all its groups.
func TestKernelCPUMax(t *testing.T) {
	tree := weighing(t)
	file, err := tree.MaxCPU()
	if err != nil {
		t.Fatal(err)
	}
	g := create(t, tree, "apps/a/1", Limits{Memory: 32 << 20, CPU: 20})
	build := create(t, tree, "apps/a/build-1", Limits{Memory: 32 << 20})
	if got := content(t, tree.weights.root, filepath.Join("apps", "a", file)); got != "20000 100000" && got != "20000" {
		t.Errorf("%s is %q", file, got)
	}
	free := create(t, tree, "apps/b/1", Limits{Memory: 32 << 20})
	throttled := func(app string) bool { // cpu.stat of both versions
		for line := range strings.Lines(content(t, tree.weights.root, filepath.Join("apps", app, "cpu.stat"))) {
			if n, ok := strings.CutPrefix(strings.TrimSpace(line), "nr_throttled "); ok {
				return n != "0"
			}
		}
		t.Fatal("the kernel does not tell")
		return false
	}
	for _, group := range []*Group{g, build, free} {
		child(t, group, "while :; do :; done")
	}
	poll(t, "the application is held up, and the other runs", func() bool {
		used, err := free.CPU()
		return err == nil && used >= 300*time.Millisecond && throttled("a")
	})
	if throttled("b") {
		t.Error("an application without a limit is held up")
	}
}

func TestMaxCPU(t *testing.T) {
	for _, tt := range []struct {
		weight, file string
		percent      int64
		want         string
	}{
		{weightV2, maxPercent, 50, "50000 100000"},
		{weightV2, maxPercent, 0, ""},
		{weightV2, maxPercent, 250, "250000 100000"},
		{weightV1, maxV1, 1, "1000"},
		{ioWeight, maxPercent, 50, ""}, // no controller of the processor
	} {
		dir := fakeFiles(t, map[string]string{"apps/a/" + tt.file: ""})
		g := &Group{weights: []string{filepath.Join(dir, "apps/a", tt.weight)}}
		if err := g.maxCPU(tt.percent); err != nil || content(t, dir, "apps/a/"+tt.file) != tt.want {
			t.Errorf("maxCPU(%d) beside %s = %v: %q, want %q", tt.percent, tt.weight, err, content(t, dir, "apps/a/"+tt.file), tt.want)
		}
	}
	if err := (&Group{}).maxCPU(50); err != nil {
		t.Errorf("without a controller: %v", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, maxPercent), 0o700); err != nil {
		t.Fatal(err)
	}
	g := &Group{weights: []string{filepath.Join(dir, weightV2)}}
	if err := g.maxCPU(50); !errors.Is(err, unix.EISDIR) || !strings.HasPrefix(err.Error(), "cannot limit the processor time: ") {
		t.Errorf("a file that cannot be written: %v", err)
	}
	for _, w := range []weights{{root: dir, file: weightV1}, {err: errors.New("no cpu controller")}} {
		if file, err := (&Tree{layout: layout{weights: w}}).MaxCPU(); err == nil || file != "" {
			t.Errorf("MaxCPU() of %+v is %q, %v", w, file, err)
		}
	}
}

func TestSettleDisks(t *testing.T) {
	v2 := func(file string) string {
		return fakeFiles(t, map[string]string{
			"cgroup.subtree_control": "", "berth/cgroup.subtree_control": "", "berth/x/cgroup.subtree_control": "", "berth/x/apps/cgroup.subtree_control": "",
			"berth/x/apps/" + file: "",
		})
	}
	for _, tt := range []struct {
		name, has string
		host      Host
		file      string
		says      string
	}{
		{"bfq", bfqWeight, Host{Mode: Unified, Controllers: []string{"io"}}, bfqWeight, ""},
		{"iocost", ioWeight, Host{Mode: Unified, Controllers: []string{"io"}}, ioWeight, ""},
		{"a controller alone", "io.stat", Host{Mode: Unified, Controllers: []string{"io"}}, "", "no scheduler"},
		{"nothing", ioWeight, Host{Mode: Unified, Controllers: []string{"cpu"}}, "", "no io controller"},
		{"hybrid without blkio", ioWeight, Host{Mode: Hybrid}, "", "no io controller"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			top := v2(tt.has)
			tree := &Tree{layout: layout{host: tt.host, root: filepath.Join(top, "berth", "x")}}
			got := tree.settleDisks(top, "x")
			if got.file != tt.file || (got.err == nil) != (tt.says == "") || got.err != nil && !strings.Contains(got.err.Error(), tt.says) {
				t.Errorf("got %+v, want %q, %q", got, tt.file, tt.says)
			}
		})
	}
	// On v1 the directory shows whether there are weights; without, it is not
	// kept, and no program joins it.
	v1 := t.TempDir()
	tree := &Tree{layout: layout{host: Host{Mode: Hybrid, V1IO: v1}}}
	if got := tree.settleDisks("", "x"); got.err == nil || len(tree.v1) != 0 || len(tree.own) != 0 {
		t.Errorf("got %+v with %v and %v", got, tree.v1, tree.own)
	}
	if list, err := os.ReadDir(v1); err != nil || len(list) != 0 {
		t.Errorf("left %v, %v", list, err)
	}
	with := fakeFiles(t, map[string]string{"berth/x/" + bfqV1: "100"})
	tree = &Tree{layout: layout{host: Host{Mode: Hybrid, V1IO: with}}}
	if got := tree.settleDisks("", "x"); got.file != bfqV1 || got.root != filepath.Join(with, "berth", "x") || len(tree.v1) != 1 {
		t.Errorf("got %+v with %v", got, tree.v1)
	}
}

func TestBoundsPids(t *testing.T) {
	for want, tree := range map[bool]*Tree{
		true:  {layout: layout{host: Host{Mode: Hybrid}, v1: []place{{"pids", "/p", "/p/b"}}}},
		false: {layout: layout{host: Host{Mode: Hybrid}, v1: []place{{"memory", "/m", "/m/b"}}}},
	} {
		if got := tree.BoundsPids(); got != want {
			t.Errorf("BoundsPids() of %+v is %v", tree.v1, got)
		}
	}
	if !(&Tree{layout: layout{host: Host{Mode: Unified}}}).BoundsPids() {
		t.Error("a unified host does not bound processes")
	}
}
