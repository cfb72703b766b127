package host

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// heard returns what was told since the last call, in words, but for the time.
func (w *world) heard() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var all []string
	for _, e := range w.told {
		switch {
		case e.Kind == app.StateEvent && e.State.Attempt > 0:
			all = append(all, fmt.Sprintf("%s(%d)", e.State.State, e.State.Attempt))
		case e.Kind == app.StateEvent:
			all = append(all, string(e.State.State))
		case e.Kind == app.ExitEvent && e.Exit.OOM:
			all = append(all, "oom")
		case e.Kind == app.ExitEvent:
			all = append(all, fmt.Sprintf("exit %d", e.Exit.Code))
		case e.Kind == app.DeployEvent:
			all = append(all, strings.TrimSpace(fmt.Sprintf("%s:%s %s", e.Deploy.Kind, e.Deploy.Phase, e.Deploy.Why)))
		case e.Kind == app.MemoryEvent:
			all = append(all, fmt.Sprintf("memory %d", e.Memory.Level))
		case e.Kind == app.RemovedEvent:
			all = append(all, "removed")
		}
		if e.App == "" || e.Owner != owner {
			w.t.Errorf("an event of application %q of account %d", e.App, e.Owner)
		}
	}
	w.told = nil
	return strings.Join(all, ", ")
}

// What happens to an application is told in the order in which it happens, once.
func TestWhatIsTold(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx := t.Context()
		hears := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := w.heard(); got != want {
				t.Errorf("%s: told\n%q, want\n%q", when, got, want)
			}
		}
		w.set(by(nil))
		id := w.mustUpload("MAIN=a,BUILD=make,AUTORESTART=true")
		hears("upload", "preparing, upload:started, upload:building, upload:launching, starting, online, upload:done")
		if err := w.host.Restart(ctx, owner, id); err != nil {
			t.Fatal(err)
		}
		hears("restart", "stopping, exit 143, starting")
		time.Sleep(time.Minute)
		hears("later", "online")
		if err := w.host.SetRAM(ctx, owner, id, 200); err != nil {
			t.Fatal(err)
		}
		hears("more RAM", "online")
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Fatal(err)
		}
		hears("commit", "commit:started, commit:checked, commit:launching, stopping, exit 143, preparing, starting, online, commit:done")
		w.set(by(map[string]behaviour{"c": {exit: &app.Exit{Code: 3}, life: time.Second}}))
		if _, err := w.commit(id, "MAIN=c"); err == nil {
			t.Fatal("a commit that crashes succeeds")
		}
		hears("commit that crashes", "commit:started, commit:checked, commit:launching, stopping, exit 143, preparing, starting, exit 3, preparing, starting, "+
			"commit:failed cannot start the new code (exited with code 3 after 1s); the code from before the commit is back")
		w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 137, OOM: true}, life: 90 * time.Second}}))
		if err := w.host.Restart(ctx, owner, id); err != nil {
			t.Fatal(err)
		}
		time.Sleep(91 * time.Second)
		hears("out of memory", "stopping, exit 143, starting, online, oom, waiting(1), starting(1)")
		if err := w.host.Delete(ctx, owner, id); err != nil {
			t.Fatal(err)
		}
		hears("delete", "stopping(1), exit 143, removed")
		w.set(by(nil))
		w.set(func(app.Program) behaviour { return behaviour{exit: &app.Exit{Code: 2}} })
		if _, err := w.upload("MAIN=a,BUILD=make"); err == nil {
			t.Fatal("a build that fails makes an application")
		}
		hears("first deployment that fails", `preparing, upload:started, upload:building, upload:failed cannot prepare the application: "make" failed with exit code 2, removed`)
	})
}

// The end of berth itself is none of the programs'.
func TestAShutdownIsNoExit(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.mustUpload("MAIN=a")
		synctest.Wait() // the answer may come before what is told
		w.heard()
		w.host.Shutdown(t.Context())
		if got := w.heard(); got != "stopping, stopped" {
			t.Errorf("told %q", got)
		}
	})
}

// The chronicle has what has no record of its own: a start that fails once for
// each reason, a deployment that fails; and it says how runs ended.
func TestTheChronicle(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		why := app.Errorf(app.Exhausted, "the host has no memory left")
		w.set(func(app.Program) behaviour { return behaviour{err: why} })
		w.runs[0].Stop(0)
		time.Sleep(time.Hour)
		w.set(func(app.Program) behaviour { return behaviour{err: errors.New("secret path")} })
		time.Sleep(time.Hour)
		w.set(by(nil))
		time.Sleep(time.Hour)
		if _, err := w.commit(id, "MAIN=missing"); err == nil {
			t.Fatal("a commit without MAIN succeeds")
		}
		w.mu.Lock()
		w.happened[id] = append(w.happened[id],
			app.HistoryEvent{Kind: app.HistoryExit, Exit: &app.Exit{OOM: true, LimitMB: 64, Code: 137}},
			app.HistoryEvent{Kind: app.HistoryExit, Exit: &app.Exit{Asked: true, Code: 143, Signal: 15}})
		w.mu.Unlock()
		all, err := w.host.EventLog(t.Context(), owner, id)
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, p := range all {
			texts = append(texts, string(p.Kind)+": "+p.Text)
		}
		want := []string{
			"deploy_failed: no MAIN",
			"start_failed: internal error; the server's log tells more",
			"start_failed: the host has no memory left",
			"exit: killed: needed more than 64 MB of RAM (exit code 137)",
			"exit: stopped",
		}
		if !slices.Equal(texts, want) {
			t.Errorf("got %q, want %q", texts, want)
		}
		if all[0].By != owner || all[0].Deploy != app.DeployCommit {
			t.Errorf("the deployment is %+v", all[0])
		}
		_, err = w.host.EventLog(t.Context(), 2, id)
		wantKind(t, err, app.NotFound)
		w.breaks("EventLog", errors.New("disk"))
		if _, err := w.host.EventLog(t.Context(), owner, id); app.KindOf(err) != app.Internal {
			t.Errorf("a broken record: %v", err)
		}
	})
}

// Programs are measured that run, of those that are asked for.
func TestMeasure(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(app.Program) behaviour { return behaviour{uses: 7} })
		one := w.mustUpload("MAIN=a,RAM=100")
		w.mustUpload("MAIN=b")
		off := w.mustUpload("MAIN=c")
		if err := w.host.Stop(t.Context(), owner, off); err != nil {
			t.Fatal(err)
		}
		measure := func(only func(app.AccountID, app.ID) bool) (all []app.Measured) {
			w.host.Measure(t.Context(), only, func(m app.Measured) { all = append(all, m) })
			return all
		}
		if all := measure(nil); len(all) != 2 {
			t.Errorf("%d programs run", len(all))
		}
		all := measure(func(by app.AccountID, id app.ID) bool { return by == owner && id == one })
		if len(all) != 1 || all[0].App != one || all[0].Owner != owner || all[0].Run != 1 || all[0].StartedAt.IsZero() ||
			all[0].MemoryBytes != app.MB(7).Bytes() || all[0].LimitBytes != app.MB(100).Bytes() || all[0].CPU != time.Second {
			t.Errorf("got %+v", all)
		}
		w.breaks("Counts", errors.New("no such file"))
		if all := measure(nil); len(all) != 0 {
			t.Errorf("what cannot be measured is %+v", all)
		}
		w.mends("Counts")
	})
}

// Who watches, the log and the history hear that a program needs nearly all of its RAM, of the
// program that runs alone; also of one that an earlier daemon started, which keeps its signal.
func TestMemoryWarning(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(by(nil))
		id := w.mustUpload("MAIN=a,RAM=64,MEMORY_SIGNAL=SIGUSR2")
		synctest.Wait()
		w.heard()
		warning := app.MemoryWarning{
			Run: 1, At: time.Now(), Level: 90, HeldBytes: 58<<20 + 1, LimitBytes: 64 << 20, FullIn: 247 * time.Second, Signal: "SIGUSR2", Sent: true,
		}
		warn := w.runs[0].p.Warn
		warn(warning)
		const text = "RAM 90 % full: the program needs 59 of 64 MB; if it grows on as it does now, it has all of it in 4m0s and is killed; it got SIGUSR2"
		if got := w.heard(); got != "memory 90" {
			t.Errorf("told %q", got)
		}
		if !w.noted(id, text) {
			t.Errorf("the log says %q", w.notes[id])
		}
		all, err := w.host.EventLog(t.Context(), owner, id)
		if err != nil || len(all) != 1 || all[0].Kind != app.HistoryMemory || all[0].Text != text || *all[0].Memory != warning || !all[0].At.Equal(warning.At) {
			t.Errorf("the history has %+v, %v", all, err)
		}
		warning.Run = 7
		warn(warning)
		if got := w.heard(); got != "" {
			t.Errorf("of another run it told %q", got)
		}
		w.succeed(true)
		w.heard()
		if got := w.adopted.Code.MemorySignal; got != "SIGUSR2" {
			t.Errorf("adopted with the signal %q", got)
		}
		warning.Run = 1
		w.adopted.Warn(warning)
		if got := w.heard(); got != "memory 90" {
			t.Errorf("of the adopted program it told %q", got)
		}
		if err := w.host.Stop(t.Context(), owner, id); err != nil {
			t.Fatal(err)
		}
		w.heard()
		w.adopted.Warn(warning)
		if got := w.heard(); got != "" {
			t.Errorf("of a program that has ended it told %q", got)
		}
	})
}

func TestWordsOfAMemoryWarning(t *testing.T) {
	for want, w := range map[string]app.MemoryWarning{
		"RAM 80 % full: the program needs 80 of 100 MB":                                                                           {Level: 80},
		"RAM 80 % full: the program needs 80 of 100 MB; it did not get SIGUSR1, which it does not handle":                         {Level: 80, Signal: "SIGUSR1"},
		"RAM 95 % full: the program needs 80 of 100 MB; if it grows on as it does now, it has all of it in 4s and is killed":      {Level: 95, FullIn: 4400 * time.Millisecond},
		"RAM 95 % full: the program needs 80 of 100 MB; if it grows on as it does now, it has all of it in 40s and is killed":     {Level: 95, FullIn: 44 * time.Second},
		"RAM 95 % full: the program needs 80 of 100 MB; if it grows on as it does now, it has all of it in 3h20m0s and is killed": {Level: 95, FullIn: 3*time.Hour + 17*time.Minute},
	} {
		w.HeldBytes, w.LimitBytes = 80<<20, 100<<20
		if got := warning(w).String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
