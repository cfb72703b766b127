package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/files/bundle"
)

func TestBudget(t *testing.T) {
	r := &budget{entries: 2, paths: 10}
	if err := r.spend("12345"); err != nil {
		t.Fatal(err)
	}
	if err := r.spend("123456"); app.KindOf(err) != app.Unusable || !strings.Contains(err.Error(), "too many files") {
		t.Errorf("more path than allowed: %v", err)
	}
	if err := newBudget(bundle.Limits{}).spend(strings.Repeat("x", unix.PathMax+1)); app.KindOf(err) != app.Unusable {
		t.Errorf("a path longer than any program can name: %v", err)
	}
	r = newBudget(bundle.Limits{MaxEntries: 1})
	for n := range treeFactor + 1 {
		if err := r.spend("x"); (err != nil) != (n == treeFactor) {
			t.Errorf("entry %d: %v", n, err)
		}
	}
}

// A program that fills its tree with names cannot make the daemon remember
// them all: not by a backup, not by a commit.
func TestTreeOfTooManyFilesIsRefused(t *testing.T) {
	s := newStore(t)
	s.lim.MaxEntries = 10
	files := map[string]string{"discloud.config": "MAIN=a", "a": "x"}
	for n := range 10 * treeFactor {
		files[fmt.Sprintf("many/%d", n)] = ""
	}
	makeLive(t, s, files)
	_, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	if app.KindOf(err) != app.Unusable {
		t.Errorf("backup: %v", err)
	}
	empty(t, s, "backups")
	up, err := s.Unpack(t.Context(), zipOf(t, s, map[string]string{"a": "new", "b": ""}), nil, anything)
	must(t, err)
	err = s.Prepare(t.Context(), up.Stage, testID, testUID)
	if app.KindOf(err) != app.Unusable {
		t.Errorf("commit: %v", err)
	}
	must(t, s.Discard(up.Stage))
	if _, err := s.Used(t.Context(), testID); err != nil {
		t.Errorf("its size is told all the same: %v", err)
	}
}

func TestBackupsOfOneApplicationAreFew(t *testing.T) {
	s := newStore(t)
	makeLive(t, s, map[string]string{"a": "x"})
	other := strings.Repeat("0", 32)
	must(t, os.WriteFile(filepath.Join(s.root, "backups", "another-app."+other+".zip"), nil, 0o600))
	var names []string
	for n := range backupsKept + 2 {
		name, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
		must(t, err)
		names = append(names, name)
		// The clock of files may not have ticked between two backups.
		at := time.Now().Add(time.Duration(n-100) * time.Second)
		must(t, os.Chtimes(filepath.Join(s.root, "backups", name), at, at))
	}
	for i, name := range names {
		f, _, err := s.OpenBackup(name)
		if kept := i >= 2; kept != (err == nil) {
			t.Errorf("backup %d of %d: %v", i+1, len(names), err)
		}
		if err == nil {
			must(t, f.Close())
		}
	}
	list, err := os.ReadDir(filepath.Join(s.root, "backups"))
	if err != nil || len(list) != backupsKept+1 {
		t.Errorf("%v, %v; want that of another application kept", list, err)
	}
	for _, name := range []string{"", "x.zip", "../my-app." + other + ".zip", "my-app." + other, "all." + other + ".zip", other + ".zip"} {
		if _, _, err := s.OpenBackup(name); app.KindOf(err) != app.NotFound {
			t.Errorf("OpenBackup(%q) = %v", name, err)
		}
	}
}

func TestUnpackAsksTheJudgeFirst(t *testing.T) {
	s := newStore(t)
	refuse := func(cfg app.Config) error { return app.Errorf(app.Exhausted, "no room for %s", cfg.Main) }
	file := zipOf(t, s, map[string]string{"discloud.config": "MAIN=a", "a": "x"})
	_, err := s.Unpack(t.Context(), file, nil, refuse)
	if app.KindOf(err) != app.Exhausted || !strings.Contains(err.Error(), "no room for a") {
		t.Errorf("got %v", err)
	}
	must(t, s.DropSpool(file))
	empty(t, s, "staging")
}
