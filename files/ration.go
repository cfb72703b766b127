package files

import (
	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

const (
	// treeFactor is how many times the entries of an upload a live tree may
	// have to be copied, committed to or backed up: dependencies are many.
	treeFactor = 10
	// maxPaths bounds the bytes of all paths that one operation keeps in
	// memory. Deep directories with long names make paths that cost a hundred
	// times what they take on disk.
	maxPaths = 64 << 20
)

// ration is what one operation may keep in mind of a tree that a hostile
// program has made. The zero value allows nothing.
type ration struct {
	entries int
	paths   int // bytes
}

// newRation returns the ration of one operation on a live tree.
func newRation(lim bundle.Limits) *ration {
	entries := lim.MaxEntries
	if entries == 0 {
		entries = bundle.DefaultEntries
	}
	return &ration{entries: treeFactor * entries, paths: maxPaths}
}

// take counts one entry, or refuses with app.Unusable.
func (r *ration) take(path string) error {
	r.entries--
	r.paths -= len(path)
	switch {
	case len(path) > unix.PathMax:
		return app.Errorf(app.Unusable, "the application has a path longer than %d bytes", unix.PathMax)
	case r.entries < 0 || r.paths < 0:
		return app.Errorf(app.Unusable, "the application has too many files to be handled at once; remove some")
	}
	return nil
}
