package files

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sys/unix"
)

// manifest is what the copy of a live tree was before the ZIP and the build
// touched it, by path.
type manifest map[string]meta

// meta identifies one state of one entry. The kernel sets the change time on
// every write, chmod and rename, and nobody can set it back. That of a file with
// several names is set too when another name of it comes or goes, which changes
// nothing here: of those the time of modification counts.
type meta struct {
	ino   uint64
	time  unix.Timespec
	size  int64
	mode  uint32
	links bool // it had several names
}

func metaOf(st *unix.Stat_t) meta { return metaBy(st, isFile(st) && st.Nlink > 1) }

func metaBy(st *unix.Stat_t, links bool) meta {
	m := meta{ino: st.Ino, time: st.Ctim, size: st.Size, mode: st.Mode, links: links}
	if links {
		m.time = st.Mtim
	}
	return m
}

// isDir reports whether the entry was a directory.
func (m meta) isDir() bool { return m.mode&unix.S_IFMT == unix.S_IFDIR }

// changed reports whether the entry at path is another than it was.
func (m manifest) changed(path string, st *unix.Stat_t) bool {
	was, ok := m[path]
	return !ok || was != metaBy(st, was.links)
}

// touch marks path as changed whatever its metadata say: the inode number of a
// replaced file may be used again at once, within one tick of the clock.
func (m manifest) touch(path string) {
	if was, ok := m[path]; ok {
		was.ino = 0
		m[path] = was
	}
}

// record makes the manifest of a tree.
func record(ctx context.Context, d dir) (manifest, error) {
	m := make(manifest)
	err := walk(ctx, d, func(v visit) error {
		m[v.path] = metaOf(&v.st)
		return nil
	})
	return m, err
}

// passTick returns when a change made in d gets a later change time than
// anything made before. The kernel stamps files with the time of its last
// timer tick, up to 10 ms old, so a build that is quick enough could otherwise
// change a file that then looks as if it had not.
func passTick(ctx context.Context, d dir) error {
	name := randName()
	f, err := d.create(name)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Unlinkat(int(d), name, 0) }()
	defer f.Close()
	var first, now unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &first); err != nil {
		return err
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		err := errors.Join(unix.Fchmod(int(f.Fd()), 0o600), unix.Fstat(int(f.Fd()), &now))
		if err != nil || now.Ctim != first.Ctim {
			return err
		}
	}
}
