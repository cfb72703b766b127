package logs

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// journal is what the next daemon has to know of a write that was cut short:
// before each write it notes what is about to be written where, from which bytes
// of the FIFO, and what is pending after it. Two notes take turns, so that the
// one before is there when the write is not. It is for a daemon that was killed:
// the kernel has what was written, and nothing is synced. After a power cut it
// is void, for then the FIFO is empty too.
//
// Whether the bytes were taken out of the FIFO afterwards is told by the kernel
// in the same system call that takes them: the last few are read into the note's
// mark, which is mapped memory and held their complement before.
type journal struct {
	file   *os.File
	size   int64  // of a slot
	mapped []byte // the whole file, or nil. The kernel alone touches it: a bad disk would end who does with SIGBUS
	same   bool   // it was as large before, so the notes of before have their places
	seq    uint64
	buf    []byte
}

// markSize is how many bytes tell that all were taken.
const markSize = 8

// note is one entry: what a write is about, and what is true after it.
type note struct {
	Seq     uint64
	Boot    [16]byte // of the kernel that has the FIFO
	Inode   uint64   // of the current file before the write
	At      int64    // its size then
	Wrote   int64    // bytes about to be written
	Raw     uint32   // bytes to be taken out of the FIFO afterwards
	Sum     uint32   // the checksum of the first of them
	Last    [markSize]byte
	Watched uint32 // 1 if the mark will tell that they were
	Errno   uint32 // why lines could not be written
	Lost    int64  // how many
	Lines   int64  // dropped by the gate and not yet admitted
	Bytes   int64
	Part    uint32 // length of the line that has begun
	Carry   uint32 // and of the rune; both follow
}

var (
	sums       = crc32.MakeTable(crc32.Castagnoli)
	noteSize   = binary.Size(note{})
	noteHeader = markSize + 4 + 4 // the mark, the checksum of what follows, its length
)

// checksum is that of the first bytes that arrived: enough to see that they are
// what they should be, as the mark says.
func checksum(raw []byte) uint32 { return crc32.Checksum(raw[:min(len(raw), 4<<10)], sums) }

// boot tells one run of the kernel from the next.
var boot = sync.OnceValue(func() (id [16]byte) {
	text, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // then all are alike
	copy(id[:], bytes.ReplaceAll(text, []byte{'-'}, nil))
	return id
})

// openJournal continues or makes the journal at path, for lines of at most
// maxLine bytes. After seq, its notes are newer than those of before.
func openJournal(path string, maxLine int, seq uint64) (*journal, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	page := os.Getpagesize()
	need := noteHeader + noteSize + maxLine + int(lineOverhead) + 8
	j := &journal{file: file, size: int64((need + page - 1) / page * page), seq: seq}
	st, err := file.Stat()
	if err == nil {
		j.same = st.Size() == 2*j.size
		err = file.Truncate(2 * j.size)
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	// Without it a repeat is told as one; nothing else depends on it.
	j.mapped, _ = unix.Mmap(int(file.Fd()), 0, int(2*j.size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return j, nil
}

// remade is the journal under its name again, which somebody removed.
func (j *journal) remade(path string, maxLine int) *journal {
	if j == nil {
		return nil
	}
	another, err := openJournal(path, maxLine, j.seq)
	if err != nil {
		return j // it serves this daemon
	}
	j.close()
	return another
}

// slot is where a note has its place.
func (j *journal) slot(seq uint64) int64 { return int64(seq%2) * j.size }

// mark is where the last bytes of what the last note is about, n in all, are to
// be read to; nil if that is of no matter.
func (j *journal) mark(n int) []byte {
	at, k := j.slot(j.seq), int64(min(n, markSize))
	if j.mapped == nil || k == 0 {
		return nil
	}
	return j.mapped[at : at+k]
}

// write adds a note, and returns where the last bytes of raw are to be read to,
// nil if that is of no matter. What cannot be noted costs exactness, no line.
func (j *journal) write(n note, raw, part, carry []byte) (mark []byte) {
	j.seq++
	n.Seq, n.Boot = j.seq, boot()
	n.Raw, n.Sum = uint32(len(raw)), checksum(raw)
	n.Part, n.Carry = uint32(len(part)), uint32(len(carry))
	k := min(len(raw), markSize)
	copy(n.Last[:], raw[len(raw)-k:])
	if j.mapped != nil {
		n.Watched = 1
	}
	b := append(j.buf[:0], make([]byte, noteHeader)...)
	for i, c := range n.Last {
		b[i] = ^c
	}
	b, _ = binary.Append(b, binary.LittleEndian, &n) // of fixed size
	b = append(append(b, part...), carry...)
	binary.LittleEndian.PutUint32(b[markSize+4:], uint32(len(b)-noteHeader))
	binary.LittleEndian.PutUint32(b[markSize:], crc32.Checksum(b[markSize+4:], sums))
	j.buf = b
	if _, err := j.file.WriteAt(b, j.slot(j.seq)); err != nil {
		return nil
	}
	return j.mark(k)
}

// close forgets the journal; the file stays.
func (j *journal) close() {
	if j == nil {
		return
	}
	if j.mapped != nil {
		_ = unix.Munmap(j.mapped)
	}
	_ = j.file.Close()
}

// entry is a note as it was found.
type entry struct {
	note
	mark        [markSize]byte
	part, carry []byte
}

// taken reports whether the bytes were taken out of the FIFO, and whether that
// is certain.
func (e *entry) taken() (taken, certain bool) {
	k := min(int(e.Raw), markSize)
	return k == 0 || bytes.Equal(e.mark[:k], e.Last[:k]), k == 0 || e.Watched == 1
}

// readJournal returns the newest note of this boot and the one before; either
// is nil if there is none.
func readJournal(path string) (last, before *entry) {
	text, err := os.ReadFile(path)
	if err != nil || len(text)%2 != 0 {
		return nil, nil
	}
	half := len(text) / 2
	last, before = parseNote(text[:half]), parseNote(text[half:])
	if last == nil || before != nil && before.Seq > last.Seq {
		last, before = before, last
	}
	if before != nil && before.Seq+1 != last.Seq {
		before = nil
	}
	return last, before
}

// parseNote returns nil for what is no whole note of this boot.
func parseNote(b []byte) *entry {
	if len(b) < noteHeader+noteSize {
		return nil
	}
	e := &entry{}
	copy(e.mark[:], b)
	size := int64(binary.LittleEndian.Uint32(b[markSize+4:]))
	if size < int64(noteSize) || size > int64(len(b)-noteHeader) {
		return nil
	}
	sum := crc32.Checksum(b[markSize+4:noteHeader+int(size)], sums)
	if sum != binary.LittleEndian.Uint32(b[markSize:]) {
		return nil
	}
	n, err := binary.Decode(b[noteHeader:], binary.LittleEndian, &e.note)
	rest := b[noteHeader+n : noteHeader+int(size)]
	if err != nil || e.Boot != boot() || int64(len(rest)) != int64(e.Part)+int64(e.Carry) {
		return nil
	}
	e.part, e.carry = rest[:e.Part], rest[e.Part:]
	return e
}
