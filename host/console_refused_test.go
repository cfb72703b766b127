package host

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

func TestConsoleConflicts(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if p.Build {
				return behaviour{exit: &app.Exit{}, life: time.Minute}
			}
			return behaviour{onStop: 5 * time.Second}
		})
		first := w.uploading(owner, "MAIN=a,BUILD=make")
		id := w.host.Apps(owner)[0].ID
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Conflict) // its first deployment
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		console := w.console(t.Context(), id, "exit 0 after 10s")
		synctest.Wait()
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Conflict) // one at a time
		<-console

		stopping := make(chan error)
		go func() { stopping <- w.host.Stop(context.Background(), owner, id) }()
		synctest.Wait()
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Conflict)
		if err := <-stopping; err != nil {
			t.Fatal(err)
		}
		committed := make(chan error)
		go func() { _, err := w.commit(id, "MAIN=b,BUILD=again"); committed <- err }()
		synctest.Wait()
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Conflict)
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
		go func() { _, err := w.commit(id, "MAIN=c,BUILD=once more"); committed <- err }()
		synctest.Wait() // the old program runs beside the build, and so may a command
		if got := <-w.console(t.Context(), id, "exit 0 after 10s"); got.err != nil || !got.Online {
			t.Errorf("beside a build: %+v", got)
		}
		if err := <-committed; err != nil {
			t.Fatal(err)
		}
	})
}

// A tree that is half of one code and half of another is nobody's to run in.
func TestConsoleOfABrokenTree(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		u, err := w.host.find(owner, id)
		if err != nil {
			t.Fatal(err)
		}
		if err := u.do(t.Context(), func() error { u.mixedTree = true; return nil }); err != nil {
			t.Fatal(err)
		}
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Unusable)
	})
}

// A commit waits until an offline command is gone; a delete may come meanwhile.
func TestConsoleBetweenACommitAndADelete(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		console := w.console(t.Context(), id, "slow wait")
		synctest.Wait()
		committed := make(chan error)
		go func() { _, err := w.commit(id, "MAIN=b"); committed <- err }()
		synctest.Wait()
		if w.trees[id] != "a" {
			t.Error("the tree changed under the command")
		}
		if err := w.host.Delete(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		wantKind(t, <-committed, app.Conflict)
		if got := <-console; got.err != nil || got.Cut.String() != whyDeployed {
			t.Errorf("got %+v", got)
		}
	})
}

func TestConsolesAreFew(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 2000
		var ids []app.ID
		for range consolesOfOne + 1 {
			ids = append(ids, w.mustUpload("MAIN=a,RAM=32"))
		}
		var running []<-chan said
		for _, id := range ids[:consolesOfOne] {
			running = append(running, w.console(t.Context(), id, "exit 0 after 10s"))
		}
		synctest.Wait()
		wantKind(t, (<-w.console(t.Context(), ids[consolesOfOne], "wait")).err, app.Unavailable)
		for _, c := range running {
			if got := <-c; got.err != nil {
				t.Error(got.err)
			}
		}
		if got := <-w.console(t.Context(), ids[consolesOfOne], "exit 0 after 1s"); got.err != nil {
			t.Error(got.err)
		}
	})
}

// Two accounts that take all they may leave as much for others, and each is told
// what keeps it out.
func TestConsolesOfAnAccount(t *testing.T) {
	var s seats
	var leave []func()
	take := func(account app.AccountID, says string) {
		t.Helper()
		l, err := s.forConsole(account)
		switch {
		case says == "" && err == nil:
			leave = append(leave, l)
		case says == "" || app.KindOf(err) != app.Unavailable || err.Error() != says:
			t.Errorf("account %d: got %v, want %q", account, err, says)
		}
	}
	const own = "your account runs 2 console commands, as many as one may; try again when one has ended"
	for _, hog := range []app.AccountID{1, 2} {
		take(hog, "")
		take(hog, "")
		take(hog, own)
	}
	for other := range app.AccountID(4) {
		take(10+other, "")
	}
	take(20, "this host runs 8 console commands, as many as it may; try again in a moment")
	take(1, own)
	leave[0]()
	take(1, "")
	for _, l := range leave[1:] {
		l()
	}
	if s.taken != 0 || len(s.by) != 0 {
		t.Errorf("left: %+v", &s)
	}
}

func TestConsolesOfTheHost(t *testing.T) {
	var s seats
	var leave []func()
	for n := range consolesAtOnce {
		l, err := s.forConsole(app.AccountID(n))
		if err != nil {
			t.Fatal(err)
		}
		leave = append(leave, l)
	}
	_, err := s.forConsole(99)
	wantKind(t, err, app.Unavailable)
	for _, l := range leave {
		l()
	}
	if s.taken != 0 || len(s.by) != 0 {
		t.Errorf("left: %+v", &s)
	}
}

func TestConsoleDuringAShutdown(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.host.Shutdown(context.Background())
		wantKind(t, (<-w.console(t.Context(), id, "wait")).err, app.Unavailable)
	})
	for _, online := range []bool{true, false} { // in a hurry
		play(t, func(t *testing.T, w *world) {
			w.set(func(app.Program) behaviour { return behaviour{onStop: time.Hour} })
			id := w.mustUpload("MAIN=a")
			if !online {
				if err := w.host.Stop(t.Context(), owner, id); err != nil {
					t.Fatal(err)
				}
			}
			console := w.console(t.Context(), id, "wait")
			synctest.Wait()
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			begin := time.Now()
			w.host.Shutdown(ctx)
			if got := <-console; got.err != nil || got.Cut.String() != "the server is shutting down" || time.Since(begin) > time.Second {
				t.Errorf("got %+v after %s", got, time.Since(begin))
			}
		})
	}
}
