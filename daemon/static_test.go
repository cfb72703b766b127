package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/files"
	"berth/files/bundle"
)

// A site of files is online until somebody stops it, if it has a first page.
func TestStaticInstance(t *testing.T) {
	store, err := files.Open(t.TempDir(), bundle.Limits{MaxEntries: 10, MaxUnpacked: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	s := &launcher{trees: store}
	p := app.Program{App: "shop", RAM: 64, Code: app.Code{Lang: app.StaticLang, Main: "dist/index.html", Build: "true"}}
	page := filepath.Join(store.Dir("shop"), "dist", "index.html")
	if err := os.MkdirAll(filepath.Dir(filepath.Dir(page)), 0o700); err != nil {
		t.Fatal(err)
	}
	refused := func(what string) {
		t.Helper()
		if _, err := s.launch(t.Context(), p); app.KindOf(err) != app.Unusable || !strings.Contains(err.Error(), `cannot find MAIN="dist/index.html" in the application: BUILD has not made it`) {
			t.Errorf("%s: %v", what, err)
		}
	}
	refused("no directory")
	if err := os.MkdirAll(page, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("a directory for a page")
	if err := os.Remove(page); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(page, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	i, err := s.launch(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if err := i.SetMemory(128); err != nil {
		t.Error(err)
	}
	if u, err := i.Usage(t.Context()); err != nil || u != (app.Usage{LimitBytes: 128 << 20}) {
		t.Errorf("it uses %+v, %v", u, err)
	}
	i.Stop(time.Hour)
	i.Stop(0)
	for range 2 {
		if e := i.Wait(); e.Code != 0 || e.OOM || e.LimitMB != 128 {
			t.Errorf("it ended as %+v", e)
		}
	}
	if i.Leave() {
		t.Error("it goes on after its end")
	}
	if next, err := s.launch(t.Context(), p); err != nil || !next.Leave() || next.Wait().Code != 0 {
		t.Errorf("it does not go on: %v", err)
	}
	if _, err := i.Shell([]string{"true"}, nil); app.KindOf(err) != app.Conflict {
		t.Errorf("a console after the end: %v", err)
	}
}
