package daemon

import (
	"bytes"
	"image"
	"image/png"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/files/icon"
	"berth/test/database"
)

// treeOf is the files of an application.
type treeOf struct {
	app.Contents
	files map[string][]byte
}

func (t treeOf) OpenFile(_ app.ID, _ int, name string) (io.ReadCloser, int64, error) {
	data, there := t.files[name]
	if !there {
		return nil, 0, app.Errorf(app.NotFound, "there is no such file")
	}
	return io.NopCloser(bytes.NewReader(data)), int64(len(data)), nil
}

// New code brings its icon, or takes it away; what cannot be one is said in the log, and what somebody
// uploaded stays.
func TestIconsThatCodeBrings(t *testing.T) {
	ctx := t.Context()
	fatal := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	store, err := db.Open(ctx, database.Path(t), time.Now)
	fatal(err)
	defer func() { fatal(store.Close()) }()
	ana, err := store.Accounts.CreateAccount(ctx, app.Account{Name: "ana", TotalRAM: 512})
	fatal(err)
	a, err := store.Allocations(db.IDRange{UIDBase: 70000, UIDCount: 10, PortFirst: 7000, PortLast: 7010}).Reserve(ctx, app.App{ID: "bot", Account: ana.ID, Name: "bot", RAM: 100, Wanted: app.WantStopped}, func(app.Account, app.Use) error { return nil })
	fatal(err)
	_, err = store.Apps.CreateApp(ctx, a, app.Deploy{Kind: app.DeployUpload})
	fatal(err)
	var b bytes.Buffer
	fatal(png.Encode(&b, image.NewGray(image.Rect(0, 0, 40, 40))))
	said := ""
	s := &icons{records: store.Icons, note: func(_ app.ID, text string) { said = text }, log: slog.New(slog.DiscardHandler)}
	bring := func(files map[string][]byte) bool {
		t.Helper()
		said, s.contents = "", treeOf{files: files}
		s.bring(ctx, a)
		_, err := s.Icon(ctx, a.ID)
		return err == nil
	}
	if bring(nil) || said != "" {
		t.Errorf("an icon of nothing: %q", said)
	}
	if !bring(map[string][]byte{"icon.webp": b.Bytes()}) { // what a file is called does not matter
		t.Errorf("no icon: %q", said)
	}
	if bring(map[string][]byte{"icon.png": []byte("<svg/>")}) || !strings.Contains(said, "icon.png is not used") {
		t.Errorf("a bad icon: %q", said)
	}
	if bring(map[string][]byte{"icon.jpg": make([]byte, icon.MaxBytes+1)}) || !strings.Contains(said, "512 KB") {
		t.Errorf("a large icon: %q", said)
	}
	fatal(s.SetIcon(ctx, a.ID, b.Bytes()))
	if !bring(nil) {
		t.Error("what was uploaded is gone")
	}
}
