package metrics

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"os"

	"berth/app"
)

// A record of recent is a checksum of the rest, the length of the id, what it
// is, the id, and the point unless it says that the application is gone.
const (
	recordHead = 6

	isPoint byte = 'p'
	isGone  byte = 'g'
)

func appendRecord(b []byte, id app.ID, kind byte, p app.Point) []byte {
	start := len(b)
	b = append(b, 0, 0, 0, 0, byte(len(id)), kind)
	b = append(b, id...)
	if kind == isPoint {
		s := slotOf(p)
		b = append(b, s[:]...)
	}
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
		id := app.ID(rest[recordHead : recordHead+int(rest[4])])
		var p app.Point
		if rest[5] == isPoint {
			ok := false
			if p, ok = decode(rest[n-slotSize : n]); !ok {
				return whole
			}
		}
		each(id, rest[5], p)
		whole += n
	}
}

// load reads a file of records into the points that are not in the rings yet,
// and returns how much of it is whole.
func (s *Store) load(path string) (int64, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return int64(parse(b, func(id app.ID, kind byte, p app.Point) {
		if kind == isGone || !app.ValidID(string(id)) {
			delete(s.pending, id)
			return
		}
		s.add(id, p)
	})), nil
}
