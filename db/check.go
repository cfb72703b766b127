package db

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// Usable reports whether Open would take the file at path, which may be in use,
// and writes nothing to it: that it can be read and is of no newer berth, and that a
// log that a crash left beside it is its own (ErrOtherLog), or, when that cannot be told,
// that the two are whole together. That there is no file is no error. Migrations that Open would run are not tried.
func Usable(ctx context.Context, path string) error {
	if err := usable(ctx, path); err != nil {
		return fmt.Errorf("cannot use the database: %w", fileError(err))
	}
	return nil
}

// Current reports whether Open would find a file at path, which may be in use,
// and leave its schema as it is. It fails as Usable does.
func Current(ctx context.Context, path string) (bool, error) {
	version, newest, err := schemas(ctx, path)
	if err != nil {
		return false, fmt.Errorf("cannot use the database: %w", fileError(err))
	}
	return version > 0 && version == newest, nil
}

// New reports whether Open would make the database at path: no file is there, or nobody
// has stored anything in it yet. It fails as Usable does.
func New(ctx context.Context, path string) (bool, error) {
	version, err := SchemaOf(ctx, path)
	return version == 0 && err == nil, err
}

func usable(ctx context.Context, path string) error {
	_, _, err := schemas(ctx, path)
	return err
}

// SchemaOf returns the version of the schema of the database at path: 0 when no file is there,
// or when nobody has stored anything in it yet. It fails as Usable does.
func SchemaOf(ctx context.Context, path string) (int, error) {
	version, _, err := schemas(ctx, path)
	if err != nil {
		return 0, fmt.Errorf("cannot use the database: %w", fileError(err))
	}
	return version, nil
}

// schemas returns the version of the schema, and the newest there is: zeros when
// there is no file.
func schemas(ctx context.Context, path string) (version, newest int, err error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0, 0, nil
	case err != nil:
		return 0, 0, err
	case !info.Mode().IsRegular():
		return 0, 0, fmt.Errorf("%s is not a regular file", path)
	}
	doubtful := false
	if LeftLog(path) { // looked at before it is open here
		own, told, err := belongs(path)
		switch {
		case err != nil:
			return 0, 0, err
		case told && !own && LeftLog(path):
			return 0, 0, ErrOtherLog
		}
		doubtful = !told || !own // somebody has opened it meanwhile, and it has changed
	}
	pool, err := openPool(path, reading, &origin{})
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	if err := connect(ctx, pool); err != nil {
		return 0, 0, err
	}
	if version, newest, err = known(ctx, pool, migrations()); err == nil && doubtful {
		err = whole(ctx, pool)
	}
	return version, newest, err
}
