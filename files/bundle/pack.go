package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// Packing is what a client sends of a directory.
type Packing struct {
	Files   []Packed // by name
	Bytes   int64    // of all of them
	Left    []string // sentences about what the server would leave out too
	Ignored int      // files and directories that the ignore files name
	Config  app.Config
	// Found tells whether there is a discloud.config.
	Found bool
	// EnvFiles are the files with secrets that an EnvLeft Choice leaves out.
	EnvFiles []string
	root     *os.Root
	choice   Choice
}

// Choice is what who packs a directory decides.
type Choice struct {
	Env EnvFiles
	// Config is the text of the discloud.config that is sent; nil for that of the directory.
	Config []byte
}

// EnvFiles is what becomes of files with secrets such as .env.
type EnvFiles int

// What can become of them.
const (
	EnvRefused EnvFiles = iota // nothing is packed
	EnvSent
	EnvLeft // they are left out
)

// madeAt is the time of files that are in no directory.
var madeAt = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// Packed is a file of a Packing.
type Packed struct {
	Name  string // with slashes
	Size  int64
	Exec  bool
	Mod   time.Time
	Empty bool // it is an empty directory

	text []byte // of a file that is in no directory
}

// ignoreNames are the files that say what is not sent, in each directory.
var ignoreNames = []string{".gitignore", ".discloudignore"}

// Scan lists what is to be sent of a directory: everything, but for what .gitignore and
// .discloudignore name (gitignore(5); the second wins), and what a server leaves out
// (skip). Nothing is read but names, ignore files and manifests.
//
// It refuses (app.Unusable) a file with secrets such as .env unless choice says otherwise, a link that
// leads to no file of the directory, a special file, and what Open would refuse. The
// root MUST stay open as long as the Packing is used.
func Scan(root *os.Root, choice Choice) (*Packing, error) {
	p := &Packing{root: root, choice: choice}
	if err := p.walk(".", &ignoring{}); err != nil {
		return nil, err
	}
	if choice.Config != nil {
		p.Files = slices.DeleteFunc(p.Files, func(f Packed) bool { return f.Name == ConfigName })
		p.Files = append(p.Files, Packed{Name: ConfigName, text: choice.Config, Size: int64(len(choice.Config)), Mod: madeAt})
	}
	if err := p.leave(); err != nil {
		return nil, err
	}
	for _, f := range p.Files {
		if name := path.Base(f.Name); choice.Env == EnvRefused && !f.Empty && secret(name) {
			return nil, app.Errorf(app.Unusable, "%s holds secrets, and would be in the application's files", quote(f.Name))
		}
		p.Bytes += f.Size
	}
	if p.Bytes == 0 && len(p.Files) == 0 {
		return nil, app.Errorf(app.Unusable, "there is nothing to send in this directory")
	}
	return p, nil
}

// secret reports whether a file holds environment variables by its name, and is no example
// of one.
func secret(name string) bool {
	if name != ".env" && !strings.HasPrefix(name, ".env.") {
		return false
	}
	return !slices.Contains([]string{".example", ".sample", ".template", ".dist", ".defaults"}, path.Ext(name))
}

// walk lists a directory; above are the rules of the directories around it.
func (p *Packing) walk(dir string, above *ignoring) error {
	list, err := fs.ReadDir(p.root.FS(), dir)
	if err != nil {
		return fmt.Errorf("cannot read the directory %s: %w", dir, cause(err))
	}
	base := ""
	if dir != "." {
		base = dir + "/"
	}
	rules := &ignoring{slices.Clone(above.rules)}
	for _, name := range ignoreNames {
		text, err := p.root.ReadFile(base + name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot read %s: %w", base+name, cause(err))
		}
		rules.add(base, string(text))
	}
	some := false
	for _, e := range list {
		name := base + e.Name()
		if rules.ignores(name, e.IsDir()) {
			p.Ignored++
			continue
		}
		some = true
		if e.IsDir() {
			if e.Name() == ".git" { // of all that a server leaves out, the one with the most files
				p.Left = append(p.Left, fmt.Sprintf("%s was left out: no program needs it.", quote(name)))
				continue
			}
			if err := p.walk(name, rules); err != nil {
				return err
			}
			continue
		}
		if e.Name() == ".gitignore" || e.Name() == ".discloudignore" {
			continue
		}
		if p.choice.Env == EnvLeft && secret(e.Name()) {
			p.EnvFiles = append(p.EnvFiles, name)
			continue
		}
		p.Files = append(p.Files, Packed{Name: name}) // what it is, leave asks of what is sent
	}
	if !some && base != "" {
		p.Files = append(p.Files, Packed{Name: dir, Empty: true})
	}
	return nil
}

// leave takes out what a server would leave out of the ZIP, by the server's own code, and
// looks at the rest.
func (p *Packing) leave() error {
	var text bytes.Buffer
	names := zip.NewWriter(&text) // of all files, with the contents of those that decide
	for _, f := range p.Files {
		name := f.Name
		if f.Empty {
			name += "/"
		}
		out, err := names.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
		if err != nil {
			return fmt.Errorf("cannot list the files: %w", err)
		}
		// A folder around everything is taken off, so what decides may lie in one.
		if base := path.Base(name); base != ConfigName && base != "package.json" || strings.Count(name, "/") > 1 {
			continue
		}
		data := f.text
		if data == nil {
			if data, err = p.root.ReadFile(name); err != nil {
				return fmt.Errorf("cannot read %s: %w", name, cause(err))
			}
		}
		if _, err := out.Write(data[:min(len(data), manifestLimit)]); err != nil {
			return fmt.Errorf("cannot list the files: %w", err)
		}
		if name == ConfigName {
			if p.Config, err = ParseConfig(bytes.NewReader(data)); err != nil {
				return err
			}
			p.Found = true
		}
	}
	if err := names.Close(); err != nil {
		return fmt.Errorf("cannot list the files: %w", err)
	}
	listed, err := zip.NewReader(bytes.NewReader(text.Bytes()), int64(text.Len()))
	if err != nil {
		return fmt.Errorf("cannot list the files: %w", err)
	}
	kept, said, _ := skip(listed.File, Limits{}.withDefaults(), nil, nil)
	for _, sentence := range said {
		p.Left = append(p.Left, strings.Replace(sentence, " of the ZIP", "", 1))
	}
	is := make(map[string]bool, len(kept))
	for _, f := range kept {
		is[strings.TrimSuffix(f.Name, "/")] = true
	}
	p.Files = slices.DeleteFunc(p.Files, func(f Packed) bool { return !is[f.Name] })
	for i := range p.Files {
		if err := p.look(&p.Files[i]); err != nil {
			return err
		}
	}
	return nil
}

// Exists implements app.Files.
func (p *Packing) Exists(name string) bool {
	return slices.ContainsFunc(p.Files, func(f Packed) bool { return f.Name == name && !f.Empty })
}

// Brought implements app.Files.
func (p *Packing) Brought(name string) bool { return p.Exists(name) }

// Read implements app.Files.
func (p *Packing) Read(name string, limit int64) ([]byte, error) {
	f, err := p.root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, cause(err))
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit))
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, cause(err))
	}
	return data, nil
}

// look asks what a file is. A link to a file of the directory is that file.
func (p *Packing) look(f *Packed) error {
	if f.text != nil {
		return nil
	}
	info, err := p.root.Stat(f.Name)
	link, _ := p.root.Lstat(f.Name)
	switch {
	case link != nil && link.Mode()&fs.ModeSymlink != 0 && (err != nil || !info.Mode().IsRegular()):
		return app.Errorf(app.Unusable, "%s is a link that leads to no file of this directory", quote(f.Name))
	case err != nil:
		return fmt.Errorf("cannot read %s: %w", f.Name, cause(err))
	case !f.Empty && !info.Mode().IsRegular():
		return app.Errorf(app.Unusable, "%s is neither a file nor a directory", quote(f.Name))
	}
	f.Mod, f.Exec = info.ModTime(), info.Mode().Perm()&0o111 != 0
	if !f.Empty {
		f.Size = info.Size()
	}
	return nil
}

// Write writes the ZIP; packed hears of the bytes of files that are in it, and may be nil.
// The same tree makes the same bytes. It fails when a file is no more what it was at the
// Scan, and when ctx ends.
func (p *Packing) Write(ctx context.Context, to io.Writer, packed func(n int64)) error {
	w := NewWriter(to)
	for _, f := range p.Files {
		err := ctx.Err()
		switch {
		case err != nil:
		case f.text != nil:
			err = w.AddFile(f.Name, false, f.Mod, f.Size, bytes.NewReader(f.text))
		case f.Empty:
			err = w.AddDir(f.Name, f.Mod)
		default:
			err = p.write(w, f)
		}
		if err != nil {
			return err
		}
		if packed != nil {
			packed(f.Size)
		}
	}
	return w.Close()
}

func (p *Packing) write(w *Writer, f Packed) error {
	file, err := p.root.Open(f.Name)
	if err != nil {
		return fmt.Errorf("cannot read %s: %w", f.Name, cause(err))
	}
	defer file.Close()
	counted := &countedReader{r: file}
	if err := w.AddFile(f.Name, f.Exec, f.Mod.UTC(), f.Size, counted); err != nil {
		return err
	}
	info, err := file.Stat()
	if err == nil && (counted.n != f.Size || info.Size() != f.Size || !info.ModTime().Equal(f.Mod)) {
		return app.Errorf(app.Unusable, "%s was changed while it was read; try again", quote(f.Name))
	}
	return err
}

// countedReader counts what was read.
type countedReader struct {
	r io.Reader
	n int64
}

// Read implements io.Reader.
func (c *countedReader) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}

// cause is an error without the path that the sentence names already.
func cause(err error) error {
	if e, is := errors.AsType[*fs.PathError](err); is {
		return e.Err
	}
	return err
}
