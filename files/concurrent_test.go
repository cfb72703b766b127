package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
)

// Different applications do not get in each other's way.
func TestConcurrentApplications(t *testing.T) {
	s := newStore(t)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := lifecycle(t, s, app.ID(fmt.Sprintf("app-%d", i)), testUID+i); err != nil {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	empty(t, s, "apps", "staging", "rollback", "tmp")
}

// lifecycle takes one application through everything.
func lifecycle(t *testing.T, s *Store, id app.ID, uid int) error {
	ctx := t.Context()
	stage, err := stageErr(t, s, map[string]string{"a": "1", "b/c": "1"})
	if err != nil {
		return err
	}
	if _, err := s.Publish(ctx, stage, id, uid); err != nil {
		return err
	}
	var good []string
	for n := range 4 {
		if stage, err = stageErr(t, s, map[string]string{"a": fmt.Sprint(n), "n": "x"}); err != nil {
			return err
		}
		if err := s.Prepare(ctx, stage, id, uid); err != nil {
			return err
		}
		done, err := s.Apply(ctx, stage, id, uid)
		if err != nil {
			return err
		}
		if n%2 == 0 {
			good = append(good, done.Journal)
		}
		err = s.Settle(ctx, id, uid, good)
		_, serr := s.Used(ctx, id)
		_, berr := s.Backup(ctx, id, nil, app.BackupRoom{})
		_, terr := s.EnsureTemp(id, n%2 == 0, uid)
		if err := errors.Join(err, serr, berr, terr, s.Discard(stage)); err != nil {
			return err
		}
		s.Pending(id, good)
	}
	if got, err := s.Files("", id).Read("a", 10); err != nil || string(got) != "2" {
		return fmt.Errorf("holds %q: %w", got, err)
	}
	return s.Remove(ctx, id)
}

// stageErr is stageOf for goroutines, which must not end the test.
func stageErr(t *testing.T, s *Store, files map[string]string) (app.Stage, error) {
	file := zipOf(t, s, files)
	up, err := s.Unpack(t.Context(), file, nil, anything)
	return up.Stage, errors.Join(err, s.DropSpool(file))
}

// Of many uploads of one name exactly one wins, and it is whole.
func TestConcurrentPublish(t *testing.T) {
	s := newStore(t)
	var won atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		stage := stageOf(t, s, map[string]string{"a": fmt.Sprint(i), "b": fmt.Sprint(i)})
		wg.Go(func() {
			_, err := s.Publish(t.Context(), stage, testID, testUID)
			if err == nil {
				won.Add(1)
			} else if app.KindOf(err) != app.Conflict {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	wg.Wait()
	a, errA := os.ReadFile(filepath.Join(s.Dir(testID), "a"))
	b, errB := os.ReadFile(filepath.Join(s.Dir(testID), "b"))
	if won.Load() != 1 || string(a) != string(b) || errA != nil || errB != nil {
		t.Errorf("%d won; %q %q", won.Load(), a, b)
	}
}

// Something runs as the user against the rules and swaps the directory that
// Apply and Undo write into. They may fail; they never write elsewhere.
func TestApplyWhileTheProgramSwaps(t *testing.T) {
	s := newStore(t)
	outside := filepath.Join(t.TempDir(), "out")
	put(t, outside, map[string]string{"f0": "keep", "sub/f1": "keep"})
	before := snapshot(t, outside)
	live := makeLive(t, s, map[string]string{"d/f0": "old", "d/sub/f1": "old", "x": "->" + outside})
	var stop atomic.Bool
	var wg sync.WaitGroup
	wg.Go(func() {
		d, x := filepath.Join(live, "d"), filepath.Join(live, "x")
		for !stop.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, d, unix.AT_FDCWD, x, unix.RENAME_EXCHANGE)
		}
	})
	failed := 0
	for range 40 {
		files := map[string]string{"top": "new"}
		for i := range 10 {
			files[fmt.Sprintf("d/f%d", i)] = "new"
			files[fmt.Sprintf("d/sub/f%d", i)] = "new"
		}
		stage := stageOf(t, s, files)
		if applied(s.Apply(t.Context(), stage, testID, testUID)) != nil {
			failed++
		}
		// It may lose the race as well, and is called again once it can win.
		_ = s.Settle(t.Context(), testID, testUID, nil)
		must(t, s.Discard(stage))
	}
	stop.Store(true)
	wg.Wait()
	t.Logf("%d of 40 failed", failed)
	same(t, snapshot(t, outside), before)
}

func TestApplyErrors(t *testing.T) {
	s := newStore(t)
	stage := stageOf(t, s, map[string]string{"a": "new"})
	if err := applied(s.Apply(t.Context(), stage, testID, testUID)); app.KindOf(err) != app.NotFound {
		t.Errorf("no application: %v", err)
	}
	live := makeLive(t, s, map[string]string{"a": "old"})
	before := snapshot(t, live)
	none := app.Stage(strings.Repeat("0", 32))
	if err := applied(s.Apply(t.Context(), none, testID, testUID)); err == nil {
		t.Error("no stage: applied")
	}
	if err := applied(s.Apply(cancelled(t), stage, testID, testUID)); err == nil {
		t.Error("cancelled: applied")
	}
	if s.Pending(testID, nil) {
		t.Error("a journal without a commit")
	}
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	same(t, snapshot(t, live), before)
	empty(t, s, "rollback")

	// The context ends between two steps: Undo has the rest.
	n := 0
	ctx := &endsAfter{Context: t.Context(), calls: 7, n: &n}
	if err := applied(s.Apply(ctx, stage, testID, testUID)); err == nil {
		t.Log("it was done before the context ended")
	}
	must(t, s.Settle(t.Context(), testID, testUID, nil))
	same(t, snapshot(t, live), before)
}

// endsAfter is a context that ends after some looks at it.
type endsAfter struct {
	context.Context
	calls int
	n     *int
}

// Err implements context.Context.
func (c *endsAfter) Err() error {
	if *c.n++; *c.n > c.calls {
		return context.Canceled
	}
	return nil
}
