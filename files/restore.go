package files

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"berth/app"
)

// PrepareRestore is Prepare for a stage that stands for all the files there are
// to be: Apply then removes every file of uid's that it does not have. Of the
// live tree the copy has only what a preparation makes again (remade), so that
// packages that did not change are not installed anew.
func (s *Store) PrepareRestore(ctx context.Context, stage app.Stage, id app.ID, uid int) error {
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
	if err := errors.Join(s.Room("prepare the restore"), removeTree(ctx, top, buildName)); err != nil {
		return err
	}
	build, err := top.mkdir(buildName, 0o700, os.Geteuid())
	if err != nil {
		return cannot("prepare the restore", err)
	}
	defer build.close()
	if err := s.mark(build, uid); err != nil {
		return s.cannot("prepare the restore", err)
	}
	r := newRation(s.lim)
	room := func() error { return s.Room("prepare the restore") }
	m, err := copyRemade(ctx, live, build, uid, r, room)
	if err == nil {
		err = overlay(ctx, top, build, uid, m, r, room)
	}
	if err == nil {
		err = passTick(ctx, top)
	}
	if err == nil {
		err = build.own(uid, 0o700)
	}
	if err != nil {
		return s.cannot("prepare the restore", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.manifests[stage], s.whole[stage] = m, true
	return nil
}

// copyRemade copies the directories that preparations make, and records them.
func copyRemade(ctx context.Context, live, build dir, uid int, r *ration, room func() error) (manifest, error) {
	st, err := live.self()
	if err != nil {
		return nil, err
	}
	c := copier{owner: st.Uid, uid: uid, ration: r, room: room, links: &links{build, newFirsts()}}
	for folder, is := range rebuildable(live) {
		if !is {
			continue
		}
		if err := c.folder(ctx, live, build, folder); err != nil && !gone(err) {
			return nil, err
		}
	}
	return record(ctx, build)
}

// folder copies the directory at a path, and makes those above it.
func (c *copier) folder(ctx context.Context, src, dst dir, path string) error {
	parent, name := split(path)
	from, err := src.sub(parent)
	if err != nil {
		return err
	}
	defer from.close()
	to, err := dst.sub(".")
	if err != nil {
		return err
	}
	for rest, more := parent, parent != "."; more; {
		var part string
		part, rest, more = cut(rest)
		below, err := c.enter(ctx, to, part, 0o755)
		to.close()
		if err != nil {
			return err
		}
		to = below
	}
	defer to.close()
	return c.dir(ctx, from, to, name, path, strings.Count(path, "/")+1)
}

func (s *Store) isWhole(stage app.Stage) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.whole[stage]
}

// surplus adds to a manifest what live has and src has not, so that the plan
// removes it: all but what belongs to others, or was made by a preparation.
func surplus(ctx context.Context, src, live dir, was manifest, r *ration) error {
	self, err := live.self()
	if err != nil {
		return err
	}
	stays := rebuildable(live)
	return walk(ctx, live, func(v visit) error {
		if v.st.Uid != self.Uid || stays[v.path] {
			return errSkip
		}
		if err := r.take(v.path); err != nil {
			return err
		}
		parent, name := split(v.path)
		d, err := src.sub(parent)
		if err == nil {
			_, err = d.stat(name)
			d.close()
		}
		if err == nil {
			return nil
		}
		if !gone(err) {
			return err
		}
		was[v.path] = meta{mode: v.st.Mode}
		return nil
	})
}

// Remains returns what the tree of id will hold once a whole stage is laid over
// it: the stage's files, and of the live ones those that preparations made.
func (s *Store) Remains(stage app.Stage, id app.ID) app.Files {
	remains := remainder{files: files{s, stage, ""}, live: files{s, "", id}}
	if live, err := s.live(id); err == nil {
		for folder, is := range rebuildable(live) {
			if is {
				remains.folders = append(remains.folders, folder+"/")
			}
		}
		live.close()
	}
	return remains
}

// remainder implements app.Files.
type remainder struct {
	files
	live    files
	folders []string
}

// Exists implements app.Files.
func (r remainder) Exists(name string) bool {
	return r.files.Exists(name) || r.stays(name) && r.live.Exists(name)
}

// Read implements app.Files.
func (r remainder) Read(name string, limit int64) ([]byte, error) {
	data, err := r.files.Read(name, limit)
	if errors.Is(err, fs.ErrNotExist) && r.stays(name) {
		return r.live.Read(name, limit)
	}
	return data, err
}

func (r remainder) stays(name string) bool {
	return slices.ContainsFunc(r.folders, func(folder string) bool { return strings.HasPrefix(name, folder) })
}
