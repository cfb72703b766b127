package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func (w *world) rollback(id app.ID, to int) (app.Deployed, error) {
	return w.host.Rollback(context.Background(), owner, id, to)
}

func TestRollback(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a,AUTORESTART=true")
		for _, file := range []string{"MAIN=b,AUTORESTART=false", "MAIN=c"} {
			if _, err := w.host.Commit(app.WithActor(t.Context(), 77), owner, id, file, false); err != nil {
				t.Fatal(err)
			}
		}
		w.stays = []string{"data.db", "odd\xff"}
		d, err := w.rollback(id, 0)
		if err != nil || !d.Running || d.Code.Main != "b" || d.AutoRestart || w.trees[id] != "b" || !strings.Contains(d.Logs, `stay as they are: "data.db", "odd\xff".`) {
			t.Fatalf("Rollback() = %+v, %v; the tree is %q", d, err, w.trees[id])
		}
		if d, err = w.rollback(id, 1); err != nil || d.Code.Main != "a" || !d.AutoRestart || w.trees[id] != "a" || w.recorded(id).Code.Main != "a" {
			t.Errorf("Rollback(1) = %+v, %v", d, err)
		}
		if d, err = w.rollback(id, 3); err != nil || w.trees[id] != "c" {
			t.Errorf("Rollback(3) = %+v, %v", d, err)
		}
		all, err := w.host.Deploys(t.Context(), owner, id)
		var got []string
		for _, d := range all {
			got = append(got, fmt.Sprint(d.Number, " ", d.Kind, " by ", d.By, " of ", d.Bytes, " ", d.Code.Main, " ", d.Note))
		}
		want := []string{
			"6 rollback by 1 of 0 c back to deploy 3", "5 rollback by 1 of 0 a back to deploy 1", "4 rollback by 1 of 0 b back to deploy 2",
			"3 commit by 77 of 6 c ", "2 commit by 77 of 24 b ",
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the history is %q, %v", got, err)
		}
	})
}

func TestRollbackRefusals(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		_, err := w.rollback(id, 0)
		wantKind(t, err, app.NotFound)
		_, err = w.rollback(id, 1)
		wantKind(t, err, app.Already)
		w.weighs = 101 << 20 // more than all journals may take
		if _, err := w.commit(id, "MAIN=b"); err != nil {
			t.Fatal(err)
		}
		w.weighs = 1
		if _, err := w.commit(id, "MAIN=c"); err != nil {
			t.Fatal(err)
		}
		for to, kind := range map[int]app.Kind{1: app.Unusable, 3: app.Already, 9: app.NotFound, -1: app.NotFound} {
			_, err := w.rollback(id, to)
			wantKind(t, err, kind)
		}
		_, err = w.host.Rollback(t.Context(), 2, id, 2)
		wantKind(t, err, app.NotFound)
		_, err = w.host.Deploys(t.Context(), 2, id)
		wantKind(t, err, app.NotFound)
		w.breaks("Deploys", errTest)
		_, err = w.rollback(id, 2)
		wantKind(t, err, app.Internal)
		if n := w.launches(id); n != 3 {
			t.Errorf("%d starts: a refusal touched the program", n)
		}
		w.mends("Deploys")
		if _, err := w.rollback(id, 2); err != nil || w.trees[id] != "b" {
			t.Errorf("the tree is %q, %v", w.trees[id], err)
		}
	})
}

// Sentences that a person reads, each with what to do about it.
func TestWayBack(t *testing.T) {
	all := []app.Deploy{{Number: 5, Journal: "e"}, {Number: 4, Journal: "d"}, {Number: 3}, {Number: 2, Journal: "b"}}
	for _, tt := range []struct {
		all      []app.Deploy
		number   int
		to       int
		journals string
		err      string
	}{
		{all, 0, 4, "e", ""},
		{all, 4, 4, "e", ""},
		{all, 3, 3, "ed", ""},
		{all, 2, 0, "", "deploy 2 cannot be brought back: what deploy 3 replaced was not kept"},
		{all, 1, 0, "", "there is no deploy 1 in the history of the application"},
		{all, 5, 0, "", "deploy 5 is the one that the application has now"},
		{all[:1], 0, 0, "", "there is no deploy before this one"},
		{nil, 0, 0, "", "there is no deploy before this one"},
	} {
		d, journals, err := WayBack(tt.all, tt.number)
		Reach(tt.all)
		if len(tt.all) == 4 && (tt.all[0].Back || !tt.all[1].Back || !tt.all[2].Back || tt.all[3].Back) {
			t.Errorf("Reach() made %+v", tt.all)
		}
		if d.Number != tt.to || strings.Join(journals, "") != tt.journals || fmt.Sprint(err) != cmpOr(tt.err, "<nil>") {
			t.Errorf("WayBack(%d) = %+v, %v, %v", tt.number, d, journals, err)
		}
	}
}

func cmpOr(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func TestRetain(t *testing.T) {
	mb := func(n int64) int64 { return n << 20 }
	for _, tt := range []struct {
		keep  int
		sizes []int64 // newest first
		want  string  // the journals that stay
	}{
		{5, []int64{1}, "a"},
		{5, []int64{1, 2, 3}, "ab-"}, // the oldest leads to nothing
		{2, []int64{1, 2, 3}, "a-"},
		{1, []int64{1, 2, 3}, "a"},
		{0, []int64{1, 2, 3}, "a"},
		{5, []int64{mb(60), mb(30), mb(30), 1, 0}, "ab---"},
		{5, []int64{mb(200), 1, 1, 0}, "a---"},
	} {
		var all []app.Deploy
		for i, n := range tt.sizes {
			all = append(all, app.Deploy{Journal: string(rune('a' + i)), Kept: n})
		}
		h := &Host{Config: Config{DeploysKeep: tt.keep, DeploysDisk: 100}}
		got := ""
		for _, d := range h.retain(all) {
			got += cmpOr(d.Journal, "-")
		}
		if got != tt.want {
			t.Errorf("%d of %v: %s, want %s", tt.keep, tt.sizes, got, tt.want)
		}
		if all[len(all)-1].Journal == "" {
			t.Error("the history was changed in place")
		}
	}
}

func TestRollbackThatFailsGoesBack(t *testing.T) {
	for name, breaks := range map[string]func(w *world){
		"stage":  func(w *world) { w.breaks("Rollback", errTest) },
		"apply":  func(w *world) { w.breaks("Apply", errTest) },
		"record": func(w *world) { w.breaks("AddDeploy", errTest) },
		"crash": func(w *world) {
			w.set(by(map[string]behaviour{"a": {exit: &app.Exit{Code: 1}, life: time.Second}}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				id := w.mustUpload("MAIN=a")
				if _, err := w.commit(id, "MAIN=b"); err != nil {
					t.Fatal(err)
				}
				breaks(w)
				if _, err := w.rollback(id, 0); err == nil {
					t.Error("no error")
				}
				if s := w.snapshot(id); !s.Running || s.Code.Main != "b" || w.trees[id] != "b" || len(w.history[id]) != 2 {
					t.Errorf("then %+v, tree %q, history %+v", s, w.trees[id], w.history[id])
				}
			})
		})
	}
}

// What is recorded is done, whatever comes after it.
func TestRecordedDeploysStay(t *testing.T) {
	for name, breaks := range map[string]func(w *world){
		"the journal cannot be kept": func(w *world) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.undoFrom = 2 // the first is before the commit
		},
		"the record fails when it is written": func(w *world) { w.breaks("AddDeploy after", errTest) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, w *world) {
				id := w.mustUpload("MAIN=a")
				breaks(w)
				d, err := w.commit(id, "MAIN=b")
				if err != nil || !d.Running || w.trees[id] != "b" || w.recorded(id).Code.Main != "b" {
					t.Errorf("got %+v, %v", d, err)
				}
				w.mends("AddDeploy after")
				if d, err = w.commit(id, "MAIN=c"); err != nil || w.trees[id] != "c" || len(w.history[id]) != 3 {
					t.Errorf("the next one: %+v, %v", d, err)
				}
			})
		})
	}
}

// A journal that is too large, or that no deploy needs, goes once it is safe.
func TestLargeJournalsAreDropped(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.weighs = 101 << 20
		if _, err := w.commit(id, "MAIN=b"); err != nil || w.history[id][0].Journal != "" || w.trees[id] != "b" {
			t.Errorf("%+v, %v", w.history[id], err)
		}
		w.weighs = 1
		w.host.DeploysKeep = 1
		if _, err := w.commit(id, "MAIN=c"); err != nil || len(w.history[id]) != 1 || w.history[id][0].Journal != "" || w.trees[id] != "c" {
			t.Errorf("%+v, %v", w.history[id], err)
		}
	})
}

func TestRestore(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.env[id] = map[string]string{"OLD": "1"}
		w.zipped = app.PackedVariables{Found: true, All: []app.Variable{{Name: "TOKEN", Value: "secret"}, {Name: "A", Value: "b"}}, Left: "the variables were left out."}
		w.left = []string{"the variables were left out."}
		d, err := w.host.Restore(t.Context(), owner, id, "MAIN=b", false)
		if err != nil || !d.Running || w.trees[id] != "b" || w.env[id]["OLD"] != "1" || !strings.Contains(d.Logs, "left out") || w.history[id][0].Note != "from a backup" {
			t.Errorf("got %+v, %v", d, err)
		}
		d, err = w.host.Restore(t.Context(), owner, id, "MAIN=c", true)
		if err != nil || w.env[id]["TOKEN"] != "secret" || len(w.env[id]) != 2 || strings.Contains(d.Logs, "left out") || !strings.Contains(d.Logs, "variables of the backup (2 of them)") {
			t.Errorf("got %+v, %v, %v", d, err, w.env[id])
		}
		if got := w.runs[len(w.runs)-1].p.Variables; len(got) != 2 || got[1].Value != "secret" {
			t.Errorf("the program was started with %v", got)
		}
		if all := w.history[id]; all[0].Kind != app.DeployRestore || all[0].Note != "from a backup, with its environment variables" || strings.Contains(fmt.Sprint(all, d), "secret") {
			t.Errorf("the history is %+v", all)
		}
	})
}

// A restore that fails leaves the files and the variables of before.
func TestRestoreThatFailsGoesBack(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		w.env[id] = map[string]string{"OLD": "1"}
		_, err := w.host.Restore(t.Context(), owner, id, "MAIN=b", true)
		wantKind(t, err, app.Unusable)
		for _, vars := range []app.PackedVariables{
			{Found: true, Err: app.Errorf(app.Unusable, "line 1 is none")},
			{Found: true, All: []app.Variable{{Name: "HOME", Value: "x"}}},
		} {
			w.zipped = vars
			_, err := w.host.Restore(t.Context(), owner, id, "MAIN=b", true)
			wantKind(t, err, app.Unusable)
		}
		_, err = w.host.Restore(t.Context(), owner, id, "jar", false) // no backup of anything
		wantKind(t, err, app.Unusable)
		w.breaks("PrepareRestore", errTest)
		_, err = w.host.Restore(t.Context(), owner, id, "MAIN=b", false)
		wantKind(t, err, app.Internal)
		w.mends("PrepareRestore")
		if w.launches(id) != 1 {
			t.Error("the program was touched")
		}
		w.zipped = app.PackedVariables{Found: true, All: []app.Variable{{Name: "NEW", Value: "2"}}}
		w.set(by(map[string]behaviour{"b": {exit: &app.Exit{Code: 1}, life: time.Second}}))
		_, err = w.host.Restore(t.Context(), owner, id, "MAIN=b", true)
		wantKind(t, err, app.Unusable)
		var e *app.Error
		if !errors.As(err, &e) || !strings.Contains(e.Message.String(), "the code from before the restore is back") {
			t.Errorf("got %v", err)
		}
		s := w.snapshot(id)
		if got := w.runs[len(w.runs)-1].p; !s.Running || w.trees[id] != "a" || len(w.env[id]) != 1 || len(got.Variables) != 1 || got.Variables[0].Name != "OLD" {
			t.Errorf("then %+v with %v", s, got.Variables)
		}
	})
}
