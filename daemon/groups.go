package daemon

import (
	"context"
	"errors"
	"os"

	"berth/cgroup"
	"berth/proc"
	"berth/proc/sandbox"
	"berth/systemd"
)

func (d *daemon) openGroups(ctx context.Context) error {
	facts, err := cgroup.Detect()
	if err != nil {
		return err
	}
	name, err := d.choosePlace(ctx, facts)
	if err != nil {
		return err
	}
	if d.groups, err = d.openTree(facts, name); err != nil {
		return err
	}
	d.undo = append(d.undo, d.closeGroups)
	adopts, err := d.takePlace(ctx)
	if err != nil {
		return err
	}
	if err := d.takeOver(ctx, adopts); err != nil {
		return err
	}
	if _, err := d.groups.MaxCPU(); err != nil && d.settings.Apps.CPUMax > 0 {
		d.log.Warn("apps.cpu_max has no effect", "why", err)
	}
	if err := d.openMeter(ctx); err != nil {
		return err
	}
	if err := d.openSockets(ctx); err != nil {
		return err
	}
	return d.openNetwork(ctx)
}

// openMeter counts the programs' traffic, where the kernel lets somebody.
func (d *daemon) openMeter(ctx context.Context) error {
	told := func(err error) { d.log.Warn("cannot count the programs' traffic yet, trying again", "error", err) }
	err := sandbox.Insist(ctx, proc.TryPatience, told, func() (err error) {
		d.meter, err = sandbox.NewMeter()
		return err
	})
	if _, missing := errors.AsType[*sandbox.Missing](err); missing { // netIO will say 0B; doctor tells why
		d.log.Warn("netIO will not be counted", "error", err)
		return nil
	}
	if err != nil {
		return untried(err)
	}
	d.undo = append(d.undo, d.meter.Close)
	return nil
}

// HolderOf returns the directory of the unit that holds the programs, "" for
// none: the one the daemon's unit names, or that in which an earlier daemon of
// the same data was, so that one started by hand does not start programs anew
// that run there.
func HolderOf(facts cgroup.Host, name string) (string, error) {
	if group := os.Getenv(systemd.HolderEnv); group != "" {
		return cgroup.HolderOf(facts, group)
	}
	dir, err := cgroup.HolderOf(facts, systemd.AppsHolder)
	if err != nil || !cgroup.Has(dir, name) {
		return "", nil // a host without the unit
	}
	return dir, nil
}

// openTree opens the programs' groups in the unit that holds them, if there is
// one.
func (d *daemon) openTree(facts cgroup.Host, name string) (*cgroup.Tree, error) {
	holder, err := HolderOf(facts, name)
	if sandbox.Passes(err) {
		return nil, untried(err)
	}
	if err != nil {
		d.log.Warn("programs will end with this daemon", "why", err, "fix", "systemctl start "+systemd.AppsUnit)
	}
	if holder == "" {
		return cgroup.Open(facts, name)
	}
	return cgroup.OpenIn(facts, name, holder)
}

// closeGroups leaves the watches of programs that run on to the kernel.
func (d *daemon) closeGroups() error {
	if d.leaving {
		return d.groups.Release()
	}
	return d.groups.Close()
}
