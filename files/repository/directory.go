package repository

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"berth/files/archive"
)

const (
	// marker is a file that says that a directory is one of backups. Where a disk is not mounted there
	// is none, so that no backup fills the disk below.
	marker     = "berth-backups"
	markerText = "berth keeps backups in this directory.\n"

	ext       = ".tar.gz"
	newPrefix = ".new-" // begins the name of a directory of what is of no run yet
	oldPrefix = ".old-" // and of a run that is being removed
	part      = ".part" // ends the name of a file that is being written
)

// directory is a directory of archives: for each run a directory, and in it for each snapshot a
// file that berth backup verify takes, and a list of them. A file that is in several runs has
// a name in each: a hard link, or a copy where the file system has none. A run appears, and
// goes, by one rename.
type directory struct {
	path   string
	saving string // the directory of what was saved last, for the next run
}

// Where implements Repository.
func (d *directory) Where() string { return archives + d.path }

// Open implements Repository. It makes at most the directory itself, not those above.
func (d *directory) Open(_ context.Context, create bool) error {
	root, err := d.open()
	if errors.Is(err, ErrNone) && create {
		root, err = d.create()
	}
	if err != nil {
		return cannot("open the directory of backups", err)
	}
	return root.Close()
}

// open opens the directory. ErrNone when it is not there, or not marked.
func (d *directory) open() (*os.Root, error) {
	root, err := os.OpenRoot(d.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s does not exist", ErrNone, d.path)
	}
	if err != nil {
		return nil, err
	}
	if _, err = root.Stat(marker); errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %s has no file %s; if it is on a disk of its own, mount that", ErrNone, d.path, marker)
	}
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

func (d *directory) create() (*os.Root, error) {
	if err := os.Mkdir(d.path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, full(err)
	}
	root, err := os.OpenRoot(d.path)
	if err != nil {
		return nil, err
	}
	if err := writeFile(root, marker, []byte(markerText)); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	return root, nil
}

// Save implements Repository.
func (d *directory) Save(ctx context.Context, name string, labels map[string]string, write func(io.Writer) error) (Snapshot, error) {
	if err := checkName(name, labels); err != nil {
		return Snapshot{}, err
	}
	root, err := d.open()
	if err != nil {
		return Snapshot{}, cannot("save "+name, err)
	}
	defer root.Close()
	item := item{ID: newID(), Name: name, Labels: maps.Clone(labels), At: time.Now().UTC()}
	if err := d.save(ctx, root, &item, write); err != nil {
		return Snapshot{}, cannot("save "+name, full(err))
	}
	return item.snapshot(), nil
}

func (d *directory) save(ctx context.Context, root *os.Root, item *item, write func(io.Writer) error) (err error) {
	if _, err := root.Stat(d.saving); d.saving == "" || err != nil {
		d.saving = newPrefix + strings.ToLower(rand.Text())
		if err := root.Mkdir(d.saving, 0o700); err != nil {
			return err
		}
	}
	to := path.Join(d.saving, item.Name+ext)
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	if err := root.Remove(to + part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := root.OpenFile(to+part, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = root.Remove(to + part)
		}
	}()
	err = item.pack(ctx, f, write)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	s, err := readShelf(root, d.saving)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.items = slices.DeleteFunc(s.items, func(i itemOf) bool { return i.Name == item.Name }) // which the new one replaces
	s.items = append(s.items, itemOf{*item, d.saving})
	if err := root.Rename(to+part, to); err != nil {
		return err
	}
	return writeShelf(root, d.saving, s.items)
}

// pack writes the stream into a file, compressed and sealed, and notes what is in the file.
func (i *item) pack(ctx context.Context, f io.Writer, write func(io.Writer) error) error {
	sum := sha256.New()
	file := &counter{ctx: ctx, w: io.MultiWriter(f, sum)}
	sealed := archive.NewSealer(file)
	buffered := bufio.NewWriterSize(sealed, 256<<10) // gzip writes in pieces of 240 bytes
	zip, err := gzip.NewWriterLevel(buffered, gzip.BestSpeed)
	if err != nil {
		return err
	}
	if err := write(zip); err != nil {
		return err
	}
	if err := errors.Join(zip.Close(), buffered.Flush(), sealed.Close()); err != nil {
		return err
	}
	i.Bytes, i.SHA256 = file.n, hex.EncodeToString(sum.Sum(nil))
	return nil
}

// counter counts what is written, until ctx ends.
type counter struct {
	ctx context.Context
	w   io.Writer
	n   int64
}

// Write implements io.Writer.
func (c *counter) Write(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// List implements Repository. What it cannot read it leaves out: Check says that.
func (d *directory) List(context.Context) ([]Snapshot, error) {
	root, err := d.open()
	if err != nil {
		return nil, cannot("list the snapshots", err)
	}
	defer root.Close()
	shelves, err := readShelves(root, func(error) {})
	if err != nil {
		return nil, cannot("list the snapshots", err)
	}
	byID := map[string]*Snapshot{}
	for _, s := range shelves {
		for _, i := range s.items {
			if byID[i.ID] == nil {
				byID[i.ID] = new(i.snapshot())
			}
			if s.run != "" {
				byID[i.ID].Runs = append(byID[i.ID].Runs, s.run)
			}
		}
	}
	var list []Snapshot
	for _, s := range byID {
		slices.Sort(s.Runs)
		list = append(list, *s)
	}
	slices.SortFunc(list, newer)
	return list, nil
}

// find returns where a snapshot is, in a run if it is in one.
func find(shelves []shelf, s Snapshot) (itemOf, error) {
	for _, shelf := range shelves { // runs are first
		if at := slices.IndexFunc(shelf.items, func(i itemOf) bool { return i.ID == s.ID }); at >= 0 {
			return shelf.items[at], nil
		}
	}
	return itemOf{}, errGone(s)
}

// Load implements Repository. Each bit of the file is proved, when read reads to its end.
func (d *directory) Load(ctx context.Context, s Snapshot, read func(io.Reader) error) error {
	root, err := d.open()
	if err != nil {
		return cannot("load "+s.Name, err)
	}
	defer root.Close()
	shelves, err := readShelves(root, func(error) {})
	if err != nil {
		return cannot("load "+s.Name, err)
	}
	i, err := find(shelves, s)
	if err != nil {
		return cannot("load "+s.Name, err)
	}
	f, err := i.open(root)
	if err != nil {
		return cannot("load "+s.Name, err)
	}
	defer f.Close()
	return cannot("load "+s.Name, i.unpack(ctx, f, readWhole(read)))
}

// unpack lets read read what is in a file.
func (i itemOf) unpack(ctx context.Context, f io.Reader, read func(io.Reader) error) error {
	sum := sha256.New()
	file := bufio.NewReaderSize(io.TeeReader(&ender{ctx, f}, sum), 256<<10)
	prove := func() error {
		if _, err := io.Copy(io.Discard, file); err != nil {
			return err
		}
		return i.prove(sum)
	}
	zip, err := gzip.NewReader(file)
	if err != nil {
		return errors.Join(prove(), err)
	}
	stream := &counted{r: zip}
	err = read(stream)
	if err == nil && !stream.ended {
		return nil
	}
	// What is damaged is said to be that, and not what somebody thinks of it.
	if proved := prove(); proved != nil {
		return proved
	}
	return err
}

// ender reads until ctx ends.
type ender struct {
	ctx context.Context
	r   io.Reader
}

// Read implements io.Reader.
func (e *ender) Read(p []byte) (int, error) {
	if err := e.ctx.Err(); err != nil {
		return 0, err
	}
	return e.r.Read(p)
}

// Commit implements Repository.
func (d *directory) Commit(ctx context.Context, run string, head Snapshot, others []Snapshot) (int64, error) {
	if err := checkRuns(run); err != nil {
		return 0, err
	}
	root, err := d.open()
	if err != nil {
		return 0, cannot("make the backup "+run, err)
	}
	defer root.Close()
	bytes, err := d.commit(ctx, root, run, append([]Snapshot{head}, others...))
	return bytes, cannot("make the backup "+run, full(err))
}

func (d *directory) commit(ctx context.Context, root *os.Root, run string, all []Snapshot) (bytes int64, err error) {
	shelves, err := readShelves(root, func(error) {})
	if err != nil {
		return 0, err
	}
	var items []itemOf
	for _, s := range all {
		i, err := find(shelves, s)
		if err != nil {
			return 0, err
		}
		if slices.ContainsFunc(items, func(other itemOf) bool { return other.Name == i.Name }) {
			return 0, fmt.Errorf("two snapshots of %s", i.Name)
		}
		items = append(items, i)
	}
	dir := items[0].dir
	if !strings.HasPrefix(dir, newPrefix) {
		return 0, fmt.Errorf("the snapshot %s of %s is part of a backup already", items[0].ID, items[0].Name)
	}
	if _, err := root.Lstat(run); !errors.Is(err, fs.ErrNotExist) {
		return 0, errors.Join(errors.New("there is another backup of that name"), err)
	}
	for n, i := range items {
		if strings.HasPrefix(i.dir, newPrefix) {
			bytes += i.Bytes
		}
		if i.dir != dir {
			if err := i.link(ctx, root, dir); err != nil {
				return 0, err
			}
			items[n].dir = dir
		}
	}
	if err := writeShelf(root, dir, items); err != nil {
		return 0, err
	}
	if err := tidy(root, dir, items); err != nil {
		return 0, err
	}
	if err := syncDirs(root, dir); err != nil {
		return 0, err
	}
	if err := root.Rename(dir, run); err != nil {
		return 0, err
	}
	if dir == d.saving {
		d.saving = ""
	}
	return bytes, syncDir(root, ".")
}

// link gives a file a name in another directory, or makes a copy of it, which is proved.
func (i itemOf) link(ctx context.Context, root *os.Root, dir string) (err error) {
	to := itemOf{i.item, dir}.path()
	if err := root.MkdirAll(path.Dir(to), 0o700); err != nil {
		return err
	}
	if err := root.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if root.Link(i.path(), to) == nil {
		return nil
	}
	from, err := i.open(root)
	if err != nil {
		return err
	}
	defer from.Close()
	f, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err = i.copy(ctx, f, from); err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// copy copies the file, and proves it.
func (i itemOf) copy(ctx context.Context, to io.Writer, from io.Reader) error {
	sum := sha256.New()
	if _, err := io.Copy(&counter{ctx: ctx, w: io.MultiWriter(to, sum)}, from); err != nil {
		return err
	}
	return i.prove(sum)
}

// prove compares the sum of what was read of the file.
func (i itemOf) prove(sum hash.Hash) error {
	if hex.EncodeToString(sum.Sum(nil)) != i.SHA256 {
		return fmt.Errorf("%w: %s is not what was written", ErrDamaged, i.path())
	}
	return nil
}

// Drop implements Repository.
func (d *directory) Drop(_ context.Context, runs []string) error {
	if err := checkRuns(runs...); err != nil {
		return err
	}
	root, err := d.open()
	if err != nil {
		return cannot("remove backups", err)
	}
	defer root.Close()
	for _, run := range runs {
		old := oldPrefix + strings.ToLower(rand.Text())
		if err := root.Rename(run, old); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return cannot("remove backups", err)
		}
		if err := errors.Join(syncDir(root, "."), root.RemoveAll(old)); err != nil {
			return cannot("remove backups", err)
		}
	}
	return nil
}

// Prune implements Repository.
func (d *directory) Prune(context.Context) error {
	root, err := d.open()
	if err != nil {
		return cannot("free what no backup needs", err)
	}
	defer root.Close()
	d.saving = ""
	entries, err := fs.ReadDir(root.FS(), ".")
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), newPrefix) || strings.HasPrefix(e.Name(), oldPrefix) {
			err = errors.Join(err, root.RemoveAll(e.Name()))
		}
	}
	return cannot("free what no backup needs", err)
}

// Check implements Repository.
func (d *directory) Check(ctx context.Context, part, parts int) error {
	root, err := d.open()
	if err != nil {
		return cannot("check the directory of backups", err)
	}
	defer root.Close()
	var damaged []error
	shelves, err := readShelves(root, func(err error) { damaged = append(damaged, err) })
	proved := map[string][]os.FileInfo{} // a file that is in several runs is read once
	for _, s := range shelves {
		for _, i := range s.items {
			if s.run == "" { // a writer that was killed may have left less than it says
				continue
			}
			f, err := i.open(root)
			if err != nil {
				damaged = append(damaged, err)
				continue
			}
			info, err := f.Stat()
			same := func(other os.FileInfo) bool { return os.SameFile(info, other) }
			if err == nil && int(crc32.ChecksumIEEE([]byte(i.ID)))%parts == part && !slices.ContainsFunc(proved[i.ID], same) {
				proved[i.ID] = append(proved[i.ID], info)
				err = i.copy(ctx, io.Discard, f)
			}
			if f.Close(); err != nil {
				damaged = append(damaged, err)
			}
		}
	}
	return cannot("check the directory of backups", errors.Join(err, errors.Join(damaged...)))
}

// full says that there is no room where a disk or a quota says that.
func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
