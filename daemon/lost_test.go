package daemon

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/db"
	"berth/test/hosted"
)

// A boot removes what the records ask to be removed, and nothing else: what they do not
// know is moved aside whole, with its logs and its figures.
func TestRecoverRemovesNothingUnasked(t *testing.T) {
	h := hosted.New(t)
	ids := db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099}
	reserve := func(id app.ID) app.App {
		a, err := h.DB.Allocations(ids).Reserve(t.Context(), app.App{ID: id, Account: 1, RAM: 10, Wanted: app.WantOnline}, func(app.Account, app.Use) error { return nil })
		hosted.Must(t, err)
		return a
	}
	reserve("cut")                // an upload that a crash cut short
	reserve("came-to-be")         // the same in an older database
	deleted := reserve("deleted") // an owner has deleted it
	_, err := h.DB.Apps.CreateApp(t.Context(), deleted, app.Deploy{By: 1, Kind: app.DeployUpload})
	hosted.Must(t, err)
	hosted.Must(t, h.DB.Apps.DeleteApp(t.Context(), "deleted"))
	there := recoveryOf(t, h)
	var said bytes.Buffer
	there.log, there.allocated = slog.New(slog.NewTextHandler(&said, nil)), h.DB.Allocations(ids)
	const uid = 70050
	for i, id := range []string{"cut", "came-to-be", "deleted", "unknown"} {
		for _, file := range []string{"apps/" + id + "/main", "rollback/" + id + "/journal/plan", "tmp/" + id + "/x", "logs/" + id + "/run.log"} {
			path := filepath.Join(h.Path, file)
			hosted.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
			hosted.Must(t, os.WriteFile(path, []byte(id), 0o600))
		}
		hosted.Must(t, os.Chown(filepath.Join(h.Path, "apps", id), uid+i, uid+i))
		if id != "cut" {
			hosted.Must(t, unix.Mkfifo(filepath.Join(h.Path, "logs", id, "run.fifo"), 0o600))
		}
		hosted.Must(t, there.past.Append(time.Now(), []app.PointOf{{App: app.ID(id)}}))
	}
	all, err := h.DB.Apps.Apps(t.Context())
	hosted.Must(t, err)
	broken, err := there.recover(t.Context(), all)
	if len(broken) != 0 || err != nil {
		t.Fatalf("broken are %v, %v", broken, err)
	}
	for _, dir := range []string{"apps", "rollback", "tmp", "logs"} {
		list, err := os.ReadDir(filepath.Join(h.Path, dir))
		hosted.Must(t, err)
		for _, e := range list {
			if e.Name() != "shop" {
				t.Errorf("%s/%s is left", dir, e.Name())
			}
		}
	}
	lost, err := filepath.Glob(filepath.Join(h.Path, "lost", "*"))
	hosted.Must(t, err)
	var names []string
	for _, dir := range lost {
		id, _, _ := strings.Cut(filepath.Base(dir), ".")
		names = append(names, id)
		for _, file := range []string{"apps/main", "rollback/journal/plan", "tmp/x", "logs/run.log"} {
			if text, err := os.ReadFile(filepath.Join(dir, file)); err != nil || string(text) != id {
				t.Errorf("%s of %s is %q, %v", file, id, text, err)
			}
		}
		if info, err := os.Stat(filepath.Join(dir, "metrics")); err != nil || info.Size() == 0 {
			t.Errorf("the figures of %s: %v", id, err)
		}
		if !strings.Contains(said.String(), fmt.Sprintf("app=%s to=%s", id, dir)) {
			t.Errorf("the log does not say where %s is: %s", id, &said)
		}
	}
	if slices.Sort(names); !slices.Equal(names, []string{"came-to-be", "unknown"}) {
		t.Errorf("lost are %v", names)
	}
	if a := reserve("next"); a.UID <= uid+3 {
		t.Errorf("the next application gets the uid %d, which files in lost have", a.UID)
	}
	hosted.Must(t, there.Close())
	again := hosted.Open(t, h.Path)
	if _, err := recoveryOf(t, again).recover(t.Context(), all); err != nil { // nothing more happens to it
		t.Error(err)
	}
	if now, _ := filepath.Glob(filepath.Join(h.Path, "lost", "*")); !slices.Equal(now, lost) {
		t.Errorf("after another boot lost are %v, before %v", now, lost)
	}
}
