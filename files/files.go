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

// Files returns what the tree of id would hold once the stage is laid over it:
// the stage's files first, then the live ones. Either may be empty. It follows
// no link, waits for no pipe and never fails on what is missing; it is safe for
// concurrent use and holds nothing open.
func (s browser) Files(stage app.Stage, id app.ID) app.Files { return files{s.disk, stage, id} }

// files implements app.Files.
type files struct {
	disk  *disk
	stage app.Stage
	id    app.ID
}

// Brought implements app.Files.
func (f files) Brought(name string) bool {
	return f.stage != "" && files{f.disk, f.stage, ""}.Exists(name)
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
	if errors.Is(err, fs.ErrNotExist) && f.id != "" && checkID(f.id) == nil {
		err = f.disk.apps.with(string(f.id), in)
	}
	return h, err
}

// Remains returns what the tree of id will hold once a whole stage is laid over
// it: the stage's files, and of the live ones those that preparations made.
func (s browser) Remains(stage app.Stage, id app.ID) app.Files {
	remains := remainder{files: files{s.disk, stage, ""}, live: files{s.disk, "", id}}
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
