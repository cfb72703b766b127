package e2e

import (
	"io/fs"
	"os"
	"testing"

	"berth/test/harness"
)

// example reads one of the examples.
func example(t *testing.T, name string) harness.Files {
	t.Helper()
	f := harness.Files{}
	root := os.DirFS("../../examples/" + name)
	err := fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		content, err := fs.ReadFile(root, path)
		f[path] = string(content)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return f
}
