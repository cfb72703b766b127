package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
)

// The files with the share of a group among its siblings, of the processor and
// of disks. Linux, cgroup-v2.rst and blkio-controller.rst; the kernel's
// default is 100 but in cpu.shares.
const (
	weightV2   = "cpu.weight" // 1 to 10000
	weightV1   = "cpu.shares" // 2 to 262144 with 1024 (kernel/sched, cpu_shares_write_u64)
	ioWeight   = "io.weight"  // 1 to 10000, of iocost
	bfqWeight  = "io.bfq.weight"
	bfqV1      = "blkio.bfq.weight" // 1 to 1000, as the one before (block/bfq-cgroup.c)
	maxPercent = "cpu.max"
	maxV1      = "cpu.cfs_quota_us"
)

// period is that in which a processor's time is dealt out, in microseconds:
// the kernel's default in both versions.
const period = 100_000

// weights is where a tree weighs its applications.
type weights struct {
	root string // of the tree in the hierarchy that has the controller; "" when there is none
	file string
	err  error // why there is none
}

// Weights returns the name of the file that holds an application's share of
// the processor, or an error that says why this host has no such shares: then
// programs run without, and SetWeight does nothing to it.
func (l *layout) Weights() (file string, err error) { return l.weights.file, l.weights.err }

// DiskWeights is Weights for the time of disks.
func (l *layout) DiskWeights() (file string, err error) { return l.disks.file, l.disks.err }

// MaxCPU returns the name of the file that holds the most processor time an
// application may have, or an error that says why this host has no such limit.
func (l *layout) MaxCPU() (file string, err error) {
	if l.weights.err != nil {
		return "", l.weights.err
	}
	file = maxPercent
	if l.weights.file == weightV1 {
		file = maxV1
	}
	// The tree's own directory is no root group, and has what an application's has.
	if _, err := os.Stat(filepath.Join(l.weights.root, file)); err != nil {
		return "", errors.New("the kernel was built without it (CONFIG_CFS_BANDWIDTH)")
	}
	return file, nil
}

// settleWeights finds out whether there can be weights. It is no error of the
// tree that there are none: they are fair, and no limit depends on them.
func (l *layout) settleWeights(top, name string) weights {
	if l.host.Mode == Hybrid && l.host.V1CPU != "" {
		if err := l.settleV1("cpu", l.host.V1CPU, name); err != nil {
			return weights{err: err}
		}
		weighAll(l.host.V1CPU, weightV1)
		return weights{root: l.v1[len(l.v1)-1].root, file: weightV1}
	}
	if err := l.controller(top, "cpu"); err != nil {
		return weights{err: err}
	}
	if top == l.host.V2 {
		weighAll(top, weightV2)
	}
	return weights{root: l.root, file: weightV2}
}

// weighAll gives all programs of the host together the weight of one process on each
// processor. Their group lies beside the host's own processes when these are in the root
// group, and the kernel deals a group's weight out over the processors that it runs on
// (calc_group_shares in kernel/sched/fair.c): with the default, every site would be slow
// beside two busy processes. Where systemd's slices are, each service has a group's weight.
// No promise depends on it, so an error is none.
func weighAll(root, file string) {
	if _, err := os.Stat(filepath.Join(root, "system.slice")); errors.Is(err, fs.ErrNotExist) {
		_ = writeShare(filepath.Join(root, "berth", file), weightText(file, 100*int64(runtime.NumCPU())))
	}
}

// settleDisks is settleWeights for disks. What has a controller has no weights
// yet: something must deal out the disk's time by them.
func (l *layout) settleDisks(top, name string) weights {
	if l.host.Mode == Hybrid && l.host.V1IO != "" {
		own := len(l.own)
		if err := l.settleV1("blkio", l.host.V1IO, name); err != nil {
			return weights{err: err}
		}
		p := l.v1[len(l.v1)-1]
		if _, err := os.Stat(filepath.Join(p.root, bfqV1)); err == nil {
			return weights{root: p.root, file: bfqV1}
		}
		// Of no use: no program is to join it at each start.
		l.v1 = l.v1[:len(l.v1)-1]
		l.removeOwn(own)
		return weights{err: errNoDealer}
	}
	if err := l.controller(top, "io"); err != nil {
		return weights{err: err}
	}
	// bfq's first: its file is there only while it is loaded, and iocost's
	// says nothing of whether it was switched on.
	for _, file := range []string{bfqWeight, ioWeight} {
		if _, err := os.Stat(filepath.Join(l.root, appsDir, file)); err == nil {
			return weights{root: l.root, file: file}
		}
	}
	return weights{err: errNoDealer}
}

var errNoDealer = errors.New("no scheduler that deals it out is loaded")

// controller hands a controller of cgroup v2 to the applications' groups.
func (l *layout) controller(top, controller string) error {
	if !slices.Contains(l.host.Controllers, controller) {
		return fmt.Errorf("the kernel offers no %s controller", controller)
	}
	err := enableDown(top, filepath.Join(l.root, appsDir), controller)
	if errors.Is(err, fs.ErrNotExist) { // so the kernel calls what the parent has not handed down
		return fmt.Errorf("the %s controller was not delegated to berth's own control group", controller)
	}
	return err
}

// of is the file of one application, "" when there are no weights.
func (w weights) of(application string) string {
	if w.root == "" {
		return ""
	}
	return filepath.Join(w.root, application, w.file)
}

// SetWeight changes the share of the processor and of disks that the group's
// application, all its groups together, gets while they are contended: that of
// weight 400 gets four times that of weight 100, the kernel's default. It is
// clamped to 1 and 10000; 0 changes nothing. What is not contended has no
// shares. It does nothing where there are no weights (Tree.Weights,
// Tree.DiskWeights), or no longer.
func (g *Group) SetWeight(weight int64) error {
	if weight == 0 {
		return nil
	}
	var all error
	for _, file := range g.weights {
		if err := writeShare(file, weightText(filepath.Base(file), weight)); err != nil {
			all = errors.Join(all, fmt.Errorf("cannot set the share of the processor or the disk: %w", err))
		}
	}
	return all
}

// maxCPU bounds the processor time of the group's application, all its groups
// together, to so many percent of one processor; 0 changes nothing.
func (g *Group) maxCPU(percent int64) error {
	if percent == 0 || len(g.weights) == 0 {
		return nil
	}
	dir, file := filepath.Split(g.weights[0])
	text := strconv.FormatInt(percent*period/100, 10)
	switch file {
	case weightV1:
		file = maxV1 // the period is the kernel's
		if percent == unlimitedCPU {
			text = "-1"
		}
	case weightV2:
		if percent == unlimitedCPU {
			text = "max"
		}
		file, text = maxPercent, text+" "+strconv.Itoa(period)
	default:
		return nil // of disks: there is no controller of the processor
	}
	if err := writeShare(filepath.Join(dir, file), text); err != nil {
		return fmt.Errorf("cannot limit the processor time: %w", err)
	}
	return nil
}

// LimitCPU bounds the processor time of an application ("apps/<id>"), all its groups
// together, to so many percent of one processor from now on; 0 takes the bound away. It
// does nothing where the kernel has no such limit, and where the application has no group.
func (t *Tree) LimitCPU(application string, percent int64) error {
	g := &Group{weights: []string{t.weights.of(application)}}
	if percent == 0 {
		percent = unlimitedCPU
	}
	return g.maxCPU(percent)
}

// unlimitedCPU is a percentage for maxCPU that takes the bound away.
const unlimitedCPU = -1

// writeShare writes to a file of an application's group. That it is not there
// is no error: the application has no group left, or the controller was taken
// from it.
func writeShare(file, text string) error {
	// Not os.WriteFile: it would create, which the kernel denies with another
	// error than that of a file that is not there.
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

// weightText is a weight in the scale of its file. The kernel relates the two
// scales of the processor in the same way (sched_weight_from_cgroup in
// kernel/sched/sched.h); in bfq's, a tenth, ratios stay what they are between
// applications of 10 MB and 10 GB.
func weightText(file string, weight int64) string {
	weight = min(max(weight, 1), 10000)
	switch file {
	case weightV1:
		weight = (weight*1024 + 50) / 100 // 10 to 102400, within the range of v1
	case bfqWeight, bfqV1:
		weight = max((weight+5)/10, 1)
	}
	return strconv.FormatInt(weight, 10)
}
