package archive

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"io"
)

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
	if m.Format < Format {
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
