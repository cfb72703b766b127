package harness

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// ResticKey opens the repository that MakeRestic makes.
const ResticKey = "a key of the tests"

// repository was made by a restic whose internal/repository/key.go sets N to 128, r and p to 1.
//
//go:embed testdata/repository
var repository embed.FS

// MakeRestic makes an empty repository of restic in dir, which may be missing. Restic opens it
// in no time. One that restic makes costs half a second of a processor in each run (scrypt).
func MakeRestic(t *testing.T, dir string) {
	t.Helper()
	made, err := fs.Sub(repository, "testdata/repository")
	if err == nil {
		err = os.CopyFS(dir, made)
	}
	for _, name := range []string{"data", "index", "locks", "snapshots"} {
		if err == nil {
			err = os.Mkdir(filepath.Join(dir, name), 0o700)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}
