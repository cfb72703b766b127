package depot

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"berth/files"
)

// Dir is the directory in the data directory.
const Dir = "runtimes"

// Depot is the runtimes of one data directory. The zero value has none. It is safe for
// concurrent use, also by several processes.
type Depot struct {
	dir string // absolute, without links
}

// Of returns the runtimes of a data directory. It makes nothing.
func Of(dataDir string) Depot {
	dir := filepath.Join(dataDir, Dir)
	if real, err := filepath.EvalSymlinks(dataDir); err == nil {
		dir = filepath.Join(real, Dir)
	}
	return Depot{dir}
}

// Path is where the runtimes are.
func (d Depot) Path() string { return d.dir }

// Runtime is an installed runtime.
type Runtime struct {
	Language string
	Version  string
	Record
}

// Record says where a runtime came from.
type Record struct {
	Source string    `json:"source"` // the address, or the name of a file
	SHA256 string    `json:"sha256"` // of the archive, in hexadecimal digits
	At     time.Time `json:"at"`     // of the installation
}

// exact is a version as a directory is named.
var exact = regexp.MustCompile(`^\d{1,9}(\.\d{1,9}){1,3}$`)

// numbers are those of a version.
func numbers(version string) (list []int) {
	for part := range strings.SplitSeq(version, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		list = append(list, n)
	}
	return list
}

// Begins reports whether a version begins with the numbers of another: 22.3.1 begins with
// 22 and with 22.3, and not with 2.
func Begins(version, with string) bool {
	of, first := numbers(version), numbers(with)
	return len(first) > 0 && len(first) <= len(of) && slices.Equal(of[:len(first)], first)
}

// Compare orders versions as cmp.Compare does.
func Compare(a, b string) int { return slices.Compare(numbers(a), numbers(b)) }

// Versions returns the installed versions of a language, the newest first; none where they
// cannot be read.
func (d Depot) Versions(language string) []string {
	var list []string
	entries, _ := os.ReadDir(filepath.Join(d.dir, language))
	for _, e := range entries {
		if e.IsDir() && exact.MatchString(e.Name()) {
			list = append(list, e.Name())
		}
	}
	slices.SortFunc(list, func(a, b string) int { return Compare(b, a) })
	return list
}

// Tree is the directory of a version, which may not be there.
func (d Depot) Tree(language, version string) string { return filepath.Join(d.dir, language, version) }

// Bin is the directory with the commands of a version, which may not be there.
func (d Depot) Bin(language, version string) string {
	return filepath.Join(d.Tree(language, version), publishers[language].bin)
}

// Holds returns the runtime to which a path of the host belongs; ok is false for none.
func (d Depot) Holds(path string) (language, version string, ok bool) {
	below, found := strings.CutPrefix(path, d.dir+"/")
	if !found {
		return "", "", false
	}
	language, below, _ = strings.Cut(below, "/")
	version, _, _ = strings.Cut(below, "/")
	return language, version, exact.MatchString(version)
}

// Runtimes returns all that is installed, by language, the newest version first. What has
// no record, or one that nobody can read, has an empty one.
func (d Depot) Runtimes() []Runtime {
	var list []Runtime
	for _, language := range Languages() {
		for _, version := range d.Versions(language) {
			record, _ := d.remembered(language, version)
			list = append(list, Runtime{language, version, record})
		}
	}
	return list
}

// recordPath is where the record of a version is.
func (d Depot) recordPath(language, version string) string {
	return d.Tree(language, version) + ".json"
}

// remembered returns the record of a version, the zero value where there is none.
func (d Depot) remembered(language, version string) (Record, error) {
	var r Record
	text, err := os.ReadFile(d.recordPath(language, version))
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil {
		return r, fmt.Errorf("cannot read where %s %s came from: %w", language, version, err)
	}
	return r, nil
}

// Change is the right to change a depot, which one command has at a time.
type Change struct {
	Depot
	lock *os.File
}

// Change makes the directory if need be, waits for no other command, and removes what an
// installation left that was cut short. The caller calls Close.
func (d Depot) Change() (*Change, error) {
	c, err := d.begin()
	if err != nil {
		return nil, cmp.Or(files.Refused("change the installed runtimes", err), fmt.Errorf("cannot change the installed runtimes: %w", err))
	}
	return c, nil
}

func (d Depot) begin() (*Change, error) {
	if err := makeDir(d.dir); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(filepath.Join(d.dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			err = errors.New("another command is doing that; try again when it has ended")
		}
		return nil, errors.Join(err, f.Close())
	}
	left, err := filepath.Glob(filepath.Join(d.dir, newPrefix+"*"))
	for _, dir := range left {
		err = errors.Join(err, os.RemoveAll(dir))
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &Change{d, f}, nil
}

const newPrefix = ".new-"

// Close lets the next command change the depot.
func (c *Change) Close() error { return c.lock.Close() }

// makeDir makes a directory that programs may enter, unless it is there.
func makeDir(dir string) error {
	err := os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = os.Chmod(dir, 0o755) // the umask may have taken more
	}
	return err
}

// Source is an archive to install.
type Source struct {
	Language string
	Version  string // exact, or as far as the owner wrote it: the program tells the rest
	Name     string // for people: its address or its file
	SHA256   string // that it must have; "" for a file of which nobody told one

	open func(ctx context.Context) (io.ReadCloser, error)
}

// File is an archive on this machine. sum may be empty.
func File(language, version, path, sum string) Source {
	return Source{
		Language: language, Version: version, Name: filepath.Base(path), SHA256: sum,
		open: func(context.Context) (io.ReadCloser, error) {
			f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would wait
			if err != nil {
				return nil, err
			}
			if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
				return nil, errors.Join(fmt.Errorf("%s is not a file", path), err, f.Close())
			}
			return f, nil
		},
	}
}

// installTimeout bounds one installation: a gigabyte at half a megabyte a second.
const installTimeout = 40 * time.Minute

// Install gets an archive, unpacks it and gives it its name. version runs the language's
// command in a directory of the host and returns what it says of its version, "" when it
// does not run. It blocks for as long as the download takes, 40 minutes at most. On an error
// nothing is installed.
func (c *Change) Install(ctx context.Context, s Source, version func(bin, command string) string) (Runtime, error) {
	r, err := c.install(ctx, s, version)
	if err != nil {
		return r, cmp.Or(files.Refused("install the runtime", err), fmt.Errorf("cannot install %s %s: %w", s.Language, s.Version, err))
	}
	return r, nil
}

func (c *Change) install(ctx context.Context, s Source, version func(bin, command string) string) (r Runtime, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, installTimeout, fmt.Errorf("it took longer than %s", installTimeout))
	defer cancel()
	work, err := os.MkdirTemp(c.dir, newPrefix)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	if err := os.Chmod(work, 0o755); err != nil { // the program is tried as nobody
		return r, err
	}
	archive, sum, err := get(ctx, s, work)
	if err != nil {
		return r, err
	}
	defer archive.Close()
	if s.SHA256 != "" && sum != s.SHA256 {
		return r, fmt.Errorf("%s has the SHA-256 %s, and the publisher's list says %s: nothing was installed; try again, and if it stays so ask the publisher", s.Name, sum, s.SHA256)
	}
	tree := filepath.Join(work, "tree")
	if tree, err = unpack(ctx, archive, tree); err != nil {
		return r, err
	}
	p := publishers[s.Language]
	said := version(filepath.Join(tree, p.bin), p.command)
	if said == "" {
		return r, fmt.Errorf("its program %s does not run on this host: the archive is another one, or for another processor or a newer system, or users may not enter %s", p.command, c.dir)
	}
	whole := said
	if len(numbers(s.Version)) > len(numbers(said)) { // the first Java of a line says 21
		whole = s.Version
	}
	if !exact.MatchString(whole) || !Begins(whole, said) || !Begins(whole, s.Version) {
		return r, fmt.Errorf("its program %s says that it is %s", p.command, said)
	}
	r = Runtime{s.Language, whole, Record{s.Name, sum, time.Now().UTC().Truncate(time.Second)}}
	return r, c.publish(tree, r)
}

// publish gives a tree its name.
func (c *Change) publish(tree string, r Runtime) error {
	at := c.Tree(r.Language, r.Version)
	if _, err := os.Lstat(at); err == nil {
		return fmt.Errorf("%s %s is installed already", r.Language, r.Version)
	}
	before, err := c.remembered(r.Language, r.Version)
	if err != nil {
		return err
	}
	if before.SHA256 != "" && before.SHA256 != r.SHA256 {
		return fmt.Errorf("this host had %s %s before, from an archive with the SHA-256 %s, and %s has %s: a published version does not change; if you know why it did, remove %s and try again",
			r.Language, r.Version, before.SHA256, r.Source, r.SHA256, c.recordPath(r.Language, r.Version))
	}
	if err := makeDir(filepath.Dir(at)); err != nil {
		return err
	}
	if err := syncTree(tree); err != nil {
		return err
	}
	if err := c.remember(r); err != nil {
		return err
	}
	if err := os.Rename(tree, at); err != nil {
		return err
	}
	return errors.Join(syncDir(filepath.Dir(at)), syncDir(c.dir))
}

// remember writes the record of a version.
func (c *Change) remember(r Runtime) error {
	text, err := json.MarshalIndent(r.Record, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(c.dir, newPrefix) // 0600
	if err != nil {
		return err
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), c.recordPath(r.Language, r.Version))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// Remove removes a version. Its record stays.
func (c *Change) Remove(language, version string) error {
	err := c.remove(language, version)
	if err != nil {
		return fmt.Errorf("cannot remove %s %s: %w", language, version, err)
	}
	return nil
}

func (c *Change) remove(language, version string) error {
	gone, err := os.MkdirTemp(c.dir, newPrefix)
	if err != nil {
		return err
	}
	at := c.Tree(language, version)
	if err := os.Rename(at, filepath.Join(gone, version)); err != nil {
		return errors.Join(err, os.RemoveAll(gone))
	}
	return errors.Join(syncDir(filepath.Dir(at)), os.RemoveAll(gone))
}

// syncTree brings a tree to the disk, with all else of its file system: thousands of files
// at once are faster than one by one.
func syncTree(tree string) error {
	d, err := os.Open(tree)
	if err != nil {
		return err
	}
	return errors.Join(unix.Syncfs(int(d.Fd())), d.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
