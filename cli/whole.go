package cli

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// writeWhole makes a file whole or not at all: beside it, with these permissions, and then
// under its name. It does not replace a file unless force is true.
func writeWhole(path string, mode fs.FileMode, force bool, write func(io.Writer) error) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".berth-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
		}
	}()
	if err := write(f); err != nil {
		return err
	}
	if err := errors.Join(f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if _, err := os.Lstat(path); err == nil && !force {
		return fs.ErrExist
	}
	return os.Rename(f.Name(), path)
}
