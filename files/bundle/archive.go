package bundle

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"strings"

	"berth/app"
)

// ConfigName is the name of the config file, at the top of the archive.
const ConfigName = "discloud.config"

// Archive is a ZIP whose entries were all checked. It is not safe for
// concurrent use.
type Archive struct {
	file    *os.File
	lim     Limits
	entries []entry
	over    *app.Code // what a commit lays it over, nil for a new application
	cfg     app.Config
	found   bool
	hint    app.Text
	left    []string // sentences
	size    int64    // bytes of the ZIP
	vars    app.PackedVariables
	single  bool
}

// Open opens the ZIP at path, checks every entry and parses the config file.
// It unpacks nothing. What the uploader can mend is app.Unusable or
// app.TooLarge; anything else is internal. The caller MUST Close the archive.
//
// over is the code that a commit lays the ZIP over, nil for a new application.
// A folder around everything is taken off; that of a commit only if it is the
// application's own, for else it may be one of its directories. A jar that is sent in
// place of a ZIP is the main file, if that is a jar.
func Open(path string, lim Limits, over *app.Code) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ZIP: %w", err)
	}
	a := &Archive{file: f, lim: lim.withDefaults(), over: over}
	if err := a.load(); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// Close releases the file.
func (a *Archive) Close() error { return a.file.Close() }

// Config returns the parsed config file and whether the archive holds one.
func (a *Archive) Config() (cfg app.Config, found bool) { return a.cfg, a.found }

// Hint names a file that was probably meant to be the config file when there
// is none, "" otherwise.
func (a *Archive) Hint() app.Text { return a.hint }

// Left tells, in sentences for the user, what of the ZIP is not unpacked: what no
// program needs, and what is made anew from the manifests beside it.
func (a *Archive) Left() []string { return a.left }

// Size returns the bytes of the ZIP.
func (a *Archive) Size() int64 { return a.size }

// Single reports whether the file is no ZIP of files, but the main file itself.
func (a *Archive) Single() bool { return a.single }

// Variables returns what the app.VariablesFile of the ZIP holds. It is never
// unpacked.
func (a *Archive) Variables() app.PackedVariables { return a.vars }

// load reads the directory, checks it and parses the config.
func (a *Archive) load() error {
	info, err := a.file.Stat()
	if err != nil {
		return fmt.Errorf("cannot open the ZIP: %w", err)
	}
	zr, err := readDirectory(a.file, info.Size(), a.lim)
	if err != nil {
		return err
	}
	a.size = info.Size()
	if alone, err := a.alone(zr.File); alone || err != nil {
		return err
	}
	var files []*zip.File
	files, a.left, a.vars = sweep(zr.File, a.lim, a.over)
	if a.entries, err = check(files, info.Size(), a.lim); err != nil {
		return err
	}
	a.entries = unwrap(a.entries, a.over)
	return a.loadConfig()
}

// loadConfig finds and parses the config file, or a hint of where it went.
func (a *Archive) loadConfig() error {
	for _, e := range a.entries {
		switch {
		case e.dir:
		case e.name == ConfigName:
			r, err := e.zf.Open()
			if err != nil {
				return damaged(e.name, err)
			}
			defer r.Close()
			a.cfg, err = ParseConfig(r)
			if app.KindOf(err) == app.Internal && err != nil {
				return damaged(e.name, err)
			}
			a.found = err == nil
			return err
		case a.hint.IsZero():
			a.hint = hintFor(e.name)
		}
	}
	return nil
}

// hintFor returns the remedy when name looks like a misplaced config file.
// Windows hides the extension of discloud.config.txt from whoever made it.
func hintFor(name string) app.Text {
	base := strings.ToLower(path.Base(name))
	if strings.TrimSuffix(base, ".txt") != ConfigName {
		return app.Text{}
	}
	if name == path.Base(name) {
		return app.Textf("found %s: the name must be %s", quote(name), ConfigName)
	}
	return app.Textf("found %s: %s must be at the top of the ZIP", quote(name), ConfigName)
}

// readDirectory reads the central directory of the ZIP.
func readDirectory(f *os.File, size int64, lim Limits) (*zip.Reader, error) {
	src := &meteredReader{r: f, size: size, left: int64(lim.MaxEntries)*entryCost + 1<<18}
	zr, err := zip.NewReader(src, size)
	switch {
	case err == nil, errors.Is(err, zip.ErrInsecurePath):
		// With zipinsecurepath=0 in GODEBUG archive/zip complains about names
		// on its own; check does so anyway, and says what is wrong.
		src.left = math.MaxInt64
		return zr, nil
	case errors.Is(err, errMetered):
		return nil, app.Errorf(app.TooLarge,
			"cannot unpack the ZIP: it holds more than the %d entries allowed", lim.MaxEntries)
	case isHostError(err):
		return nil, fmt.Errorf("cannot read the ZIP: %w", err)
	}
	return nil, notZIP(f, size)
}

// notZIP tells a cut-off ZIP from something else by its first bytes.
func notZIP(f *os.File, size int64) error {
	var magic [4]byte
	if size == 0 {
		return app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is empty")
	}
	if _, err := f.ReadAt(magic[:], 0); err == nil && string(magic[:2]) == "PK" {
		return app.Errorf(app.Unusable, "cannot unpack the ZIP: it is truncated or damaged")
	}
	return app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is not a ZIP: put the files of the application into one")
}

// damaged is the error of an entry whose data could not be read.
func damaged(name string, err error) error {
	if isHostError(err) {
		return fmt.Errorf("cannot read the ZIP: %w", err)
	}
	if errors.Is(err, zip.ErrChecksum) {
		return refuse(name, "is damaged: its checksum does not match")
	}
	return refuse(name, "is damaged: its data cannot be read")
}

// isHostError reports whether err came from the host's file system rather than
// from what the archive holds.
func isHostError(err error) bool {
	var pe *fs.PathError
	return errors.As(err, &pe)
}

// errMetered ends a read that asked for more than it may.
var errMetered = errors.New("read limit exceeded")

// meteredReader bounds how many bytes are read in total, and ends where the
// file does: offsets in a ZIP are whatever a stranger wrote, and the host would
// call the impossible ones an error of its own.
type meteredReader struct {
	r    io.ReaderAt
	size int64
	left int64
}

// ReadAt implements io.ReaderAt.
func (m *meteredReader) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 || off >= m.size {
		return 0, io.EOF
	}
	if m.left < int64(len(p)) {
		return 0, errMetered
	}
	n, err := m.r.ReadAt(p, off)
	m.left -= int64(n)
	return n, err
}
