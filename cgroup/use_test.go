package cgroup

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for name, tt := range map[string]struct {
		text, word string
		want       int64
		fails      string
	}{
		"alone":             {"4096\n", "", 4096, ""},
		"no limit":          {"max\n", "", -1, ""},
		"no line end":       {"7", "", 7, ""},
		"of a word":         {"anon 1\ninactive_file 5\nfile 9\n", "inactive_file", 5, ""},
		"not of its prefix": {"inactive_file_x 1\ntotal_inactive_file 2\ninactive_file 3", "inactive_file", 3, ""},
		"zero":              {"inactive_file 0\n", "inactive_file", 0, ""},
		"no such word":      {"anon 1\n", "inactive_file", 0, `file has no "inactive_file"`},
		"empty":             {"", "", 0, `file has no ""`},
		"no number":         {"many\n", "", 0, "invalid syntax"},
	} {
		path := filepath.Join(t.TempDir(), "file")
		if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := number(path, tt.word)
		if got != tt.want || (err == nil) != (tt.fails == "") || err != nil && !strings.Contains(err.Error(), tt.fails) {
			t.Errorf("%s: %d, %v; want %d, %q", name, got, err, tt.want, tt.fails)
		}
	}
	if _, err := number(filepath.Join(t.TempDir(), "none"), ""); err == nil {
		t.Error("a file that is not there has a number")
	}
}
