package hosted

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/files"
	"berth/files/bundle"
)

// Directory is a data directory with an application in it.
type Directory struct {
	t     *testing.T
	Path  string
	DB    *db.DB
	Store *files.Store
	UID   int // of the application
}

// New makes a data directory with the application "shop", beside a settings file
// with rate_limit = 77.
func New(t *testing.T) *Directory {
	t.Helper()
	path := Path(t)
	Must(t, os.WriteFile(filepath.Join(filepath.Dir(path), "berth.toml"), []byte("rate_limit = 77\n"), 0o600))
	h := Open(t, path)
	owner, err := h.DB.Accounts.CreateAccount(t.Context(), app.Account{Name: "ana", TotalRAM: 1024, Plan: "Diamond", Locale: "en-US"})
	Must(t, err)
	_, err = h.DB.Accounts.InsertToken(t.Context(), [32]byte{7}, app.Token{Account: owner.ID, Label: "laptop"})
	Must(t, err)
	ids := db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099}
	shop := app.App{ID: "shop", Account: owner.ID, Type: app.Site, RAM: 100, Wanted: app.WantOnline, Code: app.Code{Main: "a"}}
	a, err := h.DB.Allocations(ids).Reserve(t.Context(), shop, func(app.Account, app.Use) error { return nil })
	Must(t, err)
	h.UID = a.UID
	brought, err := h.Store.Publish(t.Context(), h.Stage(map[string]string{"main": "1", "lib/x": "1"}), "shop", a.UID)
	Must(t, err)
	_, err = h.DB.Apps.CreateApp(t.Context(), a, app.Deploy{By: owner.ID, Kind: app.DeployUpload, Brought: brought})
	Must(t, err)
	Must(t, h.DB.Apps.ChangeVariables(t.Context(), "shop", func(set map[string]string) error { set["TOKEN"] = "secret-value"; return nil }))
	return h
}

// Open opens what New has made, or a copy of it.
func Open(t *testing.T, path string) *Directory {
	t.Helper()
	Must(t, os.MkdirAll(path, 0o711))
	d, err := db.Open(t.Context(), filepath.Join(path, "berth.db"), time.Now)
	Must(t, err)
	t.Cleanup(func() { _ = d.Close() })
	store, err := files.Open(path, bundle.Limits{})
	Must(t, err)
	t.Cleanup(func() { _ = store.Close() })
	return &Directory{t: t, Path: path, DB: d, Store: store}
}

// Path returns where a data directory may be made that programs can reach. It
// needs root, and skips the test without.
func Path(t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("needs root: the daemon makes control groups")
	}
	dir, err := os.MkdirTemp("", "berth-daemon-") //nolint:usetesting // t.TempDir is closed to other users
	Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	Must(t, os.Chmod(dir, 0o711))
	return filepath.Join(dir, "data")
}

// Must ends the test for an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Stage unpacks an upload of some files.
func (h *Directory) Stage(files map[string]string) app.Stage {
	h.t.Helper()
	var b bytes.Buffer
	w := bundle.NewWriter(&b)
	for name, text := range files {
		Must(h.t, w.AddFile(name, false, time.Now(), int64(len(text)), strings.NewReader(text)))
	}
	Must(h.t, w.Close())
	file, err := h.Store.Spool(h.t.Context(), &b, 1<<30)
	Must(h.t, err)
	up, err := h.Store.Unpack(h.t.Context(), file, nil, func(app.Config) error { return nil })
	Must(h.t, errors.Join(err, h.Store.DropSpool(file)))
	return up.Stage
}

// Deploy does what a commit does, step by step.
func (h *Directory) Deploy(stage app.Stage, main string) error { return h.deploy(stage, main, false) }

// DeployExact does what an exact commit does.
func (h *Directory) DeployExact(stage app.Stage, main string) error {
	return h.deploy(stage, main, true)
}

func (h *Directory) deploy(stage app.Stage, main string, exact bool) error {
	ctx := h.t.Context()
	before, err := h.DB.History.Deploys(ctx, "shop")
	if err != nil {
		return err
	}
	if _, err := h.Store.Over(ctx, stage, "shop", before[0].Brought, exact); err != nil {
		return err
	}
	return h.apply(stage, main, exact)
}

// Back does what a rollback does with the stage of Store.Rollback.
func (h *Directory) Back(stage app.Stage, main string) error { return h.apply(stage, main, false) }

func (h *Directory) apply(stage app.Stage, main string, exact bool) error {
	ctx := h.t.Context()
	done, err := h.Store.Apply(ctx, stage, "shop", h.UID)
	if err != nil {
		return err
	}
	keep := func(all []app.Deploy) []app.Deploy { return all[:min(3, len(all))] }
	d := app.Deploy{
		Kind: app.DeployCommit, Code: app.Code{Main: main}, Journal: done.Journal, Kept: done.Bytes,
		Brought: done.Brought, Exact: exact, Removed: done.Removed,
	}
	if _, err := h.DB.History.AddDeploy(ctx, "shop", d, nil, nil, nil, keep); err != nil {
		return err
	}
	good, err := h.DB.History.Journals(ctx, "shop")
	if err != nil {
		return err
	}
	return h.Store.Settle(ctx, "shop", h.UID, good)
}

// Listing describes every file below a directory.
func Listing(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	Must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
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
