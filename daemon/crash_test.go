package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"berth/db"
	"berth/host"
	"berth/host/watch/metrics"
	"berth/proc/logs"
	"berth/test/hosted"
)

// recoveryOf is what a boot does with the files of a data directory.
func recoveryOf(t *testing.T, h *hosted.Directory) recovery {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	book := logs.NewBook(filepath.Join(h.Path, "logs"), logs.Options{}, log)
	t.Cleanup(func() { _ = book.Close() })
	past, err := metrics.Open(filepath.Join(h.Path, "metrics"))
	hosted.Must(t, err)
	t.Cleanup(func() { _ = past.Close() })
	return recovery{h.Store, h.DB.Allocations(db.IDRange{}), h.DB.History, book, past, log}
}

// A crash at any point of a deploy leaves the files and the record of before, or
// those of after: the disk is copied at each of them, and booted.
func TestCrashesOfADeploy(t *testing.T) {
	h := hosted.New(t)
	hosted.Must(t, h.Deploy(h.Stage(map[string]string{"main": "2", "gone": "2"}), "2"))
	hosted.Must(t, h.Deploy(h.Stage(map[string]string{"main": "3"}), "3"))
	hosted.Must(t, h.Deploy(h.Stage(map[string]string{"main": "4"}), "4")) // the oldest journal is dropped by the next
	parent := filepath.Dir(h.Path)
	var copies, points []string
	snap := func(point string) error {
		to := filepath.Join(parent, fmt.Sprint("copy", len(copies)))
		copies, points = append(copies, to), append(points, point)
		hosted.Must(t, os.Mkdir(to, 0o711))
		hosted.Must(t, h.DB.Copy(t.Context(), filepath.Join(to, DatabaseName)))
		for _, name := range []string{"apps", "rollback"} {
			hosted.Must(t, copyTree(filepath.Join(h.Path, name), filepath.Join(to, name)))
		}
		return nil
	}
	h.Store.Hook(snap)
	hosted.Must(t, h.DeployExact(h.Stage(map[string]string{"main": "5", "lib/x": "5", "fresh": "5"}), "5"))
	hosted.Must(t, snap("end"))
	seen := map[string]bool{}
	for i, to := range copies {
		there := hosted.Open(t, to)
		all, err := there.DB.Apps.Apps(t.Context())
		hosted.Must(t, err)
		broken, err := recoveryOf(t, there).recover(t.Context(), all)
		hosted.Must(t, err)
		got := hosted.Listing(t, there.Store.Dir("shop"))
		last := func(name string) string { text := got[name]; return text[max(0, len(text)-1):] }
		want := map[string]string{"4": "4 1  2", "5": "5 5 5 "}[all[0].Code.Main]
		if text := fmt.Sprint(last("main"), " ", last("lib/x"), " ", last("fresh"), " ", last("gone")); len(broken) != 0 || text != want {
			t.Errorf("at %s (%d): the record says %s, the files %q; broken %v", points[i], i, all[0].Code.Main, text, broken)
		}
		seen[all[0].Code.Main] = true
		history, err := there.DB.History.Deploys(t.Context(), "shop")
		hosted.Must(t, err)
		var named []string
		for _, d := range history {
			named = append(named, d.Brought+".list")
		}
		slices.Sort(named)
		lists, err := filepath.Glob(filepath.Join(to, "rollback/shop/*.list"))
		hosted.Must(t, err)
		for i := range lists {
			lists[i] = filepath.Base(lists[i])
		}
		if !slices.Equal(lists, named) {
			t.Errorf("at %s: the lists are %v, the records name %v", points[i], lists, named)
		}
		_, journals, err := host.WayBack(history, 0)
		hosted.Must(t, err)
		if _, _, err := there.Store.Rollback(t.Context(), "shop", h.UID, journals); err != nil {
			t.Errorf("at %s: the way back is gone: %v", points[i], err)
		}
	}
	if !seen["4"] || !seen["5"] || !slices.Contains(points, "keep-journal") || !slices.Contains(points, "drop-journal") {
		t.Errorf("met %v at %v", seen, points)
	}
}

// copyTree copies files as a power cut leaves them, with their owners and times.
// Journals tell what a commit put by its inode, so files are linked; nobody
// writes to them.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(from, path)
		target := filepath.Join(to, rel)
		if !d.IsDir() {
			return os.Link(path, target)
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		st := info.Sys().(*syscall.Stat_t)
		return errors.Join(os.Mkdir(target, info.Mode().Perm()), os.Chown(target, int(st.Uid), int(st.Gid)))
	})
}
