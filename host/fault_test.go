package host

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// A second signal may come with the first: every unit is told all the same,
// and nothing is taken for a crash.
func TestShutdownInAHurryKeepsWhatIsWanted(t *testing.T) {
	for _, hurried := range []time.Duration{0, time.Millisecond, 5 * time.Second} {
		play(t, func(t *testing.T, w *world) {
			w.total = 10000
			w.set(func(app.Program) behaviour { return behaviour{onStop: time.Hour} })
			var ids []app.ID
			for n := range 8 {
				ids = append(ids, w.mustUpload(fmt.Sprintf("MAIN=a,AUTORESTART=%t", n%2 == 0)))
			}
			ctx, cancel := context.WithTimeout(context.Background(), hurried)
			defer cancel()
			begin := time.Now()
			w.host.Shutdown(ctx)
			if took := time.Since(begin); took > hurried {
				t.Errorf("it took %s, want %s", took, hurried)
			}
			for _, id := range ids {
				if rec := w.recorded(id); rec.Wanted != app.WantOnline || rec.LastExit != nil || w.launches(id) != 1 {
					t.Errorf("%s: %+v after %d launches", id, rec, w.launches(id))
				}
			}
		})
	}
}

// Two signals may also come during a deployment: the old program is killed
// while its unit waits for the deployment, and is no crash either.
func TestShutdownInAHurryDuringADeployment(t *testing.T) {
	for _, file := range []string{"MAIN=b,BUILD=make", "MAIN=b"} { // in the build, in the trial
		for n := range 4 {
			wanted := map[bool]app.Wanted{true: app.WantOnline, false: app.WantStopped}[n < 2]
			play(t, func(t *testing.T, w *world) {
				w.discards = time.Second // the unit waits for the end of the deployment
				id := w.mustUpload(fmt.Sprintf("MAIN=a,AUTORESTART=%t", n%2 == 0))
				if wanted == app.WantStopped {
					if err := w.host.Stop(t.Context(), owner, id); err != nil {
						t.Fatal(err)
					}
				}
				w.set(func(app.Program) behaviour { return behaviour{onStop: time.Hour} })
				result := make(chan error)
				go func() { _, err := w.commit(id, file); result <- err }()
				synctest.Wait()
				before := w.launches(id)
				ctx, cancel := context.WithCancel(context.Background())
				cancel()
				go w.host.Shutdown(ctx)
				wantKind(t, <-result, app.Unavailable)
				w.host.work.Wait()
				if rec := w.apps[id]; rec.Wanted != wanted || rec.Code.Main != "a" || w.trees[id] != "a" || w.launches(id) != before {
					t.Errorf("%s, wanted %v: %+v after %d launches, tree %q", file, wanted, rec, w.launches(id), w.trees[id])
				}
			})
		}
	}
}

func TestShutdownDoesNotWaitForUploadsUnderWay(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		spooling := make(chan struct{})
		r := readerFunc(func(p []byte) (int, error) {
			<-spooling
			return 0, errTest
		})
		spooled := make(chan error)
		go func() { _, err := w.host.Spool(context.Background(), r); spooled <- err }()
		synctest.Wait()
		begin := time.Now()
		w.host.Shutdown(context.Background())
		if took := time.Since(begin); took != 0 {
			t.Errorf("it took %s", took)
		}
		close(spooling)
		if err := <-spooled; err == nil {
			t.Error("an upload that was cut has no error")
		}
		_, err := w.host.Spool(context.Background(), r)
		wantKind(t, err, app.Unavailable)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestDeleteThatFailsDuringAShutdownEnds(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{onStop: 5 * time.Second} })
		id := w.mustUpload("MAIN=a")
		w.fail["DeleteApp"] = errTest
		deleted := make(chan error)
		go func() { deleted <- w.host.Delete(context.Background(), owner, id) }()
		synctest.Wait()
		w.host.Shutdown(context.Background())
		wantKind(t, <-deleted, app.Internal)
	})
}

// What a person asked for and could not be recorded is not answered "ok".
func TestUnrecordedWishesAreTold(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.fail["SetWanted"] = errTest
		wantKind(t, w.host.Stop(t.Context(), owner, id), app.Internal)
		if w.snapshot(id).Running {
			t.Error("it runs on")
		}
		_, err := w.host.Start(t.Context(), owner, id)
		wantKind(t, err, app.Internal)
		w.mends("SetWanted")
	})
}

// When the old code cannot be brought back, half of each is not started, and
// the owner reads why.
func TestUndoThatFailsLeavesItOffline(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 1}, life: time.Second}}))
		w.mu.Lock()
		w.undoFrom = 2 // the first is before the commit
		w.mu.Unlock()
		_, err := w.commit(id, "MAIN=b")
		wantKind(t, err, app.Internal)
		var e *app.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message.String(), "could not be brought back") || !w.noted(id, "commit the whole code again") {
			t.Errorf("got %v", err)
		}
		time.Sleep(time.Hour)
		_, err = w.host.Start(t.Context(), owner, id)
		wantKind(t, err, app.Unusable)
		wantKind(t, w.host.Restart(t.Context(), owner, id), app.Already)
		w.mu.Lock()
		w.undoFails = true // also what the next commit begins with
		w.mu.Unlock()
		_, err = w.commit(id, "MAIN=c")
		wantKind(t, err, app.Internal)
		w.mu.Lock()
		w.undoFails = false
		w.mu.Unlock()
		time.Sleep(time.Hour)
		if s := w.snapshot(id); s.Running || w.launches(id) != 2 {
			t.Errorf("then %+v after %d launches", s, w.launches(id))
		}
		w.apps[id].Wanted, w.broken = app.WantOnline, []app.ID{id}
		w.host.Shutdown(context.Background())
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if s := w.snapshot(id); s.Running || w.launches(id) != 2 {
			t.Errorf("after a boot %+v and %d launches", s, w.launches(id))
		}
		w.mu.Lock()
		w.undoFrom = 0
		w.mu.Unlock()
		if d, err := w.commit(id, "MAIN=c"); err != nil || !d.Running || w.trees[id] != "c" {
			t.Errorf("the next commit: %+v, %v", d, err)
		}
	})
}

// Nobody gets the place of an application while files of it are there, also
// after a boot that could not remove them.
func TestPlaceStaysTakenWhileFilesRemain(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		d, err := w.upload("MAIN=a")
		if err != nil {
			t.Fatal(err)
		}
		reboot := func(taken bool) {
			t.Helper()
			w.host.Shutdown(context.Background())
			w.host = w.open()
			if err := w.host.Boot(t.Context()); err != nil {
				t.Fatal(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			if _, is := w.reserved[d.ID]; is != taken {
				t.Errorf("the place is taken: %v, want %v", is, taken)
			}
		}
		w.fail["Remove"] = errTest
		if err := w.host.Delete(t.Context(), owner, d.ID); err != nil {
			t.Fatal(err)
		}
		w.fail["Recover"] = errTest
		reboot(true)
		w.fail["Recover"] = nil
		reboot(false)
	})
}

// Causes name paths of the host; owners of applications do not read them.
func TestCausesAreNotShown(t *testing.T) {
	secret := errors.New("mkdir /sys/fs/cgroup/berth: no space")
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{err: secret} })
		d, err := w.upload("MAIN=a")
		if err != nil || strings.Contains(d.Logs, "/sys") || !strings.Contains(d.Logs, "internal error") {
			t.Errorf("Upload() = %q, %v", d.Logs, err)
		}
		_, err = w.host.Start(t.Context(), owner, d.ID)
		wantKind(t, err, app.Internal)
		_, err = w.upload("MAIN=a,BUILD=make")
		wantKind(t, err, app.Internal)
		w.apps[d.ID].Wanted = app.WantOnline
		w.host.Shutdown(context.Background())
		w.host = w.open()
		if err := w.host.Boot(t.Context()); err != nil {
			t.Fatal(err)
		}
		if w.noted(d.ID, "/sys") || !w.noted(d.ID, "cannot start: internal error") {
			t.Errorf("the log says %q", w.notes[d.ID])
		}
	})
}

// A deleted name is free only when nothing of the old application is left.
func TestDeletedNameIsTakenUntilItsFilesAreGone(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.mustUpload("MAIN=a,TYPE=site,ID=shop")
		removing, go_ := make(chan struct{}), make(chan struct{})
		w.when("Remove", func() { close(removing); <-go_ })
		deleted := make(chan error)
		go func() { deleted <- w.host.Delete(context.Background(), owner, "shop") }()
		<-removing
		_, err := w.host.App(owner, "shop")
		wantKind(t, err, app.NotFound)
		_, err = w.upload("MAIN=b,TYPE=site,ID=shop")
		wantKind(t, err, app.Conflict)
		w.when("Remove", nil)
		close(go_)
		if err := <-deleted; err != nil {
			t.Fatal(err)
		}
		if id := w.mustUpload("MAIN=b,TYPE=site,ID=shop"); id != "shop" {
			t.Errorf("got %q", id)
		}
	})
}

// What an account has no RAM for is refused before it is unpacked.
func TestNothingIsUnpackedForAnAccountWithoutRoom(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		_, err := w.upload("MAIN=a,RAM=5000")
		wantKind(t, err, app.Exhausted)
		if w.staged != 0 {
			t.Error("it was unpacked")
		}
	})
}

// The exit of the old program during a build is not overwritten by what was
// there before the build.
func TestOldProgramThatEndsDuringABuild(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if p.Build {
				return behaviour{exit: &app.Exit{}, life: time.Minute}
			}
			if p.Argv[1] == "b" {
				return behaviour{exit: &app.Exit{Code: 2}, life: time.Second}
			}
			return behaviour{exit: &app.Exit{Code: 7}, life: 10 * time.Second}
		})
		id := w.mustUpload("MAIN=a")
		_, err := w.commit(id, "MAIN=b,BUILD=make")
		wantKind(t, err, app.Unusable)
		if s := w.snapshot(id); s.Running || s.ExitCode() != 7 || w.recorded(id).LastExit.Code != 7 || s.Wanted != app.WantStopped {
			t.Errorf("then %+v; want it offline with its own code 7", s)
		}
	})
}

// At a reboot the programs may get their SIGTERM before the daemon has its
// own: what was online comes online all the same.
func TestProgramsThatEndJustBeforeTheDaemonComeBack(t *testing.T) {
	for _, code := range []int{0, 143} {
		play(t, func(t *testing.T, w *world) {
			w.set(exits(code, 10*time.Second))
			id := w.mustUpload("MAIN=a")
			time.Sleep(8*time.Second + settling/2) // it has ended, and the daemon's signal comes now
			if w.snapshot(id).Running {
				t.Fatal("it has not ended")
			}
			w.host.Shutdown(context.Background())
			w.set(func(app.Program) behaviour { return behaviour{} })
			w.host = w.open()
			err := w.host.Boot(t.Context())
			synctest.Wait() // for its turn
			if err != nil || !w.snapshot(id).Running {
				t.Errorf("after the boot: %+v, %v", w.snapshot(id), err)
			}
		})
	}
}

// A job that is done stays done, and so does what has crashed, at once.
func TestEndsAreRecorded(t *testing.T) {
	for code, pause := range map[int]time.Duration{0: settling, 1: 0, 137: 0} {
		play(t, func(t *testing.T, w *world) {
			w.set(exits(code, 10*time.Second))
			id := w.mustUpload("MAIN=a")
			time.Sleep(8*time.Second + pause + time.Millisecond)
			if w.recorded(id).Wanted != app.WantStopped {
				t.Errorf("code %d: it would be started at the next boot", code)
			}
		})
	}
}

// A person's stop in that moment is kept.
func TestStopJustAfterTheEndIsKept(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(0, 10*time.Second))
		id := w.mustUpload("MAIN=a")
		time.Sleep(8*time.Second + settling/2)
		wantKind(t, w.host.Stop(t.Context(), owner, id), app.Already)
		if w.recorded(id).Wanted != app.WantStopped {
			t.Error("it would be started at the next boot")
		}
	})
}
