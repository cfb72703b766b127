package files

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// TestOfATypicalCommit is the order of magnitude of a commit: 5,000 files in
// the live tree, 100 in the ZIP, 1,000 made by the build.
func TestOfATypicalCommit(t *testing.T) {
	s := newMemoryStore(t)
	many := func(prefix string, n int) map[string]string {
		files := make(map[string]string)
		for i := range n {
			files[fmt.Sprintf("%s/%d/%d.js", prefix, i/100, i)] = strings.Repeat("x", 2000)
		}
		return files
	}
	live := makeLive(t, s, many("node_modules", 5000))
	before := snapshot(t, live)
	took := func(what string, f func() error) {
		start := time.Now()
		must(t, f())
		t.Logf("%-8s %v", what, time.Since(start).Round(time.Millisecond))
	}
	zip := many("src", 100)
	zip["package.json"] = "{}"
	stage := stageOf(t, s, zip)
	var build string
	took("Prepare", func() (err error) {
		build, err = s.BuildDir(stage), s.Prepare(t.Context(), stage, testID, testUID)
		return err
	})
	put(t, build, many("dist", 1000))
	chownAll(t, filepath.Join(build, "dist"))
	took("Apply", func() error { return applied(s.Apply(t.Context(), stage, testID, testUID)) })
	took("Used", func() error { _, err := s.Used(t.Context(), testID); return err })
	took("Backup", func() error { _, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{}); return err })
	took("Undo", func() error { return s.Settle(t.Context(), testID, testUID, nil) })
	same(t, snapshot(t, live), before)
	took("Discard", func() error { return s.Discard(stage) })
	took("Remove", func() error { return s.Remove(t.Context(), testID) })
}
