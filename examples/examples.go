package examples

import (
	"archive/zip"
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

//go:embed node-bot python-clock static-site node-site python-site php-site empty-node empty-python
var tree embed.FS

// Names are the directories of those that are shown, in their order.
var Names = []string{"node-bot", "python-clock", "static-site", "node-site", "python-site", "php-site"}

// The directories of bots that do nothing yet.
const (
	EmptyNode   = "empty-node"
	EmptyPython = "empty-python"
)

const configName = "discloud.config"

// Site reports whether one is a site, which needs an ID of its own.
func Site(name string) bool { return slices.Contains(Names, name) && strings.HasSuffix(name, "-site") }

// ZIP packs one. The lines of its discloud.config that begin with the keys of set, such as NAME,
// get their values. It fails for a name that is none.
func ZIP(name string, set map[string]string) ([]byte, error) {
	root, err := fs.Sub(tree, name)
	if err != nil || !slices.Contains(append(Names, EmptyNode, EmptyPython), name) {
		return nil, fmt.Errorf("there is no example %q", name)
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	err = fs.WalkDir(root, ".", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if err != nil {
			return err
		}
		if path == configName {
			text = []byte(replaced(string(text), set))
		}
		out, err := w.Create(path)
		if err == nil {
			_, err = out.Write(text)
		}
		return err
	})
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("cannot pack the example %s: %w", name, err)
	}
	return b.Bytes(), nil
}

// replaced is a config with other values.
func replaced(config string, set map[string]string) string {
	lines := strings.Split(config, "\n")
	for i, line := range lines {
		key, _, _ := strings.Cut(line, "=")
		if value, ok := set[key]; ok {
			lines[i] = key + "=" + value
		}
	}
	return strings.Join(lines, "\n")
}
