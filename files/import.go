package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
)

// Importer puts what Export wrote below a directory that nothing else uses. It
// is not safe for concurrent use.
type Importer struct{ placer }

// NewImporter opens a directory that exists. The caller closes the importer.
func NewImporter(path string) (*Importer, error) {
	root, err := openPath(path)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: path, Err: err}
	}
	i := &Importer{placer{root}}
	for name, mode := range map[string]uint32{appsName: 0o711, rollbackName: 0o700} {
		d, err := i.root.mkdir(name, mode, os.Geteuid())
		if err != nil {
			i.Close()
			return nil, &fs.PathError{Op: "mkdir", Path: filepath.Join(path, name), Err: err}
		}
		d.close()
	}
	return i, nil
}

// Close releases the directory.
func (i *Importer) Close() { i.root.close() }

// Sync makes everything that was put durable.
func (i *Importer) Sync() error { return unix.Syncfs(int(i.root)) }

// IsPart reports whether a part of an archive is of files that Put knows.
func IsPart(part string) bool {
	area, id, ok := strings.Cut(part, "/")
	return ok && (area == appsName || area == rollbackName) && app.ValidID(id)
}

// Put makes one entry of a part that IsPart takes, with its owner, mode and, of a
// file, its time. No set-user-ID survives. What leads out of the part, or is
// there already, is refused.
func (i *Importer) Put(part string, e archive.Entry, content io.Reader) error {
	err := archive.ErrDamaged
	if IsPart(part) {
		err = i.put(part, e, content)
	}
	if err != nil {
		return fmt.Errorf("cannot restore %.300q: %w", join2(part, e.Path), err)
	}
	return nil
}

func join2(part, path string) string {
	if path == "" {
		return part
	}
	return part + "/" + path
}

// placer makes the entries of an archive below a directory that nothing else uses.
type placer struct{ root dir }

// put makes one entry of a part at a path below the directory: what the part itself is comes first.
func (i placer) put(part string, e archive.Entry, content io.Reader) error {
	full := join2(part, e.Path)
	if filepath.Clean(full) != full || e.UID < 0 || e.GID < 0 {
		return archive.ErrDamaged
	}
	return i.root.in(full, func(parent dir, name string) error {
		mode := uint32(e.Mode.Perm())
		switch {
		case e.Mode.IsDir():
			if e.Mode&fs.ModeSticky != 0 {
				mode |= unix.S_ISVTX
			}
			made, err := parent.mkdir(name, mode, e.UID)
			made.close()
			return err
		case e.Mode&fs.ModeSymlink != 0:
			if err := unix.Symlinkat(e.Link, int(parent), name); err != nil {
				return err
			}
			return unix.Fchownat(int(parent), name, e.UID, e.GID, unix.AT_SYMLINK_NOFOLLOW)
		case e.HardLink != "":
			return i.putHardLink(part, e.HardLink, parent, name)
		}
		return putFile(parent, name, mode, e, content)
	})
}

// putHardLink gives a file that was put another name.
func (i placer) putHardLink(part, other string, parent dir, name string) error {
	full := join2(part, other)
	if filepath.Clean(full) != full || !strings.HasPrefix(full, part+"/") {
		return archive.ErrDamaged
	}
	return i.root.in(full, func(from dir, base string) error {
		if st, err := from.stat(base); err != nil || !isFile(&st) {
			return archive.ErrDamaged
		}
		return unix.Linkat(int(from), base, int(parent), name, 0)
	})
}

// putFile makes a file, or fills an extent of one with holes.
func putFile(parent dir, name string, mode uint32, e archive.Entry, content io.Reader) (err error) {
	var f *os.File
	if e.Offset >= 0 {
		fd, oerr := parent.open(name, unix.O_WRONLY, 0)
		if oerr != nil {
			return oerr
		}
		f = os.NewFile(uintptr(fd), name)
	} else if f, err = parent.create(name); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if e.Total >= 0 {
		if err := f.Truncate(e.Total); err != nil {
			return err
		}
	}
	if e.Offset > 0 {
		if _, err := f.Seek(e.Offset, io.SeekStart); err != nil {
			return err
		}
	}
	if _, err := io.Copy(f, content); err != nil {
		return err
	}
	fd := int(f.Fd())
	// The mode comes last: a chown clears bits.
	if err := errors.Join(unix.Fchown(fd, e.UID, e.GID), unix.Fchmod(fd, mode)); err != nil {
		return err
	}
	ts := unix.NsecToTimespec(e.Time.UnixNano())
	return unix.UtimesNanoAt(int(parent), name, []unix.Timespec{ts, ts}, unix.AT_SYMLINK_NOFOLLOW)
}
