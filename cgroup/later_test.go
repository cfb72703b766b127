package cgroup

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l later
		if l.flush() {
			t.Error("there was something")
		}
		began, done := time.Now(), make(chan time.Duration, 2)
		l.do(func() { done <- time.Since(began) })
		if took := <-done; took != removePause {
			t.Errorf("it was done after %v", took)
		}
		began = time.Now()
		l.do(func() { done <- time.Since(began) })
		if !l.flush() || len(done) != 1 || <-done != 0 {
			t.Error("it was not done at once")
		}
	})
}

// A group that has served is in nobody's way: it is removed in a moment, at once when
// its name is wanted, and no later than the tree is closed.
func TestRemoveLater(t *testing.T) {
	tree := openTree(t)
	name := "apps/later/1"
	group := func() *Group {
		t.Helper()
		g, err := tree.Create(name, Limits{Memory: 16 << 20, Pids: 16})
		if err == nil {
			err = g.SetNote("somebody's")
		}
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	told := make(chan error, 3)
	group().RemoveLater(func(err error) { told <- err })
	if note, err := tree.Note(name); err != nil || note != "" {
		t.Errorf("a later daemon reads %q, %v", note, err)
	}
	group().RemoveLater(func(err error) { told <- err })
	if err := <-told; err != nil {
		t.Error(err)
	}
	if err := <-told; err != nil {
		t.Error(err)
	}
	group().RemoveLater(func(err error) { told <- err })
	if n, err := tree.Sweep(nil); n != 0 || err != nil || len(told) != 1 || <-told != nil {
		t.Errorf("%d groups were left, %v", n, err)
	}
}
