package bundle

import (
	"archive/zip"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"berth/app"
)

// ConfigName is the name of the config file, at the top of the archive.
const ConfigName = "discloud.config"

// Archive is a ZIP whose entries were all checked. It is not safe for
// concurrent use.
type Archive struct {
	app.Unpacked // what is known of it: all but its Stage

	file    *os.File
	lim     Limits
	entries []entry
	over    *app.Code // what a commit lays it over, nil for a new application
	config  *string   // takes the place of its discloud.config; nil for its own
	loose   bool      // its discloud.config is not parsed
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
	return open(path, &Archive{lim: lim.withDefaults(), over: over})
}

// OpenAs is Open for a new application with config, the text of a discloud.config, in the place
// of the one that the ZIP may hold.
func OpenAs(path string, lim Limits, config string) (*Archive, error) {
	return open(path, &Archive{lim: lim.withDefaults(), config: &config})
}

// open opens the ZIP as a says.
func open(path string, a *Archive) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ZIP: %w", err)
	}
	a.file = f
	if err := a.load(); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// OpenFiles is Open for a ZIP whose files are unpacked as they are: no folder is taken off, no program is looked
// for, and nothing is left out but the variables of a backup, and what macOS strews about.
func OpenFiles(path string, lim Limits) (*Archive, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot open the ZIP: %w", err)
	}
	a := &Archive{file: f, lim: lim.withDefaults()}
	if err := a.loadFiles(); err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// directory reads which files the ZIP names.
func (a *Archive) directory() ([]*zip.File, error) {
	info, err := a.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("cannot open the ZIP: %w", err)
	}
	zr, err := readDirectory(a.file, info.Size(), a.lim)
	if err != nil {
		return nil, err
	}
	a.Bytes = info.Size()
	return zr.File, nil
}

// loadFiles reads the directory and checks it.
func (a *Archive) loadFiles() error {
	files, err := a.directory()
	if err != nil {
		return err
	}
	files = slices.DeleteFunc(files, func(f *zip.File) bool {
		name, dir, ok := nameOf(f, a.lim)
		return ok && part{f, name, dir}.skipped() == app.VariablesFile
	})
	a.entries, err = check(files, a.Bytes, a.lim)
	return err
}

// Close releases the file.
func (a *Archive) Close() error { return a.file.Close() }

// Exists implements app.Files, before anything is unpacked.
func (a *Archive) Exists(name string) bool { return a.find(name) >= 0 }

// Brought implements app.Files.
func (a *Archive) Brought(name string) bool { return a.Exists(name) }

// Read implements app.Files.
func (a *Archive) Read(name string, limit int64) ([]byte, error) {
	i := a.find(name)
	if i < 0 {
		return nil, fmt.Errorf("cannot read %s: %w", quote(name), fs.ErrNotExist)
	}
	r, err := a.open(a.entries[i])
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return io.ReadAll(io.LimitReader(r, limit))
}

func (a *Archive) find(name string) int {
	return slices.IndexFunc(a.entries, func(e entry) bool { return !e.dir && e.name == name })
}

// load reads the directory, checks it and parses the config.
func (a *Archive) load() error {
	files, err := a.directory()
	if err != nil {
		return err
	}
	if alone, err := a.alone(files); alone || err != nil {
		return err
	}
	files, a.Left, a.Variables = skip(files, a.lim, a.over, a.config)
	if a.entries, err = check(files, a.Bytes, a.lim); err != nil {
		return err
	}
	a.entries = unwrap(a.entries, a.over)
	if a.config != nil {
		if err := a.replaceConfig(); err != nil {
			return err
		}
	}
	if a.loose {
		a.Found = a.Exists(ConfigName)
		return nil
	}
	return a.loadConfig()
}

// replaceConfig puts the config that was given in the place of the ZIP's.
func (a *Archive) replaceConfig() error {
	for _, e := range a.entries {
		if e.dir && e.name == ConfigName || strings.HasPrefix(e.name, ConfigName+"/") {
			return refuse(ConfigName, "is a directory")
		}
	}
	a.entries = slices.DeleteFunc(a.entries, func(e entry) bool { return e.name == ConfigName })
	a.entries = append(a.entries, entry{name: ConfigName, text: a.config, mod: madeAt})
	return nil
}

// loadConfig finds and parses the config file, or a hint of where it went.
func (a *Archive) loadConfig() error {
	for _, e := range a.entries {
		switch {
		case e.dir:
		case e.name == ConfigName && e.text != nil:
			var err error
			a.Config, err = ParseConfig(strings.NewReader(*e.text))
			a.Found = err == nil
			return err
		case e.name == ConfigName:
			var err error
			a.Config, err = parsed(e.name, e.zf, ParseConfig)
			a.Found = err == nil
			return err
		case a.Hint.IsZero():
			a.Hint = HintFor(e.name)
		}
	}
	return nil
}

// HintFor returns the remedy when a path in an upload looks like a misplaced config file.
// Windows hides the extension of discloud.config.txt from whoever made it.
func HintFor(name string) app.Text {
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

// parsed is what parse makes of the data of an entry.
func parsed[T any](name string, f *zip.File, parse func(io.Reader) (T, error)) (v T, err error) {
	r, err := f.Open()
	if err == nil {
		defer r.Close()
		if v, err = parse(r); err == nil || app.KindOf(err) != app.Internal {
			return v, err
		}
	}
	return v, damaged(name, err)
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

// Some files are one program and a ZIP at once: a jar is a ZIP of classes, and a program
// may have one behind itself. Unpacked over an application they would change nothing that
// runs, and nobody would be told.

// alone makes the file itself the only entry if it is a jar that is sent in place of a
// ZIP, and the application's main file is a jar. It refuses every other program that is
// sent so. What brings a config, or the main file, is a ZIP of files, whatever else it is.
func (a *Archive) alone(files []*zip.File) (bool, error) {
	jar := isJar(files)
	if !jar && !isProgram(a.file) || a.isApplication(files) {
		return false, nil
	}
	switch {
	case !jar:
		return false, app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is one program, not a ZIP of an application's files: put it into a ZIP")
	case a.over == nil || a.over.Main == "":
		return false, app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is a Java program (.jar): put it into a ZIP, with a discloud.config whose MAIN names it")
	case !strings.EqualFold(path.Ext(a.over.Main), ".jar"):
		return false, app.Errorf(app.Unusable, "cannot unpack the ZIP: the file is a Java program (.jar), and MAIN=%s is none: put it into a ZIP, with a discloud.config whose MAIN names it", a.over.Main)
	case a.Bytes > a.lim.MaxUnpacked:
		return false, tooBig(a.lim)
	}
	a.Single = true
	a.entries = []entry{{name: a.over.Main}}
	a.Left = []string{fmt.Sprintf("The file is a Java program (.jar), not a ZIP of files: it takes the place of MAIN=%s, and nothing else changes.", a.over.Main)}
	return true, nil
}

// isJar reports whether a ZIP is a program of Java: it says what it is at the top, and
// has classes, which the sources of one have not.
func isJar(files []*zip.File) bool {
	manifest, class := false, false
	for _, f := range files {
		manifest = manifest || strings.EqualFold(f.Name, "META-INF/MANIFEST.MF")
		class = class || strings.HasSuffix(f.Name, ".class")
	}
	return manifest && class
}

// isApplication reports whether a ZIP holds what only the files of an application do.
func (a *Archive) isApplication(files []*zip.File) bool {
	for _, f := range files {
		if f.Name == ConfigName || a.over != nil && f.Name == a.over.Main {
			return true
		}
	}
	return false
}

// open reads what an entry holds.
func (a *Archive) open(e entry) (io.ReadCloser, error) {
	if e.text != nil {
		return io.NopCloser(strings.NewReader(*e.text)), nil
	}
	if e.zf == nil { // the file itself
		return io.NopCloser(io.NewSectionReader(a.file, 0, a.Bytes)), nil
	}
	return e.zf.Open()
}

// Limits bounds what an archive may unpack to. A zero field stands for its
// default.
type Limits struct {
	MaxEntries  int   // files and directories, implied ones included; 20,000
	MaxUnpacked int64 // bytes of all files together; 1 GiB
	MaxDepth    int   // components of one name; 32
	MaxName     int   // bytes of one component; 255, what Linux allows
}

// The defaults of Limits.MaxEntries and MaxUnpacked.
const (
	DefaultEntries  = 20000
	DefaultUnpacked = 1 << 30
)

// maxPath bounds a whole name in bytes. PATH_MAX is 4,096 and the program adds
// prefixes of its own.
const maxPath = 2048

// entryCost is the share of the central directory one entry may use on
// average. Reading the directory is bounded by it before any count in the
// archive is believed: archive/zip keeps every header in memory.
const entryCost = 512

// withDefaults returns l with its zero fields filled in.
func (l Limits) withDefaults() Limits {
	l.MaxEntries = cmp.Or(l.MaxEntries, DefaultEntries)
	l.MaxUnpacked = cmp.Or(l.MaxUnpacked, DefaultUnpacked)
	l.MaxDepth = cmp.Or(l.MaxDepth, 32)
	l.MaxName = cmp.Or(l.MaxName, 255)
	return l
}
