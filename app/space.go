package app

// Space is what an application takes of a disk.
type Space struct {
	Bytes   int64 // of blocks, not of contents
	Entries int64 // files, directories, links: each takes an inode
	// Deep tells that directories are nested deeper than anybody follows them:
	// what is in the deepest is in neither of the others.
	Deep bool
}

// Plus returns the space of both together.
func (s Space) Plus(t Space) Space {
	return Space{Bytes: s.Bytes + t.Bytes, Entries: s.Entries + t.Entries, Deep: s.Deep || t.Deep}
}
