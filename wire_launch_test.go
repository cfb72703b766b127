package main

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"berth/app"
	"berth/bundle"
	"berth/cgroup"
	"berth/logs"
	"berth/proc"
	"berth/tree"
)

// A step of a build that cannot be started leaves no directory behind.
func TestABuildThatCannotBeStarted(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: control groups are made")
	}
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	groups, err := cgroup.Open(host, fmt.Sprintf("test-%d", os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	dir, log := t.TempDir(), slog.New(slog.DiscardHandler)
	store, err := tree.Open(dir, bundle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	book := newLogbook(filepath.Join(dir, "logs"), logs.Options{}, log)
	s := &starter{proc: &proc.Launcher{Tree: groups, Log: log, Init: []string{dir + "/nothing"}}, trees: store, logs: book}
	if _, err := s.launch(t.Context(), app.Program{App: "bot", Build: true, Argv: []string{"/bin/true"}, UID: 70000, RAM: 64}); err == nil {
		t.Error("it was started")
	}
	if left, err := os.ReadDir(filepath.Join(dir, "tmp")); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	for _, end := range []func() error{book.close, store.Close, groups.Close} {
		if err := end(); err != nil {
			t.Error(err)
		}
	}
}
