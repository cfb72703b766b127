package metrics

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"math/bits"
	"time"

	"berth/app"
)

// slotSize is the size of each half of a point in a ring and in recent.
const slotSize = 48

// slot is an encoded point, which takes a third of what an app.Point takes in memory. more is the
// half that berth 1.0 did not have; it is zeros where nothing of it is known.
type slot struct{ base, more [slotSize]byte }

func slotOf(p app.Point) (s slot) {
	encode(s.base[:], p)
	encodeMore(s.more[:], p)
	return s
}

// at is when its stretch begins.
func (s *slot) at() time.Time {
	return time.Unix(int64(binary.LittleEndian.Uint32(s.base[:])), 0).UTC()
}

// hasMore reports whether there is anything in its second half.
func (s *slot) hasMore() bool { return s.more != [slotSize]byte{} }

// point is what slotOf was given, of a stretch of Fine.
func (s *slot) point() app.Point {
	p, _ := decode(s.base[:])
	decodeMore(s.more[:], &p)
	p.Step = Fine
	return p
}

// castagnoli has an instruction of its own on most processors.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// encode writes p to b, which has slotSize bytes. A ring of zeros holds no
// point: the checksum of one is never that of zeros alone, for its time is not 0.
func encode(b []byte, p app.Point) {
	le := binary.LittleEndian
	le.PutUint32(b, uint32(p.At.Unix()))
	le.PutUint32(b[4:], uint32(p.Ran.Milliseconds()))
	for i, v := range []float64{p.Memory, p.MemoryMax, p.Limit, p.CPU, p.CPUMax, p.NetIn, p.NetOut} {
		le.PutUint32(b[8+4*i:], math.Float32bits(float32(v)))
	}
	b[36], b[37], b[38], b[39] = p.Starts, p.Exits, p.OOMs, p.Deploys
	le.PutUint32(b[40:], 0) // for what is not known yet
	le.PutUint32(b[44:], crc32.Checksum(b[:44], castagnoli))
}

// decode reads what encode wrote; false for anything else.
func decode(b []byte) (app.Point, bool) {
	le := binary.LittleEndian
	if at := le.Uint32(b); at == 0 || le.Uint32(b[44:]) != crc32.Checksum(b[:44], castagnoli) {
		return app.Point{}, false
	}
	var f [7]float64
	for i := range f {
		f[i] = float64(math.Float32frombits(le.Uint32(b[8+4*i:])))
	}
	return app.Point{
		At:  time.Unix(int64(le.Uint32(b)), 0).UTC(),
		Ran: time.Duration(le.Uint32(b[4:])) * time.Millisecond,

		Memory: f[0], MemoryMax: f[1], Limit: f[2], CPU: f[3], CPUMax: f[4], NetIn: f[5], NetOut: f[6],
		Marks: app.Marks{Starts: b[36], Exits: b[37], OOMs: b[38], Deploys: b[39]},
	}, true
}

// encodeMore writes the second half of p to b, which has slotSize bytes, and leaves b as it is if
// there is nothing to say. Its frame is that of the first half: the time and the checksum are where
// encode has them.
func encodeMore(b []byte, p app.Point) {
	if p.Disk <= 0 && p.Answers == (app.Answers{}) {
		return
	}
	le := binary.LittleEndian
	le.PutUint32(b, uint32(p.At.Unix()))
	le.PutUint32(b[4:], math.Float32bits(float32(p.Disk)))
	for i, n := range p.Answers.Classes {
		le.PutUint16(b[8+2*i:], short(n))
	}
	for i, n := range p.Answers.Took {
		le.PutUint16(b[18+2*i:], short(n))
	}
	le.PutUint16(b[42:], 0) // for what is not known yet
	le.PutUint32(b[44:], crc32.Checksum(b[:44], castagnoli))
}

// decodeMore adds to p what encodeMore wrote of the same time; false for anything else.
func decodeMore(b []byte, p *app.Point) bool {
	le := binary.LittleEndian
	if le.Uint32(b) != uint32(p.At.Unix()) || le.Uint32(b[44:]) != crc32.Checksum(b[:44], castagnoli) { //nolint:gosec // as it was written
		return false
	}
	p.Disk = float64(math.Float32frombits(le.Uint32(b[4:])))
	for i := range p.Answers.Classes {
		p.Answers.Classes[i] = long(le.Uint16(b[8+2*i:]))
	}
	for i := range p.Answers.Took {
		p.Answers.Took[i] = long(le.Uint16(b[18+2*i:]))
	}
	return true
}

// digits is how many binary digits of a number short keeps: up to 2,047 it is exact, and beyond by
// one part in 2,048.
const digits = 11

// short is a number in 16 bits: 11 digits, and by how many places they are shifted.
func short(n uint64) uint16 {
	shift := max(bits.Len64(n)-digits, 0)
	if shift > 0 {
		n += 1 << (shift - 1)
		shift = max(bits.Len64(n)-digits, 0)
	}
	if shift > 31 {
		return math.MaxUint16
	}
	return uint16(n>>shift) | uint16(shift)<<digits //nolint:gosec // 11 and 5 bits
}

// long is what short was given.
func long(v uint16) uint64 { return uint64(v&(1<<digits-1)) << (v >> digits) }
