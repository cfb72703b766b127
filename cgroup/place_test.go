package cgroup

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"
)

// A later daemon finds a place with what runs in it and what was kept with it. A place
// belongs to one tree at a time.
func TestKernelPlace(t *testing.T) {
	h := host(t)
	tree := openTreeOn(t, h)
	if filepath.Dir(filepath.Dir(tree.root)) != h.V2 {
		t.Skip("this process is in a delegated unit")
	}
	find := func() Place {
		t.Helper()
		all := Places(h)
		at := slices.IndexFunc(all, func(p Place) bool { return p == tree.Place() })
		if at < 0 {
			t.Fatalf("%v is not among %v", tree.Place(), all)
		}
		return all[at]
	}
	p := find()
	if note, err := p.Note(); note != "" || err != nil {
		t.Errorf("at first the note is %q, %v", note, err)
	}
	if err := errors.Join(tree.Mark("before"), tree.Mark("whose it is")); err != nil {
		t.Fatal(err)
	}
	if note, err := p.Note(); note != "whose it is" || err != nil {
		t.Errorf("the note is %q, %v", note, err)
	}
	taken := func(want bool) {
		t.Helper()
		if is, err := p.Taken(); is != want || err != nil {
			t.Errorf("taken: %t, %v", is, err)
		}
	}
	taken(false)
	if err := tree.Claim(); err != nil {
		t.Fatal(err)
	}
	taken(true)
	second := &Tree{layout: layout{root: tree.root}}
	if err := second.Claim(); !errors.Is(err, ErrTaken) {
		t.Errorf("a second claim: %v", err)
	}
	if err := tree.Release(); err != nil {
		t.Error(err)
	}
	taken(false)
	if err := errors.Join(second.Claim(), second.Release(), second.Release()); err != nil {
		t.Errorf("after the first: %v", err)
	}
	if is, err := (Place{"gone", tree.root + "-gone"}).Taken(); is || err != nil {
		t.Errorf("a place that is gone: %t, %v", is, err)
	}

	g := create(t, tree, "apps/a/1", Limits{Memory: 64 << 20})
	cmd := child(t, g, "exec sleep 1000") // a shell beside it might end with its status
	var seen []int
	p.Processes(func(application, group string, pid int) bool {
		if application != "a" || group != "apps/a/1" {
			t.Errorf("a process of %s in %s", application, group)
		}
		seen = append(seen, pid)
		return true
	})
	if !slices.Contains(seen, cmd.Process.Pid) {
		t.Errorf("seen are %v, want %d among them", seen, cmd.Process.Pid)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	tree.Terminate(func(name string) bool { return name == "other" }, 0)
	tree.Terminate(func(name string) bool { return name == "apps/a/1" }, time.Minute)
	<-done
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signal() != syscall.SIGTERM {
		t.Errorf("it ended with %v", cmd.ProcessState)
	}
}
