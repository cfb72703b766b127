package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
	"berth/db"
	"berth/files/archive"
	"berth/files/repository"
	"berth/test/hosted"
)

// world is a data directory and a repository.
type world struct {
	*Runner
	*hosted.Directory
	repo  *memory
	notes []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	h := hosted.New(t)
	w := &world{Directory: h, repo: &memory{}}
	w.Runner = &Runner{
		Source: Source{
			DB: h.DB, DataDir: h.Path, Trees: h.Store, Config: filepath.Join(filepath.Dir(h.Path), "berth.toml"), Managed: "/none", Keys: []byte("wrapped"),
		},
		Repository: w.repo, ID: "0123abcd", Policy: app.BackupPolicy{At: "03:15", Daily: 2}, Where: time.UTC,
		Note: func(format string, args ...any) { w.notes = append(w.notes, fmt.Sprintf(format, args...)) },
	}
	return w
}

func (w *world) backup(t *testing.T) app.BackupRun {
	t.Helper()
	run, err := w.Backup(t.Context())
	hosted.Must(t, err)
	return run
}

// another adds an application with one file.
func (w *world) another(t *testing.T, id app.ID) app.App {
	t.Helper()
	ids := db.IDRange{UIDBase: 70000, UIDCount: 200, PortFirst: 20000, PortLast: 20199}
	a, err := w.Runner.DB.Allocations(ids).Reserve(t.Context(), app.App{ID: id, Account: 1, Type: app.Bot, RAM: 100, Wanted: app.WantOnline, Code: app.Code{Main: "a"}}, func(app.Account, app.Use) error { return nil })
	hosted.Must(t, err)
	_, err = w.Store.Publish(t.Context(), w.Stage(map[string]string{"main": "of " + string(id)}), id, a.UID)
	hosted.Must(t, err)
	_, err = w.Runner.DB.Apps.CreateApp(t.Context(), a, app.Deploy{By: a.Account, Kind: app.DeployUpload})
	hosted.Must(t, err)
	return a
}

// parts are the parts of a snapshot, with what is in each of their files.
func (w *world) parts(t *testing.T, run, name string) map[string]string {
	t.Helper()
	s, ok := repository.Find(w.repo.all, run, name)
	if !ok {
		t.Fatalf("%s has no %s", run, name)
	}
	found := map[string]string{}
	_, err := w.read(t.Context(), s, func(_ int, part string, e archive.Entry, content io.Reader) error {
		text, err := io.ReadAll(content)
		found[strings.TrimSuffix(part+"/"+e.Path, "/")] = string(text)
		return err
	})
	hosted.Must(t, err)
	return found
}

// A backup has everything; the next one streams what has changed alone.
func TestBackup(t *testing.T) {
	w := newWorld(t)
	bot := w.another(t, "bot")
	first := w.backup(t)
	if first.Apps != 2 || first.Reused != 0 || len(first.Missing) != 0 || first.Bytes == 0 || !first.Good() {
		t.Errorf("%+v", first)
	}
	head := w.parts(t, first.Run, Head)
	if head[SettingsPart] != "rate_limit = 77\n" || head[KeysPart] != "wrapped" || !strings.HasPrefix(head[DatabasePart], "SQLite format 3") {
		t.Errorf("the head has %d parts", len(head))
	}
	if files := w.parts(t, first.Run, "apps/bot"); files["apps/bot/main"] != "of bot" || len(files) > 4 {
		t.Errorf("%v", files)
	}
	for n, tree := range []string{w.Store.Dir("bot"), w.Store.Dir("shop")} { // what has just changed counts as still changing
		hosted.Must(t, os.Chtimes(tree, time.Now(), time.Now().Add(-time.Duration(n)*time.Hour)))
	}
	w.backup(t)
	third := w.backup(t)
	if third.Apps != 2 || third.Reused != 2 || third.Bytes != first.Bytes {
		t.Errorf("nothing has changed: %+v", third)
	}
	if was := w.parts(t, third.Run, "apps/bot")["apps/bot/main"]; was != "of bot" {
		t.Errorf("the backup has %q", was)
	}
	main := filepath.Join(w.Store.Dir("bot"), "main")
	hosted.Must(t, errors.Join(os.WriteFile(main, []byte("new"), 0o600), os.Chown(main, bot.UID, bot.UID)))
	fourth := w.backup(t)
	if fourth.Reused != 1 || w.parts(t, fourth.Run, "apps/bot")["apps/bot/main"] != "new" {
		t.Errorf("one has changed: %+v", fourth)
	}
	// Two days are kept, all of which are today: the newest backup.
	runs, _, err := w.Backups(t.Context())
	if err != nil || !slices.Equal(runs, []string{fourth.Run}) || !slices.Contains(w.repo.dropped, third.Run) {
		t.Errorf("%v are there, %v", runs, err)
	}
	mine, err := w.Runner.DB.Backups.Copies(t.Context(), bot)
	if err != nil || len(mine) != 1 || mine[0].Run != fourth.Run || mine[0].Bytes == 0 || mine[0].At.IsZero() {
		t.Errorf("its owner sees %+v, %v", mine, err)
	}
	if other, err := w.Runner.DB.Backups.Copies(t.Context(), app.App{ID: "bot", UID: bot.UID + 1, Account: bot.Account}); err != nil || len(other) != 0 {
		t.Errorf("who has the id next sees %v, %v", other, err)
	}
	st, err := w.Runner.DB.Backups.Status(t.Context())
	if err != nil || st.Good == nil || st.Good.Run != fourth.Run || st.Running != nil || st.Since.IsZero() {
		t.Errorf("%+v, %v", st, err)
	}
}

// One application that cannot be read spoils only its own part.
func TestBackupWithoutOne(t *testing.T) {
	w := newWorld(t)
	w.another(t, "bot")
	hosted.Must(t, os.RemoveAll(w.Store.Dir("bot")))
	run := w.backup(t)
	if run.Apps != 1 || !slices.Equal(run.Missing, []app.ID{"bot"}) || !run.Good() || len(w.notes) != 1 || !strings.Contains(w.notes[0], "the application bot") {
		t.Errorf("%+v, %q", run, w.notes)
	}
	rehearsal, err := w.Rehearse(t.Context())
	if err != nil || rehearsal.Run != run.Run || rehearsal.Apps != 1 || !slices.Equal(rehearsal.Missing, []app.ID{"bot"}) {
		t.Errorf("%+v, %v", rehearsal, err)
	}
}

// Whichever call of the repository fails, there is the backup from before or the new one, the
// failure is remembered, and the next try works.
func TestBackupFailsAnywhere(t *testing.T) {
	w := newWorld(t)
	w.another(t, "bot")
	before := w.backup(t)
	for n := 1; ; n++ {
		w.repo.calls, w.repo.failAt = 0, n
		run, err := w.Backup(t.Context())
		if w.repo.calls < n {
			hosted.Must(t, err)
			if n < 7 {
				t.Errorf("a backup makes %d calls", n)
			}
			break
		}
		w.repo.failAt = 0
		runs, _, listed := w.Backups(t.Context())
		hosted.Must(t, listed)
		st, failed := w.Runner.DB.Backups.Status(t.Context())
		hosted.Must(t, failed)
		switch {
		case err == nil: // what failed came after the backup was made
			if runs[0] != run.Run || len(w.notes) == 0 || !strings.Contains(w.notes[len(w.notes)-1], errPlace.Error()) {
				t.Errorf("call %d: %v, %q", n, runs, w.notes)
			}
			before = run
		case !errors.Is(err, errPlace) || runs[0] != before.Run || st.Last.Error != err.Error() || st.Good.Run != before.Run:
			t.Errorf("call %d: %v, there are %v, remembered is %+v", n, err, runs, st.Last)
		}
		left, _ := filepath.Glob(filepath.Join(w.Path, "staging", "*"))
		if len(left) != 0 {
			t.Errorf("call %d left %v", n, left)
		}
	}
	w.repo.failAt = 0
	if _, err := w.Prune(t.Context()); err != nil {
		t.Error(err)
	}
	for _, s := range w.repo.all {
		if len(s.Runs) == 0 {
			t.Errorf("%s is of no backup, and was not pruned", s.Name)
		}
	}
}

// Nobody works on the backups beside somebody else, and who is killed leaves no lock.
func TestBackupAlone(t *testing.T) {
	w := newWorld(t)
	if Running(w.Path) {
		t.Error("nobody has begun")
	}
	_, err := w.alone(t.Context(), app.BackupMade, func(*app.BackupRun) ([]db.AppCopy, error) {
		if !Running(w.Path) {
			t.Error("nobody sees that it runs")
		}
		if _, err := w.Backup(t.Context()); !errors.Is(err, ErrRunning) {
			t.Errorf("a second one: %v", err)
		}
		return nil, syscall.EIO
	})
	if !errors.Is(err, syscall.EIO) || Running(w.Path) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.Backup(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// A backup waits for a prune, and says so: berth starts prunes by itself.
func TestBackupWaitsForAPrune(t *testing.T) {
	w := newWorld(t)
	w.backup(t)
	began, done := make(chan struct{}), make(chan error, 1)
	_, err := w.alone(t.Context(), app.BackupPruned, func(*app.BackupRun) ([]db.AppCopy, error) {
		other := *w.Runner
		other.Note = func(string, ...any) { close(began) }
		go func() {
			_, err := other.Backup(t.Context())
			done <- err
		}()
		select {
		case <-began:
		case err := <-done:
			return nil, fmt.Errorf("beside a prune: %w", err)
		}
		return nil, nil
	})
	hosted.Must(t, err)
	if err := <-done; err != nil {
		t.Errorf("after the prune: %v", err)
	}
}

// A new key is stored only once the repository takes it. A repository whose backups need another key
// gets no backup, unless the administrator confirms the new key.
func TestBackupKeys(t *testing.T) {
	type turn struct {
		key     string
		isNew   bool // on this host
		confirm bool
		before  func(w *world)
		err     error
		stored  bool
	}
	wrap := func(w *world, key string) {
		wrapped, err := WrapKeys([]db.Key{{1}}, key, true)
		hosted.Must(t, err)
		w.Keys, w.BackupKey = wrapped, key
	}
	unlabel := func(w *world) {
		for i := range w.repo.all {
			delete(w.repo.all[i].Labels, keyLabel)
		}
	}
	for name, turns := range map[string][]turn{
		"the first":                 {{key: "first key one", isNew: true, stored: true}, {key: "first key one"}},
		"lost":                      {{key: "first key one"}, {key: "other key two", isNew: true, err: ErrOtherKey}, {key: "first key one"}},
		"lost, and given up":        {{key: "first key one"}, {key: "other key two", isNew: true, confirm: true, stored: true}, {key: "other key two"}},
		"replaced":                  {{key: "first key one"}, {key: "other key two", err: ErrOtherKey}},
		"of the release before":     {{key: "first key one"}, {key: "first key one", before: unlabel}},
		"lost, of the one before":   {{key: "first key one"}, {key: "other key two", before: unlabel, isNew: true, err: ErrOtherKey}},
		"the place is not there":    {{key: "first key one"}, {key: "other key two", isNew: true, before: func(w *world) { w.repo.there = false }, err: repository.ErrNone}},
		"the place does not answer": {{key: "other key two", isNew: true, before: func(w *world) { w.repo.failAt = 1 }, err: errPlace}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			for n, turn := range turns {
				wrap(w, turn.key)
				stored := false
				w.AcceptKey, w.StoreKey = turn.confirm, nil
				if turn.isNew {
					w.StoreKey = func() error { stored = true; return nil }
				}
				if turn.before != nil {
					turn.before(w)
				}
				if _, err := w.Backup(t.Context()); !errors.Is(err, turn.err) || turn.err == nil && err != nil || stored != turn.stored {
					t.Errorf("turn %d: %v, stored %v", n, err, stored)
				}
			}
		})
	}
	w := newWorld(t)
	w.StoreKey = func() error { return syscall.ENOSPC }
	if _, err := w.Backup(t.Context()); !errors.Is(err, syscall.ENOSPC) || w.repo.there {
		t.Errorf("a key that cannot be stored: %v", err)
	}
}

// A rehearsal finds what is not as it was written, and takes turns with what it restores whole.
func TestRehearse(t *testing.T) {
	w := newWorld(t)
	w.another(t, "bot")
	if _, err := w.Rehearse(t.Context()); !errors.Is(err, repository.ErrNone) {
		t.Errorf("without a repository: %v", err)
	}
	w.repo.there = true
	if _, err := w.Rehearse(t.Context()); err == nil || err.Error() != "there is no backup to rehearse" {
		t.Errorf("without a backup: %v", err)
	}
	run := w.backup(t)
	whole := map[string]bool{}
	for range 2 {
		rehearsal, err := w.Rehearse(t.Context())
		if err != nil || rehearsal.Apps != 2 || rehearsal.Bytes == 0 || len(w.notes) != 0 {
			t.Fatalf("%+v, %v, %q", rehearsal, err, w.notes)
		}
		whole[string(rehearsal.Whole)] = true
	}
	if !whole["bot"] || !whole["shop"] {
		t.Errorf("restored whole: %v", whole)
	}
	if want := [][2]int{{0, checkParts}, {1, checkParts}}; !slices.Equal(w.repo.checked, want) {
		t.Errorf("of the repository it reads %v, and not %v", w.repo.checked, want)
	}
	if left, _ := filepath.Glob(filepath.Join(w.Path, "staging", "*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	for _, name := range []string{Head, "apps/bot", "apps/shop"} {
		s, _ := repository.Find(w.repo.all, run.Run, name)
		good := w.repo.streams[s.ID]
		for _, at := range []int{len(good) / 3, len(good) / 2} {
			bad := slices.Clone(good)
			for i := range 700 { // more than the padding between two entries
				bad[(at+i)%len(bad)] ^= 1
			}
			w.repo.streams[s.ID] = bad
			rehearsal, err := w.Rehearse(t.Context())
			if err == nil || rehearsal.Good() || rehearsal.Error == "" {
				t.Errorf("%s changed at %d: %+v, %v", name, at, rehearsal, err)
			}
		}
		w.repo.streams[s.ID] = good[:len(good)-2000]
		if _, err := w.Rehearse(t.Context()); err == nil {
			t.Errorf("%s is cut, and nobody noticed", name)
		}
		w.repo.streams[s.ID] = good
	}
	// One that the backup should have is not there.
	at := slices.IndexFunc(w.repo.all, func(s repository.Snapshot) bool { return s.Name == "apps/bot" })
	w.repo.all = slices.Delete(w.repo.all, at, at+1)
	if _, err := w.Rehearse(t.Context()); err == nil || !strings.Contains(err.Error(), "has no files of the application bot") {
		t.Errorf("%v", err)
	}
}

func TestKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "berth.d", "backup.key")
	if _, err := ReadKey(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
	key := NewKey()
	if !strings.HasPrefix(key, keyPrefix) || len(key) < 30 || NewKey() == key || KeyID(key) == KeyID(NewKey()) || len(KeyID(key)) != 8 {
		t.Fatalf("%q, %q", key, KeyID(key))
	}
	hosted.Must(t, StoreKey(file, key))
	if err := StoreKey(file, NewKey()); !errors.Is(err, os.ErrExist) {
		t.Errorf("in the place of another: %v", err)
	}
	if again, err := ReadKey(file); err != nil || again != key {
		t.Errorf("%q, %v", again, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	keys := []db.Key{{1, 2}, {3}}
	wrapped, err := WrapKeys(keys, key, true)
	hosted.Must(t, err)
	if back, err := UnwrapKeys(wrapped, key); err != nil || !slices.Equal(back, keys) {
		t.Errorf("%v, %v", back, err)
	}
	if _, err := UnwrapKeys(wrapped, key+"x"); !errors.Is(err, ErrPassphrase) {
		t.Errorf("%v", err)
	}
	for _, bad := range []string{"", "short", "two\nlines of text here"} {
		if _, err := CheckKey(bad); err == nil {
			t.Errorf("%q is a key", bad)
		}
	}
	hosted.Must(t, os.WriteFile(file+"2", []byte("# nothing\n"), 0o600))
	if _, err := ReadKey(file + "2"); err == nil || !strings.Contains(err.Error(), "there is none in") {
		t.Errorf("%v", err)
	}
}
