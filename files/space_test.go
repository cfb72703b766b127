package files

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
)

// onTmpfs opens a store on a file system of its own.
func onTmpfs(t *testing.T, options string) *Store {
	t.Helper()
	needRoot(t)
	data := filepath.Join(t.TempDir(), "data")
	must(t, os.Mkdir(data, 0o755))
	if err := unix.Mount("tmpfs", data, "tmpfs", 0, options); err != nil {
		t.Skipf("needs to mount a tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(data, unix.MNT_DETACH) })
	return openStore(t, data)
}

// A disk without inodes is as full as one without blocks, and files without
// content count.
func TestInodesAreRoom(t *testing.T) {
	s := onTmpfs(t, "size=100m,nr_inodes=1000")
	live := makeLive(t, s, map[string]string{"a": "x"})
	must(t, s.CheckFree("write"))
	if most := s.Entries(); most != 500 {
		t.Errorf("an application may have %d files, want half of 1,000", most)
	}
	for n := range 960 {
		must(t, os.WriteFile(filepath.Join(live, fmt.Sprint(n)), nil, 0o600))
	}
	space, err := s.Used(t.Context(), testID)
	if err != nil || space.Entries != 962 {
		t.Errorf("%+v, %v; want 960 files, one before and the directory", space, err)
	}
	if err := s.CheckFree("write"); app.KindOf(err) != app.NoSpace || !strings.Contains(err.Error(), "has room for") {
		t.Errorf("with few inodes left: %v", err)
	}
}

func TestFewInodes(t *testing.T) {
	for _, tt := range []struct {
		free, total uint64
		few         bool
	}{{0, 0, false}, {49, 1000, true}, {50, 1000, false}, {19_999, 100_000_000, true}, {20_000, 100_000_000, false}} {
		if FewInodes(tt.free, tt.total) != tt.few {
			t.Errorf("%d of %d: %v", tt.free, tt.total, !tt.few)
		}
	}
}
