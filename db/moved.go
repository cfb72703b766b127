package db

import (
	"errors"
	"fmt"
	"os"
)

// ErrMoved is the error of every change while the path of the database leads to
// another file than the one that is open, or to none: nobody would find the change
// again.
var ErrMoved = errors.New("its file was removed or replaced while it was open")

// Moved returns nil while the path of the database leads to the file that is
// open, and else an error of ErrMoved. It looks at the name and reads nothing.
func (db *DB) Moved() error { return db.file.moved() }

// origin is where the file of an open database was found.
type origin struct {
	path string
	info os.FileInfo // nil before it is open
}

func (o *origin) moved() error {
	if o.info == nil {
		return nil
	}
	now, err := os.Stat(o.path)
	switch {
	case err != nil:
		return fmt.Errorf("%w (%w)", ErrMoved, err)
	case !os.SameFile(o.info, now):
		return ErrMoved
	}
	return nil
}
