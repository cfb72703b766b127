package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"berth/daemon/settings"
)

func TestGroupName(t *testing.T) {
	a, b := GroupName("/var/lib/berth"), GroupName("/tmp/other")
	if a == b || len(a) != 8 || a != GroupName("/var/lib/berth") {
		t.Errorf("%q and %q", a, b)
	}
	dir := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if GroupName(link) != GroupName(dir) {
		t.Error("a link to the data directory has groups of its own")
	}
}

func TestStartOf(t *testing.T) {
	if a, b := startOf("/var/lib/berth"), startOf("/srv/other"); a == b || a < 0 || b < 0 {
		t.Errorf("%d and %d", a, b)
	}
}

func TestDiskProblems(t *testing.T) {
	dir := t.TempDir()
	for _, tc := range []struct {
		err  error
		code int
		want string
	}{
		{syscall.ENOSPC, settings.ExitFailure, "its disk is full, and a start needs about 100 KB"},
		{syscall.EDQUOT, settings.ExitFailure, "its disk quota is used up, and a start needs about 100 KB"},
		{syscall.EROFS, settings.ExitConfig, "its disk is read-only"}, // which no start mends
		{syscall.EIO, 0, ""},
		{nil, 0, ""},
	} {
		err := tc.err
		if err != nil {
			err = fmt.Errorf("cannot open the database: %w", err)
		}
		var p *settings.Problem
		if got := DiskProblem(dir, err); tc.code == 0 {
			if got != nil {
				t.Errorf("%v is told as %v", tc.err, got)
			}
		} else if !errors.As(got, &p) || p.Code != tc.code || p.Error() != "cannot use the data directory "+dir+": "+tc.want || p.Hint == "" {
			t.Errorf("%v is told as %v (%+v)", tc.err, got, p)
		}
	}
}
