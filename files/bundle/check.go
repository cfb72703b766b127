package bundle

import (
	"archive/zip"
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// entry is one checked file or directory of an archive.
type entry struct {
	name string // clean, relative, without the wrapping folder
	dir  bool
	exec bool
	mod  time.Time
	zf   *zip.File // nil for the file itself, and for text
	text *string   // what it holds, if that is not in the ZIP
}

// The file types in the upper half of the external attributes, as stat(2) has
// them.
const (
	typeMask    = 0xf000
	typeSocket  = 0xc000
	typeLink    = 0xa000
	typeRegular = 0x8000
	typeBlock   = 0x6000
	typeDir     = 0x4000
	typeChar    = 0x2000
	typeFIFO    = 0x1000
)

// encryptedFlags are the general purpose flags of traditional and strong
// encryption and of an encrypted directory.
const encryptedFlags = 1<<0 | 1<<6 | 1<<13

// utf8Flag is the general purpose flag of a name in UTF-8. zip.File.NonUTF8 is
// not the same: it is also set when the flag is there and wrong.
const utf8Flag = 1 << 11

// checker holds what has been seen of an archive.
type checker struct {
	lim     Limits
	size    int64 // of the ZIP itself
	entries []entry
	paths   paths
	total   uint64 // bytes the headers announce
	spans   []span
}

// span is where the data of an entry lies in the ZIP.
type span struct {
	from, to int64
	name     string
}

// check checks every entry and returns those to unpack.
func check(files []*zip.File, size int64, lim Limits) ([]entry, error) {
	c := &checker{lim: lim, size: size, paths: paths{}}
	if len(files) > lim.MaxEntries {
		return nil, c.tooMany()
	}
	for _, f := range files {
		if err := c.add(f); err != nil {
			return nil, err
		}
	}
	if !slices.ContainsFunc(c.entries, func(e entry) bool { return !e.dir }) {
		return nil, app.Errorf(app.Unusable, "cannot unpack the ZIP: it holds no files")
	}
	if err := c.overlaps(); err != nil {
		return nil, err
	}
	return c.entries, nil
}

// add checks one entry and keeps it unless it is what macOS strews about.
func (c *checker) add(f *zip.File) error {
	if isRubbish(strings.Split(f.Name, "/")) { // also with a name that would be refused
		return nil
	}
	name, err := entryName(f)
	if err != nil {
		return err
	}
	parts, err := splitName(name, c.lim)
	if err != nil {
		return err
	}
	dir, err := kindOf(f, name)
	if err != nil {
		return err
	}
	if len(parts) == 0 {
		if dir {
			return nil // "./", the archive itself
		}
		return refuse(name, "has no name")
	}
	clean := strings.Join(parts, "/")
	if err := c.paths.add(name, clean, dir); err != nil {
		return err
	}
	if len(c.paths) > c.lim.MaxEntries {
		return c.tooMany()
	}
	if err := c.measure(f, name, dir); err != nil {
		return err
	}
	c.entries = append(c.entries, entry{
		name: clean, dir: dir, exec: f.ExternalAttrs>>16&0o111 != 0, mod: f.Modified, zf: f,
	})
	return nil
}

// isRubbish reports what macOS strews about: "Icon" and a carriage return is the icon of a folder.
func isRubbish(parts []string) bool {
	last := parts[len(parts)-1]
	return slices.Contains(parts, "__MACOSX") || last == ".DS_Store" || last == "Icon\r"
}

// methods are names of methods of compression (APPNOTE.TXT, 4.4.5) that programs for people may use.
var methods = map[uint16]string{9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "Zstandard", 95: "xz", 98: "PPMd"}

// kindOf tells a directory from a file and refuses everything else. The type
// counts whatever system the header claims to come from.
func kindOf(f *zip.File, name string) (dir bool, err error) {
	if f.Flags&encryptedFlags != 0 {
		return false, refuse(name, "is encrypted")
	}
	if f.Method != zip.Store && f.Method != zip.Deflate {
		method, known := methods[f.Method]
		if !known {
			method = fmt.Sprintf("the method %d", f.Method)
		}
		return false, refuse(name, "is compressed with %s; only stored and deflated are supported: pack the ZIP again, with the method Deflate", method)
	}
	dir = strings.HasSuffix(name, "/")
	switch f.ExternalAttrs >> 16 & typeMask {
	case typeLink:
		return false, refuse(name, "is a symbolic link")
	case typeBlock, typeChar:
		return false, refuse(name, "is a device")
	case typeFIFO:
		return false, refuse(name, "is a named pipe")
	case typeSocket:
		return false, refuse(name, "is a socket")
	case typeDir:
		dir = true
	case typeRegular, 0:
	default:
		return false, refuse(name, "is neither a file nor a directory")
	}
	if dir && f.UncompressedSize64 != 0 {
		return false, refuse(name, "is a directory with content")
	}
	return dir, nil
}

// paths are those that will exist, true for a directory.
type paths map[string]bool

// add records a path and the directories it implies, or refuses it. Directories may
// be listed more than once, which is harmless and some tools do it.
func (p paths) add(name, clean string, dir bool) error {
	was, taken := p[clean]
	switch {
	case taken && was != dir:
		return refuse(name, "is a file and a directory at once")
	case taken && !dir:
		return refuse(name, "occurs more than once")
	}
	for above := path.Dir(clean); above != "."; above = path.Dir(above) {
		if was, taken := p[above]; taken && !was {
			return refuse(name, "lies below %s, which is a file", quote(above))
		}
	}
	for above := path.Dir(clean); above != "." && !p[above]; above = path.Dir(above) {
		p[above] = true
	}
	p[clean] = dir
	return nil
}

// measure checks that the data of an entry is there and adds up what it
// announces. Extract counts again what really comes out.
func (c *checker) measure(f *zip.File, name string, dir bool) error {
	if dir {
		return nil
	}
	if f.UncompressedSize64 > uint64(c.lim.MaxUnpacked)-c.total {
		return tooBig(c.lim)
	}
	c.total += f.UncompressedSize64
	off, err := f.DataOffset()
	if err != nil {
		return damaged(name, err)
	}
	if off > c.size || f.CompressedSize64 > uint64(c.size-off) {
		return refuse(name, "is cut off: the ZIP ends before its data does")
	}
	if f.CompressedSize64 > 0 {
		c.spans = append(c.spans, span{off, off + int64(f.CompressedSize64), name})
	}
	return nil
}

// overlaps refuses entries that share data: a few kilobytes can stand for
// terabytes that way, and no tool writes such a file.
func (c *checker) overlaps() error {
	slices.SortFunc(c.spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	for i := 1; i < len(c.spans); i++ {
		if c.spans[i].from < c.spans[i-1].to {
			return refuse(c.spans[i].name, "shares its data with %s", quote(c.spans[i-1].name))
		}
	}
	return nil
}

func (c *checker) tooMany() error {
	return app.Errorf(app.TooLarge, "cannot unpack the ZIP: it holds more than the %d entries allowed", c.lim.MaxEntries)
}

func tooBig(lim Limits) error {
	return app.Errorf(app.TooLarge, "cannot unpack the ZIP: it unpacks to more than %s", SizeText(lim.MaxUnpacked))
}

// unwrap removes the folder around everything, if there is one: people zip the
// folder as often as what is in it. The folder of a commit is the application's
// own when it holds the config or the main file.
func unwrap(entries []entry, over *app.Code) []entry {
	if !wrapped(entries, over) {
		return entries
	}
	top, _, _ := strings.Cut(entries[0].name, "/")
	inner := entries[:0]
	for _, e := range entries {
		if e.name != top {
			e.name = strings.TrimPrefix(e.name, top+"/")
			inner = append(inner, e)
		}
	}
	return inner
}

// wrapped reports whether there is a folder to remove.
func wrapped(entries []entry, over *app.Code) bool {
	top, _, _ := strings.Cut(entries[0].name, "/")
	whole := over == nil
	for _, e := range entries {
		if !strings.HasPrefix(e.name, top+"/") && (e.name != top || !e.dir) {
			return false
		}
		inner := strings.TrimPrefix(e.name, top+"/")
		whole = whole || inner == ConfigName || !e.dir && inner == over.Main
	}
	return whole
}
