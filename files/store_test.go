package files

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

func TestOpenMakesTheDirectories(t *testing.T) {
	s := newStore(t)
	for name, mode := range map[string]os.FileMode{
		"": 0o711, "apps": 0o711, "staging": 0o711, "tmp": 0o711, "backups": 0o700, "rollback": 0o700,
	} {
		info, err := os.Stat(filepath.Join(s.root, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%q: %v, %v; want %v", name, info, err, mode)
		}
	}
	openStore(t, s.root) // a second time is fine
}

func TestOpenRefusesALinkedArea(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o755))
	must(t, os.Symlink("/tmp", filepath.Join(data, "apps")))
	if s, err := Open(data, bundle.Limits{}); err == nil {
		s.Close()
		t.Fatal("a link was accepted for apps/")
	}
}

func TestOpenRefusesAnotherFileSystem(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.MkdirAll(filepath.Join(data, "apps"), 0o755))
	if err := unix.Mount("tmpfs", filepath.Join(data, "apps"), "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	defer unix.Unmount(filepath.Join(data, "apps"), 0)
	_, err := Open(data, bundle.Limits{})
	if err == nil || !strings.Contains(err.Error(), "another file system") {
		t.Fatal(err)
	}
}

func TestNothingButIDsBecomesAName(t *testing.T) {
	s := newStore(t)
	stage := stageOf(t, s, map[string]string{"a": "x"})
	for _, id := range []app.ID{"", "..", "a/b", "../x", ".", "all", "A1", "a\x00b"} {
		_, sizeErr := s.Used(t.Context(), id)
		_, backupErr := s.Backup(t.Context(), id, nil, app.BackupRoom{})
		_, tempErr := s.EnsureTemp(id, false, testUID)
		prepareErr := s.Prepare(t.Context(), stage, id, testUID)
		for name, err := range map[string]error{
			"Size": sizeErr, "Backup": backupErr, "EnsureTemp": tempErr, "Prepare": prepareErr,
			"Publish": onlyError(s.Publish(t.Context(), stage, id, testUID)), "Apply": applied(s.Apply(t.Context(), stage, id, testUID)),
			"Settle": s.Settle(t.Context(), id, testUID, nil), "Remove": s.Remove(t.Context(), id),
		} {
			if err == nil {
				t.Errorf("%s accepted %q", name, id)
			}
		}
		if s.Pending(id, nil) {
			t.Errorf("Pending(%q)", id)
		}
	}
	for _, stage := range []app.Stage{"", "..", "x", app.Stage(strings.Repeat("A", 32))} {
		if s.Discard(stage) == nil || onlyError(s.Publish(t.Context(), stage, testID, testUID)) == nil {
			t.Errorf("the stage %q was accepted", stage)
		}
	}
}

func TestReachable(t *testing.T) {
	top := t.TempDir()
	must(t, os.Chmod(top, 0o755))
	must(t, os.Chmod(filepath.Dir(top), 0o755))
	closed := filepath.Join(top, "closed")
	open := filepath.Join(top, "open")
	must(t, os.MkdirAll(filepath.Join(closed, "in"), 0o755))
	must(t, os.Mkdir(open, 0o755))
	must(t, os.Chmod(closed, 0o750))
	must(t, os.Symlink(closed, filepath.Join(open, "link")))
	must(t, Reachable(filepath.Join(open, "data")))
	must(t, Reachable(filepath.Join(open, "none/yet/data")))
	link := filepath.Join(open, "link") // chmod follows it
	for path, closed := range map[string]string{
		filepath.Join(closed, "data"): closed, filepath.Join(closed, "in", "data"): closed, filepath.Join(link, "in"): link,
	} {
		err := Reachable(path)
		want := fmt.Sprintf("cannot use %s as the data directory: programs run as their own users and cannot enter %s; "+
			"chmod o+x %s, or choose another directory with --data-dir", path, closed, closed)
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}

// The data directory may be far down; lookups are cut into pieces.
func TestLongPaths(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, nil)
	d, err := s.apps.sub(filepath.Base(live))
	must(t, err)
	name := strings.Repeat("n", 250)
	path := "."
	for range 20 {
		below, err := d.mkdir(name, 0o700, testUID)
		must(t, err)
		d.close()
		d, path = below, join(path, name)
	}
	f, err := d.create("deep")
	must(t, err)
	must(t, f.Close())
	d.close()
	root, err := s.live(testID)
	must(t, err)
	defer root.close()
	again, err := root.sub(path)
	must(t, err)
	defer again.close()
	if _, err := again.stat("deep"); err != nil {
		t.Error(err)
	}
	if _, err := root.sub(strings.Repeat("n", 4000)); err == nil {
		t.Error("a component of 4000 bytes was found")
	}
}

func TestWhatADiskRefusesIsASentence(t *testing.T) {
	for _, tc := range []struct {
		errno error
		kind  app.Kind
		want  string
	}{
		{syscall.ENOSPC, app.NoSpace, "cannot write: " + app.DiskFull},
		{syscall.EDQUOT, app.NoSpace, "cannot write: " + app.DiskQuota},
		{syscall.EROFS, app.Unavailable, "cannot write: " + app.DiskReadOnly},
		{syscall.EIO, app.Internal, ""},
	} {
		err := cannot("write", fmt.Errorf("deep: %w", tc.errno))
		if app.KindOf(err) != tc.kind || text(err) != tc.want || !errors.Is(err, tc.errno) {
			t.Errorf("%v becomes %v", tc.errno, err)
		}
		if refused := Refused("write", tc.errno); (refused != nil) != (tc.want != "") {
			t.Errorf("%v is refused with %v", tc.errno, refused)
		}
	}
	if err := Refused("write", nil); err != nil {
		t.Errorf("no error is refused with %v", err)
	}
}

func TestDiskFullForReal(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o755))
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, "size=300k"); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	defer unix.Unmount(data, unix.MNT_DETACH)
	s := openStore(t, data)
	_, err := s.Spool(t.Context(), strings.NewReader(strings.Repeat("x", 1<<20)), 1<<30)
	if app.KindOf(err) != app.NoSpace || text(err) != "cannot keep the upload: "+app.DiskFull {
		t.Errorf("Spool: %v", err)
	}
	empty(t, s, "staging")
	file := zipOf(t, s, map[string]string{"big": strings.Repeat("x", 1<<20)})
	_, err = s.Unpack(t.Context(), file, nil, anything)
	if app.KindOf(err) != app.NoSpace || text(err) != "cannot unpack the upload: "+app.DiskFull {
		t.Errorf("Unpack: %v", err)
	}
	must(t, s.DropSpool(file))
	empty(t, s, "staging")
	makeLive(t, s, map[string]string{"a": strings.Repeat("y", 150<<10)})
	stage := stageOf(t, s, map[string]string{"b": strings.Repeat("z", 50<<10)})
	if err = s.Prepare(t.Context(), stage, testID, testUID); app.KindOf(err) != app.NoSpace {
		t.Errorf("Prepare: %v", err)
	}
}
