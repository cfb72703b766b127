package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// browser shows and changes single files of live trees.
type browser struct{ *disk }

// maxListed is how many entries of a directory are listed.
const maxListed = 2000

// List returns what is in a directory of the live tree of id, "." being the tree:
// directories first, then by name, and whether there was more than is listed. The
// tree must be that of uid, for an id can be somebody else's by now. It follows no
// link. app.NotFound for what is no directory.
func (s browser) List(id app.ID, uid int, name string) (list []app.Entry, more bool, err error) {
	live, err := s.liveOf(id, uid, name)
	if err != nil {
		return nil, false, err
	}
	defer live.close()
	at, err := live.sub(name)
	if err != nil {
		return nil, false, noEntry(err, "list the directory")
	}
	defer at.close()
	err = at.each(func(name string) error {
		st, err := at.stat(name)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(list) == maxListed {
			more = true
			return fs.SkipAll
		}
		list = append(list, shown(name, &st, uid))
		return nil
	})
	if err != nil && !errors.Is(err, fs.SkipAll) {
		return nil, false, cannot("list the directory", err)
	}
	slices.SortFunc(list, func(a, b app.Entry) int {
		switch aDir, bDir := a.Kind == app.EntryDir, b.Kind == app.EntryDir; {
		case aDir == bDir:
			return strings.Compare(a.Name, b.Name)
		case aDir:
			return -1
		}
		return 1
	})
	return list, more, nil
}

// shown describes what stat has seen. A file of another user is not the
// program's to show.
func shown(name string, st *unix.Stat_t, uid int) app.Entry {
	e := app.Entry{Name: name, Kind: app.EntryOther, At: modTime(st)}
	switch {
	case isDir(st):
		e.Kind = app.EntryDir
	case isLink(st):
		e.Kind = app.EntryLink
	case isFile(st) && int(st.Uid) == uid:
		e.Kind, e.Bytes = app.EntryFile, st.Size
	}
	return e
}

// OpenFile opens a regular file of the live tree of id, which must be that of uid,
// and returns its size. It follows no link, waits for no pipe, and opens nothing
// of another user: app.NotFound for all of that.
func (s browser) OpenFile(id app.ID, uid int, name string) (io.ReadCloser, int64, error) {
	live, err := s.liveOf(id, uid, name)
	if err != nil {
		return nil, 0, err
	}
	defer live.close()
	f, st, err := live.file(name)
	if err != nil {
		return nil, 0, noEntry(err, "open the file")
	}
	if int(st.Uid) != uid {
		_ = f.Close()
		return nil, 0, errNoEntry()
	}
	return f, st.Size, nil
}

// WriteFile makes a file of the live tree of id, which must be that of uid, hold
// data: a new one, made in staging, which then takes its name, so that whoever reads
// it sees all of the old or all of the new, and a crash leaves nothing in the tree. Its directory must be there; the mode
// stays. app.NotFound where there is no directory, app.Conflict where something
// else than a file has the name, or a file that over does not allow. The program may be running: whatever it puts in
// the way, nothing outside of its tree is written, and nothing that it has open. What it writes between the last look
// and the rename, moments later, is lost; a new file never takes the name of one that it made meanwhile.
func (s browser) WriteFile(id app.ID, uid int, name string, data []byte, over app.Over) error {
	live, err := s.liveOf(id, uid, name)
	if err != nil {
		return err
	}
	defer live.close()
	if err := s.CheckFree("write the file"); err != nil {
		return err
	}
	parent, base := split(name)
	at, err := live.sub(parent)
	if err != nil {
		return noEntry(err, "write the file")
	}
	defer at.close()
	if st, err := at.self(); err != nil || int(st.Uid) != uid {
		return errNoEntry()
	}
	w := edited{data: data, uid: uid, mode: 0o644, over: over}
	switch st, err := at.stat(base); {
	case err == nil && !isFile(&st):
		return app.Errorf(app.Conflict, "cannot write the file: something else than a file has this name")
	case err == nil && int(st.Uid) != uid:
		return errNoEntry()
	case err == nil:
		w.mode = st.Mode & 0o777
	case !errors.Is(err, unix.ENOENT):
		return noEntry(err, "write the file")
	case checkName(base) != nil:
		return checkName(base)
	}
	return s.replaceIn(at, base, w)
}

// edited is what a file is to be, and what it may replace.
type edited struct {
	data []byte
	uid  int
	mode uint32
	over app.Over
}

// maxCompared is how much of a file is compared with what it was: more than a text has that is edited.
const maxCompared = 8 << 20

// allows refuses to replace what has the name where the write is not meant for it.
func (w edited) allows(at dir, base string) error {
	if w.over == app.OverAny {
		return nil
	}
	f, st, err := at.file(base)
	if errors.Is(err, unix.ENOENT) {
		if w.over != app.OverNothing {
			return app.Errorf(app.Conflict, "the file was removed meanwhile, so nothing was written")
		}
		return nil
	}
	if w.over == app.OverNothing && err == nil {
		_ = f.Close() // only opened
		return app.Errorf(app.Conflict, "something has this name already")
	}
	if err != nil {
		return noEntry(err, "write the file")
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxCompared))
	if err != nil {
		return cannot("write the file", err)
	}
	if st.Size > maxCompared || app.OverText(text) != w.over {
		return app.Errorf(app.Conflict, "the file was changed meanwhile, so nothing was written")
	}
	return nil
}

// replaceIn makes a file and gives it a name in the program's directory. Until then
// only root can reach it.
func (s browser) replaceIn(at dir, base string, w edited) (err error) {
	if err := w.allows(at, base); err != nil { // before the disk is asked for anything
		return err
	}
	temp := randName()
	f, err := s.staging.create(temp)
	if err != nil {
		return cannot("write the file", err)
	}
	defer func() {
		if err != nil {
			_ = unix.Unlinkat(int(s.staging), temp, 0)
		}
	}()
	// Into a directory that passes its project on, only what is of it can move.
	if x, perr := at.project(); perr == nil && x.flags&inherits != 0 {
		err = dir(f.Fd()).setProject(x.project)
	}
	if err == nil {
		_, err = f.Write(w.data)
	}
	if err == nil {
		err = dir(f.Fd()).own(w.uid, w.mode)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = s.at("written")
	}
	if err == nil {
		err = w.allows(at, base)
	}
	switch {
	case err != nil:
	case w.over == app.OverNothing:
		err = move(s.staging, temp, at, base)
	default:
		err = unix.Renameat(int(s.staging), temp, int(at), base)
	}
	switch {
	case err == nil, app.KindOf(err) != app.Internal:
		return err
	case errors.Is(err, unix.EEXIST):
		return app.Errorf(app.Conflict, "something has this name already")
	}
	if errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENOENT) {
		return app.Errorf(app.Conflict, "cannot write the file: the program changed the directory meanwhile")
	}
	return s.cannot("write the file", err)
}

// liveOf opens the live tree of id if it is uid's, to look for name in it.
func (s browser) liveOf(id app.ID, uid int, name string) (dir, error) {
	if name != path.Clean(name) || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") && (len(name) == 2 || name[2] == '/') ||
		strings.ContainsRune(name, 0) || len(name) > maxLookup {
		return noDir, errNoEntry()
	}
	live, err := s.live(id)
	if err != nil {
		return noDir, err
	}
	st, err := live.self()
	if err != nil || int(st.Uid) != uid {
		live.close()
		return noDir, app.Errorf(app.NotFound, "the application %s has no files", id)
	}
	return live, nil
}

func errNoEntry() error { return app.Errorf(app.NotFound, "there is no such file") }

// noEntry says that there is nothing where err says so: links and specials are
// nothing.
func noEntry(err error, what string) error {
	if gone(err) || errors.Is(err, unix.ENAMETOOLONG) || errors.Is(err, unix.EINVAL) {
		return errNoEntry()
	}
	return cannot(what, err)
}

// Files returns what the tree of id would hold once the stage is laid over it:
// the stage's files first, then the live ones. Either may be empty. It follows
// no link, waits for no pipe and never fails on what is missing; it is safe for
// concurrent use and holds nothing open.
func (s browser) Files(stage app.Stage, id app.ID) app.Files {
	return files{disk: s.disk, stage: stage, id: id}
}

// files implements app.Files.
type files struct {
	disk  *disk
	stage app.Stage
	id    app.ID

	without map[string]bool // live files that an exact commit removes
}

// Brought implements app.Files.
func (f files) Brought(name string) bool {
	return f.stage != "" && files{disk: f.disk, stage: f.stage}.Exists(name)
}

// Exists implements app.Files.
func (f files) Exists(name string) bool {
	h, err := f.open(name)
	if err == nil {
		_ = h.Close() // nothing was read
	}
	return err == nil
}

// Read implements app.Files. The error of a missing file is fs.ErrNotExist.
func (f files) Read(name string, limit int64) ([]byte, error) {
	h, err := f.open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	defer h.Close()
	data, err := io.ReadAll(io.LimitReader(h, limit))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return data, nil
}

// open opens a file of the first tree that has something, anything, of the name.
// In the stage a file may also stand where the live tree has a directory; then
// nothing of the live one is looked at.
func (f files) open(name string) (h *os.File, err error) {
	if name == "" || !fs.ValidPath(path.Clean(name)) || len(name) > maxLookup {
		return nil, fs.ErrInvalid
	}
	in := func(d dir) error {
		var st unix.Stat_t
		if h, st, err = d.file(name); err != nil {
			return err
		}
		// A link to a file of another user is not the program's to have read.
		if self, err := d.self(); err != nil || self.Uid != st.Uid {
			_ = h.Close()
			return fs.ErrPermission
		}
		return nil
	}
	err = fs.ErrNotExist
	if f.stage != "" && checkStage(f.stage) == nil {
		err = f.disk.staging.with(string(f.stage)+"/"+newName, in)
	}
	if errors.Is(err, fs.ErrNotExist) && f.id != "" && checkID(f.id) == nil && !f.without[path.Clean(name)] {
		err = f.disk.apps.with(string(f.id), in)
	}
	return h, err
}

// Remains returns what the tree of id will hold once a whole stage is laid over
// it: the stage's files, and of the live ones those that preparations made, unless the stage is
// a snapshot.
func (s browser) Remains(stage app.Stage, id app.ID) app.Files {
	remains := remainder{files: files{disk: s.disk, stage: stage}, live: files{disk: s.disk, id: id}}
	if top, err := s.openStage(stage); err == nil {
		alone := isSnapshot(top)
		top.close()
		if alone {
			return remains
		}
	}
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
