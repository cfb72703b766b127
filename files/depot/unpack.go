package depot

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// The bounds of one runtime, several times those of the largest.
const (
	maxArchive  = 1 << 30
	maxUnpacked = 3 << 30
	maxFiles    = 100_000
)

// bounds are what one archive may unpack to.
type bounds struct {
	bytes int64
	files int
}

// get copies an archive to a file without a name in dir and returns it with its SHA-256.
func get(ctx context.Context, s Source, dir string) (archive *os.File, sum string, err error) {
	in, err := s.open(ctx)
	if err != nil {
		return nil, "", err
	}
	defer in.Close()
	archive, err = os.CreateTemp(dir, "archive-")
	if err != nil {
		return nil, "", err
	}
	hash := sha256.New()
	n, err := io.Copy(io.MultiWriter(archive, hash), io.LimitReader(untilDone{ctx, in}, maxArchive+1))
	err = errors.Join(err, os.Remove(archive.Name()))
	if err == nil && n > maxArchive {
		err = fmt.Errorf("%s is larger than %d MB", s.Name, maxArchive>>20)
	}
	if err != nil {
		return nil, "", errors.Join(err, archive.Close())
	}
	return archive, hex.EncodeToString(hash.Sum(nil)), nil
}

// untilDone is a reader until a context ends.
type untilDone struct {
	ctx context.Context
	io.Reader
}

// Read implements io.Reader.
func (r untilDone) Read(p []byte) (int, error) {
	if r.ctx.Err() != nil {
		return 0, context.Cause(r.ctx)
	}
	return r.Reader.Read(p)
}

// entry is one file of an archive.
type entry struct {
	name string // clean, relative
	mode fs.FileMode
	link string // of a symbolic link: its target; of a hard link: the other name
	hard bool
	data io.Reader
}

// unpack unpacks a tar.gz or a ZIP into dir, which it makes, and returns the directory of
// the runtime: that of the archive's one directory, where all is in one.
func unpack(ctx context.Context, archive *os.File, dir string) (string, error) {
	return bounds{maxUnpacked, maxFiles}.unpack(ctx, archive, dir)
}

func (b bounds) unpack(ctx context.Context, archive *os.File, dir string) (string, error) {
	if err := makeDir(dir); err != nil {
		return "", err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	u := &unpacking{ctx: ctx, root: root, left: b}
	var magic [4]byte
	if _, err := archive.ReadAt(magic[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if _, err := archive.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	switch {
	case bytes.HasPrefix(magic[:], []byte{0x1f, 0x8b}):
		err = u.tar(archive)
	case bytes.HasPrefix(magic[:], []byte("PK")):
		err = u.zip(archive)
	default:
		err = errors.New("the archive is no .tar.gz and no .zip")
	}
	if err == nil {
		err = u.makeLinks()
	}
	if err != nil {
		return "", err
	}
	list, err := os.ReadDir(dir)
	if err != nil {
		return "", err
	}
	top := ""
	if len(list) == 1 && list[0].IsDir() {
		top = list[0].Name()
	}
	dir = filepath.Join(dir, top)
	return dir, u.checkLinks(dir, top)
}

// unpacking is one archive while it is unpacked.
type unpacking struct {
	ctx   context.Context
	root  *os.Root
	left  bounds
	links []entry // made when all files are there, so that none is written through
}

// damaged is the error of an archive that cannot be read on.
func damaged(err error) error {
	return fmt.Errorf("the archive is damaged or cut short: %w", err)
}

// tar unpacks a tar.gz.
func (u *unpacking) tar(archive io.Reader) error {
	z, err := gzip.NewReader(archive)
	if err != nil {
		return damaged(err)
	}
	defer func() { _ = z.Close() }()
	// What is no file counts too: a stream of headers alone would not end.
	stream := &io.LimitedReader{R: untilDone{u.ctx, z}, N: u.left.bytes + int64(u.left.files)*4096}
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			_, err := io.Copy(io.Discard, stream) // to the sum at the end
			if stream.N <= 0 {
				return u.tooLarge()
			}
			if err != nil {
				return damaged(err)
			}
			return nil
		}
		if stream.N <= 0 {
			return u.tooLarge()
		}
		if err != nil && !errors.Is(err, tar.ErrInsecurePath) { // add says which name
			return damaged(err)
		}
		e := entry{name: h.Name, mode: h.FileInfo().Mode(), data: r}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg, tar.TypeDir:
		case tar.TypeSymlink:
			e.link = h.Linkname
		case tar.TypeLink:
			e.link, e.hard = h.Linkname, true
		default:
			return fmt.Errorf("the archive holds %q, which is no file, directory or link", e.name)
		}
		if err := u.add(e); err != nil {
			return err
		}
	}
}

// zip unpacks a ZIP.
func (u *unpacking) zip(archive *os.File) error {
	info, err := archive.Stat()
	if err != nil {
		return err
	}
	z, err := zip.NewReader(archive, info.Size())
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) { // add says which name
		return damaged(err)
	}
	for _, f := range z.File {
		if err := u.zipped(f); err != nil {
			return err
		}
	}
	return nil
}

// maxLink is how long the target of a link can be on Linux.
const maxLink = 4096

// zipped adds one file of a ZIP.
func (u *unpacking) zipped(f *zip.File) error {
	r, err := f.Open()
	if err != nil {
		return damaged(err)
	}
	defer r.Close()
	e := entry{name: f.Name, mode: f.Mode(), data: untilDone{u.ctx, r}}
	if e.mode&fs.ModeSymlink != 0 {
		target, err := io.ReadAll(io.LimitReader(r, maxLink))
		if err != nil {
			return damaged(err)
		}
		e.link = string(target)
	}
	return u.add(e)
}

// tooLarge is the error of an archive beyond its bounds.
func (u *unpacking) tooLarge() error {
	return errors.New("the archive unpacks to more than a runtime has: it is not the publisher's")
}

// add unpacks one entry; links come later.
func (u *unpacking) add(e entry) error {
	name := path.Clean(strings.TrimSuffix(e.name, "/"))
	if !fs.ValidPath(name) || strings.ContainsAny(name, "\x00\\") {
		return fmt.Errorf("the archive holds %q, a name outside of it", e.name)
	}
	if name == "." {
		return nil
	}
	e.name = name
	if u.left.files--; u.left.files < 0 {
		return u.tooLarge()
	}
	switch {
	case e.link != "":
		u.links = append(u.links, e)
		return nil
	case e.mode.IsDir():
		return u.directory(e.name)
	case !e.mode.IsRegular():
		return fmt.Errorf("the archive holds %q, which is no file, directory or link", e.name)
	}
	if err := u.directory(path.Dir(e.name)); err != nil {
		return err
	}
	return u.file(e)
}

// directory makes a directory and its parents.
func (u *unpacking) directory(name string) error {
	if name == "." {
		return nil
	}
	err := u.root.Mkdir(name, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if err := u.directory(path.Dir(name)); err != nil {
			return err
		}
		err = u.root.Mkdir(name, 0o755)
	}
	if errors.Is(err, fs.ErrExist) {
		if info, err := u.root.Lstat(name); err == nil && info.IsDir() {
			return nil
		}
	}
	if err == nil {
		err = u.root.Chmod(name, 0o755) // the umask may have taken more
	}
	return err
}

// file writes a file, which is nobody's before: 0644, or 0755 where the archive lets
// anybody execute it.
func (u *unpacking) file(e entry) error {
	f, err := u.root.OpenFile(e.name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("the archive holds %q twice", e.name)
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(e.data, u.left.bytes+1))
	if u.left.bytes -= n; u.left.bytes < 0 {
		return errors.Join(u.tooLarge(), f.Close())
	}
	mode := fs.FileMode(0o644)
	if e.mode&0o111 != 0 {
		mode = 0o755
	}
	if _, disk := errors.AsType[*fs.PathError](err); err != nil && !disk && u.ctx.Err() == nil {
		err = damaged(err)
	}
	return errors.Join(err, f.Chmod(mode), f.Close())
}

// makeLinks makes the links, whose targets must lie in the archive.
func (u *unpacking) makeLinks() error {
	for _, e := range u.links {
		at := e.link // a hard link names its file from the top
		if !e.hard {
			at = path.Join(path.Dir(e.name), e.link)
		}
		at = path.Clean(at)
		if path.IsAbs(e.link) || !fs.ValidPath(at) {
			return fmt.Errorf("the archive holds the link %q to %q, which leads out of it", e.name, e.link)
		}
		if err := u.directory(path.Dir(e.name)); err != nil {
			return err
		}
		var err error
		if e.hard {
			var info fs.FileInfo
			if info, err = u.root.Lstat(at); err == nil && !info.Mode().IsRegular() {
				err = fs.ErrInvalid
			}
			if err == nil {
				err = u.root.Link(at, e.name)
			}
		} else {
			err = u.root.Symlink(e.link, e.name)
		}
		if err != nil {
			return fmt.Errorf("cannot make the link %q of the archive: %w", e.name, err)
		}
	}
	return nil
}

// checkLinks refuses links that lead out of dir through others; top is the directory of
// the archive that dir is, or empty.
func (u *unpacking) checkLinks(dir, top string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	for _, e := range u.links {
		name := strings.TrimPrefix(e.name, top+"/")
		if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the archive holds the link %q to %q, which leads out of it", e.name, e.link)
		}
	}
	return nil
}
