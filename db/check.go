package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Usable reports whether Open would take the file at path, which may be in use,
// and writes nothing to it: that it can be read and is of no newer berth. That
// there is none is no error. Migrations that Open would run are not tried.
func Usable(ctx context.Context, path string) error {
	if err := usable(ctx, path); err != nil {
		return fmt.Errorf("cannot use the database: %w", fileError(err))
	}
	return nil
}

func usable(ctx context.Context, path string) (err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	pool, err := openPool(path, reading)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := connect(ctx, pool); err != nil {
		return err
	}
	_, _, err = known(ctx, pool, migrations())
	return err
}
