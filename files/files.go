package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Files returns what the tree of id would hold once the stage is laid over it:
// the stage's files first, then the live ones. Either may be empty. It follows
// no link, waits for no pipe and never fails on what is missing; it is safe for
// concurrent use and holds nothing open.
func (s *Store) Files(stage app.Stage, id app.ID) app.Files { return files{s, stage, id} }

// files implements app.Files.
type files struct {
	store *Store
	stage app.Stage
	id    app.ID
}

// Brought implements app.Files.
func (f files) Brought(name string) bool {
	return f.stage != "" && files{f.store, f.stage, ""}.Exists(name)
}

// Exists implements app.Files.
func (f files) Exists(name string) bool {
	found := false
	err := f.find(name, func(d dir) error {
		h, st, err := d.file(name)
		if err != nil {
			return err
		}
		found = d.mayRead(&st)
		return h.Close()
	})
	return err == nil && found
}

// Read implements app.Files. The error of a missing file is fs.ErrNotExist.
func (f files) Read(name string, limit int64) (data []byte, err error) {
	err = f.find(name, func(d dir) error {
		h, st, err := d.file(name)
		if err != nil {
			return err
		}
		defer h.Close()
		if !d.mayRead(&st) {
			return fs.ErrPermission
		}
		data, err = io.ReadAll(io.LimitReader(h, limit))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, err)
	}
	return data, nil
}

// find calls look with the first tree that has something, anything, at name.
// In the stage a file may also stand where the live tree has a directory; then
// nothing of the live one is looked at.
func (f files) find(name string, look func(d dir) error) error {
	if name == "" || !fs.ValidPath(path.Clean(name)) || len(name) > maxLookup {
		return fs.ErrInvalid
	}
	err := fs.ErrNotExist
	if f.stage != "" && checkStage(f.stage) == nil {
		err = lookIn(f.store.staging, string(f.stage)+"/"+newName, look)
	}
	if errors.Is(err, fs.ErrNotExist) && f.id != "" && checkID(f.id) == nil {
		err = lookIn(f.store.apps, string(f.id), look)
	}
	return err
}

// lookIn opens the tree at path for look.
func lookIn(parent dir, path string, look func(d dir) error) error {
	d, err := parent.sub(path)
	if err != nil {
		return err
	}
	defer d.close()
	return look(d)
}

// mayRead reports whether a file found in d belongs to whoever owns d. A link
// to a file of another user is not the program's to have read.
func (d dir) mayRead(st *unix.Stat_t) bool {
	self, err := d.self()
	return err == nil && self.Uid == st.Uid
}
