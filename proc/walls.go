package proc

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"berth/cgroup"
	"berth/proc/sandbox"
)

// orders are what the child is told.
func (l *Launcher) orders(s Spec, group *cgroup.Group) (orders, error) {
	o := orders{Joins: group.Joins(), Argv: s.Argv, Env: s.Env, Dir: s.Dir, Try: s.try}
	w := l.Walls
	o.Sandbox = sandbox.Spec{
		UID: s.UID, Limits: l.limits(s), Layers: w.Layers, Home: s.Dir, From: s.From, Temp: s.Temp,
		Data: w.Data, Paths: w.Paths, Name: s.Name, RAM: s.MemoryMB << 20,
	}
	if s.Dir == "/" { // nobody's
		o.Sandbox.Home = ""
	}
	for _, v := range group.Views() {
		o.Sandbox.Groups = append(o.Sandbox.Groups, sandbox.Bind{From: v.Dir, To: v.At})
	}
	if w.Data == "" || !o.Sandbox.Has(sandbox.Mounts) {
		return o, nil
	}
	// In a root of its own the program would not find the way that a link in the
	// data directory's name leads.
	real, err := filepath.EvalSymlinks(w.Data)
	if err != nil {
		return o, fmt.Errorf("cannot find the data directory: %w", err)
	}
	if real == w.Data {
		return o, nil
	}
	o.Sandbox.Data, o.Sandbox.Alias = real, w.Data
	for _, dir := range []*string{&o.Sandbox.Home, &o.Sandbox.From, &o.Sandbox.Temp} {
		if below, ok := strings.CutPrefix(*dir, w.Data+"/"); ok {
			*dir = filepath.Join(real, below)
		}
	}
	return o, nil
}

// TryPatience is how long Try tries again what passes.
const TryPatience = 10 * time.Second

// Try finds out which walls this host lets programs have, by putting them up
// around children that do nothing else. It takes a few milliseconds, and some
// more for each wall that is refused. What keeps a child from its walls (no process,
// no memory, no descriptor to be had) is tried again for patience, and then an error.
func (l *Launcher) Try(ctx context.Context, patience time.Duration) ([]sandbox.Verdict, error) {
	n := 0
	deadline := time.Now().Add(patience)
	told := func(err error) { l.Log.Warn("cannot try the walls around programs yet, trying again", "error", err) }
	verdicts, err := sandbox.Judge(func(layers []sandbox.Layer) error {
		return sandbox.Insist(ctx, time.Until(deadline), told, func() error {
			n++
			return l.try(fmt.Sprintf("apps/walls/%d-%d", os.Getpid(), n), layers)
		})
	})
	if err != nil {
		return nil, fmt.Errorf("cannot try the walls around programs: %w", err)
	}
	return verdicts, nil
}

// try starts a child behind the layers that ends where a program would begin.
func (l *Launcher) try(group string, layers []sandbox.Layer) error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("cannot try the walls: %w", err)
	}
	defer null.Close()
	trial := *l
	trial.Walls.Layers, trial.Meter = layers, nil
	run, err := trial.Launch(Spec{
		Group: group, try: true, Dir: "/", Name: "berth", UID: nobody, MemoryMB: 64, Pids: 64, OOMGroup: true, Output: null,
	})
	if err != nil {
		return err
	}
	run.Wait()
	return nil
}
