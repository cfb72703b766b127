package checkout

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Files leaves out what make and its tools put into a checkout.
func TestFiles(t *testing.T) {
	root := t.TempDir()
	for _, name := range []string{
		"main.go", "web/dist/page.go", "web/page_test.go", "README.md",
		".cache/go1.26.7/src/fmt/print.go", ".git/hook.go", "web/.idea/x.go", "dist/berth.go",
		"web/panel/editor/node_modules/x/y.go", "files/testdata/z.go",
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/etc", filepath.Join(root, "etc.go")); err != nil {
		t.Fatal(err)
	}
	for ending, want := range map[string][]string{
		".go": {"main.go", "web/dist/page.go", "web/page_test.go"}, "_test.go": {"web/page_test.go"}, ".md": {"README.md"}, ".html": nil,
	} {
		if list, err := Files(root, ending); err != nil || !slices.Equal(list, want) {
			t.Errorf("%s: %v, %v", ending, list, err)
		}
	}
	if _, err := Files(filepath.Join(root, "none"), ".go"); err == nil {
		t.Error("a directory that is not there has files")
	}
}
