package metrics

import (
	"encoding/binary"
	"hash/crc32"
	"math"
	"time"

	"berth/app"
)

// slotSize is the size of a point in a ring and in recent.
const slotSize = 48

// slot is an encoded point: half of what an app.Point takes in memory.
type slot [slotSize]byte

func slotOf(p app.Point) (s slot) {
	encode(s[:], p)
	return s
}

// at is when its stretch begins.
func (s *slot) at() time.Time { return time.Unix(int64(binary.LittleEndian.Uint32(s[:])), 0).UTC() }

// point is what slotOf was given, of a stretch of Fine.
func (s *slot) point() app.Point {
	p, _ := decode(s[:])
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
