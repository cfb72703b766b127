package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// The files with the weight of a group among its siblings: of v2 (Linux,
// cgroup-v2.rst) from 1 to 10000 with 100 by default, of v1 (kernel/sched,
// cpu_shares_write_u64) from 2 to 262144 with 1024.
const (
	weightV2 = "cpu.weight"
	weightV1 = "cpu.shares"
)

// weights is where a tree weighs its applications.
type weights struct {
	root string // of the tree in the hierarchy that has the cpu controller; "" when there is none
	file string
	err  error // why there is none
}

// Weights returns the name of the file that holds an application's share of
// the processor, or an error that says why this host has no such shares: then
// programs run without, and SetWeight does nothing.
func (t *Tree) Weights() (file string, err error) { return t.weights.file, t.weights.err }

// settleWeights finds out whether there can be weights. It is no error of the
// tree that there are none: they are fair, and no limit depends on them.
func (t *Tree) settleWeights(top, name string) weights {
	if t.host.Mode == Hybrid && t.host.V1CPU != "" {
		if err := t.settleV1("cpu", t.host.V1CPU, name); err != nil {
			return weights{err: err}
		}
		return weights{root: t.v1[len(t.v1)-1].root, file: weightV1}
	}
	if !slices.Contains(t.host.Controllers, "cpu") {
		return weights{err: errors.New("the kernel offers no cpu controller")}
	}
	err := enableDown(top, filepath.Join(t.root, appsDir), "cpu")
	switch {
	case errors.Is(err, fs.ErrNotExist): // so the kernel calls what the parent has not handed down
		return weights{err: errors.New("the cpu controller was not delegated to berth's own control group")}
	case err != nil:
		return weights{err: err}
	}
	return weights{root: t.root, file: weightV2}
}

// of is the file of one application, "" when there are no weights.
func (w weights) of(application string) string {
	if w.root == "" {
		return ""
	}
	return filepath.Join(w.root, application, w.file)
}

// SetWeight changes the share of the processor that the group's application,
// all its groups together, gets while it is contended: that of weight 400 gets
// four times that of weight 100, the kernel's default. It is clamped to 1 and
// 10000; 0 changes nothing. A processor that is not contended has no shares.
// It does nothing where there are no weights (Tree.Weights), or no longer.
func (g *Group) SetWeight(weight int64) error {
	if g.weight == "" || weight == 0 {
		return nil
	}
	// Not os.WriteFile: it would create, which the kernel denies with another
	// error than that of a file that is not there.
	f, err := os.OpenFile(g.weight, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the application has no group left, or the controller was taken from it
	}
	if err == nil {
		_, err = f.WriteString(weightText(filepath.Base(g.weight), weight))
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return fmt.Errorf("cannot set the share of the processor: %w", err)
	}
	return nil
}

// weightText is a weight in the scale of its file. The kernel relates the two
// scales in the same way (sched_weight_from_cgroup in kernel/sched/sched.h).
func weightText(file string, weight int64) string {
	weight = min(max(weight, 1), 10000)
	if file == weightV1 {
		weight = (weight*1024 + 50) / 100 // 10 to 102400, within the range of v1
	}
	return strconv.FormatInt(weight, 10)
}
