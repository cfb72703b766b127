package metrics

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"
	"strings"
	"time"

	"berth/app"
)

// A record of recent is a checksum of the rest, the length of the id, what it
// is, the id, and the point unless it says that the application is gone.
//
// The second half of a point is a record of its own behind that of the first. It looks as
// a point of an application whose id begins with moreMark: berth 1.0 takes such a record
// for a point of nobody, and goes on behind it.
const (
	recordHead = 6

	isPoint byte = 'p'
	isGone  byte = 'g'
	isMore  byte = 'm' // never written

	moreMark = "+"
)

func appendRecord(b []byte, id app.ID, kind byte, p app.Point) []byte {
	if kind == isGone {
		return frame(b, id, isGone, nil)
	}
	s := slotOf(p)
	if kind == isPoint {
		b = frame(b, id, isPoint, s.base[:])
	}
	if s.hasMore() {
		b = frame(b, moreMark+id, isPoint, s.more[:])
	}
	return b
}

// frame appends one record.
func frame(b []byte, id app.ID, kind byte, body []byte) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(len(id)), kind)
	b = append(b, id...)
	b = append(b, body...)
	binary.LittleEndian.PutUint32(b[start:], crc32.Checksum(b[start+4:], castagnoli))
	return b
}

// parse calls each for the records that b begins with, and returns how many
// bytes they are: less than all when the end is torn.
func parse(b []byte, each func(id app.ID, kind byte, p app.Point)) (whole int) {
	for {
		rest := b[whole:]
		if len(rest) < recordHead || rest[5] != isPoint && rest[5] != isGone {
			return whole
		}
		n := recordHead + int(rest[4])
		if rest[5] == isPoint {
			n += slotSize
		}
		if len(rest) < n || binary.LittleEndian.Uint32(rest) != crc32.Checksum(rest[4:n], castagnoli) {
			return whole
		}
		id, kind := string(rest[recordHead:recordHead+int(rest[4])]), rest[5]
		var p app.Point
		if kind == isPoint {
			body, ok := rest[n-slotSize:n], false
			if of, more := strings.CutPrefix(id, moreMark); more {
				id, kind = of, isMore
				p.At = time.Unix(int64(binary.LittleEndian.Uint32(body)), 0).UTC()
				ok = decodeMore(body, &p)
			} else {
				p, ok = decode(body)
			}
			if !ok {
				return whole
			}
		}
		each(app.ID(id), kind, p)
		whole += n
	}
}

// read returns the bytes of a file; a file that is not there has no bytes.
func read(path string) ([]byte, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return b, err
}

// load takes records for points that are not in the rings yet, but for those of an
// application from a moment of first on. It returns how much of them is whole.
func (s *Store) load(records []byte, first map[app.ID]time.Time) int64 {
	return int64(parse(records, func(id app.ID, kind byte, p app.Point) {
		if kind == isGone || !known(id) {
			delete(s.pending, id)
			return
		}
		if at, copied := first[id]; !copied || p.At.Before(at) {
			s.add(id, p)
		}
	}))
}
