package repository

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/files/archive"
)

func archivesAt(t *testing.T) (string, Repository) {
	t.Helper()
	o := engines["archives"](t)
	return place1(o), open(t, o, true)
}

// A file of a backup is an archive as berth backup verify wants it: sealed to the last bit.
func TestArchiveIsOne(t *testing.T) {
	t.Parallel()
	dir, r := archivesAt(t)
	head, err := r.Save(t.Context(), "host", nil, func(w io.Writer) error {
		a, err := archive.NewWriter(w, archive.Manifest{Host: "host.test", Made: time.Unix(1_800_000_000, 0)})
		must(t, err)
		a.Begin("apps/shop")
		must(t, a.Add(archive.Plain(0o600, 5), strings.NewReader("hello")))
		_, err = a.Close(1)
		return err
	})
	must(t, err)
	commit(t, r, oldRun, head)
	text, err := os.ReadFile(filepath.Join(dir, oldRun, "host.tar.gz"))
	must(t, err)
	file := bytes.NewReader(text)
	zip, err := gzip.NewReader(file)
	must(t, err)
	zip.Multistream(false)
	m, err := archive.Read(zip, func(int, string, archive.Entry, io.Reader) error { return nil })
	must(t, err)
	_, err = io.Copy(io.Discard, zip)
	must(t, err)
	must(t, archive.Rest(file))
	must(t, archive.Sealed(bytes.NewReader(text), int64(len(text)), m))
	must(t, filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		info, ierr := e.Info()
		must(t, errors.Join(err, ierr))
		if want := map[bool]fs.FileMode{true: 0o700, false: 0o600}[e.IsDir()]; info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	}))
}

// A disk that is not mounted is no place for a backup, though the directory is there.
func TestNotMounted(t *testing.T) {
	t.Parallel()
	dir, r := archivesAt(t)
	head := save(t, r, "host", nil)
	must(t, os.Rename(dir, dir+".disk"))
	for range 2 {
		for what, err := range map[string]error{
			"Open":   r.Open(t.Context(), false),
			"Save":   func() error { _, err := r.Save(t.Context(), "host", nil, writes(nil)); return err }(),
			"Commit": func() error { _, err := r.Commit(t.Context(), oldRun, head, nil); return err }(),
			"List":   func() error { _, err := r.List(t.Context()); return err }(),
			"Load":   func() error { _, err := loadErr(t.Context(), r, head); return err }(),
			"Drop":   r.Drop(t.Context(), []string{oldRun}),
			"Prune":  r.Prune(t.Context()),
			"Check":  r.Check(t.Context(), 0, 1),
		} {
			if !errors.Is(err, ErrNone) {
				t.Errorf("%s: %v", what, err)
			}
		}
		_ = os.Mkdir(dir, 0o700) // the mount point
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
	must(t, os.Remove(dir))
	must(t, os.Rename(dir+".disk", dir))
	commit(t, r, oldRun, head)
	above, err := New(Options{Place: archives + filepath.Join(dir, "not", "there")})
	must(t, err)
	if err := above.Open(t.Context(), true); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a directory in one that is not there is made: %v", err)
	}
}

// A file that did not change is kept once, or copied where it cannot get a second name.
func TestReused(t *testing.T) {
	t.Parallel()
	dir, r := archivesAt(t)
	text := noise(1, 1<<20)
	commit(t, r, oldRun, save(t, r, "host", nil), save(t, r, "apps/shop", text), save(t, r, "apps/bot", text))
	shop, bot := filepath.Join(oldRun, "apps/shop.tar.gz"), filepath.Join(oldRun, "apps/bot.tar.gz")
	if out, err := exec.Command("chattr", "+i", filepath.Join(dir, bot)).CombinedOutput(); err != nil { // which gets no second name
		t.Skipf("chattr: %s", out)
	}
	t.Cleanup(func() { _ = exec.Command("chattr", "-i", filepath.Join(dir, bot)).Run() })
	all := list(t, r)
	s, _ := Find(all, oldRun, "apps/shop")
	b, _ := Find(all, oldRun, "apps/bot")
	commit(t, r, nextRun, save(t, r, "host", nil), s, b)
	for name, same := range map[string]bool{shop: true, bot: false} {
		first, err := os.Stat(filepath.Join(dir, name))
		must(t, err)
		second, err := os.Stat(filepath.Join(dir, strings.Replace(name, oldRun, nextRun, 1)))
		must(t, err)
		if os.SameFile(first, second) != same {
			t.Errorf("%s is one file: %v", name, !same)
		}
	}
	must(t, exec.Command("chattr", "-i", filepath.Join(dir, bot)).Run())
	must(t, r.Drop(t.Context(), []string{oldRun}))
	content(t, r, nextRun, map[string][]byte{"host": {}, "apps/shop": text, "apps/bot": text})
	if _, err := os.Stat(filepath.Join(dir, oldRun)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
}

// What a process that was killed left counts for nothing, and Prune removes it. What is somebody else's stays.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	dir, r := archivesAt(t)
	commit(t, r, oldRun, save(t, r, "host", []byte("one")))
	commit(t, r, nextRun, save(t, r, "host", []byte("two")))
	must(t, os.Rename(filepath.Join(dir, oldRun), filepath.Join(dir, ".old-x")))
	must(t, os.MkdirAll(filepath.Join(dir, ".new-x/apps"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, ".new-x/apps/shop.tar.gz.part"), []byte("half"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, ".new-y"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, ".new-y/snapshots.json.part"), []byte("{"), 0o600))
	must(t, os.MkdirAll(filepath.Join(dir, "lost+found"), 0o700))
	must(t, os.WriteFile(filepath.Join(dir, "notes.txt"), nil, 0o600))
	if all := list(t, r); len(all) != 1 || !all[0].Of(nextRun) {
		t.Errorf("%+v", all)
	}
	must(t, r.Check(t.Context(), 0, 1))
	must(t, r.Prune(t.Context()))
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := strings.Join(names, " "); got != nextRun+" berth-backups lost+found notes.txt" {
		t.Errorf("%s", got)
	}
}

// What somebody changed in a backup is said, and every other backup is there.
func TestDamagedDirectory(t *testing.T) {
	t.Parallel()
	for what, harm := range map[string]func(run string) error{
		"a file is gone":    func(run string) error { return os.Remove(filepath.Join(run, "apps/shop.tar.gz")) },
		"a file is cut":     func(run string) error { return os.Truncate(filepath.Join(run, "apps/shop.tar.gz"), 100) },
		"the list is gone":  func(run string) error { return os.Remove(filepath.Join(run, listName)) },
		"the list is cut":   func(run string) error { return os.Truncate(filepath.Join(run, listName), 100) },
		"a file is a link":  func(run string) error { return os.Rename(filepath.Join(run, "apps"), filepath.Join(run, "elsewhere")) },
		"the list is a lie": func(run string) error { return os.WriteFile(filepath.Join(run, listName), []byte("{}"), 0o600) },
		"a file is another's": func(run string) error {
			return os.Rename(filepath.Join(run, "host.tar.gz"), filepath.Join(run, "apps/shop.tar.gz"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			dir, r := archivesAt(t)
			commit(t, r, oldRun, save(t, r, "host", []byte("one")), save(t, r, "apps/shop", noise(1, 1000)))
			commit(t, r, nextRun, save(t, r, "host", []byte("two")), save(t, r, "apps/shop", noise(2, 1000)))
			must(t, harm(filepath.Join(dir, oldRun)))
			if err := r.Check(t.Context(), 0, 1); !errors.Is(err, ErrDamaged) {
				t.Errorf("%v", err)
			}
			if s, there := Find(list(t, r), oldRun, "apps/shop"); there {
				if _, err := loadErr(t.Context(), r, s); !errors.Is(err, ErrDamaged) {
					t.Errorf("Load: %v", err)
				}
			}
			content(t, r, nextRun, map[string][]byte{"host": []byte("two"), "apps/shop": noise(2, 1000)})
			must(t, r.Drop(t.Context(), []string{oldRun}))
			must(t, r.Check(t.Context(), 0, 1))
		})
	}
}
