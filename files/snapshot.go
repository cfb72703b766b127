package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
	"berth/files/bundle"
)

// snapshotName is in the directory of a stage that UnpackSnapshot made.
const snapshotName = "snapshot"

// isSnapshot reports whether a stage is of a snapshot.
func isSnapshot(top dir) bool {
	_, err := top.stat(snapshotName)
	return err == nil
}

// UnpackSnapshot makes a stage of the files of id in an archive that Export wrote and nothing
// compressed: the parts apps/<id>, which it takes, and perhaps rollback/<id>, which it only
// reads. They come back as they were, packages and links of every kind too, with modes, holes
// and the times of files, but for owners (root, as in the stage of an upload) and
// set-user-ID. Links may lead anywhere: nothing here follows one, and the program made them as
// its own user. Bytes is the sum of the files' contents.
//
// It reads r to its end and proves all of it. What is not what was saved, or of another
// application, is app.Unusable, so is a config file that cannot be read; a full disk is
// app.NoSpace; an error of r itself is wrapped. It looks at ctx between reads. Nothing is left
// behind on an error.
func (s *stages) UnpackSnapshot(ctx context.Context, r io.Reader, id app.ID) (app.Unpacked, error) {
	if err := errors.Join(checkID(id), s.CheckFree("unpack the snapshot")); err != nil {
		return app.Unpacked{}, err
	}
	name := randName()
	up, err := s.unpackSnapshot(ctx, r, id, name)
	if err != nil {
		// The context may have ended, and the stage must go all the same.
		return app.Unpacked{}, errors.Join(err, removeTree(context.WithoutCancel(ctx), s.staging, name))
	}
	up.Stage = app.Stage(name)
	return up, nil
}

func (s *stages) unpackSnapshot(ctx context.Context, r io.Reader, id app.ID, name string) (app.Unpacked, error) {
	top, err := s.begin(name)
	if err != nil {
		return app.Unpacked{}, cannot("unpack the snapshot", err)
	}
	defer top.close()
	from := &source{ctx: ctx, r: r}
	u := unpacker{
		placer: placer{top}, ctx: ctx, part: appsName + "/" + string(id), beside: rollbackName + "/" + string(id), number: -1,
		free: freeCheck{check: func() error { return s.CheckFree("unpack the snapshot") }},
	}
	m, err := archive.Read(from, u.entry)
	if err == nil {
		err = u.proved(from, m)
	}
	switch {
	case from.err != nil:
		return app.Unpacked{}, fmt.Errorf("cannot read the snapshot: %w", from.err)
	case errors.Is(err, archive.ErrDamaged), errors.Is(err, archive.ErrFormat):
		return app.Unpacked{}, &app.Error{
			Kind: app.Unusable, Message: app.Textf("cannot unpack the snapshot: it is not what was saved; take another one"), Err: err,
		}
	case err != nil:
		return app.Unpacked{}, unlessSaid(cannot, "unpack the snapshot", err)
	}
	if err := unix.Mkdirat(int(top), snapshotName, 0o700); err != nil {
		return app.Unpacked{}, cannot("unpack the snapshot", err)
	}
	err = top.with(newName, u.config)
	return u.up, err
}

// source reads an archive, and remembers why it could not be read.
type source struct {
	ctx context.Context
	r   io.Reader
	err error
}

// Read implements io.Reader.
func (s *source) Read(p []byte) (int, error) {
	if s.err == nil {
		s.err = s.ctx.Err()
	}
	if s.err != nil {
		return 0, s.err
	}
	n, err := s.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		s.err = err
	}
	return n, err
}

// unpacker puts what an archive has of an application into a stage.
type unpacker struct {
	placer
	ctx          context.Context
	part, beside string
	number       int // of the part that the stage holds, -1 for none
	free         freeCheck
	up           app.Unpacked
}

// entry takes one entry of the archive.
func (u *unpacker) entry(n int, part string, e archive.Entry, content io.Reader) error {
	switch {
	case part == u.beside:
		return nil
	case part != u.part:
		return fmt.Errorf("%w: %.100q is of something else", archive.ErrDamaged, part)
	case n != u.number: // a later part has the place of an earlier one
		if err := removeTree(u.ctx, u.root, newName); err != nil {
			return err
		}
		u.number, u.up = n, app.Unpacked{}
	}
	if e.Path == "" {
		if !e.Mode.IsDir() {
			return fmt.Errorf("%w: the application is no directory", archive.ErrDamaged)
		}
		e.Mode = fs.ModeDir | 0o700 // what it holds is nobody's yet
	}
	if e.Path != bundle.ConfigName && !e.Mode.IsDir() && u.up.Hint.IsZero() {
		u.up.Hint = bundle.HintFor(e.Path)
	}
	e.UID, e.GID = os.Geteuid(), os.Geteuid()
	u.up.Bytes += e.Size
	if err := u.free.wrote(leastFile); err != nil {
		return err
	}
	err := u.put(newName, e, readerFunc(func(p []byte) (int, error) {
		n, err := content.Read(p)
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("%w: %.200q cannot be read: %w", archive.ErrDamaged, e.Path, err)
		}
		if full := u.free.wrote(int64(n)); full != nil {
			err = full
		}
		return n, err
	}))
	if errors.Is(err, unix.EEXIST) || gone(err) { // the stage is berth's alone, so the archive says so
		err = fmt.Errorf("%w: %.200q has no place: %w", archive.ErrDamaged, e.Path, err)
	}
	return err
}

// proved reports whether the part that was taken counts, and nothing follows the archive.
func (u *unpacker) proved(r io.Reader, m archive.Manifest) error {
	if u.number < 0 || m.Parts[u.number].Void {
		return fmt.Errorf("%w: it has no files of the application", archive.ErrDamaged)
	}
	if n, err := io.ReadFull(r, make([]byte, 1)); n > 0 || !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: something follows its end", archive.ErrDamaged)
	}
	return nil
}

// config reads the config file, if the tree brings one.
func (u *unpacker) config(tree dir) error {
	f, _, err := tree.file(bundle.ConfigName)
	if gone(err) {
		return nil
	}
	if err != nil {
		return cannot("unpack the snapshot", err)
	}
	defer f.Close()
	u.up.Config, err = bundle.ParseConfig(f)
	u.up.Found = err == nil
	return err
}
