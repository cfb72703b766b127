package files

import (
	"strconv"
)

// verb is what an op does.
type verb string

// The verbs. Each is undone by looking at what is there:
//
//	put    move what is in the way to old/<n>, then the new entry into place
//	del    move the entry to old/<n>
//	rmdir  remove a directory if nothing is left in it
//	mkdir  make a directory
//	mode   change the mode of a directory
const (
	doPut   verb = "put"
	doDel   verb = "del"
	doRmdir verb = "rmdir"
	doMkdir verb = "mkdir"
	doMode  verb = "mode"
)

// op is one step of a commit, one line of the journal.
type op struct {
	N    int     `json:"n"`
	Do   verb    `json:"do"`
	Path pathStr `json:"path"`
	Ino  uint64  `json:"ino,omitempty"`  // put: of the new entry
	Dir  bool    `json:"dir,omitempty"`  // put: the new entry is a directory
	Old  bool    `json:"old,omitempty"`  // put: something is in the way
	Tree []leaf  `json:"tree,omitempty"` // put: what the directory holds, parents first
	Mode uint32  `json:"mode,omitempty"` // mkdir, mode: the new one
	Was  uint32  `json:"was,omitempty"`  // rmdir, mode: the old one
	Size int64   `json:"size,omitempty"` // put: of the new entry, in bytes
	Time int64   `json:"time,omitempty"` // put: when it was changed last, in nanoseconds
}

// leaf is one entry of a directory that is put as a whole.
type leaf struct {
	Path pathStr `json:"p"`
	Ino  uint64  `json:"i"`
	Dir  bool    `json:"d,omitempty"`
	Size int64   `json:"s,omitempty"`
	Time int64   `json:"t,omitempty"`
}

// old is the name an op's original is kept under.
func (o op) old() string { return strconv.Itoa(o.N) }

// pathStr is a path in JSON. File names are bytes, and JSON would turn those
// that are not UTF-8 into something else.
type pathStr string

// MarshalText implements encoding.TextMarshaler.
func (p pathStr) MarshalText() ([]byte, error) {
	q := strconv.Quote(string(p))
	return []byte(q[1 : len(q)-1]), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *pathStr) UnmarshalText(text []byte) error {
	s, err := strconv.Unquote(`"` + string(text) + `"`)
	*p = pathStr(s)
	return err
}
