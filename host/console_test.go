package host

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

func TestConsoleOfAnOnlineApplication(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		got := <-w.console(t.Context(), id, "exit 3 after 1s")
		if got.err != nil || !got.Online || got.Exit.Code != 3 || !got.Cut.IsZero() || !strings.Contains(got.Stdout.Text, "as 7000") {
			t.Errorf("got %+v", got)
		}
		if c := w.commands[0]; strings.Join(c.p.Argv, " ") != "/bin/sh -c exit 3 after 1s" {
			t.Errorf("it was started as %q", c.p.Argv)
		}
		if s := w.snapshot(id); !s.Running || w.launches(id) != 1 || s.LastExit != nil {
			t.Errorf("then %+v", s)
		}
		_, err := w.host.Console(t.Context(), 2, id, "wait")
		wantKind(t, err, app.NotFound)
		_, err = w.host.Console(t.Context(), owner, "nothing", "wait")
		wantKind(t, err, app.NotFound)
		w.breaks("Shell", errTest)
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Internal)
		w.mends("Shell")
		if got := <-w.console(t.Context(), id, "exit 0 after 1s"); got.err != nil {
			t.Errorf("after one that could not be started: %v", got.err)
		}
	})
}

// A command finds the programs of the packages, as START and BUILD do.
func TestConsoleHasThePackages(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=packaged")
		for n := range 2 { // online, then offline
			<-w.console(t.Context(), id, "pip list")
			if argv := w.commands[n].p.Argv; strings.Join(argv, " ") != "/bin/sh -c PATH=there:$PATH; pip list" {
				t.Errorf("it was started as %q", argv)
			}
			if err := w.host.Stop(t.Context(), owner, id); err != nil && app.KindOf(err) != app.Already {
				t.Fatal(err)
			}
		}
	})
}

// Offline it is a run of its own, and counts as one in the host's memory.
func TestConsoleOfAnOfflineApplication(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 5000
		id := w.mustUpload("MAIN=a,RAM=300")
		w.set(func(app.Program) behaviour { return behaviour{onStop: time.Second} })
		big := w.mustUpload("MAIN=a,RAM=1600")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		first := w.console(t.Context(), id, "exit 0 after 10s")
		synctest.Wait()
		p := w.commands[0].p
		if p.App != id || p.RAM != 300 || p.Share != 300 || p.UID == 0 || p.Port == 0 || p.Build {
			t.Errorf("it was started as %+v", p)
		}
		if s := w.snapshot(id); s.Running || s.State != app.Stopped {
			t.Errorf("meanwhile %+v", s)
		}
		other := w.mustUpload("MAIN=a,RAM=150") // of 2000 MB, 1900 are taken
		if w.snapshot(other).Running {
			t.Error("what runs exceeds the host")
		}
		if got := <-first; got.err != nil || got.Online || got.Exit.Code != 0 {
			t.Errorf("got %+v", got)
		}
		if _, err := w.host.Start(t.Context(), owner, other); err != nil {
			t.Errorf("its memory was not given back: %v", err)
		}
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Exhausted)
		if err := w.host.Stop(t.Context(), owner, big); err != nil {
			t.Fatal(err)
		}
		w.breaks("Shell", errTest)
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Internal)
		w.mends("Shell")
	})
}

// A command is not in the way of the start that ends it, on a host that has no
// memory for both.
func TestConsoleGivesWayToAStart(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 5000
		id := w.mustUpload("MAIN=a,RAM=1600")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		console := w.console(t.Context(), id, "slow wait")
		synctest.Wait()
		if _, err := w.host.Start(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
		if got := <-console; got.err != nil || got.Cut.String() != "the application was started" {
			t.Errorf("got %+v", got)
		}
		if !w.snapshot(id).Running {
			t.Error("it does not run")
		}
	})
}

// A console may be what mends a tree that has no plan.
func TestConsoleOfATreeThatCannotBeStarted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		u, err := w.host.find(owner, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.do(t.Context(), func() error { u.app.Code.Main = "missing"; return nil }); err != nil {
			t.Fatal(err)
		}
		if got := <-w.console(t.Context(), id, "exit 0 after 1s"); got.err != nil {
			t.Errorf("got %v", got.err)
		}
	})
}

func TestConsoleIsEnded(t *testing.T) {
	stop := func(w *world, id app.ID) { _ = w.host.Stop(context.Background(), owner, id) }
	restart := func(w *world, id app.ID) { _ = w.host.Restart(context.Background(), owner, id) }
	remove := func(w *world, id app.ID) { _ = w.host.Delete(context.Background(), owner, id) }
	commit := func(w *world, id app.ID) { _, _ = w.commit(id, "MAIN=b") }
	shutdown := func(w *world, _ app.ID) { w.host.Shutdown(context.Background()) }
	start := func(w *world, id app.ID) { _, _ = w.host.Start(context.Background(), owner, id) }
	nothing := func(*world, app.ID) {}
	for _, tt := range []struct {
		name   string
		online bool
		do     func(*world, app.ID)
		cut    string
	}{
		{"stop", true, stop, "the application was stopped"},
		{"restart", true, restart, "the application was restarted"},
		{"delete", true, remove, "the application was deleted"},
		{"commit", true, commit, "the application was deployed"},
		{"shutdown", true, shutdown, "the server is shutting down"},
		{"timeout", true, nothing, "it took longer than 30s, the most it may"},
		{"start", false, start, "the application was started"},
		{"delete", false, remove, "the application was deleted"},
		{"commit", false, commit, "the application was deployed"},
		{"shutdown", false, shutdown, "the server is shutting down"},
		{"timeout", false, nothing, "it took longer than 30s, the most it may"},
	} {
		t.Run(map[bool]string{true: "online ", false: "offline "}[tt.online]+tt.name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.set(func(app.Program) behaviour { return behaviour{onStop: time.Second} })
				id := w.mustUpload("MAIN=a")
				if !tt.online {
					stop(w, id)
				}
				begin := time.Now()
				console := w.console(t.Context(), id, "slow wait")
				synctest.Wait()
				tt.do(w, id)
				if tt.name != "timeout" && tt.name != "start" && !w.commands[0].over() {
					t.Error("what ends it did not wait for its end")
				}
				got := <-console
				if got.err != nil || got.Cut.String() != tt.cut || got.Online != tt.online {
					t.Errorf("got %+v, %v", got.Shell, got.err)
				}
				if took := time.Since(begin); tt.name == "timeout" && (took < 30*time.Second || took > 31*time.Second) {
					t.Errorf("it took %s", took)
				}
			})
		})
	}
}

// The end of the program is the command's; the answer tells of both.
func TestConsoleEndsWithTheProgram(t *testing.T) {
	for want, e := range map[string]app.Exit{
		"the application's program exited with code 7 after ":     {Code: 7},
		"the application needed more than 100 MB of RAM":          {Code: 137, Signal: 9, OOM: true},
		"the application's program ended by itself (exit code 0)": {},
	} {
		play(t, func(t *testing.T, w *world) {
			w.set(func(app.Program) behaviour { return behaviour{exit: &e, life: 10 * time.Second} })
			id := w.mustUpload("MAIN=a")
			if got := <-w.console(t.Context(), id, "wait"); got.err != nil || !strings.HasPrefix(got.Cut.String(), want) || got.Program == nil {
				t.Errorf("got %+v, want %q", got, want)
			}
			w.set(func(app.Program) behaviour { return behaviour{} })
			synctest.Wait() // until the unit has heard of the end too
			if _, err := w.host.Start(t.Context(), owner, id); err != nil {
				t.Fatal(err)
			}
			if got := <-w.console(t.Context(), id, "exit 0 after 1s"); got.err != nil || !got.Cut.IsZero() {
				t.Errorf("the next one: %+v", got)
			}
		})
	}
}

// What the program's end brings about is not taken for the reason.
func TestConsoleEndsWithAProgramThatIsRestarted(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(exits(7, 10*time.Second))
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		got := <-w.console(t.Context(), id, "held wait")
		if got.err != nil || !strings.HasPrefix(got.Cut.String(), "the application's program exited with code 7") || w.launches(id) != 2 {
			t.Errorf("got %+v after %d launches", got, w.launches(id))
		}
	})
}

// One that ended by itself in time is told so, whatever came right after.
func TestConsoleThatEndedByItself(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if got := <-w.console(t.Context(), id, "exit 0 after 30s"); got.err != nil || got.Exit.Code == 0 && !got.Cut.IsZero() {
			t.Errorf("got %+v", got)
		}
	})
}

// A client that hangs up takes its command along.
func TestConsoleOfAClientThatHangsUp(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		for _, online := range []bool{true, false} {
			if !online {
				if err := w.host.Stop(t.Context(), owner, id); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(t.Context())
			begin := time.Now()
			console := w.console(ctx, id, "slow wait")
			synctest.Wait()
			cancel()
			if got := <-console; got.err != context.Canceled || time.Since(begin) != time.Second { //nolint:errorlint // it is that one
				t.Errorf("got %+v after %s", got, time.Since(begin))
			}
			if got := <-w.console(t.Context(), id, "exit 0 after 1s"); got.err != nil {
				t.Errorf("the next one: %v", got.err)
			}
		}
	})
}
