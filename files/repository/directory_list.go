package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// listName is the file of a run that says what is in it.
const listName = "snapshots.json"

// item is a snapshot in a list. The same one is in the list of each run that it is part of.
type item struct {
	ID     string            `json:"id"`
	Name   string            `json:"name"`
	Labels map[string]string `json:"labels,omitempty"`
	At     time.Time         `json:"at"`
	Bytes  int64             `json:"bytes"` // of the file
	SHA256 string            `json:"sha256"`
}

func (i item) snapshot() Snapshot {
	return Snapshot{ID: i.ID, Name: i.Name, Labels: maps.Clone(i.Labels), At: i.At}
}

// itemOf is an item in a directory.
type itemOf struct {
	item
	dir string
}

func (i itemOf) path() string { return path.Join(i.dir, i.Name+ext) }

// open opens the file. ErrDamaged when it is not there, or not as long as it was.
func (i itemOf) open(root *os.Root) (*os.File, error) {
	f, err := root.Open(i.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s is gone", ErrDamaged, i.path())
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() != i.Bytes) {
		err = fmt.Errorf("%w: %s has %d bytes of %d", ErrDamaged, i.path(), info.Size(), i.Bytes)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// shelf is a directory with a list: a run, or what is of no run yet.
type shelf struct {
	run   string // "" for none
	items []itemOf
}

// index is the content of the file. The sum is that of the snapshots, as json.Marshal writes them, so that a
// bit that falls over in it is seen.
type index struct {
	SHA256    string `json:"sha256"`
	Snapshots []item `json:"snapshots"`
}

func (l index) sum() (string, error) {
	text, err := json.Marshal(l.Snapshots)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// readShelf reads the list of a directory.
func readShelf(root *os.Root, dir string) (shelf, error) {
	var s shelf
	if !strings.HasPrefix(dir, newPrefix) {
		s.run = dir
	}
	name := path.Join(dir, listName)
	text, err := root.ReadFile(name)
	if err != nil {
		return s, err
	}
	var l index
	if err := json.Unmarshal(text, &l); err != nil {
		return s, fmt.Errorf("%w: %s cannot be read: %w", ErrDamaged, name, err)
	}
	if sum, err := l.sum(); err != nil || sum != l.SHA256 {
		return s, fmt.Errorf("%w: %s is not what was written", ErrDamaged, name)
	}
	for _, i := range l.Snapshots {
		if err := checkName(i.Name, i.Labels); err != nil {
			return s, fmt.Errorf("%w: %s: %w", ErrDamaged, name, err)
		}
		s.items = append(s.items, itemOf{i, dir})
	}
	return s, nil
}

// readShelves reads all lists, the runs first and newest first, and tells of those that it cannot read.
func readShelves(root *os.Root, unread func(error)) ([]shelf, error) {
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, err
	}
	var all []shelf
	for _, e := range slices.Backward(entries) { // ".new-" is before all names of runs
		if !e.IsDir() || checkRuns(e.Name()) != nil && !strings.HasPrefix(e.Name(), newPrefix) {
			continue
		}
		s, err := readShelf(root, e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist) && s.run == "": // nothing was saved there yet
		case errors.Is(err, fs.ErrNotExist):
			unread(fmt.Errorf("%w: %s has no %s", ErrDamaged, e.Name(), listName))
		case err != nil:
			unread(err)
		default:
			all = append(all, s)
		}
	}
	return all, nil
}

// writeShelf writes the list of a directory.
func writeShelf(root *os.Root, dir string, items []itemOf) error {
	var l index
	for _, i := range items {
		l.Snapshots = append(l.Snapshots, i.item)
	}
	sum, err := l.sum()
	if err != nil {
		return err
	}
	l.SHA256 = sum
	text, err := json.MarshalIndent(l, "", "\t")
	if err != nil {
		return err
	}
	return writeFile(root, path.Join(dir, listName), append(text, '\n'))
}

// writeFile makes a file, or replaces it; what a crash leaves is the one or the other.
func writeFile(root *os.Root, name string, text []byte) (err error) {
	if err := root.Remove(name + part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(name+part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(name + part)
		}
	}()
	if _, err = f.Write(text); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(name+part, name)
	}
	if err == nil {
		err = syncDir(root, path.Dir(name))
	}
	return full(err)
}

// tidy removes the files of a directory that are not on its list.
func tidy(root *os.Root, dir string, items []itemOf) error {
	stay := []string{path.Join(dir, listName)}
	for _, i := range items {
		stay = append(stay, i.path())
	}
	return fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || slices.Contains(stay, name) {
			return err
		}
		return root.Remove(name)
	})
}

// syncDirs makes what is in a directory, and in those below, durable.
func syncDirs(root *os.Root, dir string) error {
	return fs.WalkDir(root.FS(), dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || !e.IsDir() {
			return err
		}
		return syncDir(root, name)
	})
}

func syncDir(root *os.Root, dir string) error {
	f, err := root.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if errors.Is(err, syscall.EINVAL) { // the file system has nothing to sync for a directory
		err = nil
	}
	return errors.Join(err, f.Close())
}
