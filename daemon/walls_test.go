package daemon

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"berth/app"
	"berth/daemon/settings"
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
		refused, is := errors.AsType[*settings.Problem](err)
		if is != (tt.want != nil) || is && (refused.Code != settings.ExitConfig || refused.Hint == "") {
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
		if got := hostname(id); got != want || len(got) > 64 {
			t.Errorf("%s: %s, want %s", id, got, want)
		}
	}
}
