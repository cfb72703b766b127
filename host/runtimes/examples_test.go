package runtimes

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
	"regexp"
	"strings"
	"testing"

	"berth/app"
)

const examples = "../../examples"

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
		"typescript-bot": "/usr/bin/node dist/index.js", "go-bot": ".berth/bin/app", "rust-bot": "target/release/rust-bot",
		"java-bot": jar + "bot.jar", "php-site": "/usr/bin/php public/index.php", "ruby-bot": "/usr/bin/ruby main.rb",
		"shell-bot": "/bin/sh start.sh", "static-binary": "./bot",
		"node-site": "/usr/bin/node server.js", "python-site": "/usr/bin/python3 -u main.py", "python-clock": "/usr/bin/python3 -u main.py",
	} {
		files := load(t, filepath.Join(examples, name))
		if !files.Exists("README.md") {
			t.Errorf("%s has no README.md", name)
		}
		var cfg app.Config
		for line := range strings.Lines(files["discloud.config"]) {
			switch key, value, _ := strings.Cut(strings.TrimSpace(line), "="); key {
			case "MAIN":
				cfg.Main = value
			case "BUILD":
				cfg.Build = value
			}
		}
		if name == "static-binary" { // built by whoever uploads it
			files["bot"] = amd64
		}
		p := &project{source: source{files, debian}, cfg: cfg, arch: "amd64"}
		got, err := p.make(true)
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
		data := unzip(t, f)
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

func unzip(t *testing.T, f *zip.File) []byte {
	t.Helper()
	rc, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer rc.Close()
	data, err := io.ReadAll(rc)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// The jar is what build.sh makes of the source beside it.
func TestJarIsItsSource(t *testing.T) {
	files := load(t, filepath.Join(examples, "java-bot"))
	r, err := zip.NewReader(strings.NewReader(files["bot.jar"]), int64(len(files["bot.jar"])))
	if err != nil {
		t.Fatal(err)
	}
	content := map[string]string{}
	for _, f := range r.File {
		data := unzip(t, f)
		content[f.Name] = string(data)
	}
	if !strings.Contains(content["META-INF/MANIFEST.MF"], "\r\nMain-Class: Bot\r\n") {
		t.Errorf("the manifest is %q", content["META-INF/MANIFEST.MF"])
	}
	// Every text that the source prints is a constant of the class.
	class, source := content["Bot.class"], files["src/Bot.java"]
	if !strings.HasPrefix(class, "\xca\xfe\xba\xbe") || !strings.Contains(source, "public class Bot ") {
		t.Error("the class is not one, or not of the source")
	}
	texts := regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(source, -1)
	if len(texts) == 0 {
		t.Error("the source says nothing")
	}
	for _, m := range texts {
		if !strings.Contains(class, m[1]) {
			t.Errorf("the class does not say %q", m[1])
		}
	}
}
