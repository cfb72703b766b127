package backup

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/archive"
	"berth/files/repository"
	"berth/test/hosted"
)

// deep nests directories deeper than anybody walks.
func deep(t *testing.T, dir string, uid int) {
	t.Helper()
	at, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	hosted.Must(t, err)
	for range 600 {
		hosted.Must(t, errors.Join(unix.Mkdirat(at, "d", 0o700), unix.Fchownat(at, "d", uid, uid, 0)))
		next, err := unix.Openat(at, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		hosted.Must(t, errors.Join(err, unix.Close(at)))
		at = next
	}
	hosted.Must(t, unix.Close(at))
}

// Programs do what they can to spoil a backup, and to get the host's files into their own copies: the copies
// of everybody else are whole, nothing of the host is in any, and a terabyte of holes costs nothing.
func TestBackupOfHostilePrograms(t *testing.T) {
	w := newWorld(t)
	place := filepath.Join(t.TempDir(), "place")
	repo, err := repository.New(repository.Options{Place: "archives:" + place})
	hosted.Must(t, err)
	w.Repository = repo
	secret := filepath.Join(filepath.Dir(w.Path), "host")
	hosted.Must(t, errors.Join(os.MkdirAll(filepath.Join(secret, "sub"), 0o755), os.WriteFile(filepath.Join(secret, "sub", "file"), []byte("OF THE HOST"), 0o644)))

	good := w.another(t, "good")
	nested := w.another(t, "nested")
	deep(t, w.Store.Dir(nested.ID), nested.UID)
	leased := w.another(t, "leased")
	f, err := os.OpenFile(filepath.Join(w.Store.Dir(leased.ID), "main"), os.O_RDWR, 0)
	hosted.Must(t, err)
	defer f.Close()
	signal.Ignore(unix.SIGIO)
	_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
	hosted.Must(t, err)

	sparse := w.another(t, "sparse")
	own := func(a app.App, name string) string {
		path := filepath.Join(w.Store.Dir(a.ID), name)
		hosted.Must(t, errors.Join(os.WriteFile(path, []byte("its own"), 0o600), os.Chown(path, a.UID, a.UID)))
		return path
	}
	hosted.Must(t, os.Truncate(own(sparse, "terabyte"), 1<<40))
	named := w.another(t, "named")
	first := own(named, "a")
	hosted.Must(t, os.WriteFile(first, bytes.Repeat([]byte("x"), 1<<20), 0o600))
	for n := range 300 {
		hosted.Must(t, os.Link(first, fmt.Sprint(first, n)))
	}

	// One swaps a directory for a link to the host's, all the time.
	swapper := w.another(t, "swapper")
	dir := filepath.Join(w.Store.Dir(swapper.ID), "sub")
	hosted.Must(t, errors.Join(os.Mkdir(dir, 0o755), os.Chown(dir, swapper.UID, swapper.UID)))
	own(swapper, "sub/file")
	link := filepath.Join(w.Store.Dir(swapper.ID), "link")
	hosted.Must(t, errors.Join(os.Symlink(filepath.Join(secret, "sub"), link), os.Lchown(link, swapper.UID, swapper.UID)))
	var stop atomic.Bool
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, link, unix.RENAME_EXCHANGE)
		}
	})
	defer swapping.Wait()
	defer stop.Store(true)

	for range 5 {
		run := w.backup(t)
		if !slices.Equal(run.Missing, []app.ID{"leased", "nested"}) || run.Apps != 5 {
			t.Fatalf("%+v, %q", run, w.notes)
		}
		all, err := repo.List(t.Context())
		hosted.Must(t, err)
		for _, s := range all {
			if !s.Of(run.Run) || s.Name == Head {
				continue
			}
			_, err := w.read(t.Context(), s, func(_ int, part string, e archive.Entry, content io.Reader) error {
				text, err := io.ReadAll(content)
				if bytes.Contains(text, []byte("OF THE HOST")) {
					t.Errorf("the host's file is %s/%s", part, e.Path)
				}
				return err
			})
			hosted.Must(t, err)
		}
	}
	var bytesOf int64
	hosted.Must(t, filepath.WalkDir(place, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		bytesOf += info.Size()
		return err
	}))
	if bytesOf > 8<<20 {
		t.Errorf("a terabyte of holes and a megabyte with 301 names took %d bytes", bytesOf)
	}
	if len(w.notes) < 2 || !strings.Contains(strings.Join(w.notes, "\n"), "by a lease") || !strings.Contains(strings.Join(w.notes, "\n"), "nested") {
		t.Errorf("%q", w.notes)
	}
	if _, err := w.Rehearse(t.Context()); err != nil {
		t.Errorf("the rehearsal: %v", err)
	}
	mine, err := w.Runner.DB.Backups.Copies(t.Context(), good)
	if err != nil || len(mine) != 1 {
		t.Errorf("the good one has %v, %v", mine, err)
	}
}
