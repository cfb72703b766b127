package host

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/daemon/settings"
	"berth/test/hosted"
)

// What berth set itself is in the archive too, and in effect beside the settings file that
// was restored. An archive without it is of the format that older versions read.
func TestBackupOfManagedSettings(t *testing.T) {
	h := hosted.New(t)
	parent := filepath.Dir(h.Path)
	config := filepath.Join(parent, "berth.toml")
	format := func(file string) int {
		t.Helper()
		m, err := verifyBackup(t.Context(), file)
		hosted.Must(t, err)
		return m.Format
	}
	plain, whole := filepath.Join(parent, "plain.tar.gz"), filepath.Join(parent, "whole.tar.gz")
	backUp := func(to string) {
		t.Helper()
		if code, _, errs := berthBeside(h, "backup", "create", "--to", to, "--data-dir", h.Path); code != 0 {
			t.Fatalf("create: %d %s", code, errs)
		}
	}
	backUp(plain)
	_, err := settings.Manage(config, map[string]string{"names.domain": "apps.example.org"})
	hosted.Must(t, err)
	backUp(whole)
	if is, was := format(whole), format(plain); is != 3 || was != 2 {
		t.Errorf("the formats are %d and %d, want 3 and 2", is, was)
	}
	to := filepath.Join(parent, "there")
	if code, _, errs := berthBeside(h, "backup", "restore", whole, "--data-dir", to); code != 0 {
		t.Fatalf("restore: %d %s", code, errs)
	}
	s, err := settings.Load(func(name string) string {
		return map[string]string{"BERTH_CONFIG": filepath.Join(to, "berth.toml")}[name]
	})
	if err != nil || s.Names.Domain != "apps.example.org" || s.RateLimit != 77 {
		t.Errorf("restored are %q and %d, %v", s.Names.Domain, s.RateLimit, err)
	}
	if _, err := os.Stat(filepath.Join(to, "restore.unfinished")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the restore is unfinished: %v", err)
	}
	if code, out, errs := berthBeside(h, "backup", "verify", whole); code != 0 || !strings.Contains(out, "1 applications") {
		t.Errorf("verify: %d %s %s", code, out, errs)
	}
}
