package files

import (
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

const (
	backupExt  = ".zip"
	backupTemp = ".part" // ends the name of a backup being written
)

// backupsKept is how many backups of one application there are at most: anybody
// with a token can ask for one after the other.
const backupsKept = 2

// backupFactor bounds the bytes a backup reads, as a multiple of what a ZIP may
// unpack to. Without it a sparse file of many terabytes would be read for days.
const backupFactor = 8

// zips are the backups of applications, as ZIPs.
type zips struct{ *disk }

// Backup writes the live tree of id to a ZIP without a wrapping folder and
// returns its unguessable name. The program may be running: files that vanish
// are left out, files that grow are cut. Links, specials, files of other
// owners, names a ZIP cannot hold and dependencies that an upload installs again
// are left out. It may hold more than an upload may. Unless variables is nil it
// holds them too, in app.VariablesFile. app.TooLarge when there is too much, or
// more than room has, app.NoSpace when the disk is full; nothing is left behind on an
// error.
func (s zips) Backup(ctx context.Context, id app.ID, variables []app.Variable, room app.BackupRoom) (name string, err error) {
	live, err := s.live(id)
	if err != nil {
		return "", err
	}
	defer live.close()
	check := func() error { return s.CheckFree("write the backup") }
	if err := check(); err != nil {
		return "", err
	}
	base := string(id) + "." + randName()
	temp := base + backupTemp
	f, err := s.backups.create(temp)
	if err != nil {
		return "", cannot("write the backup", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(int(s.backups), temp, 0)
		}
	}()
	zip := &checkedWriter{to: f, free: freeCheck{check: check}, room: room.Bytes}
	if err = s.write(ctx, live, variables, zip); zip.over() {
		err = app.Errorf(app.TooLarge,
			"cannot write the backup: it takes more than the %d MB of disk that the account has left; remove some files, or ask the owner of this host for more", room.Bytes>>20)
	}
	if st, serr := live.self(); err == nil && serr == nil && st.Nlink == 0 {
		err = app.Errorf(app.NotFound, "the application was deleted meanwhile")
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", unlessSaid(cannot, "write the backup", err)
	}
	name = base + backupExt
	if err = move(s.backups, temp, s.backups, name); err == nil {
		err = s.backups.sync()
	}
	if err != nil {
		return "", cannot("write the backup", err)
	}
	// That an older one stays is no reason to keep this one from its owner:
	// it goes when it expires.
	keep := backupsKept
	if room.Keep > 0 {
		keep = min(keep, room.Keep)
	}
	_ = s.prune(id, name, keep-1)
	return name, nil
}

// checkedWriter looks at the disk as it fills: a ZIP has no links, so files with
// several names are in it several times.
type checkedWriter struct {
	to   io.Writer
	free freeCheck
	room int64 // bytes that may be written, 0 for any number
	has  int64
}

func (w *checkedWriter) over() bool { return w.room > 0 && w.has > w.room }

// Write implements io.Writer.
func (w *checkedWriter) Write(p []byte) (int, error) {
	if w.has += int64(len(p)); w.over() {
		return 0, io.ErrShortWrite
	}
	if err := w.free.wrote(int64(len(p))); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// backup is one in the store's directory.
type backup struct {
	name  string
	bytes int64
	at    time.Time
}

// list returns the backups whose names match, the newest first.
func (s zips) list(match func(name string) bool) (list []backup, err error) {
	err = s.backups.list(func(name string) error {
		if !match(name) {
			return nil
		}
		st, err := s.backups.stat(name)
		if err == nil {
			list = append(list, backup{name, st.Size, modTime(&st)})
		}
		return ignoreMissing(err)
	})
	slices.SortFunc(list, func(a, b backup) int { return b.at.Compare(a.at) })
	return list, err
}

// of matches the backups of an application.
func of(id app.ID) func(name string) bool {
	return func(name string) bool {
		owner, ok := BackupOf(name)
		return ok && owner == id
	}
}

// prune removes all but the newest backups of an application: made, whatever the
// clock says, and keep others.
func (s zips) prune(id app.ID, made string, keep int) error {
	mine, err := s.list(of(id))
	mine = slices.DeleteFunc(mine, func(b backup) bool { return b.name == made })
	for _, b := range mine[min(len(mine), keep):] {
		err = errors.Join(err, ignoreMissing(unix.Unlinkat(int(s.backups), b.name, 0)))
	}
	if err != nil {
		return cannot("remove old backups", err)
	}
	return nil
}

// BackupOf returns the application that a backup was made of, by the backup's
// file name.
func BackupOf(name string) (id app.ID, ok bool) {
	base, ok := strings.CutSuffix(name, backupExt)
	if !ok {
		return "", false
	}
	owner, random, ok := strings.Cut(base, ".") // no id holds a '.'
	return app.ID(owner), ok && app.ValidID(owner) && isRandName(random)
}

// write writes the tree as a ZIP.
func (s zips) write(ctx context.Context, live dir, variables []app.Variable, w io.Writer) error {
	self, err := live.self()
	if err != nil {
		return err
	}
	zw := bundle.NewWriter(w)
	if variables != nil {
		if err := zw.AddVariables(variables, time.Now()); err != nil {
			return err
		}
	}
	tooLarge := func(limit int64) error {
		return app.Errorf(app.TooLarge, "the application's files are larger than the %s a backup may hold", bundle.SizeText(limit))
	}
	if err := s.pack(ctx, zw, live, self.Uid, rebuildable(live), tooLarge); err != nil {
		return err
	}
	return zw.Close()
}

// pack adds what is below a directory and the owner's to a ZIP, but for what is to be skipped.
func (s *disk) pack(
	ctx context.Context, zw *bundle.Writer, tree dir, owner uint32, skip map[string]bool, tooLarge func(limit int64) error,
) error {
	limit := backupFactor * cmp.Or(s.lim.MaxUnpacked, bundle.DefaultUnpacked)
	left := limit
	r := newBudget(s.lim)
	return walk(ctx, tree, func(v visit) (err error) {
		if v.st.Uid != owner || skip[v.path] {
			return errSkip
		}
		if err := r.spend(v.path); err != nil {
			return err
		}
		switch {
		case isDir(&v.st):
			err = zw.AddDir(v.path, modTime(&v.st))
		case isFile(&v.st):
			var n int64
			n, err = addFile(ctx, zw, v, owner, left)
			left -= n
		default:
			return errSkip
		}
		if left < 0 {
			return tooLarge(limit)
		}
		// A name that no upload could have: the file is not the ZIP's business.
		if app.KindOf(err) == app.Unusable {
			return errSkip
		}
		return err
	})
}

// addFile adds one file and returns its size. A file larger than left is not
// read at all.
func addFile(ctx context.Context, zw *bundle.Writer, v visit, owner uint32, left int64) (int64, error) {
	f, st, err := v.parent.file(v.name)
	if gone(err) {
		return 0, nil
	}
	if err != nil {
		return 0, leased(v, err)
	}
	defer f.Close()
	if st.Uid != owner {
		return 0, nil
	}
	if st.Size > left {
		return st.Size, nil
	}
	return st.Size, zw.AddFile(v.path, st.Mode&0o111 != 0, modTime(&st), st.Size, ctxReader(ctx, f))
}

// OpenBackup opens a backup for reading. Anything but the name of one that
// exists is app.NotFound. The caller closes it.
func (s zips) OpenBackup(name string) (io.ReadSeekCloser, time.Time, error) {
	if _, ok := BackupOf(name); !ok {
		return nil, time.Time{}, app.Errorf(app.NotFound, "no such backup")
	}
	f, st, err := s.backups.file(name)
	if gone(err) {
		return nil, time.Time{}, app.Errorf(app.NotFound, "no such backup")
	}
	if err != nil {
		return nil, time.Time{}, cannot("open the backup", err)
	}
	return f, modTime(&st), nil
}

// DropBackups removes the backups written before a time and returns how many
// there were.
func (s zips) DropBackups(before time.Time) (int, error) {
	all, err := s.list(func(name string) bool { return strings.HasSuffix(name, backupExt) })
	n := 0
	for _, b := range all {
		if b.at.Before(before) {
			failed := unix.Unlinkat(int(s.backups), b.name, 0)
			if failed == nil {
				n++
			}
			err = errors.Join(err, ignoreMissing(failed))
		}
	}
	if err != nil {
		return n, cannot("remove old backups", err)
	}
	return n, nil
}

// Backups returns the backups of an application that have not expired, the newest
// first: each does ttl after it was written.
func (s zips) Backups(id app.ID, ttl time.Duration) ([]app.Backup, error) {
	all, err := s.list(of(id))
	if err != nil {
		return nil, cannot("list the backups", err)
	}
	var mine []app.Backup
	for _, b := range all {
		if expires := b.at.Add(ttl); expires.After(time.Now()) {
			mine = append(mine, app.Backup{App: id, File: b.name, Bytes: b.bytes, Expires: expires})
		}
	}
	return mine, nil
}
