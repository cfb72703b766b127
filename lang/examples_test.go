package lang

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/app"
)

const examples = "../examples"

// load reads a folder into memory.
func load(t *testing.T, dir string) tree {
	t.Helper()
	files, fsys := tree{}, os.DirFS(dir)
	err := fs.WalkDir(fsys, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(fsys, path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// Every example can be uploaded as it is.
func TestExamples(t *testing.T) {
	for name, want := range map[string]string{
		"node-bot": "/usr/bin/node index.js", "memory-hog": "/usr/bin/node index.js", "python-bot": ".venv/bin/python -u main.py",
	} {
		files := load(t, filepath.Join(examples, name))
		if !files.Exists("README.md") {
			t.Errorf("%s has no README.md", name)
		}
		var cfg app.Config
		for line := range strings.Lines(files["discloud.config"]) {
			if key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key == "MAIN" {
				cfg.Main = value
			}
		}
		got, err := Plan(cfg, true, files, debian, "")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		equal(t, name, strings.Join(got.Argv, " "), want)
		equal(t, name+" main", got.Code.Main, cfg.Main)
	}
}

// The wheel holds what lies beside it for review, and its own list agrees.
func TestWheelIsItsSource(t *testing.T) {
	files := load(t, filepath.Join(examples, "python-bot"))
	text := files["wheels/berth_greeting-1.0-py3-none-any.whl"]
	r, err := zip.NewReader(bytes.NewReader([]byte(text)), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	var record, list string
	sources := 0
	for _, f := range r.File {
		rc, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(rc)
		_ = rc.Close()
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name, "/RECORD") {
			record = string(data)
			list += f.Name + ",,\n"
			continue
		}
		sum := sha256.Sum256(data)
		list += fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
		if strings.HasSuffix(f.Name, ".py") {
			sources++
			equal(t, f.Name, string(data), files["wheels/src/"+f.Name])
		}
	}
	equal(t, "RECORD", record, list)
	if sources == 0 {
		t.Error("the wheel has no source")
	}
}
