package files

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"berth/app"
)

// Prepare makes the directory a commit is built in (BuildDir): a copy of the live
// tree of id with the stage's tree laid over it, owned and reachable by uid. The program may be running; what it does not own, links
// to other users' files above all, is not copied; nor is what an exact commit removes (Over). Until Apply or Discard the
// store remembers what the copy was. A full disk is app.NoSpace.
func (s *stages) Prepare(ctx context.Context, stage app.Stage, id app.ID, uid int) error {
	return s.prepare(ctx, "prepare the build", stage, id, uid, some)
}

// PrepareRestore is Prepare for a stage that stands for all the files there are
// to be: Apply then removes every file of uid's that it does not have. Of the
// live tree the copy has only what a preparation makes again (remade), so that
// packages that did not change are not installed anew. Under a stage of UnpackSnapshot, which
// has packages of its own, it has nothing, and Apply makes the tree what the snapshot is.
func (s *stages) PrepareRestore(ctx context.Context, stage app.Stage, id app.ID, uid int) error {
	return s.prepare(ctx, "prepare the restore", stage, id, uid, most)
}

// prepare does both; what completes "cannot ...".
func (s *stages) prepare(ctx context.Context, what string, stage app.Stage, id app.ID, uid int, e extent) error {
	if err := s.CheckFree(what); err != nil {
		return err
	}
	live, err := s.live(id)
	if err != nil {
		return err
	}
	defer live.close()
	top, err := s.openStage(stage)
	if err != nil {
		return err
	}
	defer top.close()
	if e == most && isSnapshot(top) {
		e = all
	}
	// A second call begins again.
	if err := removeTree(ctx, top, buildName); err != nil {
		return err
	}
	// Closed to uid until it is complete: the program runs as the same user.
	build, err := top.mkdir(buildName, 0o700, os.Geteuid())
	if err != nil {
		return s.cannot(what, err)
	}
	defer build.close()
	// What is made in it is of the application's project from birth on, links
	// too, which could not be charged later: it moves to the live tree.
	if err := s.mark(build, uid); err != nil {
		return s.cannot(what, err)
	}
	c := copier{uid: uid, budget: newBudget(s.lim), free: freeCheck{check: func() error { return s.CheckFree(what) }}}
	was, err := c.fill(ctx, top, live, build, e)
	if o, _ := s.overOf(stage); err == nil && o.exact {
		err = top.with(newName, func(zip dir) error { return s.omit(ctx, id, uid, zip, build, o, was) })
	}
	if err == nil {
		err = passTick(ctx, top)
	}
	if err == nil {
		err = build.own(uid, 0o700)
	}
	if err != nil {
		return s.cannot(what, err)
	}
	s.setPrepared(stage, preparation{was, e})
	return nil
}

// BuildDir returns the absolute path of a prepared stage's copy.
func (s *stages) BuildDir(stage app.Stage) string {
	return filepath.Join(s.root, stagingName, string(stage), buildName)
}

// fill copies what is to be of the live tree, records the copy, and lays the ZIP's
// tree over it.
func (c *copier) fill(ctx context.Context, top, live, build dir, e extent) (manifest, error) {
	st, err := live.self()
	if err != nil {
		return nil, err
	}
	c.owner, c.known, c.top = st.Uid, newHardLinks(), build
	switch e {
	case some:
		err = c.tree(ctx, live, build, ".", 1)
	case most:
		err = c.remade(ctx, live, build)
	case all:
	}
	if err != nil {
		return nil, err
	}
	was, err := record(ctx, build)
	if err != nil {
		return nil, err
	}
	return was, top.with(newName, func(src dir) error {
		st, err := src.self()
		if err != nil {
			return err
		}
		c.owner, c.known, c.placed = st.Uid, newHardLinks(), was.touch
		return c.tree(ctx, src, build, ".", 1)
	})
}

// remade copies the directories that preparations make.
func (c *copier) remade(ctx context.Context, live, build dir) error {
	for folder, is := range rebuildable(live) {
		if !is {
			continue
		}
		if err := c.folder(ctx, live, build, folder); ignoreGone(err) != nil {
			return err
		}
	}
	return nil
}

// folder copies the directory at a path, and makes those above it.
func (c *copier) folder(ctx context.Context, src, dst dir, path string) error {
	return src.in(path, func(from dir, name string) error {
		to, err := dst.sub(".")
		if err != nil {
			return err
		}
		parts := strings.Split(path, "/")
		for _, part := range parts[:len(parts)-1] {
			below, err := c.enter(ctx, to, part, 0o755)
			to.close()
			if err != nil {
				return err
			}
			to = below
		}
		defer to.close()
		return c.dir(ctx, from, to, name, path, len(parts))
	})
}

// addSurplus adds to the manifest of a whole stage what live has and src has not, so
// that the plan removes it: all but what belongs to others, or was made by a
// preparation. Where the stage is all there is to be, that goes too, and directories that
// both have are known, so that they get their modes.
func addSurplus(ctx context.Context, src, live dir, p preparation, b *budget) error {
	self, err := live.self()
	if err != nil {
		return err
	}
	var stays map[string]bool
	if p.extent == most {
		stays = rebuildable(live)
	}
	return walk(ctx, live, func(v visit) error {
		if v.st.Uid != self.Uid || stays[v.path] {
			return errSkip
		}
		if err := b.spend(v.path); err != nil {
			return err
		}
		st, err := src.at(v.path)
		if gone(err) {
			p.was[v.path] = meta{mode: v.st.Mode}
			return nil
		}
		if err == nil && p.extent == all && isDir(&st) && isDir(&v.st) {
			p.was[v.path] = metaOf(&v.st, false)
		}
		return err
	})
}

// remade are the directories that a preparation makes, and what its maker
// leaves in each: one without that may hold code of the application's own. The
// name .berth alone is enough.
var remade = map[string][]string{
	"node_modules": {
		".package-lock.json",                 // npm since version 7
		".yarn-integrity", ".yarn-state.yml", // Yarn 1, and newer
		".modules.yaml", // pnpm
		".berth",        // Bun leaves nothing, so berth does
	},
	".venv":         {"pyvenv.cfg"}, // PEP 405; its links to the interpreter fit in no ZIP
	"vendor/bundle": {".berth"},
	"target":        {"CACHEDIR.TAG"}, // Cargo
	".berth":        nil,
}

// rebuildable names the directories that the next upload makes anew.
func rebuildable(live dir) map[string]bool {
	skip := make(map[string]bool)
	for folder, marks := range remade {
		sub, err := live.sub(folder)
		if err != nil {
			continue
		}
		skip[folder] = len(marks) == 0 || slices.ContainsFunc(marks, func(mark string) bool {
			st, err := sub.stat(mark)
			return err == nil && isFile(&st)
		})
		sub.close()
	}
	return skip
}
