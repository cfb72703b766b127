package examples

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
)

// Each is a ZIP with a config, and no file of it asks a registry for anything.
func TestZIP(t *testing.T) {
	total := 0
	for _, name := range append(slices.Clone(Names), EmptyNode, EmptyPython) {
		data, err := ZIP(name, map[string]string{"NAME": "Another name", "ID": "another-id"})
		if err != nil {
			t.Fatal(err)
		}
		total += len(data)
		r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		texts := map[string]string{}
		for _, f := range r.File {
			open, err := f.Open()
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(open)
			if err != nil {
				t.Fatal(err)
			}
			texts[f.Name] = string(text)
		}
		config := texts[configName]
		if !strings.Contains(config, "NAME=Another name\n") || strings.Contains(config, "ID=another-id\n") != Site(name) {
			t.Errorf("%s has the config %q", name, config)
		}
		if strings.Contains(config, "TYPE=site\n") != Site(name) {
			t.Errorf("%s is a site, or is none: %q", name, config)
		}
		for _, line := range strings.Split(config, "\n") {
			if main, is := strings.CutPrefix(line, "MAIN="); is && texts[main] == "" {
				t.Errorf("%s lacks its main file %s", name, main)
			}
		}
		for _, asks := range []string{"requirements.txt", "pyproject.toml", "composer.json", "package-lock.json", "go.mod"} {
			if _, has := texts[asks]; has {
				t.Errorf("%s has %s", name, asks)
			}
		}
	}
	if total > 32<<10 {
		t.Errorf("they are %d bytes packed", total)
	}
	for _, name := range []string{"", "nothing", "../app", "node-bot/.."} {
		if _, err := ZIP(name, nil); err == nil {
			t.Errorf("%q is an example", name)
		}
	}
	if err := fs.WalkDir(tree, ".", func(path string, e fs.DirEntry, err error) error {
		if info, _ := e.Info(); err == nil && info.Size() > 64<<10 {
			t.Errorf("%s is large", path)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
}
