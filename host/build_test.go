package host

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

func TestBuildsQueueFairly(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		begin := time.Now()
		took := map[string]time.Duration{}
		ended := make(chan struct{}, 6)
		for n, by := range []app.AccountID{1, 1, 1, 1, 1, 2} {
			done := w.uploading(by, fmt.Sprintf("MAIN=m%d,BUILD=make", n))
			go func() {
				if err := <-done; (err != nil) != (n == 1) {
					t.Errorf("m%d: %v", n, err)
				}
				w.mu.Lock()
				defer w.mu.Unlock()
				took[fmt.Sprintf("m%d", n)] = time.Since(begin) - w.host.OKDelay
				ended <- struct{}{}
			}()
		}
		at := func(by app.AccountID) (positions []int) {
			for _, s := range w.host.Apps(by) {
				positions = append(positions, s.Position)
			}
			return positions
		}
		if one, two := at(1), at(2); fmt.Sprint(one, two) != "[0 2 3 4 5] [1]" {
			t.Errorf("they are told to be at %v and %v", one, two)
		}
		third := w.host.Apps(1)[2]
		if !w.noted(third.ID, "waiting to be built: number 2 in the queue") {
			t.Errorf("its log says %q", w.notes[third.ID])
		}
		if err := w.host.Stop(t.Context(), 1, w.host.Apps(1)[1].ID); err != nil {
			t.Fatal(err)
		}
		if one, two := at(1), at(2); fmt.Sprint(one, two) != "[0 2 3 4] [1]" {
			t.Errorf("after one was called off they are at %v and %v", one, two)
		}
		if st, err := w.host.Status(t.Context(), 1, third.ID); err != nil || st.Position != 2 {
			t.Errorf("Status() = %+v, %v", st, err)
		}
		if s := w.snapshot(third.ID); s.Position != 2 {
			t.Errorf("App() = %+v", s)
		}
		for range 6 {
			<-ended
		}
		for main, want := range map[string]time.Duration{"m0": 1, "m5": 2, "m2": 3, "m3": 4, "m4": 5} {
			if took[main] != want*time.Minute {
				t.Errorf("%s was built after %s, want %d minutes", main, took[main], want)
			}
		}
	})
}

// Who waited long reads so in the answer; who did not, does not.
func TestAnswerTellsTheWait(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		first := w.uploading(2, "MAIN=a,BUILD=make")
		d, err := w.upload("MAIN=a,BUILD=make")
		if err != nil || !strings.Contains(d.Logs, "the build waited 1m0s for its turn") {
			t.Errorf("Upload() = %q, %v", d.Logs, err)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if d, err = w.commit(d.ID, "MAIN=b,BUILD=make"); err != nil || strings.Contains(d.Logs, "waited") || w.noted(d.ID, "number 2") {
			t.Errorf("Commit() = %q, %v", d.Logs, err)
		}
	})
}

// A commit that waits is shown beside the program that runs, and is called
// off without the end of another's build.
func TestCommitWaitsInTheQueue(t *testing.T) {
	for _, what := range []string{"stop", "delete"} {
		play(t, func(t *testing.T, w *world) {
			id := w.mustUpload("MAIN=a")
			w.set(endless)
			other := w.uploading(2, "MAIN=a,BUILD=make")
			result := make(chan error, 1)
			go func() { _, err := w.commit(id, "MAIN=b,BUILD=make"); result <- err }()
			synctest.Wait()
			if s := w.snapshot(id); !s.Running || s.Position != 1 || !w.noted(id, "number 1 in the queue") {
				t.Errorf("while it waits: %+v, %q", s, w.notes[id])
			}
			call := w.host.Stop
			if what == "delete" {
				call = w.host.Delete
			}
			if err := call(t.Context(), owner, id); err != nil {
				t.Fatal(err)
			}
			wantKind(t, <-result, app.Conflict)
			if at := w.host.builds.positions(); len(at) != 0 {
				t.Errorf("the queue holds %v", at)
			}
			if err := w.host.Delete(t.Context(), 2, w.host.Apps(2)[0].ID); err != nil {
				t.Error(err)
			}
			wantKind(t, <-other, app.Conflict)
		})
	}
}

// What does not fit in the queue is refused with the number, and leaves
// nothing; what needs no build is not asked.
func TestFullQueue(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.total = 10000
		w.host.builds.most = 3
		id := w.mustUpload("MAIN=a")
		w.set(endless)
		var done []<-chan error
		for range 3 {
			done = append(done, w.uploading(owner, "MAIN=a,BUILD=make"))
		}
		_, err := w.upload("MAIN=a,BUILD=make")
		wantKind(t, err, app.Unavailable)
		if err == nil || !strings.Contains(err.Error(), "your account has 2 of the 3 places") {
			t.Errorf("beyond half of the queue: %v", err)
		}
		_, err = w.commit(id, "MAIN=b,BUILD=make")
		wantKind(t, err, app.Unavailable)
		if s := w.snapshot(id); !s.Running || s.Code.Main != "a" {
			t.Errorf("after a commit that was refused: %+v", s)
		}
		done = append(done, w.uploading(2, "MAIN=a,BUILD=make"))
		err = <-w.uploading(3, "MAIN=a,BUILD=make")
		wantKind(t, err, app.Unavailable)
		if err == nil || !strings.Contains(err.Error(), "all 3 places in the queue are taken") {
			t.Errorf("beyond the queue: %v", err)
		}
		if len(w.trees) != 5 || len(w.reserved) != 4 || len(w.host.Apps(3)) != 0 {
			t.Errorf("left: trees %v, reserved %v", w.trees, w.reserved)
		}
		w.mustUpload("MAIN=a")
		w.host.Shutdown(context.Background())
		for _, d := range done {
			wantKind(t, <-d, app.Unavailable)
		}
	})
}

// The client's going changes nothing, also while its build waits.
func TestClientHangsUpWhileItsBuildWaits(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Minute}))
		first := w.uploading(2, "MAIN=a,BUILD=make")
		ctx, hangUp := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() {
			_, err := w.host.Upload(ctx, app.Account{ID: owner, TotalRAM: w.total}, "MAIN=a,BUILD=make")
			done <- err
		}()
		synctest.Wait()
		hangUp()
		synctest.Wait()
		if s := w.only(); s.Position != 1 {
			t.Errorf("then %+v", s)
		}
		if err := <-first; err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil || !w.only().Running {
			t.Errorf("Upload() = %v, %+v", err, w.only())
		}
	})
}

// A client that does not wait for the answer of a stop calls it off as well.
func TestStopOfAFirstDeploymentOutlivesItsClient(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(endless)
		done := w.uploading(owner, "MAIN=a,BUILD=make")
		w.when("Remove", func() { time.Sleep(time.Minute) })
		ctx, hangUp := context.WithTimeout(t.Context(), time.Second)
		defer hangUp()
		if err := w.host.Stop(ctx, owner, w.only().ID); err == nil {
			t.Error("it was answered before the files were gone")
		}
		wantKind(t, <-done, app.Conflict)
		w.wantNothing()
	})
}

// Every program and command of an application has the runtime that its plan chose: the steps of its
// build, the program, the one that a commit tries beside it, and a console in its place. One beside
// the program runs where that does.
func TestRuntimeOfThePlanReachesEveryProgram(t *testing.T) {
	visited(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Second}))
		id := w.mustUpload("MAIN=on node 22.11.0,BUILD=make,TYPE=site,ID=shop,AUTORESTART=true")
		if _, err := w.commit(id, "MAIN=on node 24.1.0,BUILD=make"); err != nil {
			t.Fatal(err)
		}
		if err := w.host.Restart(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range w.runs {
			what := "run"
			if r.p.Build {
				what = "build"
			}
			got = append(got, what+" "+r.p.Runtime)
		}
		want := "build node 22.11.0, run node 22.11.0, build node 24.1.0, run node 24.1.0, run node 24.1.0"
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("programs got:\n%s\nwant\n%s", all, want)
		}
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		<-w.console(t.Context(), id, "exit 0 after 1s")
		<-w.session(t.Context(), id, "exit 0 after 1s")
		if len(w.commands) != 2 {
			t.Fatalf("%d commands ran", len(w.commands))
		}
		for _, c := range w.commands {
			if c.p.Runtime != "node 24.1.0" {
				t.Errorf("a command in place of the program has the runtime %q", c.p.Runtime)
			}
		}
	})
}

// What needs no runtime has none.
func TestProgramWithoutARuntime(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(build(behaviour{exit: &app.Exit{}, life: time.Second}))
		w.mustUpload("MAIN=a,BUILD=make")
		if len(w.runs) != 2 {
			t.Fatalf("%d programs ran", len(w.runs))
		}
		for _, r := range w.runs {
			if r.p.Runtime != "" {
				t.Errorf("%v has the runtime %q", r.p.Argv, r.p.Runtime)
			}
		}
	})
}
