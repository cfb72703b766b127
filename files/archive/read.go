package archive

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// ErrDamaged is the error of an archive that is not what was written.
var ErrDamaged = errors.New("the archive is damaged")

// ErrFormat is the error of what is no archive, or one of a newer format.
var ErrFormat = errors.New("not a backup that this berth can read")

// Read reads an archive to its end and calls visit for each entry, with its
// part and its content, of which visit may leave some. part.Name and n, its
// number, are all that is known of the part then. It returns the manifest when
// every part is what the manifest says, and otherwise an error that matches
// ErrFormat or ErrDamaged, unless it is visit's own.
func Read(r io.Reader, visit func(n int, part string, e Entry, content io.Reader) error) (Manifest, error) {
	a := &reader{tar: tar.NewReader(r), visit: visit}
	if err := a.head(); err != nil {
		return Manifest{}, err
	}
	for {
		h, err := a.tar.Next()
		if err != nil {
			return Manifest{}, damaged(err, "it ends before its manifest")
		}
		if h.Name == manifestName && h.PAXRecords[partRecord] == "" {
			return a.end()
		}
		if err := a.entry(h); err != nil {
			return Manifest{}, err
		}
	}
}

func damaged(err error, what string) error {
	if err != nil && !errors.Is(err, io.EOF) {
		what += " (" + err.Error() + ")"
	}
	return fmt.Errorf("%w: %s", ErrDamaged, what)
}

// reader is an archive that is being read.
type reader struct {
	tar    *tar.Reader
	visit  func(int, string, Entry, io.Reader) error
	format int
	parts  []Part
	sum    hash.Hash
}

// head reads what says that this is an archive.
func (a *reader) head() error {
	h, err := a.tar.Next()
	if err != nil || h.Name != headName || h.Size > 100 {
		return fmt.Errorf("%w: it does not begin like one", ErrFormat)
	}
	text, err := io.ReadAll(a.tar)
	if err != nil {
		return damaged(err, "its beginning cannot be read")
	}
	a.format, err = strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || a.format < 1 || a.format > Format {
		return fmt.Errorf("%w: its format is %.20q, and this one knows 1 to %d", ErrFormat, strings.TrimSpace(string(text)), Format)
	}
	return nil
}

// entry reads one entry of a part.
func (a *reader) entry(h *tar.Header) error {
	n, err := strconv.Atoi(h.PAXRecords[partRecord])
	if err != nil || n < len(a.parts)-1 || n > len(a.parts) {
		return damaged(nil, fmt.Sprintf("%.200q belongs to no part", h.Name))
	}
	name := strings.TrimSuffix(h.Name, "/")
	if n == len(a.parts) {
		a.endPart()
		a.parts = append(a.parts, Part{Name: partOf(name)})
		a.sum = sha256.New()
	}
	part := &a.parts[n]
	path, below := strings.CutPrefix(name, part.Name)
	if !below || path != "" && path[0] != '/' {
		return damaged(nil, fmt.Sprintf("%.200q is not in the part %s", h.Name, part.Name))
	}
	e, err := entryOf(h, part.Name, strings.TrimPrefix(path, "/"))
	if err != nil {
		return err
	}
	e.feed(a.sum)
	part.Entries++
	part.Bytes += e.Size
	content := io.TeeReader(a.tar, a.sum)
	if err := a.visit(n, part.Name, e, content); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, content); err != nil {
		return damaged(err, fmt.Sprintf("%.200q cannot be read", h.Name))
	}
	return nil
}

// partOf is the name of the part whose first entry has a name.
func partOf(name string) string {
	if fields := strings.SplitN(name, "/", 3); len(fields) > 1 {
		return fields[0] + "/" + fields[1]
	}
	return name
}

// entryOf is the entry of a part that tar read.
func entryOf(h *tar.Header, part, path string) (Entry, error) {
	e := Entry{
		Path: path, Mode: fs.FileMode(h.Mode & 0o777), UID: h.Uid, GID: h.Gid, Time: h.ModTime, Link: h.Linkname,
		Size: h.Size, Total: -1, Offset: -1,
	}
	if h.Mode&0o1000 != 0 {
		e.Mode |= fs.ModeSticky
	}
	switch h.Typeflag {
	case tar.TypeDir:
		e.Mode |= fs.ModeDir
	case tar.TypeSymlink:
		e.Mode |= fs.ModeSymlink
	case tar.TypeReg:
	case tar.TypeLink:
		first, inside := strings.CutPrefix(h.Linkname, part+"/")
		if !inside || first == "" || path == "" {
			return e, damaged(nil, fmt.Sprintf("%.200q is another name of nothing in its part", h.Name))
		}
		e.Link, e.HardLink = "", first
	default:
		return e, damaged(nil, fmt.Sprintf("%.200q is no file, directory or link", h.Name))
	}
	for record, to := range map[string]*int64{totalRecord: &e.Total, offsetRecord: &e.Offset} {
		text, is := h.PAXRecords[record]
		if !is {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return e, damaged(nil, fmt.Sprintf("%.200q has no place", h.Name))
		}
		*to = n
	}
	return e, nil
}

func (a *reader) endPart() {
	if a.sum != nil {
		a.parts[len(a.parts)-1].SHA256 = hex.EncodeToString(a.sum.Sum(nil))
		a.sum = nil
	}
}

// end reads the manifest and compares it with what was read.
func (a *reader) end() (Manifest, error) {
	a.endPart()
	text, err := io.ReadAll(io.LimitReader(a.tar, maxManifest))
	if err != nil {
		return Manifest{}, damaged(err, "its manifest cannot be read")
	}
	var m Manifest
	if err := json.Unmarshal(text, &m); err != nil {
		return Manifest{}, damaged(err, "its manifest cannot be read")
	}
	if _, err := a.tar.Next(); !errors.Is(err, io.EOF) {
		return Manifest{}, damaged(err, "something follows its manifest")
	}
	said := slices.Clone(m.Parts)
	for i := range said {
		said[i].Void = false
		if i < len(a.parts) && said[i] != a.parts[i] {
			return Manifest{}, damaged(nil, said[i].Name+" is not what was written")
		}
	}
	if len(said) != len(a.parts) {
		return Manifest{}, damaged(nil, fmt.Sprintf("it has %d parts of %d", len(a.parts), len(said)))
	}
	if m.Format != a.format {
		return Manifest{}, damaged(nil, fmt.Sprintf("it begins as format %d, and its manifest says %d", a.format, m.Format))
	}
	return m, nil
}
