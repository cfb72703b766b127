package db

import (
	"bufio"
	"cmp"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
)

// ErrOtherLog is the error of a database beside which the write-ahead log of another one
// lies: SQLite would apply it, and mix the two.
var ErrOtherLog = errors.New("the log beside it (-wal) is of another database, or of another state of this one")

// LeftLog reports whether the database at path has a write-ahead log (-wal) that nobody
// has open: a crash left it, and SQLite takes it for the database's own whatever file
// that is by now.
func LeftLog(path string) bool {
	info, err := os.Stat(path + walWord)
	return err == nil && info.Size() > 0 && opened(path+walWord) == ""
}

// A log names no database. So every commit counts itself, in the header of the database:
// its application_id, which SQLite leaves to applications. That puts the header into each
// commit's part of the log. A log begins anew only when all of the one before is in the
// file, so the file has at least the number before the log's first, and at most its last.
//
// The number of a new database is random, and so is that of each copy, whose pages lie
// elsewhere. It is 0 in what a berth wrote that did not count.

// counted is the place of that number (https://sqlite.org/fileformat.html, 1.3).
const counted = 68

// count counts a commit, within its transaction.
func count(t tx) error {
	n, err := one(t, value[int32], sql.ErrNoRows, "PRAGMA application_id")
	if err != nil {
		return err
	}
	if n++; n == 1 {
		n = firstCount()
	}
	return t.exec(fmt.Sprintf("PRAGMA application_id = %d", n)) // a pragma takes no parameters
}

// changes returns how many rows the connection has changed since it was opened.
func changes(t tx) (int, error) { return number(t, "SELECT total_changes()") }

func firstCount() int32 { return 1 + rand.Int32N(1<<30) }

// renumber makes a copy of a database one of its own.
func renumber(copied io.WriterAt) error {
	_, err := copied.WriteAt(binary.BigEndian.AppendUint32(nil, uint32(firstCount())), counted)
	return err
}

// belongs reports whether the log that a crash left beside the file at path goes on from
// it, and whether that can be told: not when one of the two was never counted. Nobody may
// have the file open in this process, whose locks it would lose.
func belongs(path string) (yes, told bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	header := make([]byte, counted+4)
	if _, err := io.ReadFull(f, header); errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, false, nil // the log has all there is
	} else if err != nil {
		return false, false, err
	}
	log, err := os.Open(path + walWord)
	if errors.Is(err, fs.ErrNotExist) { // who opened it meanwhile has closed it
		return true, true, nil
	} else if err != nil {
		return false, false, err
	}
	defer log.Close()
	first, last, commits, err := countsOf(bufio.NewReaderSize(log, 1<<16))
	if err != nil || commits == 0 {
		return true, err == nil, err
	}
	n := int32(binary.BigEndian.Uint32(header[counted:]))
	if n == 0 || first == 0 {
		return false, false, nil
	}
	return n-(first-1) >= 0 && last-n >= 0, true, nil
}

// countsOf reads a log as SQLite would after a crash, until what was not written whole
// (https://sqlite.org/fileformat.html, 4), and returns the numbers of the first and the
// last of its commits that have one, zeros when none has, and how many commits there are.
func countsOf(log io.Reader) (first, last int32, commits int, err error) {
	header := make([]byte, 32)
	if _, err := io.ReadFull(log, header); err != nil {
		return 0, 0, 0, unwritten(err)
	}
	var order binary.ByteOrder = binary.LittleEndian
	magic := binary.BigEndian.Uint32(header)
	if magic&1 == 1 {
		order = binary.BigEndian
	}
	size := int(binary.BigEndian.Uint32(header[8:]))
	sums := walSums{order: order}
	if sums.add(header[:24]); magic&^1 != 0x377f0682 || !sums.are(header[24:]) || size < 512 || size > 1<<16 {
		return 0, 0, 0, nil // SQLite takes none of it
	}
	var n int32 // of the commit that is being read
	frame := make([]byte, 24+size)
	for {
		if _, err := io.ReadFull(log, frame); err != nil {
			return first, last, commits, unwritten(err)
		}
		sums.add(frame[:8])
		sums.add(frame[24:])
		if string(frame[8:16]) != string(header[16:24]) || !sums.are(frame[16:24]) {
			return first, last, commits, nil
		}
		if binary.BigEndian.Uint32(frame) == 1 {
			n = int32(binary.BigEndian.Uint32(frame[24+counted:]))
		}
		if binary.BigEndian.Uint32(frame[4:]) == 0 {
			continue // the commit goes on
		}
		commits++
		if n != 0 {
			first, last, n = cmp.Or(first, n), n, 0
		}
	}
}

// unwritten takes the end of a log for what it is.
func unwritten(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return nil
	}
	return err
}

// walSums are the running checksums of a log.
type walSums struct {
	order binary.ByteOrder
	a, b  uint32
}

func (s *walSums) add(p []byte) {
	for ; len(p) >= 8; p = p[8:] {
		s.a += s.order.Uint32(p) + s.b
		s.b += s.order.Uint32(p[4:]) + s.a
	}
}

// are reports whether they are those that stand in p.
func (s *walSums) are(p []byte) bool {
	return s.a == binary.BigEndian.Uint32(p) && s.b == binary.BigEndian.Uint32(p[4:])
}
