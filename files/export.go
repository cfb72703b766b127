package files

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
)

// ErrBusy is the error of an export during a commit.
var ErrBusy = errors.New("a commit is under way")

// Export writes the files of id and its journals to an archive, as the parts
// apps/<id> and rollback/<id>: files, directories and links of uid, and of the
// journals what is berth's. Files with several names keep them within a part. The program may be running, and another process may
// have the same data directory: each file is as it was while it was read, files
// that vanish are left out. The names of a directory are in order (see order), so a tree that
// has not changed gives the same bytes, whatever archive.Manifest.Made says. ErrBusy when a commit was under way at any moment of
// it, whatever came of that; the caller begins again then, and also when the
// application was deployed meanwhile. After any error what was written of the parts
// is void, and the archive can go on unless w.Err says that it cannot.
func (s *Store) Export(ctx context.Context, w *archive.Writer, id app.ID, uid int) error {
	before, err := s.betweenCommits(id)
	if err == nil {
		err = s.export(ctx, w, id, uid)
	}
	if err != nil {
		return err
	}
	// A commit that failed meanwhile is undone by now, and the files may be of both.
	after, err := s.betweenCommits(id)
	if err == nil && before != after {
		err = ErrBusy
	}
	return err
}

// mark tells one moment of the journals of an application from another.
type mark struct {
	ino   uint64
	ctime unix.Timespec
}

// betweenCommits returns ErrBusy during a commit, and else a mark that every begin
// and every end of one changes: both make or remove a name in the directory of the
// journals, or that itself.
func (s *Store) betweenCommits(id app.ID) (mark, error) {
	st, err := s.rollback.stat(string(id))
	if errors.Is(err, unix.ENOENT) {
		st, err = s.rollback.self()
	}
	if err != nil {
		return mark{}, cannot("look at the journals", err)
	}
	if s.Pending(id, nil) {
		return mark{}, ErrBusy
	}
	return mark{st.Ino, st.Ctim}, nil
}

// export writes the parts of an application.
func (s *Store) export(ctx context.Context, w *archive.Writer, id app.ID, uid int) error {
	return s.eachPart(id, uid, func(part string, d dir, include func(visit) bool) error {
		w.Begin(part)
		x := exporter{ctx: ctx, w: w, include: include, known: newHardLinks(), copies: s.newCopies(id, uid, strings.HasPrefix(part, appsName))}
		return x.tree(d)
	})
}

// eachPart calls fn with each tree of an application that an archive has, and what of it.
func (s *Store) eachPart(id app.ID, uid int, fn func(part string, d dir, include func(visit) bool) error) error {
	live, err := s.live(id)
	if err != nil {
		return err
	}
	defer live.close()
	mine := func(v visit) bool { return int(v.st.Uid) == uid }
	if err := fn(appsName+"/"+string(id), live, mine); err != nil {
		return cannot("copy the application's files", err)
	}
	all, err := s.rollback.sub(string(id))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return cannot("copy the journals", err)
	}
	defer all.close()
	err = fn(rollbackName+"/"+string(id), all, func(v visit) bool {
		// What root owns in it is berth's frame around the originals.
		plan := strings.Count(v.path, "/") == 1 && v.name == planName
		list := v.path == v.name && strings.HasSuffix(v.name, listExt)
		return mine(v) || v.st.Uid == 0 && (isDir(&v.st) || plan || list)
	})
	if err != nil {
		return cannot("copy the journals", err)
	}
	return nil
}

// exporter writes a tree, of which include chooses, as a part.
type exporter struct {
	ctx     context.Context
	w       *archive.Writer
	include func(visit) bool
	known   *hardLinks
	copies  *copies
}

func (x exporter) tree(d dir) error {
	st, err := d.self()
	if err != nil {
		return err
	}
	if err := x.w.Add(entryOf("", &st), nil); err != nil {
		return err
	}
	return walkOrdered(x.ctx, d, func(v visit) error {
		if !x.include(v) || x.copies.covers[v.path] {
			return errSkip
		}
		switch {
		case isDir(&v.st):
			return x.w.Add(entryOf(v.path, &v.st), nil)
		case isLink(&v.st):
			return x.link(v)
		case isFile(&v.st):
			return x.file(v)
		}
		return nil // pipes, sockets and devices are made anew by programs
	})
}

func entryOf(path string, st *unix.Stat_t) archive.Entry {
	e := archive.Plain(fs.FileMode(st.Mode&0o777), 0)
	e.Path, e.UID, e.GID, e.Time = path, int(st.Uid), int(st.Gid), modTime(st)
	switch {
	case isDir(st):
		e.Mode |= fs.ModeDir
		if st.Mode&unix.S_ISVTX != 0 {
			e.Mode |= fs.ModeSticky
		}
	case isLink(st):
		e.Mode |= fs.ModeSymlink
	}
	return e
}

func (x exporter) link(v visit) error {
	target, err := readLink(v.parent, v.name)
	if err != nil {
		return ignoreGone(err)
	}
	e := entryOf(v.path, &v.st)
	e.Link = target
	return x.w.Add(e, nil)
}

// leased is the error of opening a file, with a sentence where a program keeps others
// from doing so (F_SETLEASE in fcntl(2)).
func leased(v visit, err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return app.Errorf(app.Conflict, "a program keeps %.300q to itself by a lease", v.path)
	}
	return err
}

// file writes one file; one with holes extent by extent, a later name of one as a link, and a
// database as a copy.
func (x exporter) file(v visit) error {
	f, st, err := v.parent.file(v.name)
	if gone(err) {
		return nil
	}
	if err != nil {
		return leased(v, err)
	}
	defer f.Close()
	if v.st = st; !x.include(v) {
		return nil // swapped since it was looked at
	}
	e := entryOf(v.path, &st)
	id, err := fileIDOf(f, &st)
	if err != nil {
		return err
	}
	if e.HardLink = x.known.first(id); e.HardLink != "" {
		return x.w.Add(e, nil)
	}
	if copied, err := x.copies.database(x.ctx, x.w, v, f, e); copied || err != nil {
		return err
	}
	if err := x.content(f, &st, e); err != nil {
		return err
	}
	x.copies.read(v, f)
	return x.known.add(id, &st, v.path)
}

func (x exporter) content(f *os.File, st *unix.Stat_t, e archive.Entry) error {
	if st.Blocks*512 >= st.Size {
		e.Size = st.Size
		return x.w.Add(e, ctxReader(x.ctx, f))
	}
	hollow := e
	hollow.Total = st.Size
	if err := x.w.Add(hollow, nil); err != nil {
		return err
	}
	return extents(f, st.Size, func(start, end int64) error {
		e.Offset, e.Size = start, end-start
		return x.w.Add(e, ctxReader(x.ctx, io.NewSectionReader(f, start, end-start)))
	})
}

// ctxReader makes reads fail once ctx has ended.
func ctxReader(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		return r.Read(p)
	})
}

// readerFunc makes a reader of a function.
type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
