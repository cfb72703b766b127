package logs

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"syscall"
)

// place is what base.pos has: where in the log a file begins. A position in a log is the
// number of bytes that were ever written before it, whatever became of them. The next
// daemon counts on from the file that has the inode.
type place struct {
	Log    string `json:"log"`    // another one than before when the positions of before mean nothing
	Boot   string `json:"boot"`   // of the kernel
	File   uint64 `json:"file"`   // the inode of the current file then
	Begins int64  `json:"begins"` // its position
	Ends   int64  `json:"ends"`   // the position of the log's end then
	Floor  int64  `json:"floor"`  // where in the files the positions before it are is not known
	Closed bool   `json:"closed"` // nothing was written since
}

// placeSize is what a place has on the disk, however long its numbers: it is written over,
// which a full disk does not refuse.
const placeSize = 256

// end is the position behind everything that is in the files.
func (f *files) end() int64 { return f.begun + f.size }

// locate finds the positions again that the daemon before has given, or begins with new
// ones, and reports whether it found them. The files MUST be open.
func (f *files) locate() (found bool) {
	defer func() { f.record(false) }()
	var p place
	text, err := os.ReadFile(f.base + ".pos")
	if err == nil && json.Unmarshal(bytes.TrimSpace(text), &p) == nil && p.Log != "" {
		_, after, there := f.since(p.File, 0)
		end := p.Begins + after
		// After a power cut nobody knows what of the file is what it was.
		same := p.Boot == bootID() && end >= p.Ends || p.Closed && end == p.Ends
		if there && same {
			f.id, f.begun, f.floor = p.Log, end-f.size, p.Floor
			return true
		}
	}
	f.id, f.begun, f.floor = strings.ToLower(rand.Text()[:10]), 0, 0
	for i := 1; i <= f.keep; i++ {
		if st, err := os.Lstat(f.path(i)); err == nil {
			f.begun += st.Size()
		}
	}
	return false
}

// errGone is why nothing can be taken back: a rotation has removed where it began.
var errGone = errors.New("the log does not have it any more")

// back takes back everything behind a position.
func (f *files) back(to int64) error {
	index, begins := 0, f.begun
	for i := 1; i <= f.keep && to < begins; i++ {
		if st, err := os.Lstat(f.path(i)); err == nil {
			index, begins = i, begins-st.Size()
		}
	}
	if to < begins {
		return errGone
	}
	return f.rollback(index, to-begins)
}

// cut prepares for a rollback: the index-th file is about to end at a size, and the newer
// ones to be empty. What it records holds before and after that.
func (f *files) cut(index int, at int64) {
	begins, node := f.begun, f.node
	for i := 1; i <= index; i++ {
		if st, err := os.Lstat(f.path(i)); err == nil {
			begins, node = begins-st.Size(), inode(st)
		}
	}
	f.remember(place{f.id, bootID(), node, begins, begins + at, f.floor, false})
	if index > 0 {
		f.begun = begins + at
	}
}

// record writes where the current file begins.
func (f *files) record(closed bool) {
	if f.id != "" {
		f.remember(place{f.id, bootID(), f.node, f.begun, f.end(), f.floor, closed})
	}
}

// remember writes a place. Where that fails there is nothing rather than what is no longer so.
func (f *files) remember(p place) {
	path := f.base + ".pos"
	text, err := json.Marshal(p)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	}
	if err == nil {
		_, err = file.WriteAt(append(text, bytes.Repeat([]byte{' '}, max(placeSize-len(text), 0))...), 0)
		_ = file.Close()
	}
	if err != nil {
		_ = os.Remove(path)
	}
}

// bootID tells one run of the kernel from the next.
func bootID() string {
	id := boot()
	return hex.EncodeToString(id[:])
}

// first is the position of the first byte that is kept.
func (f *files) first() int64 {
	at := f.begun
	for i := 1; i <= f.keep; i++ {
		if st, err := os.Lstat(f.path(i)); err == nil {
			at -= st.Size()
		}
	}
	return max(at, f.floor)
}

// seek opens the file that has a position before the end, and returns where in it that is and
// how many bytes it has from there. gone is how many are not kept any more: then it is that
// of the first one that is. The file is nil if it cannot be opened now.
func (f *files) seek(at int64) (file *os.File, from, n, gone int64) {
	gone = max(f.floor-at, 0)
	at += gone
	oldest, begins, size := 0, f.begun, f.size
	for i := 1; i <= f.keep && at < begins; i++ {
		if st, err := os.Lstat(f.path(i)); err == nil {
			oldest, begins, size = i, begins-st.Size(), st.Size()
		}
	}
	gone += max(begins-at, 0)
	from = max(at-begins, 0)
	file, err := os.OpenFile(f.path(oldest), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, 0, 0, gone
	}
	return file, from, size - from, gone
}
