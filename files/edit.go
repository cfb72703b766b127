package files

import (
	"context"
	"errors"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// maxNameLength is how long one name may be, in bytes: NAME_MAX (limits.h).
const maxNameLength = unix.NAME_MAX

// MakeDir makes an empty directory in the live tree of id, which must be that of uid. Its own
// directory must be there: app.NotFound. app.Conflict where something has the name.
func (s browser) MakeDir(id app.ID, uid int, name string) error {
	return s.editing(id, uid, name, "make the directory", func(at dir, base string) error {
		if err := s.CheckFree("make the directory"); err != nil {
			return err
		}
		if err := checkName(base); err != nil {
			return err
		}
		made, err := at.mkdir(base, 0o755, uid)
		made.close()
		return err
	})
}

// Move gives an entry of the live tree of id, which must be that of uid, another name, in the
// same directory or another one. Both directories and the entry must be there and the program's: app.NotFound.
// Nothing is replaced: app.Conflict where something has the name, and for a directory that is to move below itself. A link is
// moved itself, not what it leads to.
func (s browser) Move(id app.ID, uid int, from, to string) error {
	return s.editing(id, uid, from, "move the file", func(source dir, base string) error {
		if st, err := source.stat(base); err != nil || int(st.Uid) != uid {
			return errNoEntry()
		}
		return s.editing(id, uid, to, "move the file", func(target dir, name string) error {
			if err := checkName(name); err != nil {
				return err
			}
			err := move(source, base, target, name)
			if errors.Is(err, unix.EINVAL) {
				return app.Errorf(app.Conflict, "a directory cannot be moved into itself")
			}
			return err
		})
	})
}

// Delete takes an entry out of the live tree of id, which must be that of uid, with all that is below it. The
// name is free when it returns; finish removes the files, which may take long. What an early end of its ctx, or a crash, leaves goes
// with the next Sweep. app.NotFound for no entry. A link is removed itself.
func (s browser) Delete(id app.ID, uid int, name string) (finish func(context.Context) error, err error) {
	trash := randName()
	err = s.editing(id, uid, name, "delete the file", func(at dir, base string) error {
		err := move(at, base, s.staging, trash)
		if err == nil {
			err = at.sync()
		}
		return err
	})
	return func(ctx context.Context) error { return removeTree(ctx, s.staging, trash) }, err
}

// editing calls fn with the directory of the program's own that an entry is in, and the entry's name there. What
// fn fails with becomes a sentence.
func (s browser) editing(id app.ID, uid int, name, what string, fn func(at dir, base string) error) error {
	live, err := s.liveOf(id, uid, name)
	if err != nil {
		return err
	}
	defer live.close()
	parent, base := split(name)
	if base == "." {
		return errNoEntry()
	}
	at, err := live.sub(parent)
	if err != nil {
		return noEntry(err, what)
	}
	defer at.close()
	if st, err := at.self(); err != nil || int(st.Uid) != uid {
		return errNoEntry()
	}
	err = fn(at, base)
	switch {
	case err == nil, app.KindOf(err) != app.Internal:
		return err
	case errors.Is(err, unix.EEXIST), errors.Is(err, unix.ENOTEMPTY):
		return app.Errorf(app.Conflict, "something has this name already")
	}
	return noEntry(err, what)
}

// checkName refuses a name that no entry should get.
func checkName(base string) error {
	switch {
	case base == "" || base == "." || base == "..":
		return app.Errorf(app.Invalid, "a name must not be empty")
	case len(base) > maxNameLength:
		return app.Errorf(app.Invalid, "a name may have at most %d bytes", maxNameLength)
	case strings.ContainsFunc(base, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return app.Errorf(app.Invalid, "a name must not have control characters")
	}
	return nil
}
