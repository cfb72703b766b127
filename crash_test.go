package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/bundle"
	"berth/db"
	"berth/host"
	"berth/logs"
	"berth/metrics"
	"berth/tree"
)

// hosted is a data directory with an application in it.
type hosted struct {
	t     *testing.T
	dir   string
	db    *db.DB
	store *tree.Store
	files trees
	uid   int
}

func newHosted(t *testing.T) *hosted {
	s := testSettings(t)
	checked(t, os.WriteFile(filepath.Join(filepath.Dir(s.DataDir), "berth.toml"), []byte("rate_limit = 77\n"), 0o600))
	h := openHosted(t, s.DataDir)
	owner, err := h.db.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 1024, Plan: "Diamond", Locale: "en-US"})
	checked(t, err)
	_, err = h.db.InsertToken(t.Context(), owner.ID, [32]byte{7}, "laptop", time.Time{})
	checked(t, err)
	ids := db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099}
	a, err := h.db.Reserve(t.Context(), app.App{ID: "shop", Account: owner.ID, Type: app.Site, RAM: 100, Wanted: app.WantOnline, Code: app.Code{Main: "a"}}, ids, func(_, _ app.MB) error { return nil })
	checked(t, err)
	h.uid = a.UID
	checked(t, h.store.Publish(t.Context(), h.stage(map[string]string{"main": "1", "lib/x": "1"}), "shop", a.UID))
	_, err = h.db.CreateApp(t.Context(), a, app.Deploy{By: owner.ID, Kind: app.DeployUpload})
	checked(t, err)
	checked(t, h.db.ChangeVariables(t.Context(), "shop", func(set map[string]string) error { set["TOKEN"] = "secret-value"; return nil }))
	return h
}

func openHosted(t *testing.T, dir string) *hosted {
	d, err := openDatabase(t.Context(), dir)
	checked(t, err)
	t.Cleanup(func() { _ = d.Close() })
	store, err := tree.Open(dir, bundle.Limits{})
	checked(t, err)
	t.Cleanup(func() { _ = store.Close() })
	log := slog.New(slog.DiscardHandler)
	book := newLogbook(filepath.Join(dir, "logs"), logs.Options{}, log)
	t.Cleanup(func() { _ = book.close() })
	past, err := metrics.Open(filepath.Join(dir, "metrics"))
	checked(t, err)
	t.Cleanup(func() { _ = past.Close() })
	return &hosted{t: t, dir: dir, db: d, store: store, files: trees{store, d.Journals, 1 << 30, book, past, log}}
}

func checked(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *hosted) stage(files map[string]string) app.Stage {
	h.t.Helper()
	var b bytes.Buffer
	w := bundle.NewWriter(&b)
	for name, text := range files {
		checked(h.t, w.AddFile(name, false, time.Now(), int64(len(text)), strings.NewReader(text)))
	}
	checked(h.t, w.Close())
	file, err := h.store.Spool(h.t.Context(), &b, 1<<30)
	checked(h.t, err)
	up, err := h.store.Unpack(h.t.Context(), file, nil, func(app.Config) error { return nil })
	checked(h.t, errors.Join(err, h.store.DropSpool(file)))
	return up.Stage
}

// deploy does what a commit does, step by step.
func (h *hosted) deploy(stage app.Stage, main string) error {
	ctx := h.t.Context()
	done, err := h.store.Apply(ctx, stage, "shop", h.uid)
	if err != nil {
		return err
	}
	keep := func(all []app.Deploy) []app.Deploy { return all[:min(3, len(all))] }
	d := app.Deploy{Kind: app.DeployCommit, Code: app.Code{Main: main}, Journal: done.Journal, Kept: done.Bytes}
	if _, err := h.db.AddDeploy(ctx, "shop", d, nil, keep); err != nil {
		return err
	}
	good, err := h.db.Journals(ctx, "shop")
	if err != nil {
		return err
	}
	return h.store.Settle(ctx, "shop", h.uid, good)
}

// listing describes every file below a directory.
func listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	checked(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		text := fmt.Sprint(info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
		if info.Mode().IsRegular() {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			text += fmt.Sprint(" ", info.ModTime().UnixNano(), " ", string(b))
		}
		all[rel] = text
		return nil
	}))
	return all
}

// berth runs a command and returns what it printed.
func (h *hosted) berth(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := func(name string) string {
		return map[string]string{"BERTH_CONFIG": filepath.Join(filepath.Dir(h.dir), "berth.toml")}[name]
	}
	code = run(context.Background(), args, env, &out, &errs)
	return code, out.String(), errs.String()
}

// A crash at any point of a deploy leaves the files and the record of before, or
// those of after: the disk is copied at each of them, and booted.
func TestCrashesOfADeploy(t *testing.T) {
	h := newHosted(t)
	checked(t, h.deploy(h.stage(map[string]string{"main": "2", "gone": "2"}), "2"))
	checked(t, h.deploy(h.stage(map[string]string{"main": "3"}), "3"))
	checked(t, h.deploy(h.stage(map[string]string{"main": "4"}), "4")) // the oldest journal is dropped by the next
	parent := filepath.Dir(h.dir)
	var copies, points []string
	snap := func(point string) error {
		to := filepath.Join(parent, fmt.Sprint("copy", len(copies)))
		copies, points = append(copies, to), append(points, point)
		checked(t, os.Mkdir(to, 0o711))
		checked(t, h.db.Copy(t.Context(), filepath.Join(to, databaseName)))
		for _, name := range []string{"apps", "rollback"} {
			checked(t, copyTree(filepath.Join(h.dir, name), filepath.Join(to, name)))
		}
		return nil
	}
	h.store.Hook(snap)
	checked(t, h.deploy(h.stage(map[string]string{"main": "5", "lib/x": "5", "fresh": "5"}), "5"))
	checked(t, snap("end"))
	seen := map[string]bool{}
	for i, to := range copies {
		there := openHosted(t, to)
		all, err := there.db.Apps(t.Context())
		checked(t, err)
		broken, err := there.files.Recover(t.Context(), all)
		checked(t, err)
		got := listing(t, there.store.Dir("shop"))
		last := func(name string) string { text := got[name]; return text[max(0, len(text)-1):] }
		want := map[string]string{"4": "4 1 ", "5": "5 5 5"}[all[0].Code.Main]
		if text := fmt.Sprint(last("main"), " ", last("lib/x"), " ", last("fresh")); len(broken) != 0 || text != want {
			t.Errorf("at %s (%d): the record says %s, the files %q; broken %v", points[i], i, all[0].Code.Main, text, broken)
		}
		seen[all[0].Code.Main] = true
		history, err := there.db.Deploys(t.Context(), "shop")
		checked(t, err)
		_, journals, err := host.WayBack(history, 0)
		checked(t, err)
		if _, _, err := there.store.Rollback(t.Context(), "shop", h.uid, journals); err != nil {
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
