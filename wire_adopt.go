package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"berth/app"
	"berth/host"
	"berth/proc"
	"berth/sandbox"
)

// survivor is a program that an earlier daemon left.
type survivor struct {
	proc.Survivor
	run int
}

// survivors are those that nobody has adopted yet. It is safe for concurrent
// use.
type survivors struct {
	mu  sync.Mutex
	all map[app.ID]survivor
}

// take returns the survivor of an application, once.
func (s *survivors) take(id app.ID) (survivor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.all[id]
	delete(s.all, id)
	return v, ok
}

// takeOver finds the programs of an earlier daemon, ends what else it left
// running (builds, console commands, and programs whose code a commit had
// begun to change), and takes what programs have printed meanwhile.
func (d *daemon) takeOver(ctx context.Context) error {
	held, err := d.logs.holding.holder.Held()
	if err != nil { // what ran goes on all the same
		d.log.Error("cannot take over what was held while berth was down: output may be missing", "error", err)
	}
	d.survivors.all, err = d.findSurvivors(ctx)
	if err != nil {
		return err
	}
	spared := map[string]bool{}
	for _, v := range d.survivors.all {
		spared[v.Group] = true
	}
	stale, err := d.groups.Sweep(func(group string) bool { return spared[group] })
	if stale > 0 {
		d.log.Warn("ended what an earlier daemon left running", "groups", stale)
	}
	if err != nil { // one that hangs in the kernel keeps no other from starting
		d.log.Error("cannot end everything that an earlier daemon left running", "error", err)
	}
	if d.baton.handed {
		if err := proc.Reap(d.runsNow); err != nil {
			d.log.Warn("ended processes are left", "error", err)
		}
	}
	runs := func(id app.ID) bool { _, ok := d.survivors.all[id]; return ok }
	d.keepProcesses(held)
	if err := d.logs.takeOver(held, runs); err != nil {
		d.log.Error("output may be missing", "error", err)
	}
	return nil
}

// runsNow tells whether a process is the first of a survivor's.
func (d *daemon) runsNow(pid int) bool {
	for _, v := range d.survivors.all {
		if v.PID == pid {
			return true
		}
	}
	return false
}

// findSurvivors returns the newest program of each application that an earlier
// daemon left. Under a commit that was cut short nothing may run.
func (d *daemon) findSurvivors(ctx context.Context) (map[app.ID]survivor, error) {
	launcher := proc.Launcher{Tree: d.groups, Log: d.log}
	groups, err := launcher.Survivors()
	if err != nil {
		return nil, err
	}
	found := map[app.ID]survivor{}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		id := app.ID(path.Base(path.Dir(name)))
		run, err := strconv.Atoi(path.Base(name))
		if err != nil || run < found[id].run {
			continue
		}
		good, err := d.db.Journals(ctx, id)
		if err != nil { // nothing is ended for what cannot be read
			return nil, cmp.Or(databaseProblem(d.settings.DataDir, err), err)
		}
		if d.trees.Pending(id, good) { // half of a commit
			continue
		}
		found[id] = survivor{groups[name], run}
	}
	return found, nil
}

// keepProcesses gives survivors their processes as they were held.
func (d *daemon) keepProcesses(held map[string]*os.File) {
	for name, f := range held {
		id, ok := strings.CutPrefix(name, pidPrefix)
		if v, there := d.survivors.all[app.ID(id)]; ok && there {
			v.PIDFD = f
			d.survivors.all[app.ID(id)] = v
			delete(held, name)
		}
	}
}

// endStrangers ends survivors that belong to no application.
func (d *daemon) endStrangers() {
	d.survivors.mu.Lock()
	defer d.survivors.mu.Unlock()
	strange := map[string]bool{}
	for id, v := range d.survivors.all {
		strange[v.Group] = true
		d.log.Warn("ended the program of an application that is gone", "app", id)
		if v.PIDFD != nil {
			_ = v.PIDFD.Close()
		}
	}
	d.survivors.all = nil
	if len(strange) == 0 {
		return
	}
	if _, err := d.groups.Sweep(func(group string) bool { return !strange[group] }); err != nil {
		d.log.Error("cannot end everything that an earlier daemon left running", "error", err)
	}
}

// adopt is a host.Adopt.
func (s *starter) adopt(p app.Program) (*host.Survivor, error) {
	v, ok := s.adopts(p.App)
	if !ok {
		return nil, nil
	}
	p.Run = v.run
	out, pipe, err := s.logs.pipe(p.App, false, p.UID)
	if err != nil {
		return nil, s.unadopted(v, err)
	}
	defer pipe.Close()
	temp := memoryTemp // of its console commands
	if !slices.Contains(s.proc.Walls.Layers, sandbox.Mounts) {
		temp = s.trees.Temp(p.App, false)
	}
	spec := s.spec(p, temp)
	spec.OnHelperOOM = helperKilled(out)
	run, err := s.proc.Adopt(v.Survivor, spec)
	if err != nil {
		s.logs.ended(p.App, false)
		return nil, s.unadopted(v, err)
	}
	s.logs.holdProcess(p.App, run.Process())
	tidy := func() { s.logs.ended(p.App, false) }
	return &host.Survivor{Instance: instance{run, s, p.App, spec, out, tidy}, Run: v.run, StartedAt: v.Started}, nil
}

// unadopted ends a program that cannot be adopted: it must not run twice.
func (s *starter) unadopted(v survivor, why error) error {
	if _, err := s.proc.Tree.Sweep(func(group string) bool { return group != v.Group }); err != nil {
		return fmt.Errorf("%w; and cannot end it: %w", why, err)
	}
	return why
}
