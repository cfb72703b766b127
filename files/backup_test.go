package files

import (
	"archive/zip"
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/files/bundle"
)

// listed returns the files of a backup, sorted.
func listed(t *testing.T, s *Store, name string) []string {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join(s.root, "backups", name))
	must(t, err)
	defer z.Close()
	var names []string
	for _, f := range z.File {
		names = append(names, f.Name)
	}
	slices.Sort(names)
	return names
}

func TestBackup(t *testing.T) {
	s := newStore(t)
	secret := filepath.Join(t.TempDir(), "secret")
	must(t, os.WriteFile(secret, []byte("SECRET"), 0o644))
	live := makeLive(t, s, map[string]string{
		"discloud.config": "MAIN=a", "a": "x", "sub/b": "y", "void/": "", "link": "->" + secret, "bad\nname": "x", "bad\xff": "x",
		"package.json": "{}", "node_modules/x": "x", "node_modules/.package-lock.json": "{}", "sub/node_modules/y": "kept", ".venv/z": "kept: no venv made it",
		"target/release/x": "x", "target/CACHEDIR.TAG": "", ".berth/bin/app": "x", "vendor/bundle/ruby/x": "x", "vendor/bundle/.berth": "", "vendor/own": "kept",
		strings.Repeat("d/", 40) + "deep": "x",
	})
	must(t, mkfifo(filepath.Join(live, "pipe")))
	must(t, os.Link(secret, filepath.Join(live, "hard")))
	must(t, os.Chmod(filepath.Join(live, "a"), 0o700))
	name, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	must(t, err)
	got := strings.Join(slices.DeleteFunc(listed(t, s, name), func(n string) bool { return strings.HasPrefix(n, "d/") }), " ")
	if want := ".venv/ .venv/z a discloud.config package.json sub/ sub/b sub/node_modules/ sub/node_modules/y vendor/ vendor/own void/"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	f, made, err := s.OpenBackup(name)
	must(t, err)
	defer f.Close()
	if info, err := f.(*os.File).Stat(); err != nil || info.Mode().Perm() != 0o600 || !info.ModTime().Equal(made) {
		t.Errorf("%v, %v", info, err)
	}
	// It can be uploaded again.
	up, err := s.Unpack(t.Context(), filepath.Join(s.root, "backups", name), nil, anything)
	if err != nil || !up.Found {
		t.Fatalf("%v, %v", up, err)
	}
	if info, err := os.Stat(filepath.Join(s.root, "staging", string(up.Stage), "new", "a")); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v, %v", info, err)
	}
}

// The variables are in a backup only when they are given, in a file that no
// upload unpacks, whatever the program has in their place.
func TestBackupWithVariables(t *testing.T) {
	for what, own := range map[string]string{"a file": ".berth", "their file": ".berth/env", "a directory": ".berth/env/x", "a link": ".berth"} {
		t.Run(what, func(t *testing.T) {
			s := newStore(t)
			content := "own"
			if what == "a link" {
				content = "->/etc"
			}
			makeLive(t, s, map[string]string{"discloud.config": "MAIN=a", "a": "x", own: content})
			for _, variables := range [][]app.Variable{nil, {}, {{Name: "TOKEN", Value: "it's a secret"}, {Name: "Z"}}} {
				name, err := s.Backup(t.Context(), testID, variables, app.BackupRoom{})
				must(t, err)
				path := filepath.Join(s.root, "backups", name)
				got, found := variablesIn(t, path)
				if found != (variables != nil) || !slices.Equal(got, variables) {
					t.Errorf("given %v it holds %v, %t", variables, got, found)
				}
				up, err := s.Unpack(t.Context(), path, nil, anything)
				must(t, err)
				if _, err := os.Lstat(filepath.Join(s.root, "staging", string(up.Stage), "new", ".berth", "env")); err == nil {
					t.Error("an upload unpacks it")
				}
				if told := strings.Contains(strings.Join(up.Left, ""), "berth app env"); told != (variables != nil) {
					t.Errorf("the upload says %q", up.Left)
				}
			}
		})
	}
}

// variablesIn reads the variables of a backup.
func variablesIn(t *testing.T, path string) (all []app.Variable, found bool) {
	t.Helper()
	z, err := zip.OpenReader(path)
	must(t, err)
	defer z.Close()
	for _, f := range z.File {
		if f.Name == app.VariablesFile {
			r, err := f.Open()
			must(t, err)
			defer r.Close()
			all, err = bundle.ParseVariables(r)
			must(t, err)
			return all, true
		}
	}
	return nil, false
}

func TestBackupRefuses(t *testing.T) {
	needRoot(t)
	path := filepath.Join(t.TempDir(), "data")
	s, err := Open(path, bundle.Limits{MaxUnpacked: 100})
	must(t, err)
	defer s.Close()
	live := makeLive(t, s, map[string]string{"a": strings.Repeat("x", 500)})
	must(t, os.Truncate(filepath.Join(live, "a"), 1<<40)) // a hole of a terabyte
	_, err = s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	if app.KindOf(err) != app.TooLarge || text(err) != "the application's files are larger than the 800 bytes a backup may hold" {
		t.Errorf("too large: %v", err)
	}
	if _, err = s.Backup(cancelled(t), testID, nil, app.BackupRoom{}); err == nil {
		t.Error("cancelled: accepted")
	}
	if _, err = s.Backup(t.Context(), "nobody", nil, app.BackupRoom{}); app.KindOf(err) != app.NotFound {
		t.Errorf("no such application: %v", err)
	}
	empty(t, s, "backups")
}

func TestOpenBackupTakesNamesAlone(t *testing.T) {
	s := newStore(t)
	valid := strings.Repeat("ab", 16) + ".zip"
	must(t, os.Symlink("/etc/passwd", filepath.Join(s.root, "backups", strings.Repeat("cd", 16)+".zip")))
	put(t, filepath.Join(s.root, "backups"), map[string]string{"x.zip": "x", strings.Repeat("ab", 16) + ".part": "x"})
	for _, name := range []string{
		"", "x.zip", "../berth.db", valid, valid + "/..", strings.ToUpper(valid), strings.Repeat("ab", 16),
		strings.Repeat("ab", 16) + ".part", strings.Repeat("cd", 16) + ".zip", "../backups/" + valid, valid + "\x00",
	} {
		f, _, err := s.OpenBackup(name)
		if app.KindOf(err) != app.NotFound || text(err) != "no such backup" {
			t.Errorf("%q: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}

func TestDropBackups(t *testing.T) {
	s := newStore(t)
	makeLive(t, s, map[string]string{"a": "x"})
	old, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	must(t, err)
	young, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	must(t, err)
	day := time.Now().Add(-24 * time.Hour)
	must(t, os.Chtimes(filepath.Join(s.root, "backups", old), day, day))
	n, err := s.DropBackups(day.Add(time.Hour))
	if n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if _, _, err := s.OpenBackup(old); app.KindOf(err) != app.NotFound {
		t.Errorf("old: %v", err)
	}
	f, _, err := s.OpenBackup(young)
	must(t, err)
	must(t, f.Close())
}

// What the account leaves to a backup bounds it, and how many are kept.
func TestBackupKeepsToItsRoom(t *testing.T) {
	s := newStore(t)
	noise := make([]byte, 1<<20)
	_, _ = rand.Read(noise) // which no ZIP makes smaller
	makeLive(t, s, map[string]string{"a": string(noise)})
	one, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{Keep: 1, Bytes: 2 << 20})
	must(t, err)
	_, err = s.Backup(t.Context(), testID, nil, app.BackupRoom{Bytes: 1 << 20})
	if want := "cannot write the backup: it takes more than the 1 MB of disk that the account has left; remove some files, or ask the owner of this host for more"; app.KindOf(err) != app.TooLarge || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
	if list, err := s.Backups(testID, time.Hour); err != nil || len(list) != 1 || list[0].File != one {
		t.Errorf("%+v, %v: want the one from before", list, err)
	}
	two, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{Keep: 1})
	must(t, err)
	if list, err := s.Backups(testID, time.Hour); err != nil || len(list) != 1 || list[0].File != two {
		t.Errorf("%+v, %v: want the new one alone", list, err)
	}
	must(t, nothingBut(s, two))
}

// nothingBut fails unless a file is all that lies among the backups.
func nothingBut(s *Store, name string) error {
	list, err := os.ReadDir(filepath.Join(s.root, "backups"))
	if err == nil && (len(list) != 1 || list[0].Name() != name) {
		err = fmt.Errorf("among the backups are %v", list)
	}
	return err
}

func TestBackups(t *testing.T) {
	s := newStore(t)
	makeLive(t, s, map[string]string{"a": "x"})
	put(t, filepath.Join(s.root, "backups"), map[string]string{"x.zip": "x", "other." + strings.Repeat("ab", 16) + ".zip": "x"})
	old, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	must(t, err)
	hour := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(s.root, "backups", old), hour, hour))
	young, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{})
	must(t, err)
	list, err := s.Backups(testID, 2*time.Hour)
	must(t, err)
	if len(list) != 2 || list[0].File != young || list[1].File != old || list[0].Bytes == 0 || list[0].App != testID {
		t.Fatalf("%+v", list)
	}
	if left := time.Until(list[1].Expires); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the old one expires in %v", left)
	}
	if list, err := s.Backups(testID, 30*time.Minute); err != nil || len(list) != 1 || list[0].File != young {
		t.Errorf("%+v, %v; want what has not expired", list, err)
	}
	if list, err := s.Backups("none", time.Hour); err != nil || len(list) != 0 {
		t.Errorf("of none: %v, %v", list, err)
	}
}

func TestSize(t *testing.T) {
	s := newStore(t)
	live := makeLive(t, s, map[string]string{"a": strings.Repeat("x", 100<<10), "d/b": "y", "link": "->/etc/passwd"})
	one, err := s.Used(t.Context(), testID)
	if err != nil || one.Bytes < 100<<10 || one.Bytes > 200<<10 || one.Entries != 5 || one.Deep {
		t.Errorf("%+v, %v", one, err)
	}
	must(t, os.Link(filepath.Join(live, "a"), filepath.Join(live, "d", "again")))
	must(t, os.Truncate(filepath.Join(live, "d", "b"), 1<<40))
	two, err := s.Used(t.Context(), testID)
	if err != nil || two.Bytes-one.Bytes > 8<<10 || two.Entries != 5 {
		t.Errorf("with a second name and a hole: %+v after %+v, %v", two, one, err)
	}
	if _, err := s.Used(t.Context(), "nobody"); app.KindOf(err) != app.NotFound {
		t.Errorf("no such application: %v", err)
	}
	if _, err := s.Used(cancelled(t), testID); err == nil {
		t.Error("cancelled: measured")
	}
}

// A ZIP has no links: what many names make of a few megabytes ends at the floor.
func TestBackupHeedsTheRoom(t *testing.T) {
	s := onTmpfs(t, "size=128m")
	s.SetFloor(64 << 20)
	live := makeLive(t, s, map[string]string{"a.png": "x"}) // which a ZIP stores as it is
	must(t, os.WriteFile(filepath.Join(live, "a.png"), make([]byte, 10<<20), 0o644))
	for n := range 40 {
		must(t, os.Link(filepath.Join(live, "a.png"), filepath.Join(live, fmt.Sprint("a", n, ".png"))))
	}
	if _, err := s.Backup(t.Context(), testID, nil, app.BackupRoom{}); app.KindOf(err) != app.NoSpace || !strings.Contains(err.Error(), "nearly full") {
		t.Errorf("%v", err)
	}
	empty(t, s, "backups")
}

func TestSweep(t *testing.T) {
	s := newStore(t)
	unguessed := "." + strings.Repeat("0", 32) + ".zip"
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside, map[string]string{"keep": "x"})
	put(t, s.root, map[string]string{
		"apps/known/a": "x", "apps/unknown/a": "x", "apps/link": "->" + outside, "rollback/known/plan": "", "rollback/unknown/plan": "",
		"apps/gone/a": "x", "rollback/gone/plan": "", "tmp/gone/a": "x", "tmp/known.build/a": "x", "tmp/unknown.build/a": "x", "tmp/empty/": "",
		"tmp/known/a": "x", "tmp/unknown/a": "x", "staging/abc/new/x": "x", "staging/x.zip": "x", "backups/x.part": "x", "backups/x.zip": "x",
		"berth.db": "x", "backups/gone" + unguessed: "x", "backups/known" + unguessed: "x", "backups/unknown" + unguessed: "x",
	})
	s.opened = time.Date(2026, 11, 22, 13, 5, 0, 0, time.UTC)
	lost, err := s.Sweep(t.Context(), []app.ID{"known"}, []app.ID{"gone"})
	must(t, err)
	if len(lost) != 4 || lost[0].To != filepath.Join(s.root, "lost", lost[0].Name+".20261122T130500Z") {
		t.Errorf("lost are %+v", lost)
	}
	if n, err := CountLost(s.root); n != 2 || err != nil {
		t.Errorf("%d are lost, %v", n, err)
	}
	if _, _, err := s.OpenBackup("gone" + unguessed); app.KindOf(err) != app.NotFound {
		t.Errorf("the backup of an application that was deleted: %v", err)
	}
	var got []string
	for name := range snapshot(t, s.root) {
		got = append(got, name)
	}
	slices.Sort(got)
	want := ". apps apps/known apps/known/a backups backups/known" + unguessed + " backups/unknown" + unguessed + " backups/x.zip berth.db lost lost/link.T lost/link.T/apps lost/unknown.T lost/unknown.T/apps lost/unknown.T/apps/a lost/unknown.T/rollback lost/unknown.T/rollback/plan lost/unknown.T/tmp lost/unknown.T/tmp/a rollback rollback/known rollback/known/plan staging tmp tmp/known tmp/known/a"
	if text := strings.ReplaceAll(strings.Join(got, " "), ".20261122T130500Z", ".T"); text != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
	holds(t, outside, map[string]string{"keep": "x"})
}

func TestEnsureTemp(t *testing.T) {
	s := newStore(t)
	for _, tt := range []struct {
		build bool
		name  string
	}{{false, "my-app"}, {true, "my-app.build"}, {false, "my-app"}, {true, "my-app.build"}} {
		path, err := s.EnsureTemp(testID, tt.build, testUID)
		must(t, err)
		if path != filepath.Join(s.root, "tmp", tt.name) {
			t.Error(path)
		}
		got := snapshot(t, path)
		if len(got) != 1 || got["."] != "drwx------ 54321:54321" {
			t.Errorf("%v", got)
		}
		put(t, path, map[string]string{"left/over": "x"})
	}
	s.removing.Wait()
	// One that is empty is used again, as it should be; another user's is not.
	inode := func(path string) uint64 {
		info, err := os.Stat(path)
		must(t, err)
		return info.Sys().(*syscall.Stat_t).Ino
	}
	path, err := s.EnsureTemp(testID, false, testUID)
	must(t, err)
	first := inode(path)
	must(t, os.Chmod(path, 0o777))
	_, err = s.EnsureTemp(testID, false, testUID)
	must(t, err)
	if got := snapshot(t, path); inode(path) != first || got["."] != "drwx------ 54321:54321" {
		t.Errorf("it was %d and is %d, %v", first, inode(path), got)
	}
	must(t, os.Chown(path, testUID+1, testUID))
	_, err = s.EnsureTemp(testID, false, testUID)
	must(t, err)
	if got := snapshot(t, path); got["."] != "drwx------ 54321:54321" {
		t.Errorf("after another user's: %v", got)
	}
	must(t, s.Remove(t.Context(), testID))
	empty(t, s, "tmp")
	s.removing.Wait()
	empty(t, s, "staging")
}
