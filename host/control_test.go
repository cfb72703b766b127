package host

import (
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func TestDelete(t *testing.T) {
	for _, state := range []string{"online", "waiting", "stopped"} {
		t.Run(state, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				if state == "waiting" {
					w.set(exits(1, time.Second))
				}
				id := w.mustUpload("MAIN=a,AUTORESTART=true")
				switch state {
				case "waiting":
					for w.snapshot(id).State != app.Waiting {
						time.Sleep(100 * time.Millisecond)
					}
				case "stopped":
					if err := w.host.Stop(t.Context(), owner, id); err != nil {
						t.Fatal(err)
					}
				}
				if err := w.host.Delete(t.Context(), owner, id); err != nil {
					t.Fatal(err)
				}
				_, err := w.host.App(owner, id)
				wantKind(t, err, app.NotFound)
				wantKind(t, w.host.Delete(t.Context(), owner, id), app.NotFound)
				if len(w.apps) != 0 || len(w.trees) != 0 {
					t.Errorf("left behind: %v %v", w.apps, w.trees)
				}
			})
		})
	}
}

func TestDeleteThatFailsCanBeRepeated(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.breaks("DeleteApp", errTest)
		wantKind(t, w.host.Delete(t.Context(), owner, id), app.Internal)
		if !w.snapshot(id).Running || w.launches(id) != 2 {
			t.Errorf("what was not deleted is %+v after %d launches", w.snapshot(id), w.launches(id))
		}
		w.mends("DeleteApp")
		if err := w.host.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
	})
}

// On a full disk the files of what is deleted make the room for that.
func TestDeleteOnAFullDisk(t *testing.T) {
	full := app.Errorf(app.NoSpace, "cannot delete the application: %s", app.DiskFull)
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.breaks("DeleteApp", full)
		w.when("Remove", func() {
			w.mends("DeleteApp")
		})
		if err := w.host.Delete(t.Context(), owner, id); err != nil || len(w.apps) != 0 || len(w.trees) != 0 {
			t.Errorf("Delete: %v, left %v %v", err, w.apps, w.trees)
		}
	})
	play(t, func(t *testing.T, w *world) { // where that is not enough
		id := w.mustUpload("MAIN=a")
		w.breaks("DeleteApp", full)
		wantKind(t, w.host.Delete(t.Context(), owner, id), app.NoSpace)
		time.Sleep(time.Hour)
		if w.snapshot(id).Running || w.launches(id) != 1 {
			t.Errorf("without its files it is %+v after %d launches", w.snapshot(id), w.launches(id))
		}
		w.mends("DeleteApp")
		if err := w.host.Delete(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
	})
}

// A restart that the host cannot finish now is finished when it can.
func TestRestartIsFinishedLater(t *testing.T) {
	for _, kind := range []app.Kind{app.Exhausted, app.NoSpace, app.Unavailable, app.Internal} {
		play(t, func(t *testing.T, w *world) {
			id := w.mustUpload("MAIN=a")
			why, told := app.Errorf(kind, "cannot: the disk"), "cannot start: cannot: the disk"
			if kind == app.Internal {
				why, told = errTest, "cannot start: internal error" // such as fork: resource temporarily unavailable
			}
			w.set(func(app.Program) behaviour { return behaviour{err: why} })
			w.when("SetWanted", func() {
				if w.recorded(id).Wanted != app.WantOnline {
					t.Error("a crash now would leave it stopped")
				}
			})
			waits := func(what string) {
				t.Helper()
				if s := w.snapshot(id); s.Running || s.State != app.Waiting || w.recorded(id).Wanted != app.WantOnline || !w.noted(id, told) {
					t.Errorf("%s: %+v with %q", what, s, w.notes[id])
				}
			}
			wantKind(t, w.host.Restart(t.Context(), owner, id), kind)
			waits("after a restart")
			wantKind(t, w.host.Restart(t.Context(), owner, id), kind)
			waits("after another")
			_, err := w.host.Start(t.Context(), owner, id)
			wantKind(t, err, kind)
			waits("after a start")
			w.when("SetWanted", nil)
			w.set(func(app.Program) behaviour { return behaviour{} })
			time.Sleep(time.Minute)
			if s := w.snapshot(id); !s.Running {
				t.Errorf("a minute later it is %+v", s)
			}
		})
	}
}

// What the owner has to mend is not tried again.
func TestRestartOfWhatCannotBeStarted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.set(func(app.Program) behaviour {
			return behaviour{err: app.Errorf(app.Unusable, "cannot execute it")}
		})
		wantKind(t, w.host.Restart(t.Context(), owner, id), app.Unusable)
		if s := w.snapshot(id); s.State != app.Stopped || w.recorded(id).Wanted != app.WantStopped {
			t.Errorf("it is %+v", s)
		}
	})
}

// An upload whose first start fails by a fault of the host is started when that
// has passed.
func TestUploadDuringAFaultOfTheHost(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{err: errTest} })
		d, err := w.upload("MAIN=a")
		if err != nil || d.Running || !strings.Contains(d.Logs, "did not start: internal error; the server's log tells more; berth tries again") {
			t.Fatalf("%+v, %v", d, err)
		}
		w.set(func(app.Program) behaviour { return behaviour{} })
		time.Sleep(time.Minute)
		if s := w.snapshot(d.ID); !s.Running {
			t.Errorf("a minute later it is %+v", s)
		}
	})
}

func TestCapacity(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		one := w.mustUpload("MAIN=a,RAM=1500")
		d, err := w.upload("MAIN=b,RAM=600")
		if err != nil || d.Running || !strings.Contains(d.Logs, "2000 MB") || !strings.Contains(d.Logs, "600 MB more do not fit") {
			t.Fatalf("Upload() = %+v, %v; want it there, offline, with the numbers", d, err)
		}
		_, err = w.host.Start(t.Context(), owner, d.ID)
		wantKind(t, err, app.Exhausted)
		wantKind(t, w.host.SetRAM(t.Context(), owner, one, 2001), app.Exhausted)
		if s := w.snapshot(one); s.RAM != 1500 || w.recorded(one).RAM != 1500 {
			t.Errorf("a refused RAM was kept: %d, recorded %d", s.RAM, w.recorded(one).RAM)
		}
		if err := w.host.Stop(t.Context(), owner, one); err != nil {
			t.Fatal(err)
		}
		if _, err := w.host.Start(t.Context(), owner, d.ID); err != nil {
			t.Errorf("with room again: %v", err)
		}
		// A machine goes, and comes back: what runs goes on, and may have less.
		w.mayRun.Store(500)
		if use := w.host.Tally(); !w.snapshot(d.ID).Running || use.RAM != 600 || use.Total != 500 || w.host.AvailableRAM(one) != 0 {
			t.Errorf("with too little room: %+v", use)
		}
		if err := w.host.SetRAM(t.Context(), owner, d.ID, 550); err != nil {
			t.Errorf("less RAM: %v", err)
		}
		_, err = w.host.Start(t.Context(), owner, one)
		wantKind(t, err, app.Exhausted)
		w.mayRun.Store(2100)
		if _, err := w.host.Start(t.Context(), owner, one); err != nil {
			t.Errorf("the machine is back: %v", err)
		}
	})
}

func TestSetRAM(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{uses: 80} })
		id := w.mustUpload("MAIN=a")
		if err := w.host.SetRAM(t.Context(), owner, id, 300); err != nil || w.runs[0].ram.Load() != 300 || w.snapshot(id).RAM != 300 || w.launches(id) != 1 {
			t.Errorf("SetRAM(300) = %v; the program has %d", err, w.runs[0].ram.Load())
		}
		wantKind(t, w.host.SetRAM(t.Context(), owner, id, 50), app.Exhausted)
		wantKind(t, w.host.SetRAM(t.Context(), owner, id, 1001), app.Exhausted)
		if s := w.snapshot(id); s.RAM != 300 || w.recorded(id).RAM != 300 || w.runs[0].ram.Load() != 300 {
			t.Errorf("a refusal changed something: %d %d %d", s.RAM, w.recorded(id).RAM, w.runs[0].ram.Load())
		}
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if err := w.host.SetRAM(t.Context(), owner, id, 50); err != nil || w.snapshot(id).RAM != 50 {
			t.Errorf("offline: %v", err)
		}
	})
}

// A build has a limit of its own and the application's share of the processor,
// also when the RAM was changed while it waited.
func TestShareFollowsTheRAM(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		shares := func() (all []app.MB) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, r := range w.runs {
				all = append(all, r.p.Share)
			}
			return all
		}
		w.set(by(nil))
		id := w.mustUpload("MAIN=a,BUILD=make")
		if got := shares(); !slices.Equal(got, []app.MB{100, 100}) {
			t.Fatalf("the build and the program have shares of %d, want 100 each", got)
		}
		w.when("Prepare", func() {
			if err := w.host.SetRAM(t.Context(), owner, id, 300); err != nil {
				t.Error(err)
			}
		})
		if _, err := w.commit(id, "MAIN=b,BUILD=make"); err != nil {
			t.Fatal(err)
		}
		if got := shares()[2:]; !slices.Equal(got, []app.MB{300, 300}) {
			t.Errorf("after a change of RAM they are %d, want 300", got)
		}
	})
}

func TestSetProfile(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		name, avatar := "new", "https://x/y.png"
		if err := w.host.SetProfile(t.Context(), owner, id, app.Profile{Name: &name, AvatarURL: &avatar}); err != nil {
			t.Fatal(err)
		}
		if s := w.snapshot(id); s.Name != name || s.AvatarURL != avatar {
			t.Errorf("%+v", s.App)
		}
		w.breaks("SetProfile", errTest)
		other := "other"
		wantKind(t, w.host.SetProfile(t.Context(), owner, id, app.Profile{Name: &other}), app.Internal)
		if s := w.snapshot(id); s.Name != name {
			t.Errorf("a failed change is shown: %q", s.Name)
		}
	})
}

// Use is measured twice a second at most; what happened is told at once.
func TestStatusIsMeasuredNowAndThen(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		status := func() (app.Status, error) { return w.host.Status(t.Context(), owner, id) }
		if s, err := status(); err != nil || s.Usage.LimitBytes != 100<<20 {
			t.Fatalf("Status() = %+v, %v", s, err)
		}
		if err := w.host.SetRAM(t.Context(), owner, id, 200); err != nil {
			t.Fatal(err)
		}
		if s, err := status(); err != nil || s.RAM != 200 || s.Usage.LimitBytes != 200<<20 {
			t.Errorf("after a change: %+v, %v", s, err)
		}
		w.breaks("Usage", errTest)
		if _, err := status(); err != nil {
			t.Errorf("measured again at once: %v", err)
		}
		time.Sleep(usageAge)
		if _, err := status(); err == nil {
			t.Error("figures are older than they may be")
		}
		w.mends("Usage")
		if s, err := status(); err != nil || !s.Running {
			t.Fatalf("Status() = %+v, %v", s, err)
		}
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		if s, err := status(); err != nil || s.Running || s.Usage != (app.Usage{}) {
			t.Errorf("after the stop: %+v, %v", s, err)
		}
	})
}

func TestStatusAndTerminal(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{uses: 40} })
		id := w.mustUpload("MAIN=a")
		s, err := w.host.Status(t.Context(), owner, id)
		if err != nil || s.Usage.MemoryBytes != 40<<20 || s.DiskBytes != 4096 {
			t.Errorf("Status() = %+v, %v", s, err)
		}
		w.breaks("Size", errTest)
		if _, err := w.host.Status(t.Context(), owner, id); err != nil {
			t.Errorf("a size of this minute is measured again: %v", err)
		}
		time.Sleep(2 * time.Minute)
		_, err = w.host.Status(t.Context(), owner, id)
		wantKind(t, err, app.Internal)
		_, err = w.host.Status(t.Context(), 2, id)
		wantKind(t, err, app.NotFound)
		if term, err := w.host.Terminal(owner, id); err != nil || !strings.Contains(term.Small, "last words") || term.Big == "" {
			t.Errorf("Terminal() = %+v, %v", term, err)
		}
		_, err = w.host.Terminal(2, id)
		wantKind(t, err, app.NotFound)
		b, err := w.host.Backup(t.Context(), owner, id, false)
		if err != nil || b.File != "backup-1.zip" || time.Until(b.Expires) != time.Hour {
			t.Errorf("Backup() = %+v, %v", b, err)
		}
		_, err = w.host.Backup(t.Context(), 2, id, false)
		wantKind(t, err, app.NotFound)
	})
}

// An id may be another application's when the backup has been written.
func TestBackupOfWhatIsDeletedMeanwhile(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		const site = "MAIN=a,TYPE=site,ID=shop"
		id := w.mustUpload(site)
		w.when("Backup", func() {
			if err := w.host.Delete(t.Context(), owner, id); err != nil {
				t.Error(err)
			}
			if got := w.mustUpload(site); got != id {
				t.Errorf("the next is %s", got)
			}
		})
		_, err := w.host.Backup(t.Context(), owner, id, false)
		wantKind(t, err, app.NotFound)
		w.when("Backup", nil)
		if _, err := w.host.Backup(t.Context(), owner, id, false); err != nil {
			t.Error(err)
		}
	})
}

// The variables are packed only for who asks, and when they cannot be read there
// is no backup that would seem to hold them.
func TestBackupWithVariables(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		backup := func(by app.AccountID, with bool) error {
			_, err := w.host.Backup(t.Context(), by, id, with)
			return err
		}
		if err := backup(owner, true); err != nil || w.packed == nil || len(w.packed) > 0 {
			t.Errorf("without variables: %v, %v", w.packed, err)
		}
		if err := w.host.SetVariables(t.Context(), owner, id, map[string]*string{"A": text("1"), "B": text("2")}); err != nil {
			t.Fatal(err)
		}
		if err := backup(owner, true); err != nil || !slices.Equal(w.packed, []app.Variable{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}) {
			t.Errorf("with two: %v, %v", w.packed, err)
		}
		if err := backup(owner, false); err != nil || w.packed != nil {
			t.Errorf("not asked for: %v, %v", w.packed, err)
		}
		wantKind(t, backup(2, true), app.NotFound)
		w.breaks("Variables", errTest)
		wantKind(t, backup(owner, true), app.Internal)
		if err := backup(owner, false); err != nil || w.backups != 4 {
			t.Errorf("%d backups, %v", w.backups, err)
		}
	})
}
