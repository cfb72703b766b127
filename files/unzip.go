package files

import (
	"context"
	"errors"
	"io"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

// maxTaken is how many of the names that are taken are told.
const maxTaken = 20

// Unzip unpacks a ZIP into a stage of its own, whose files are uid's and count for its quota, and returns what they take.
// The ZIP is refused as an upload is. Lay gives the files their place; the caller discards the stage.
func (s *stages) Unzip(ctx context.Context, file string, uid int) (app.Stage, app.Space, error) {
	a, err := bundle.OpenFiles(file, s.lim)
	if err != nil {
		return "", app.Space{}, err
	}
	defer func() { _ = a.Close() }() // was only read
	if err := s.CheckFree("unpack the ZIP"); err != nil {
		return "", app.Space{}, err
	}
	stage := app.Stage(randName())
	err = s.extract(ctx, a, string(stage), func(inner dir) error { return s.mark(inner, uid) })
	var space app.Space
	if err == nil {
		space, err = s.give(ctx, stage, uid)
	}
	if err == nil { // or a power cut could leave empty files under the names that Lay gives them
		err = unix.Syncfs(int(s.staging))
	}
	if err != nil {
		// The context may have ended, and the stage must go all the same.
		err = errors.Join(unlessSaid(s.cannot, "unpack the ZIP", err), removeTree(context.WithoutCancel(ctx), s.staging, string(stage)))
		return "", app.Space{}, err
	}
	return stage, space, nil
}

// give makes what is in a stage uid's, who cannot reach it yet, and measures it.
func (s *stages) give(ctx context.Context, stage app.Stage, uid int) (space app.Space, err error) {
	src, err := s.tree(stage, false)
	if err != nil {
		return space, err
	}
	defer src.close()
	err = walk(ctx, src, func(v visit) error {
		space = space.Plus(app.Space{Bytes: v.st.Blocks * 512, Entries: 1})
		return unix.Fchownat(int(v.parent), v.name, uid, uid, unix.AT_SYMLINK_NOFOLLOW)
	})
	return space, err
}

// Lay moves the files of a stage of Unzip into a directory of the live tree of id, which must be that of uid, and makes the
// directories that are missing. Without replace it moves nothing when a file has a name already, and tells so. Where
// something else than a file has the name of a file, or than a directory that of a directory, that is app.Conflict, before
// anything is moved, unless the program puts it there meanwhile: whatever it does, nothing outside of its tree is
// written. A file that is replaced is all of the old or all of the new.
func (s browser) Lay(ctx context.Context, id app.ID, uid int, name string, stage app.Stage, replace bool) (app.Unzipped, error) {
	live, err := s.liveOf(id, uid, name)
	if err != nil {
		return app.Unzipped{}, err
	}
	defer live.close()
	at, err := live.sub(name)
	if err != nil {
		return app.Unzipped{}, noEntry(err, "unpack the ZIP")
	}
	defer at.close()
	if st, err := at.self(); err != nil || int(st.Uid) != uid {
		return app.Unzipped{}, errNoEntry()
	}
	top, err := s.openStage(stage)
	if err != nil {
		return app.Unzipped{}, err
	}
	defer top.close()
	l := layer{uid: uid, replace: replace}
	err = top.with(newName, func(src dir) error {
		if err := l.look(ctx, src, at, "."); err != nil || l.done.Taken > 0 && !replace {
			return err
		}
		return l.lay(ctx, src, at, ".")
	})
	if replace || l.done.Files > 0 {
		l.done.Taken, l.done.Names = 0, nil
	}
	switch {
	case err == nil, app.KindOf(err) != app.Internal:
		return l.done, err
	case gone(err), errors.Is(err, unix.EEXIST), errors.Is(err, unix.EISDIR), errors.Is(err, unix.ENOTEMPTY):
		return l.done, app.Errorf(app.Conflict, "the program changed the directory meanwhile, so not all of the ZIP was unpacked; try again")
	}
	return l.done, s.cannot("unpack the ZIP", err)
}

// layer lays files over others.
type layer struct {
	uid     int
	replace bool
	done    app.Unzipped
}

// look finds what is in the way.
func (l *layer) look(ctx context.Context, src, dst dir, at string) error {
	return src.list(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, err := src.stat(name)
		if err != nil {
			return err
		}
		path := join(at, name)
		to, err := dst.stat(name)
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return err
		case isDir(&from) && isDir(&to) && int(to.Uid) == l.uid:
			return src.with(name, func(src dir) error {
				return dst.with(name, func(dst dir) error { return l.look(ctx, src, dst, path) })
			})
		case isDir(&from):
			return app.Errorf(app.Conflict, "cannot unpack the ZIP: %.300q is a directory in it, and something else here", path)
		case !isFile(&to) || int(to.Uid) != l.uid:
			return app.Errorf(app.Conflict, "cannot unpack the ZIP: %.300q is a file in it, and something else here", path)
		}
		if l.done.Taken++; len(l.done.Names) < maxTaken {
			l.done.Names = append(l.done.Names, path)
		}
		return nil
	})
}

// lay moves what is in src.
func (l *layer) lay(ctx context.Context, src, dst dir, at string) error {
	return src.list(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		from, err := src.stat(name)
		if err != nil {
			return err
		}
		if isDir(&from) {
			return src.with(name, func(src dir) error {
				below, err := l.enter(dst, name)
				if err != nil {
					return err
				}
				defer below.close()
				return l.lay(ctx, src, below, join(at, name))
			})
		}
		if err := l.place(src, dst, name); err != nil {
			return err
		}
		l.done.Files++
		return nil
	})
}

// enter opens a directory of the program's, and makes it if there is none.
func (l *layer) enter(at dir, name string) (dir, error) {
	if below, err := at.mkdir(name, 0o755, l.uid); !errors.Is(err, unix.EEXIST) {
		return below, err
	}
	below, err := at.sub(name)
	if err != nil {
		return noDir, err
	}
	if st, err := below.self(); err != nil || int(st.Uid) != l.uid {
		below.close()
		return noDir, unix.EEXIST
	}
	return below, nil
}

// place moves one file.
func (l *layer) place(src, dst dir, name string) error {
	err := move(src, name, dst, name)
	if !l.replace || !errors.Is(err, unix.EEXIST) {
		return err
	}
	to, err := dst.stat(name)
	if err == nil && (!isFile(&to) || int(to.Uid) != l.uid) {
		return unix.EEXIST
	}
	if err := ignoreMissing(err); err != nil {
		return err
	}
	// The directory may be of another project than the file, from before the quotas.
	if x, perr := dst.project(); perr == nil && x.flags&inherits != 0 {
		if f, err := src.open(name, unix.O_RDONLY|unix.O_NONBLOCK, 0); err == nil {
			err = dir(f).setProject(x.project)
			dir(f).close()
			if err != nil {
				return err
			}
		}
	}
	return unix.Renameat(int(src), name, int(dst), name)
}

// PackDir writes what is in a directory of the live tree of id, which must be that of uid, as a ZIP, as Backup does,
// but with what an upload makes anew. It needs no room on the disk.
func (s browser) PackDir(ctx context.Context, id app.ID, uid int, name string, w io.Writer) error {
	live, err := s.liveOf(id, uid, name)
	if err != nil {
		return err
	}
	defer live.close()
	at, err := live.sub(name)
	if err != nil {
		return noEntry(err, "pack the directory")
	}
	defer at.close()
	if st, err := at.self(); err != nil || int(st.Uid) != uid {
		return errNoEntry()
	}
	zw := bundle.NewWriter(w)
	err = s.pack(ctx, zw, at, uint32(uid), nil, func(limit int64) error {
		return app.Errorf(app.TooLarge, "the directory holds more than the %s that a ZIP may", bundle.SizeText(limit))
	})
	if err == nil {
		err = zw.Close()
	}
	if err != nil {
		return unlessSaid(cannot, "pack the directory", err)
	}
	return nil
}
