package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// session opens a session and stays until its command or the context has ended.
func (w *world) session(ctx context.Context, id app.ID, script string) <-chan said {
	done := make(chan said, 1)
	go func() {
		s, err := w.host.Exec(ctx, owner, id, app.Exec{Command: script, TTY: true}, func(ctx context.Context, s app.Streams) {
			select {
			case <-ctx.Done():
			case <-s.Ended:
			}
		})
		done <- said{s, err}
	}()
	return done
}

// Beside a program several sessions and a console command may run; the program's RAM is
// theirs.
func TestSessionsBesideAProgram(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		one, two := w.session(t.Context(), id, "exit 3 after 10s"), w.session(t.Context(), id, "exit 0 after 20s")
		console := w.console(t.Context(), id, "exit 0 after 5s")
		synctest.Wait()
		for _, c := range []<-chan said{console, one, two} {
			if got := <-c; got.err != nil || !got.Online || !got.Cut.IsZero() {
				t.Errorf("%+v", got)
			}
		}
		sessions := 0
		for _, c := range w.commands {
			if c.exec != nil && c.exec.TTY {
				sessions++
			}
		}
		if sessions != 2 {
			t.Errorf("%d sessions were started", sessions)
		}
		_, err := w.host.Exec(t.Context(), 2, id, app.Exec{}, nil)
		wantKind(t, err, app.NotFound)
		w.breaks("Shell", errTest)
		wantKind(t, (<-w.session(t.Context(), id, "wait")).err, app.Internal)
		w.mends("Shell")
	})
}

// In place of a program there is RAM for one command.
func TestSessionOfAnOfflineApplication(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		first := w.session(t.Context(), id, "exit 0 after 10s")
		synctest.Wait()
		wantKind(t, (<-w.session(t.Context(), id, "wait")).err, app.Conflict)
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Conflict)
		if got := <-first; got.err != nil || got.Online {
			t.Errorf("%+v", got)
		}
		again := w.session(t.Context(), id, "wait")
		synctest.Wait()
		if _, err := w.host.Start(t.Context(), owner, id); err != nil {
			t.Error(err)
		}
		if got := <-again; got.Cut.String() != "the application was started" {
			t.Errorf("%+v", got)
		}
	})
}

// Whatever ends a session says why, and nothing of it is left.
func TestSessionsAreEnded(t *testing.T) {
	for name, tt := range map[string]struct {
		do  func(w *world, id app.ID, end context.CancelCauseFunc)
		cut string
	}{
		"stop": {func(w *world, id app.ID, _ context.CancelCauseFunc) { _ = w.host.Stop(context.Background(), owner, id) }, "the application was stopped"},
		"restart": {func(w *world, id app.ID, _ context.CancelCauseFunc) {
			_ = w.host.Restart(context.Background(), owner, id)
		}, "the application was restarted"},
		"commit": {func(w *world, id app.ID, _ context.CancelCauseFunc) { _, _ = w.commit(id, "MAIN=b") }, "the application was deployed"},
		"delete": {func(w *world, id app.ID, _ context.CancelCauseFunc) {
			_ = w.host.Delete(context.Background(), owner, id)
		}, "the application was deleted"},
		"shutdown": {
			func(w *world, _ app.ID, _ context.CancelCauseFunc) { w.host.Shutdown(context.Background()) },
			"the server is shutting down",
		},
		"permission": {func(_ *world, _ app.ID, end context.CancelCauseFunc) {
			end(app.Errorf(app.Forbidden, "This account is disabled."))
		}, "This account is disabled."},
		"client": {func(_ *world, _ app.ID, end context.CancelCauseFunc) { end(nil) }, "the client has gone"},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				w.set(func(app.Program) behaviour { return behaviour{onStop: time.Second} })
				id := w.mustUpload("MAIN=a")
				ctx, end := context.WithCancelCause(t.Context())
				defer end(nil)
				session := w.session(ctx, id, "slow wait")
				synctest.Wait()
				tt.do(w, id, end)
				got := <-session
				if got.err != nil || got.Cut.String() != tt.cut {
					t.Errorf("%+v", got)
				}
				if !w.commands[0].over() {
					t.Error("it runs on")
				}
			})
		})
	}
}

// A session is over for its application when its command has ended, though its client has
// not read all of it yet.
func TestSessionOfAClientThatStays(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		read, done := make(chan struct{}), make(chan error, 1)
		go func() {
			_, err := w.host.Exec(t.Context(), owner, id, app.Exec{Command: "exit 0 after 1s"}, func(context.Context, app.Streams) { <-read })
			done <- err
		}()
		time.Sleep(2 * time.Second)
		if got := <-w.console(t.Context(), id, "exit 0 after 1s"); got.err != nil {
			t.Errorf("beside output that nobody reads: %v", got.err)
		}
		close(read)
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestSessionsOfAnAccount(t *testing.T) {
	var s seats
	var leave []func()
	for n := range sessionsAtOnce {
		l, err := s.forSession(app.AccountID(n / sessionsOfOne))
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	_, err := s.forSession(0)
	if wantKind(t, err, app.Unavailable); err.Error() != "your account has 4 sessions open, as many as one may; try again when one has ended" {
		t.Error(err)
	}
	_, err = s.forSession(99)
	if wantKind(t, err, app.Unavailable); err.Error() != "this host has 32 sessions open, as many as it may; try again when one has ended" {
		t.Error(err)
	}
	for _, l := range leave {
		l()
	}
	if s.taken != 0 || len(s.by) != 0 {
		t.Errorf("left: %+v", &s)
	}
}
