package e2e

import (
	"io/fs"
	"os"
	"testing"

	"berth/test/harness"
)

// exampleNeeds are the commands of an example's language, besides Node.js and Python.
var exampleNeeds = map[string][]string{
	"go-bot": {"go"}, "rust-bot": {"cargo"}, "java-bot": {"java"}, "php-site": {"php"}, "ruby-bot": {"ruby"}, "typescript-bot": {"npm"},
}

// example reads one of the examples.
func example(t *testing.T, name string) harness.Files {
	t.Helper()
	harness.Needs(t, exampleNeeds[name]...)
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
