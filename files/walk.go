package files

import (
	"cmp"
	"context"
	"errors"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
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
	// ordered: the names of its directory come in their order.
	ordered bool
}

// walk calls fn for every entry below d, a directory before what it holds. What
// vanishes meanwhile is not visited; what is swapped for a link is not entered.
func walk(ctx context.Context, d dir, fn func(v visit) error) error {
	return walker{ctx, fn, func(d dir, fn func(string, bool) error) error {
		return d.each(func(name string) error { return fn(name, false) })
	}}.dir(d, ".", 1)
}

// walkOrdered is walk in a stable order: see order.
func walkOrdered(ctx context.Context, d dir, fn func(v visit) error) error {
	return walker{ctx, fn, newOrder().each}.dir(d, ".", 1)
}

// walker is a walk under way.
type walker struct {
	ctx  context.Context
	fn   func(v visit) error
	each func(d dir, fn func(name string, ordered bool) error) error
}

func (w walker) dir(d dir, path string, depth int) error {
	return w.each(d, func(name string, ordered bool) error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		st, err := d.stat(name)
		if err != nil {
			return ignoreGone(err)
		}
		v := visit{parent: d, name: name, path: join(path, name), st: st, ordered: ordered}
		err = w.fn(v)
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
		if err != nil {
			return ignoreGone(err)
		}
		defer below.close()
		return w.dir(below, v.path, depth+1)
	})
}

const (
	// treeFactor is how many times the entries of an upload a live tree may
	// have to be copied, committed to or backed up: dependencies are many.
	treeFactor = 10
	// maxPaths bounds the bytes of all paths that one operation keeps in
	// memory. Deep directories with long names make paths that cost a hundred
	// times what they take on disk.
	maxPaths = 64 << 20
)

// budget is what one operation may keep in memory of a tree that a hostile
// program has made. The zero value allows nothing.
type budget struct {
	entries int
	paths   int // bytes
}

// newBudget returns the budget of one operation on a live tree.
func newBudget(lim bundle.Limits) *budget {
	return &budget{entries: treeFactor * cmp.Or(lim.MaxEntries, bundle.DefaultEntries), paths: maxPaths}
}

// spend counts one entry, or refuses with app.Unusable.
func (b *budget) spend(path string) error {
	b.entries--
	b.paths -= len(path)
	switch {
	case len(path) > unix.PathMax:
		return app.Errorf(app.Unusable, "the application has a path longer than %d bytes", unix.PathMax)
	case b.entries < 0 || b.paths < 0:
		return app.Errorf(app.Unusable, "the application has too many files to be handled at once; remove some")
	}
	return nil
}
