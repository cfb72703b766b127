package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
	"berth/daemon/backup"
	"berth/daemon/settings"
	"berth/db"
	"berth/test/database"
)

// backupWorld is a scheduler in virtual time, with a real database.
type backupWorld struct {
	*backups
	db    *db.DB
	did   []string // what was done, and when
	fails func(kind app.BackupKind) error
	told  []app.Notice
	holds bool
}

func newBackupWorld(t *testing.T) *backupWorld {
	t.Helper()
	d, err := db.Open(t.Context(), database.Path(t), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s, err := settings.Default()
	if err != nil {
		t.Fatal(err)
	}
	s.Backups.Repository, s.DataDir, s.File = "/backups", t.TempDir(), filepath.Join(t.TempDir(), "berth.toml")
	s.BackupKey = filepath.Join(t.TempDir(), "backup.key")
	key := backup.NewKey()
	if err := errors.Join(backup.StoreKey(s.BackupKey, key), d.Backups.ShownKey(t.Context(), backup.KeyID(key))); err != nil {
		t.Fatal(err)
	}
	w := &backupWorld{db: d}
	w.backups = &backups{
		settings: s, data: &data{db: d}, log: slog.New(slog.DiscardHandler), policy: s.BackupPolicy(), settle: backupsSettle,
		wake: make(chan app.BackupKind, 1), told: make(map[app.NoticeKind]time.Time),
		notice: func(_ context.Context, n app.Notice) { w.told = append(w.told, n) },
	}
	w.held = func() bool { return w.holds }
	w.work = func(ctx context.Context, kind app.BackupKind) error {
		w.did = append(w.did, string(kind)+" "+time.Now().Format("02 15:04"))
		run, err := d.Backups.BeginBackup(ctx, kind, "/backups")
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Minute) // virtual
		run.Ended = time.Now()
		var failed error
		if w.fails != nil {
			if failed = w.fails(kind); failed != nil {
				run.Error = failed.Error()
			}
		}
		return errors.Join(failed, d.Backups.EndBackup(ctx, run, nil))
	}
	return w
}

// live runs the scheduler for a while.
func (w *backupWorld) live(t *testing.T, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	w.run(ctx)
}

// inUTC runs f in virtual time, where the local time of the host is UTC.
func inUTC(t *testing.T, f func(t *testing.T)) {
	was := time.Local
	time.Local = time.UTC
	defer func() { time.Local = was }()
	synctest.Test(t, f)
}

// A host is backed up at once and then every night, and rehearsed once a week.
func TestBackupsOfTenDays(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.live(t, 10*24*time.Hour)
		want := "backup 01 00:02,rehearsal 01 00:07,backup 01 03:15,backup 02 03:15,backup 03 03:15,backup 04 03:15,backup 05 03:15,backup 06 03:15," +
			"backup 07 03:15,rehearsal 08 00:07,backup 08 03:15,backup 09 03:15,backup 10 03:15"
		if got := strings.Join(w.did, ","); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if len(w.told) != 0 {
			t.Errorf("told %+v", w.told)
		}
	})
}

// berth tells of a new backup key at once, and then once a week until it has shown the key.
func TestNewBackupKeyIsTold(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		problem := func() string {
			t.Helper()
			st, err := w.BackupStatus(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			said, _ := BackupProblem(st, time.Now())
			return said
		}
		w.live(t, time.Hour)
		if said := problem(); said != "" || len(w.told) > 0 {
			t.Errorf("of a key that was shown: %q, %v", said, w.told)
		}
		key := backup.NewKey()
		if err := errors.Join(os.Remove(w.settings.BackupKey), backup.StoreKey(w.settings.BackupKey, key)); err != nil {
			t.Fatal(err)
		}
		w.live(t, 10*24*time.Hour)
		if len(w.told) != 2 || w.told[0].Kind != app.NoticeBackupKey || w.told[1].At.Sub(w.told[0].At) < 7*24*time.Hour {
			t.Errorf("told %+v", w.told)
		}
		if said := problem(); !strings.Contains(said, "the key that opens new backups is not the one that was shown") {
			t.Errorf("%q", said)
		}
		if err := w.db.Backups.ShownKey(t.Context(), backup.KeyID(key)); err != nil || problem() != "" {
			t.Errorf("after it was shown: %q, %v", problem(), err)
		}
		// As the release before has stored it.
		if err := w.db.Backups.ShownKey(t.Context(), db.ShownBefore); err != nil || problem() != "" {
			t.Errorf("of the release before: %q, %v", problem(), err)
		}
		w.live(t, time.Hour)
		if st, err := w.db.Backups.Status(t.Context()); err != nil || st.ShownKey != backup.KeyID(key) {
			t.Errorf("after a start: %q, %v", st.ShownKey, err)
		}
	})
}

// The result of the last backup counts at once, and not only a day and a half after a good one.
func TestFailedBackupIsAProblemAtOnce(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.live(t, time.Hour)
		w.fails = func(app.BackupKind) error { return errors.New("the place is gone") }
		w.live(t, 3*time.Hour)
		st, err := w.BackupStatus(t.Context())
		if problem, hint := BackupProblem(st, time.Now()); err != nil || problem != "the last backup failed: the place is gone (the last good one: 2000-01-01)" || hint == "" {
			t.Errorf("%q, %q, %v", problem, hint, err)
		}
	})
}

// What fails is tried again at growing distances and told; after a day and a half that there
// is no backup is told too, once a day.
func TestBackupsThatFail(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.fails = func(app.BackupKind) error { return errors.New("the place is gone") }
		w.live(t, 3*24*time.Hour)
		if got := strings.Join(w.did[:4], ","); got != "backup 01 00:02,backup 01 00:22,backup 01 01:27,backup 01 05:32" {
			t.Errorf("%s", got)
		}
		if len(w.did) > 24 {
			t.Errorf("%d tries in three days", len(w.did))
		}
		failed, missing := 0, 0
		for _, n := range w.told {
			switch n.Kind {
			case app.NoticeBackupFailed:
				failed++
				if n.Args[1] != "the place is gone" {
					t.Errorf("%v", n.Args)
				}
			case app.NoticeBackupMissing:
				missing++
			default:
				t.Errorf("%+v", n)
			}
		}
		if failed != len(w.did) || missing != 2 {
			t.Errorf("%d failures of %d were told, and that one is missing %d times", failed, len(w.did), missing)
		}
		// It works again: the next try is the last one, and a rehearsal follows.
		w.did, w.fails = nil, nil
		w.live(t, 5*time.Hour)
		if len(w.did) < 2 || !strings.HasPrefix(w.did[0], "backup 04") || !strings.HasPrefix(w.did[1], "rehearsal 04") {
			t.Errorf("%v", w.did)
		}
	})
}

// A night that was missed, because the host was off, is made up when it is back.
func TestBackupMadeUp(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.live(t, 4*time.Hour)
		w.did = nil
		time.Sleep(26 * time.Hour) // off
		w.live(t, time.Hour)
		if got := strings.Join(w.did, ","); got != "backup 02 06:02" {
			t.Errorf("%s", got)
		}
		// One that was cut short is one that failed.
		run, err := w.db.Backups.BeginBackup(t.Context(), app.BackupMade, "/backups")
		if err != nil || run.ID == 0 {
			t.Fatal(err)
		}
		st, err := w.BackupStatus(t.Context())
		if err != nil || st.Running != nil {
			t.Errorf("%+v runs, %v", st.Running, err)
		}
	})
}

// A rehearsal that fails is told, and tried again after a day.
func TestRehearsalThatFails(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.fails = func(kind app.BackupKind) error {
			if kind == app.BackupRehearsed {
				return errors.New("damaged")
			}
			return nil
		}
		w.live(t, 40*time.Hour)
		want := "backup 01 00:02,rehearsal 01 00:07,backup 01 03:15,rehearsal 02 00:12,backup 02 03:15"
		if got := strings.Join(w.did, ","); got != want {
			t.Errorf("%s", got)
		}
		if len(w.told) != 2 || w.told[0].Kind != app.NoticeBackupFailed || w.told[0].Args[0] != "rehearsal" {
			t.Errorf("%+v", w.told)
		}
		st, err := w.BackupStatus(t.Context())
		if problem, hint := BackupProblem(st, time.Now()); err != nil || !strings.Contains(problem, "damaged") || hint == "" {
			t.Errorf("%q, %v", problem, err)
		}
	})
}

// Somebody asks for one now, and changes the policy.
func TestBackupAskedFor(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(20 * time.Minute)
		if err := w.StartBackup(ctx, false); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if err := w.StartBackup(ctx, true); app.KindOf(err) != app.Already {
			t.Errorf("a second one beside it: %v", err)
		}
		time.Sleep(10 * time.Minute)
		p := app.BackupPolicy{At: "00:40", Daily: 2, Weekly: 0, Monthly: 0}
		if err := w.SetBackupPolicy(ctx, p); err != nil {
			t.Error(err)
		}
		for _, bad := range []app.BackupPolicy{{At: "25:00", Daily: 1}, {At: "00:40"}} {
			if err := w.SetBackupPolicy(ctx, bad); app.KindOf(err) != app.Invalid {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		st, err := w.BackupStatus(ctx)
		if err != nil || st.Next.Format("02 15:04") != "01 00:40" || st.Policy.Daily != 2 || st.Policy.Rehearse != 7*24*time.Hour {
			t.Errorf("%+v, %v", st, err)
		}
		time.Sleep(20 * time.Minute)
		synctest.Wait()
		if !slices.Equal(w.did, []string{"backup 01 00:02", "rehearsal 01 00:07", "backup 01 00:20", "backup 01 00:40"}) {
			t.Errorf("%v", w.did)
		}
		cancel()
		<-done
		none := &backups{}
		if err := none.StartBackup(ctx, false); app.KindOf(err) != app.Unusable {
			t.Errorf("nothing is set up: %v", err)
		}
	})
}

// An upgrade calls off what is under way and waits for its end; what was called off is made up, and no failure.
func TestBackupsPaused(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		ended := false
		w.work = func(ctx context.Context, kind app.BackupKind) error {
			w.did = append(w.did, string(kind))
			<-ctx.Done()
			time.Sleep(3 * time.Second) // it takes its time
			ended = true
			return ctx.Err()
		}
		w.pause(false) // nothing is under way
		done := make(chan struct{})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { defer close(done); w.run(ctx) }()
		time.Sleep(3 * time.Minute)
		synctest.Wait()
		if w.pause(true); !ended || len(w.did) != 1 {
			t.Errorf("it did not wait: %t, %v", ended, w.did)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(w.did) != 1 {
			t.Errorf("something began meanwhile: %v", w.did)
		}
		w.pause(false) // the upgrade came to nothing
		time.Sleep(backupsLook + time.Minute)
		synctest.Wait()
		if len(w.did) != 2 || len(w.told) != 0 {
			t.Errorf("%v, told %+v", w.did, w.told)
		}
		cancel()
		<-done
	})
}

// A host that holds its programs makes no backups: after a move they are the other host's.
func TestBackupsWhileHeld(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.holds = true
		w.live(t, 3*24*time.Hour)
		if len(w.did) != 0 || len(w.told) != 0 {
			t.Errorf("%v, told %+v", w.did, w.told)
		}
		w.holds = false
		w.live(t, time.Hour)
		if len(w.did) != 2 {
			t.Errorf("%v", w.did)
		}
	})
}

// Another process works on the backups: that is no failure of this one.
func TestBackupBesideAnother(t *testing.T) {
	inUTC(t, func(t *testing.T) {
		w := newBackupWorld(t)
		w.work = func(context.Context, app.BackupKind) error {
			w.did = append(w.did, "try")
			time.Sleep(time.Second)
			return backup.ErrRunning
		}
		w.live(t, time.Hour)
		if len(w.told) != 0 || len(w.did) > 10 {
			t.Errorf("%d tries, told %+v", len(w.did), w.told)
		}
	})
}
