package files

import (
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"berth/app"
)

// maxDepth bounds how deep a tree is walked; each level holds a descriptor. A
// path that deep is of no use to a program either: PATH_MAX ends before.
const maxDepth = 512

// errDeep is the error of a tree that is deeper.
var errDeep = app.Errorf(app.Unusable, "the application's directories are nested more than %d deep", maxDepth)

// errSkip, returned by a visitor, keeps walk out of a directory.
var errSkip = errors.New("skip")

// visit is one entry met on a walk.
type visit struct {
	parent dir
	name   string
	path   string // below where the walk began
	st     unix.Stat_t
}

// walk calls fn for every entry below d, a directory before what it holds. What
// vanishes meanwhile is not visited; what is swapped for a link is not entered.
func walk(ctx context.Context, d dir, fn func(v visit) error) error {
	return walkDir(ctx, d, ".", 1, fn)
}

func walkDir(ctx context.Context, d dir, path string, depth int, fn func(v visit) error) error {
	return d.each(func(name string) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		st, err := d.stat(name)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		v := visit{parent: d, name: name, path: join(path, name), st: st}
		err = fn(v)
		if errors.Is(err, errSkip) {
			return nil
		}
		if err != nil || !isDir(&st) {
			return err
		}
		if depth >= maxDepth {
			return errDeep
		}
		below, err := d.sub(name)
		if gone(err) {
			return nil
		}
		if err != nil {
			return err
		}
		defer below.close()
		return walkDir(ctx, below, v.path, depth+1, fn)
	})
}
