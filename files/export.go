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
		return exportTree(ctx, w, d, include)
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

// exportTree writes a tree, of which include chooses.
func exportTree(ctx context.Context, w *archive.Writer, d dir, include func(visit) bool) error {
	st, err := d.self()
	if err != nil {
		return err
	}
	if err := w.Add(entryOf("", &st), nil); err != nil {
		return err
	}
	known := newHardLinks()
	return walkOrdered(ctx, d, func(v visit) error {
		if !include(v) {
			return errSkip
		}
		switch {
		case isDir(&v.st):
			return w.Add(entryOf(v.path, &v.st), nil)
		case isLink(&v.st):
			return exportLink(w, v)
		case isFile(&v.st):
			return exportFile(ctx, w, v, include, known)
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

func exportLink(w *archive.Writer, v visit) error {
	target, err := readLink(v.parent, v.name)
	if err != nil {
		return ignoreGone(err)
	}
	e := entryOf(v.path, &v.st)
	e.Link = target
	return w.Add(e, nil)
}

// leased is the error of opening a file, with a sentence where a program keeps others
// from doing so (F_SETLEASE in fcntl(2)).
func leased(v visit, err error) error {
	if errors.Is(err, unix.EAGAIN) {
		return app.Errorf(app.Conflict, "a program keeps %.300q to itself by a lease", v.path)
	}
	return err
}

// exportFile writes one file; one with holes extent by extent, and a later name of
// one as a link.
func exportFile(ctx context.Context, w *archive.Writer, v visit, include func(visit) bool, known *hardLinks) error {
	f, st, err := v.parent.file(v.name)
	if gone(err) {
		return nil
	}
	if err != nil {
		return leased(v, err)
	}
	defer f.Close()
	if v.st = st; !include(v) {
		return nil // swapped since it was looked at
	}
	e := entryOf(v.path, &st)
	id, err := fileIDOf(f, &st)
	if err != nil {
		return err
	}
	if e.HardLink = known.first(id); e.HardLink != "" {
		return w.Add(e, nil)
	}
	if err := exportContent(ctx, w, f, &st, e); err != nil {
		return err
	}
	return known.add(id, &st, v.path)
}

func exportContent(ctx context.Context, w *archive.Writer, f *os.File, st *unix.Stat_t, e archive.Entry) error {
	if st.Blocks*512 >= st.Size {
		e.Size = st.Size
		return w.Add(e, ctxReader(ctx, f))
	}
	hollow := e
	hollow.Total = st.Size
	if err := w.Add(hollow, nil); err != nil {
		return err
	}
	return extents(f, st.Size, func(start, end int64) error {
		e.Offset, e.Size = start, end-start
		return w.Add(e, ctxReader(ctx, io.NewSectionReader(f, start, end-start)))
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
