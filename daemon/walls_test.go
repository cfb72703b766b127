package daemon

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/app"
	"berth/app/exit"
	"berth/proc/sandbox"
)

// A wall that is required and missing keeps the daemon from serving, with the
// code at which the unit does not try again; another one does not.
func TestDemand(t *testing.T) {
	verdicts := []sandbox.Verdict{{Layer: sandbox.Mounts}, {Layer: sandbox.Landlock, Err: errors.New("it is too old")}, {Layer: sandbox.Seccomp, Err: errors.New("it has none")}}
	for _, tt := range []struct {
		require string
		want    []string // parts of the sentence; none when there is no error
	}{
		{"", nil},
		{"mounts", nil},
		{"mounts,landlock", []string{"cannot serve: ", "landlock (it is too old)"}},
		{"all", []string{"landlock (it is too old); seccomp (it has none)"}},
	} {
		s := testSettings(t)
		s.Sandbox.Require = tt.require
		err := demand(verdicts, s.RequiredLayers())
		refused, is := errors.AsType[*exit.Problem](err)
		if is != (tt.want != nil) || is && (refused.Code != exit.Config || refused.Hint == "") {
			t.Errorf("%q: %+v", tt.require, err)
		}
		for _, part := range tt.want {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %v, want %q in it", tt.require, err, part)
			}
		}
	}
}

func TestShownPaths(t *testing.T) {
	s := testSettings(t)
	s.Sandbox.Paths = " /opt/, /srv/models/ ,"
	if got := s.ShownPaths(); !slices.Equal(got, []string{"/opt", "/srv/models"}) {
		t.Errorf("got %q", got)
	}
}

// A host's name is no number, and the kernel takes it.
func TestHostname(t *testing.T) {
	for id, want := range map[app.ID]string{
		"1795000000000": "app-1795000000000", "my-site": "my-site", "0x7f": "app-0x7f",
		app.ID("1" + strings.Repeat("-1", 31)): "app-1" + strings.Repeat("-1", 29),
	} {
		if got := id.Hostname(); got != want || len(got) > 64 {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}

// Fewer walls than at the last start keep the daemon from serving until the owner
// does without them; then those are what the next start counts on.
func TestFewerWallsThanBefore(t *testing.T) {
	dir := t.TempDir()
	had, err := RememberedWalls(dir)
	if err != nil || had != nil {
		t.Fatalf("before the first start: %v, %v", had, err)
	}
	verdicts := func(lacking ...sandbox.Layer) []sandbox.Verdict {
		var all []sandbox.Verdict
		for _, l := range append(slices.Clone(sandbox.Layers), sandbox.Reach, sandbox.Counted) {
			v := sandbox.Verdict{Layer: l}
			if slices.Contains(lacking, l) {
				v.Err = errors.New("it is too old")
			}
			all = append(all, v)
		}
		return all
	}
	for i, tt := range []struct {
		lacking []sandbox.Layer
		without string
		want    []string // what the sentence names; none when it serves
	}{
		{[]sandbox.Layer{sandbox.Landlock}, "", nil}, // the first time
		{[]sandbox.Layer{sandbox.Landlock}, "", nil},
		{nil, "", nil},
		{[]sandbox.Layer{sandbox.Landlock}, "", []string{"landlock (it is too old)", `sandbox.without to "landlock"`}},
		{[]sandbox.Layer{sandbox.Landlock, sandbox.Reach}, "landlock", []string{"network (it is too old)"}},
		{[]sandbox.Layer{sandbox.Landlock, sandbox.Reach}, "landlock,network", nil},
		{[]sandbox.Layer{sandbox.Landlock, sandbox.Reach}, "", nil}, // what it has said once
		{[]sandbox.Layer{sandbox.Landlock}, "", nil},
		{[]sandbox.Layer{sandbox.Landlock, sandbox.Reach}, "", []string{"network"}},
		{sandbox.Layers, "all", nil},
		{[]sandbox.Layer{sandbox.Mounts}, "all", nil},
		{sandbox.Layers, "mounts,proc", []string{"cgroup (", "seccomp ("}},
		{[]sandbox.Layer{sandbox.Mounts, sandbox.Counted}, "mounts,proc,cgroup", []string{"sockets (it is too old)", `sandbox.without to "sockets"`}},
		{[]sandbox.Layer{sandbox.Mounts, sandbox.Counted}, "sockets", nil},
	} {
		s := testSettings(t)
		s.Sandbox.Without = tt.without
		had, err := RememberedWalls(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = refuseFewer(LostWalls(verdicts(tt.lacking...), had, s.SparedLayers()))
		refused, is := errors.AsType[*exit.Problem](err)
		if is != (tt.want != nil) || is && refused.Code != exit.Config {
			t.Errorf("%d: %v", i, err)
		}
		for _, part := range tt.want {
			if is && !strings.Contains(refused.Error()+refused.Hint, part) {
				t.Errorf("%d: %v, %s, want %q in it", i, err, refused.Hint, part)
			}
		}
		if is {
			continue
		}
		if err := rememberWalls(dir, had, verdicts(tt.lacking...)); err != nil {
			t.Fatal(err)
		}
	}
	// A berth of before did not name sockets.
	if err := os.WriteFile(filepath.Join(dir, wallsName), []byte("mounts\nnetwork\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	had, err = RememberedWalls(dir)
	if lost := LostWalls(verdicts(sandbox.Counted), had, nil); err != nil || len(lost) > 0 {
		t.Errorf("with an older file it lost %v, %v", lost, err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 1 || list[0].Name() != wallsName {
		t.Errorf("left are %v, %v", list, err)
	}
	if err := os.Remove(filepath.Join(dir, wallsName)); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, wallsName), 0o700); err != nil {
		t.Fatal(err)
	}
	if had, err := RememberedWalls(dir); err == nil {
		t.Errorf("from a directory it reads %v", had)
	}
}
