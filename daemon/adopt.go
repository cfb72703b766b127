package daemon

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/cgroup"
	"berth/files"
	"berth/proc"
	"berth/proc/logs"
)

// survivor is a program that an earlier daemon left.
type survivor struct {
	proc.Survivor
	run   int
	reads bool // it has an input
}

// app is whose it is.
func (v survivor) app() app.ID { return app.ID(path.Base(path.Dir(v.Group))) }

// survivors are those that nobody has adopted yet. It is safe for concurrent
// use once takeOver has returned.
type survivors struct {
	data   *data
	groups *cgroup.Tree
	log    *slog.Logger

	mu      sync.Mutex
	all     map[app.ID]survivor
	strange []survivor // of applications that the records do not know
}

// release returns the survivor of an application, once.
func (s *survivors) release(id app.ID) (survivor, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v, ok := s.all[id]
	delete(s.all, id)
	return v, ok
}

// paths are the groups of the survivors that are to be adopted.
func (s *survivors) paths() []string {
	var paths []string
	for _, v := range s.all {
		paths = append(paths, filepath.Join(s.groups.Root(), v.Group))
	}
	return paths
}

// takeOver finds the programs of an earlier daemon, unless nothing of it is to be
// adopted, ends what else it left running (builds, console commands, and programs
// whose code a commit had begun to change), and takes what programs have printed
// meanwhile. Programs that no record knows run on until endStrangers. handed tells that
// this process was the earlier daemon, whose children it has.
func (s *survivors) takeOver(ctx context.Context, adopts, handed bool) error {
	held, err := s.data.held.Held()
	if err != nil { // what ran goes on all the same
		s.log.Error("cannot take over what was held while berth was down: output may be missing", "error", err)
		held = map[string]*os.File{}
	}
	if adopts {
		if err := s.find(ctx); err != nil {
			return err
		}
	}
	spared := map[string]bool{}
	runs := map[app.ID]bool{}
	for _, v := range slices.Concat(slices.Collect(maps.Values(s.all)), s.strange) {
		spared[v.Group], runs[v.app()] = true, true
	}
	stale, err := s.groups.Sweep(func(group string) bool { return spared[group] })
	if stale > 0 {
		s.log.Warn("ended what an earlier daemon left running", "groups", stale)
	}
	if err != nil { // one that hangs in the kernel keeps no other from starting
		s.log.Error("cannot end everything that an earlier daemon left running", "error", err)
	}
	if handed {
		first := func(pid int) bool {
			for _, v := range s.all {
				if v.PID == pid {
					return true
				}
			}
			return false
		}
		if err := proc.Reap(first); err != nil {
			s.log.Warn("ended processes are left", "error", err)
		}
	}
	s.keepProcesses(held)
	s.findOutputs(held)
	s.findInputs(held)
	if err := s.data.logs.TakeOver(held, func(id app.ID) bool { return runs[id] }); err != nil {
		s.log.Error("output may be missing", "error", err)
	}
	return nil
}

// find finds the program of each application that an earlier daemon left, and those of
// applications that the records do not know. Of two of one, which a commit runs beside
// each other, it is the one that the records name: the other is ended.
func (s *survivors) find(ctx context.Context) error {
	launcher := proc.Launcher{Tree: s.groups, Log: s.log}
	runs := map[app.ID][]survivor{}
	for name, v := range launcher.Survivors() {
		if run, err := strconv.Atoi(path.Base(name)); err == nil {
			v := survivor{Survivor: v, run: run}
			runs[v.app()] = append(runs[v.app()], v)
		}
	}
	if len(runs) == 0 {
		return nil
	}
	known, err := s.data.apps(ctx)
	if err != nil { // nothing is ended for what cannot be read
		return err
	}
	last := make(map[app.ID]int, len(known))
	reads := map[app.ID]bool{}
	for _, a := range known {
		last[a.ID], reads[a.ID] = a.LastRun, a.Code.Stdin
	}
	s.all = map[app.ID]survivor{}
	for id, all := range runs {
		if _, is := last[id]; !is {
			s.strange = append(s.strange, all...)
			continue
		}
		undone, err := s.undone(ctx, id)
		if err != nil {
			return err
		}
		if v, ok := rightful(all, func(v survivor) int { return v.run }, last[id], undone); ok {
			v.reads = reads[id]
			s.all[id] = v
		}
	}
	return nil
}

// rightful returns the one of an application's programs that is to go on: the
// recorded one, else the newest, for a daemon may have died between a start and
// its record. undone tells of a journal whether its commit will be undone: what
// that had started must not run.
func rightful[S any](all []S, run func(S) int, recorded int, undone func(S) bool) (right S, ok bool) {
	for _, v := range all {
		switch {
		case undone(v):
		case !ok, run(right) != recorded && (run(v) == recorded || run(v) > run(right)):
			right, ok = v, true
		}
	}
	return right, ok
}

// undone tells of programs of an application whether a commit that is to be
// undone had started them.
func (s *survivors) undone(ctx context.Context, id app.ID) (func(survivor) bool, error) {
	good, err := s.data.db.History.Journals(ctx, id)
	if err != nil {
		return nil, cmp.Or(databaseProblem(s.data.dir, err), err)
	}
	pending := s.data.trees.Undone(id, good)
	return func(v survivor) bool { return slices.ContainsFunc(pending, v.Of) }, nil
}

// keepProcesses gives survivors their processes as they were held.
func (s *survivors) keepProcesses(held map[string]*os.File) {
	for name, f := range held {
		id, run, ok := logs.ProcessOf(name)
		v, there := s.all[id]
		if !ok || !there || run != 0 && run != v.run {
			continue
		}
		v.PIDFD = f
		s.all[id] = v
		delete(held, name)
		if run == 0 { // an older berth's: it is held by its new name from its adoption on
			if err := s.data.held.Release(name); err != nil {
				s.log.Warn("cannot release a program's process", "app", id, "error", err)
			}
		}
	}
}

// findOutputs looks for what survivors print to where neither a holder nor a
// name leads to it: they would wait for a reader for ever.
func (s *survivors) findOutputs(held map[string]*os.File) {
	var file unix.Stat_t // of a file: some file systems tell another device of directories
	if err := unix.Stat(filepath.Join(s.data.dir, files.LockName), &file); err != nil {
		return // this daemon has locked it, so it is there
	}
	for id, v := range s.all {
		name := logs.HeldName(id)
		found := v.Nameless(file.Dev)
		if len(found) > 0 && !slices.ContainsFunc(found, func(f *os.File) bool { return same(f, held[name]) }) {
			s.log.Warn("nobody held what an application prints to; it is taken from the program itself", "app", id)
			if f := held[name]; f != nil {
				_ = f.Close()
			}
			held[name], found = found[0], found[1:]
		}
		for _, f := range found {
			_ = f.Close()
		}
	}
}

// findInputs opens the inputs of survivors anew that nobody has handed on: a service manager does so at a start, and not when
// one image of the daemon executes the next. It still keeps them, so no program has seen their end.
func (s *survivors) findInputs(held map[string]*os.File) {
	for id, v := range s.all {
		name := logs.InputName(id, v.run)
		if !v.reads || held[name] != nil {
			continue
		}
		f, err := v.InputPipe()
		if err != nil {
			s.log.Warn("the way to a program's input is lost", "app", id, "error", err)
			continue
		}
		held[name] = f
	}
}

// same reports whether two descriptors are of one file. nil is of none.
func same(a, b *os.File) bool {
	if a == nil || b == nil {
		return false
	}
	one, err := a.Stat()
	other, err2 := b.Stat()
	return err == nil && err2 == nil && os.SameFile(one, other)
}

// strangersGrace is how long the start waits for programs that no record knows.
const strangersGrace = 10 * time.Second

// endStrangers ends the programs of applications that the records do not know, before
// what there is of them is moved aside: nobody could see, stop or pay for them, and
// others may get their user ids and ports. They are asked first, for what they have is
// kept.
func (s *survivors) endStrangers(grace time.Duration) {
	strange := s.strange
	s.strange = nil
	if len(strange) == 0 {
		return
	}
	is := func(group string) bool {
		return slices.ContainsFunc(strange, func(v survivor) bool { return v.Group == group })
	}
	s.groups.Terminate(is, grace)
	_, err := s.groups.Sweep(func(group string) bool { return !is(group) })
	for _, v := range strange {
		s.log.Error("ended the program of an application that the database does not know", "app", v.app(), "pid", v.PID)
		err = errors.Join(err, s.data.logs.Fallen(v.app(), v.run))
	}
	if err != nil {
		s.log.Error("cannot end everything that an earlier daemon left running", "error", err)
	}
}

// endUntaken ends survivors that nobody took: of an application whose code is broken, for one, or all, where
// programs run elsewhere from now on. It lets them end by themselves within grace; 0 gives none.
func (s *survivors) endUntaken(grace time.Duration, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	untaken := map[string]bool{}
	for id, v := range s.all {
		untaken[v.Group] = true
		s.log.Warn(what, "app", id)
		if v.PIDFD != nil {
			_ = v.PIDFD.Close()
		}
	}
	all := s.all
	s.all = nil
	if len(untaken) == 0 {
		return
	}
	if grace > 0 {
		s.groups.Terminate(func(group string) bool { return untaken[group] }, grace)
	}
	_, err := s.groups.Sweep(func(group string) bool { return !untaken[group] })
	for id, v := range all { // nobody else gives up what was held for it
		err = errors.Join(err, s.data.logs.Fallen(id, v.run))
	}
	if err != nil {
		s.log.Error("cannot end everything that an earlier daemon left running", "error", err)
	}
}
