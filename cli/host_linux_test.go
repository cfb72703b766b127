package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/daemon/backup"
)

// The binary becomes the child that copies a program's database: this is what that says of a
// file that is none.
func TestBecomesTheCopyOfADatabase(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: the copy is made as another user")
	}
	const uid = 54321
	dir := t.TempDir()
	path := filepath.Join(dir, "x.db")
	if err := os.WriteFile(path, append([]byte("SQLite format 3\x00"), make([]byte, 500)...), 0o600); err != nil {
		t.Fatal(err)
	}
	to, err := os.Create(filepath.Join(t.TempDir(), "copy"))
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	from, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	for _, name := range []string{path, dir} {
		if err := os.Chown(name, uid, uid); err != nil {
			t.Fatal(err)
		}
	}
	if err := backup.CopyDatabase(t.Context(), from, "x.db", uid, uid, to); err == nil || !strings.Contains(err.Error(), "not a database") {
		t.Errorf("got %v", err)
	}
}
