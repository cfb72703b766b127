package files

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	if err := ReleaseReserve(dir); err != nil {
		t.Errorf("there is none: %v", err)
	}
	name := filepath.Join(dir, reserveName)
	for range 2 {
		if err := KeepReserve(dir); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if kept := info.Sys().(*syscall.Stat_t).Blocks * 512; kept < reserveSize || info.Mode().Perm() != 0o600 {
			t.Errorf("%d bytes are kept, %v", kept, info.Mode())
		}
	}
	if err := os.WriteFile(name, []byte("a part"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := KeepReserve(dir); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(name); err != nil || info.Size() != reserveSize {
		t.Errorf("after a part: %v, %v", info, err)
	}
	if err := ReleaseReserve(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(name); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still kept: %v", err)
	}
}

func TestNoRoom(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	if err := KeepReserve(none); err == nil || !strings.HasPrefix(err.Error(), "cannot keep room for the next start: ") {
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(none, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ReleaseReserve(none); err == nil || !strings.HasPrefix(err.Error(), "cannot take the room for a start: ") {
		t.Errorf("got %v", err)
	}
}
