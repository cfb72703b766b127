package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/db"
)

// A uid whose files are there is given to nobody, however often berth starts.
func TestUIDIsNotReusedBeforeItsFilesAreGone(t *testing.T) {
	s := testSettings(t)
	s.Apps.UIDCount = 2
	ids := db.IDRange{UIDBase: s.Apps.UIDBase, UIDCount: 2, PortFirst: 20000, PortLast: 20009}
	anything := func(app.Account, app.Use) error { return nil }
	reserve := func(d *daemon, id app.ID) (app.App, error) {
		return d.data.db.Allocations(ids).Reserve(t.Context(), app.App{ID: id, Account: 1, RAM: 10}, anything)
	}
	boot := func(do func(d *daemon)) {
		t.Helper()
		d, err := openDaemon(t.Context(), s, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.host.Boot(t.Context()); err != nil {
			t.Error(err)
		}
		do(d)
		if err := d.undo.close(); err != nil {
			t.Error(err)
		}
	}

	var first app.App
	var stuck string
	boot(func(d *daemon) { // which a crash ends in the middle of a deployment
		if _, err := d.data.db.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 512, Plan: "Diamond", Locale: "en-US"}); err != nil {
			t.Fatal(err)
		}
		var err error
		if first, err = reserve(d, "first"); err != nil {
			t.Fatal(err)
		}
		stuck = filepath.Join(s.DataDir, "apps", "first", "stuck")
		if err := os.MkdirAll(stuck, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(filepath.Dir(stuck), first.UID, first.UID); err != nil {
			t.Fatal(err)
		}
	})
	// A file system that is mounted there keeps its directory from being removed.
	if err := unix.Mount("tmpfs", stuck, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("cannot mount: %v", err)
	}
	mounted, err := unix.Open(stuck, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	unmount := sync.OnceFunc(func() {
		// It was moved along with the directory: the descriptor knows where.
		path, err := os.Readlink(filepath.Join("/proc/self/fd", strconv.Itoa(mounted)))
		_ = unix.Close(mounted)
		if err == nil {
			err = unix.Unmount(path, unix.MNT_DETACH)
		}
		if err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(unmount)
	for range 2 {
		boot(func(d *daemon) {
			if _, err := reserve(d, "first"); app.KindOf(err) != app.Conflict {
				t.Errorf("its name: %v", err)
			}
			other, err := reserve(d, "other")
			if err != nil || other.UID == first.UID {
				t.Errorf("another application got uid %d, %v", other.UID, err)
			}
			if a, err := reserve(d, "third"); app.KindOf(err) != app.Exhausted {
				t.Errorf("a third one got uid %d, %v; want that none is left", a.UID, err)
			}
			if err := d.data.db.Allocations(ids).Release(t.Context(), "other"); err != nil {
				t.Error(err)
			}
		})
	}
	unmount()
	boot(func(d *daemon) {
		seen := map[int]bool{}
		for _, id := range []app.ID{"first", "other"} {
			a, err := reserve(d, id)
			if err != nil {
				t.Error(err)
			}
			seen[a.UID] = true
		}
		if !seen[first.UID] {
			t.Errorf("uid %d was not given back: %v", first.UID, seen)
		}
	})
}
