package files

import (
	"context"
	"os"
	"path/filepath"

	"berth/app"
)

// Prepare makes the directory a commit is built in and returns its absolute
// path: a copy of the live tree of id with the stage's tree laid over it, owned
// and reachable by uid. The program may be running; what it does not own, links
// to other users' files above all, is not copied. Until Apply or Discard the
// store remembers what the copy was. A full disk is app.NoSpace.
func (s *Store) Prepare(ctx context.Context, stage app.Stage, id app.ID, uid int) (string, error) {
	if err := s.Room("prepare the build"); err != nil {
		return "", err
	}
	live, err := s.live(id)
	if err != nil {
		return "", err
	}
	defer live.close()
	top, err := s.openStage(stage)
	if err != nil {
		return "", err
	}
	defer top.close()
	// A second call begins again.
	if err := removeTree(ctx, top, buildName); err != nil {
		return "", err
	}
	// Closed to uid until it is complete: the program runs as the same user.
	build, err := top.mkdir(buildName, 0o700, os.Geteuid())
	if err != nil {
		return "", s.cannot("prepare the build", err)
	}
	defer build.close()
	// What is made in it is of the application's project from birth on, links
	// too, which could not be charged later: it moves to the live tree.
	if err := s.mark(build, uid); err != nil {
		return "", s.cannot("prepare the build", err)
	}
	r := newRation(s.lim)
	room := func() error { return s.Room("prepare the build") }
	m, err := copyLive(ctx, live, build, uid, r, room)
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
		return "", s.cannot("prepare the build", err)
	}
	s.mu.Lock()
	s.manifests[stage] = m
	s.mu.Unlock()
	return s.BuildDir(stage), nil
}

// BuildDir returns the absolute path of a prepared stage's copy.
func (s *Store) BuildDir(stage app.Stage) string {
	return filepath.Join(s.root, stagingName, string(stage), buildName)
}

// copyLive copies the live tree and records the copy.
func copyLive(ctx context.Context, live, build dir, uid int, r *ration, room func() error) (manifest, error) {
	st, err := live.self()
	if err != nil {
		return nil, err
	}
	c := copier{owner: st.Uid, uid: uid, ration: r, room: room, links: &links{build, newFirsts()}}
	if err := c.tree(ctx, live, build, ".", 1); err != nil {
		return nil, err
	}
	return record(ctx, build)
}

// overlay lays the ZIP's tree over the copy and marks what it replaced.
func overlay(ctx context.Context, top, build dir, uid int, m manifest, r *ration, room func() error) error {
	src, err := top.sub(newName)
	if err != nil {
		return err
	}
	defer src.close()
	st, err := src.self()
	if err != nil {
		return err
	}
	c := copier{owner: st.Uid, uid: uid, placed: m.touch, ration: r, room: room}
	return c.tree(ctx, src, build, ".", 1)
}
