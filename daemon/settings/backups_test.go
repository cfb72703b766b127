package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"berth/app"
)

func TestBackupKeyFile(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "berth.toml")
	for text, want := range map[string]string{
		"": filepath.Join(dir, "berth.d", "backup.key"), "[backups]\nkey_file = \"/etc/k\"": "/etc/k",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		from := AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		from.Fallback = file
		s, err := from.Load(func(string) string { return "" })
		if err != nil || s.BackupKey != want || s.File != file {
			t.Errorf("%q: %s and %s, %v", text, s.BackupKey, s.File, err)
		}
	}
	// The settings are of another berth.
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	from := AddFlags(set)
	from.Fallback = file
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := set.Parse([]string{"--data-dir=/srv/other"}); err != nil {
		t.Fatal(err)
	}
	if s, err := from.Load(func(string) string { return "" }); err != nil || s.BackupKey != "/srv/other.backup.key" {
		t.Errorf("%s, %v", s.BackupKey, err)
	}
}

func TestBackupEnvironment(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s3")
	s := Settings{}
	if env, err := s.BackupEnvironment(); env != nil || err != nil {
		t.Errorf("without a file: %v, %v", env, err)
	}
	s.Backups.Environment = file
	for text, want := range map[string]string{
		"# of the bucket\nAWS_ACCESS_KEY_ID=a\n\nexport AWS_SECRET_ACCESS_KEY='b = c'\n": "AWS_ACCESS_KEY_ID=a|AWS_SECRET_ACCESS_KEY=b = c",
		"a=1\nb":      "line 2 of " + file + " must be NAME=VALUE",
		"9a=secret":   "line 1 of " + file + " must be NAME=VALUE",
		"# nothing\n": "the file holds no variable",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		env, err := s.BackupEnvironment()
		got := strings.Join(env, "|")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasSuffix(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%q: %s", text, got)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.BackupEnvironment(); err == nil || !strings.Contains(err.Error(), "backups.environment") {
		t.Errorf("others may read it: %v", err)
	}
}

// The panel sets a policy in the managed file, but for what the settings file decides.
func TestManageBackups(t *testing.T) {
	file := filepath.Join(t.TempDir(), "berth.toml")
	p := app.BackupPolicy{At: "04:00", Daily: 3, Weekly: 2, Monthly: 1, Rehearse: 48 * time.Hour}
	load := func() app.BackupPolicy {
		from := AddFlags(pflag.NewFlagSet("", pflag.ContinueOnError))
		from.Fallback = file
		s, err := from.Load(func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		return s.BackupPolicy()
	}
	if _, err := ManageBackups(file, p); err != nil || load() != p {
		t.Errorf("%+v, %v", load(), err)
	}
	if err := os.WriteFile(file, []byte("[backups]\nat = \"05:00\"\nkeep_weekly = 2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if fixed, err := FixedBackups(file); err != nil || !slices.Equal(fixed, []string{"backups.at", "backups.keep_weekly"}) {
		t.Errorf("%v, %v", fixed, err)
	}
	if _, err := ManageBackups(file, p); err == nil || !strings.Contains(err.Error(), "cannot set backups.at") {
		t.Errorf("%v", err)
	}
	p.At = "05:00"
	p.Monthly = 0
	if _, err := ManageBackups(file, p); err != nil || load() != p {
		t.Errorf("%+v, %v", load(), err)
	}
	p.Daily = 0
	if _, err := ManageBackups(file, p); err == nil || !strings.Contains(err.Error(), "backups.keep_daily") {
		t.Errorf("%v", err)
	}
}
