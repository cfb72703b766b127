package archive

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"strconv"
	"time"
)

// The versions of the format; those from 1 on are read. The first had no twins and no seal.
// The newest may have parts that no berth before it knows.
const (
	Format     = 3
	sealFormat = 2
)

const (
	headName     = "berth-backup" // the first entry: its content is the format
	manifestName = "manifest.json"
	maxManifest  = 64 << 20
)

// The records of an entry's extended header.
const (
	partRecord   = "BERTH.part"
	totalRecord  = "BERTH.total"
	offsetRecord = "BERTH.offset"
)

// Manifest is what an archive says of itself.
type Manifest struct {
	Format int       `json:"format"`
	Berth  string    `json:"berth"`  // the version that made it
	Schema int       `json:"schema"` // of the database
	Made   time.Time `json:"made"`
	Host   string    `json:"host"`
	Parts  []Part    `json:"parts"`
}

// Part is one part of an archive.
type Part struct {
	Name    string `json:"name"` // berth.db, berth.toml, berth.d/managed.toml (format 3), apps/<id>, rollback/<id>
	Entries int    `json:"entries"`
	Bytes   int64  `json:"bytes"` // of contents
	SHA256  string `json:"sha256"`
	Void    bool   `json:"void,omitempty"` // a later part has its place, or what it was of is gone
}

// Entry is a file, another name of one, a directory or a symbolic link.
type Entry struct {
	Path     string // below the part's name; "" for what the part itself is
	Mode     fs.FileMode
	UID      int
	GID      int
	Time     time.Time // of the last change of a file; when zero, of the archive
	Link     string    // where a link points to
	HardLink string    // the path of an earlier entry of the part, of which this is another name; "" for a file of its own

	Size int64 // bytes of content that follow
	// A file with holes comes as an entry without content and the size in
	// Total, and then as entries with Offset, one for each extent of data.
	// Otherwise both are -1.
	Total  int64
	Offset int64
}

// Plain returns an entry of a file that has no holes.
func Plain(mode fs.FileMode, size int64) Entry {
	return Entry{Mode: mode, Size: size, Total: -1, Offset: -1}
}

// Writer writes an archive. It is not safe for concurrent use.
type Writer struct {
	to       *sticky
	tar      *tar.Writer
	manifest Manifest
	sum      hash.Hash
}

// NewWriter begins an archive; m says what is known of it already. Its format is 2, which
// older versions of berth read too, unless m says 3. w is the compressed stream, which the
// caller closes after Close.
func NewWriter(w io.Writer, m Manifest) (*Writer, error) {
	m.Format, m.Parts = max(m.Format, sealFormat), nil
	to := &sticky{w: w}
	a := &Writer{to: to, tar: tar.NewWriter(to), manifest: m}
	return a, a.document(headName, []byte(strconv.Itoa(m.Format)+"\n"))
}

// sticky remembers that what it writes to has failed.
type sticky struct {
	w   io.Writer
	err error
}

// Write implements io.Writer.
func (s *sticky) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.err = errors.Join(s.err, err)
	return n, err
}

// Err is an error once the archive itself cannot be written. Any other that Add
// returns is of the entry: what comes after it can be added.
func (a *Writer) Err() error { return a.to.err }

// document writes an entry that belongs to no part.
func (a *Writer) document(name string, text []byte) error {
	err := a.tar.WriteHeader(&tar.Header{
		Name: name, Typeflag: tar.TypeReg, Mode: 0o600, Size: int64(len(text)), ModTime: a.manifest.Made, Format: tar.FormatPAX,
	})
	if err == nil {
		_, err = a.tar.Write(text)
	}
	return err
}

// Begin begins a part, and makes an earlier one of the same name void.
func (a *Writer) Begin(name string) {
	a.end()
	a.Void(name)
	a.manifest.Parts = append(a.manifest.Parts, Part{Name: name})
	a.sum = sha256.New()
}

// Void makes the parts with a name void.
func (a *Writer) Void(name string) {
	for i := range a.manifest.Parts {
		if a.manifest.Parts[i].Name == name {
			a.manifest.Parts[i].Void = true
		}
	}
}

func (a *Writer) end() {
	if a.sum != nil {
		a.manifest.Parts[len(a.manifest.Parts)-1].SHA256 = hex.EncodeToString(a.sum.Sum(nil))
		a.sum = nil
	}
}

// Add adds an entry to the part that was begun. Of r exactly e.Size bytes are
// taken; a file that turns out shorter is filled up with zeros, for it may be
// written to meanwhile. So is one that cannot be read, which is an error
// nevertheless: the caller makes the part void.
func (a *Writer) Add(e Entry, r io.Reader) error {
	n := len(a.manifest.Parts) - 1
	if n < 0 || a.sum == nil {
		return errors.New("an entry before the first part")
	}
	if e.Time.IsZero() {
		e.Time = a.manifest.Made
	}
	part := &a.manifest.Parts[n]
	h, err := e.header(part.Name, n)
	if err != nil {
		return err
	}
	if err := a.tar.WriteHeader(h); err != nil {
		return fmt.Errorf("cannot add %q: %w", h.Name, err)
	}
	e.feed(a.sum)
	part.Entries++
	part.Bytes += e.Size
	if e.Size == 0 {
		return nil
	}
	to := io.MultiWriter(a.tar, a.sum)
	copied, err := io.Copy(to, io.LimitReader(r, e.Size))
	if a.to.err == nil && copied < e.Size {
		_, zerr := io.CopyN(to, zeros{}, e.Size-copied)
		err = errors.Join(err, zerr)
	}
	return err
}

// zeros reads as zeros without end.
type zeros struct{}

// Read implements io.Reader.
func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Close writes the manifest and ends the archive. schema is that of the
// database, which is read last.
func (a *Writer) Close(schema int) (Manifest, error) {
	a.end()
	a.manifest.Schema = schema
	text, err := json.MarshalIndent(a.manifest, "", "  ")
	if err == nil {
		err = a.document(manifestName, append(text, '\n'))
	}
	return a.manifest, errors.Join(err, a.tar.Close())
}

// header is the entry as tar knows it.
func (e Entry) header(part string, n int) (*tar.Header, error) {
	h := &tar.Header{
		Name: part, Mode: int64(e.Mode.Perm()), Uid: e.UID, Gid: e.GID, Size: e.Size, ModTime: e.Time,
		Format: tar.FormatPAX, PAXRecords: map[string]string{partRecord: strconv.Itoa(n)},
	}
	if e.Path != "" {
		h.Name += "/" + e.Path
	}
	if e.Mode&fs.ModeSticky != 0 {
		h.Mode |= 0o1000
	}
	switch e.Mode.Type() {
	case fs.ModeDir:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	case 0:
		h.Typeflag = tar.TypeReg
		if e.HardLink != "" {
			h.Typeflag, h.Linkname = tar.TypeLink, part+"/"+e.HardLink
		}
	default:
		return nil, fmt.Errorf("cannot add %q: no file, directory or link", h.Name)
	}
	if e.Total >= 0 {
		h.PAXRecords[totalRecord] = strconv.FormatInt(e.Total, 10)
	}
	if e.Offset >= 0 {
		h.PAXRecords[offsetRecord] = strconv.FormatInt(e.Offset, 10)
	}
	return h, nil
}

// feed adds what an entry is, but for its content, to the sum of its part.
func (e Entry) feed(sum hash.Hash) {
	fmt.Fprintf(sum, "%q %q %o %d %d %d %d %d %d\n", e.Path, e.Link, uint32(e.Mode), e.UID, e.GID, e.Time.UnixNano(), e.Size, e.Total, e.Offset)
	if e.HardLink != "" { // the first format has none, and its sums stay what they are
		fmt.Fprintf(sum, "%q\n", e.HardLink)
	}
}

// The compressed stream ends with a seal: an empty member of gzip (RFC 1952) whose
// extra field is the SHA-256 of all bytes before it. The checksum of gzip and the
// sums of the parts are over what was compressed. The seal is over the file, so
// that no bit of it can change unseen. Other tools pass it over.
var (
	// Its header says that there is an extra field, of 36 bytes: a subfield "BS" of
	// 32.
	sealHead = []byte{0x1f, 0x8b, 8, 4, 0, 0, 0, 0, 0, 0xff, 36, 0, 'B', 'S', 32, 0}
	sealTail = []byte{3, 0, 0, 0, 0, 0, 0, 0, 0, 0} // no data, and its checksum and size
)

// sealSize is how long a seal is.
var sealSize = int64(len(sealHead) + sha256.Size + len(sealTail))

// plainHead is what an archive of the first format, which has no seal, begins with:
// the header of gzip as Go's writes it at its best speed.
var plainHead = []byte{0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 4, 0xff}

// Sealer is a file that is sealed at its end. It passes on what is written to it.
type Sealer struct {
	w   io.Writer
	sum hash.Hash
}

// NewSealer begins the file w.
func NewSealer(w io.Writer) *Sealer { return &Sealer{w, sha256.New()} }

// Write implements io.Writer.
func (s *Sealer) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	s.sum.Write(p[:n])
	return n, err
}

// Close writes the seal; w stays open.
func (s *Sealer) Close() error {
	_, err := s.w.Write(seal(s.sum))
	return err
}

func seal(sum hash.Hash) []byte {
	return bytes.Join([][]byte{sealHead, sum.Sum(nil), sealTail}, nil)
}

// Sealed reports with ErrDamaged that the file of an archive, of size bytes, is not
// byte for byte what was written. Of a file of the first format it looks at no more
// than where the sums of gzip do not reach: its first bytes.
func Sealed(r io.Reader, size int64, m Manifest) error {
	if m.Format < sealFormat {
		head := make([]byte, len(plainHead))
		if _, err := io.ReadFull(r, head); err != nil || !bytes.Equal(head, plainHead) {
			return damaged(err, "its first bytes are not those that berth writes")
		}
		return nil
	}
	sum := sha256.New()
	if _, err := io.CopyN(sum, r, size-sealSize); err != nil {
		return damaged(err, "its end is missing")
	}
	end, err := io.ReadAll(io.LimitReader(r, sealSize+1))
	if err != nil {
		return err
	}
	if !bytes.Equal(end, seal(sum)) {
		return damaged(nil, "the file is not byte for byte what was written")
	}
	return nil
}

// Rest reports with ErrDamaged that what follows the first member of gzip is neither
// nothing nor a seal.
func Rest(r io.Reader) error {
	end, err := io.ReadAll(io.LimitReader(r, sealSize+1))
	if err != nil {
		return err
	}
	if len(end) > 0 && (int64(len(end)) != sealSize || !bytes.HasPrefix(end, sealHead) || !bytes.HasSuffix(end, sealTail)) {
		return damaged(nil, "something follows its end")
	}
	return nil
}
