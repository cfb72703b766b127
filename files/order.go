package files

import (
	"errors"
	"slices"
)

// maxOrdered is how many names of one directory are put in order.
const maxOrdered = 64 << 10

// errUnordered ends the reading of a directory with too many names to be kept.
var errUnordered = errors.New("too many names to put in order")

// order puts the names of each directory on a walk in order, by their bytes: a tree that has
// not changed is walked in the same order on every file system and after a restore. What it
// keeps of all the directories that are open at once is bounded, for a hostile program makes
// millions of names: what is beyond that comes in the directory's own order.
type order struct{ left int } // bytes of names

func newOrder() *order { return &order{maxPaths} }

// each is dir.each in order, and tells fn whether it is.
func (o *order) each(d dir, fn func(name string, ordered bool) error) error {
	var names []string
	kept := 0
	defer func() { o.left += kept }()
	err := d.each(func(name string) error {
		size := len(name) + nameCost
		if len(names) == maxOrdered || size > o.left {
			return errUnordered
		}
		names, kept, o.left = append(names, name), kept+size, o.left-size
		return nil
	})
	if errors.Is(err, errUnordered) {
		names, o.left, kept = nil, o.left+kept, 0
		return d.each(func(name string) error { return fn(name, false) })
	}
	if err != nil {
		return err
	}
	slices.Sort(names)
	for _, name := range names {
		if err := fn(name, true); err != nil {
			return err
		}
	}
	return nil
}

// nameCost is what a name takes in memory beside its bytes.
const nameCost = 32
