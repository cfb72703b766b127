package scripts_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"berth/test/harness"
)

// fakeGo is a program that says it is that version of Go.
func fakeGo(version string) string { return "#!/bin/sh\necho go" + version + "\n" }

// ./do downloads the Go of go.mod where there is none, or an old one, from its own site or
// else from a module proxy; it runs nothing whose sum is another, and leaves no part behind.
func TestDo(t *testing.T) {
	harness.Tools(t, "curl", "unzip", "git")
	name := "go1.26.7.linux-" + runtime.GOARCH
	archive, module := goArchive(t), goModule(t, name)
	files := map[string][]byte{
		"/site/" + name + ".tar.gz":                               archive,
		"/proxy/golang.org/toolchain/@v/v0.0.1-" + name + ".zip":  module,
		"/forged/golang.org/toolchain/@v/v0.0.1-" + name + ".zip": append(module, 0),
		"/forged/" + name + ".tar.gz":                             append(archive, 0),
	}
	served := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, is := files[r.URL.Path]; is {
			_, _ = w.Write(text)
			return
		}
		http.NotFound(w, r)
	}))
	defer served.Close()
	const nowhere = "http://127.0.0.1:1"
	for about, tt := range map[string]struct {
		found       string // the Go on the path
		site, proxy string
		status      int
		says        string
	}{
		"new enough":           {"1.26.3", nowhere, nowhere, 0, "make demo with go1.26.3"},
		"too old":              {"1.25.9", served.URL + "/site", "off", 0, "make demo with go1.26.7 of the site"},
		"none":                 {"", served.URL + "/site", "", 0, "make demo with go1.26.7 of the site"},
		"no site":              {"", nowhere, served.URL + "/proxy/,direct", 0, "make demo with go1.26.7 of the proxy"},
		"no site and no proxy": {"", nowhere, "direct", 1, "do: cannot download Go from " + nowhere + ": install Go 1.26.7, or set GOPROXY to the address of a Go module proxy\n"},
		"an empty proxy":       {"", nowhere, served.URL + "/none|direct", 1, "do: cannot download Go from " + nowhere + ", nor from " + served.URL + "/none: install Go 1.26.7\n"},
		"a forged archive":     {"", served.URL + "/forged", served.URL + "/proxy", 1, "do: " + served.URL + "/forged/" + name + ".tar.gz is not what it was: its SHA-256 is another\n"},
		"a forged module":      {"", nowhere, served.URL + "/forged", 1, ".zip is not what it was: its SHA-256 is another\n"},
	} {
		t.Run(about, func(t *testing.T) {
			dir := t.TempDir()
			write := func(name, text string, mode os.FileMode) {
				t.Helper()
				at := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(at, []byte(text), mode); err != nil {
					t.Fatal(err)
				}
			}
			script, err := os.ReadFile("../../do")
			if err != nil {
				t.Fatal(err)
			}
			// The machine's own Go is on the path that the script adds.
			write("checkout/do", strings.ReplaceAll(string(script), "/usr/local/go/bin", "/nonexistent"), 0o755)
			write("checkout/go.mod", "module berth\n\ngo 1.26.0\n\ntoolchain go1.26.7\n", 0o644)
			write("checkout/test/scripts/go.sha256", fmt.Sprintf("%x  %s.tar.gz\n%x  v0.0.1-%s.zip\n", sha256.Sum256(archive), name, sha256.Sum256(module), name), 0o644)
			write("bin/make", "#!/bin/sh\necho make \"$@\" with $(go env GOVERSION)\n", 0o755)
			write("bin/update-ca-certificates", "", 0o755) // is there
			if tt.found != "" {
				write("bin/go", fakeGo(tt.found), 0o755)
			}
			for _, tool := range strings.Fields("sh dirname id uname sed grep sort head printf mkdir rm mv chmod tar gzip unzip curl sha256sum git") {
				if at, err := exec.LookPath(tool); err != nil {
					t.Fatal(err)
				} else if err := os.Symlink(at, filepath.Join(dir, "bin", tool)); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 { // the second time it is there
				cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "checkout", "do"), "demo")
				cmd.Env = []string{"PATH=" + filepath.Join(dir, "bin"), "GO_SITE=" + tt.site, "GOPROXY=" + tt.proxy}
				said, err := cmd.CombinedOutput()
				if status := cmd.ProcessState.ExitCode(); status != tt.status || !strings.Contains(string(said), tt.says) {
					t.Fatalf("exit status %d, %v: %s", status, err, said)
				}
			}
			left, err := filepath.Glob(filepath.Join(dir, "checkout", ".cache", "*.part"))
			if err != nil || len(left) > 0 {
				t.Errorf("left are %v, %v", left, err)
			}
		})
	}
}

// The sums are those of the Go that go.mod names, for both processors and from both places.
func TestGoSums(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(mod), "\ntoolchain go")
	version, _, _ := strings.Cut(after, "\n")
	sums, err := os.ReadFile("go.sha256")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go%s.linux-amd64.tar.gz", "go%s.linux-arm64.tar.gz", "v0.0.1-go%s.linux-amd64.zip", "v0.0.1-go%s.linux-arm64.zip"} {
		if name = "  " + fmt.Sprintf(name, version) + "\n"; version == "" || !strings.Contains(string(sums), name) {
			t.Errorf("there is no sum of %q", name)
		}
	}
}

// goArchive is how the Go project packs it.
func goArchive(t *testing.T) []byte {
	t.Helper()
	var text bytes.Buffer
	packed := gzip.NewWriter(&text)
	files := tar.NewWriter(packed)
	body := fakeGo("1.26.7 of the site")
	if err := files.WriteHeader(&tar.Header{Name: "go/bin/go", Mode: 0o755, Size: int64(len(body))}); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(files, body); err != nil {
		t.Fatal(err)
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// goModule is how a module proxy has it: without the right to execute.
func goModule(t *testing.T, name string) []byte {
	t.Helper()
	var text bytes.Buffer
	files := zip.NewWriter(&text)
	for _, file := range []string{"bin/go", "pkg/tool/linux/compile"} {
		header := zip.FileHeader{Name: "golang.org/toolchain@v0.0.1-" + name + "/" + file}
		header.SetMode(0o644)
		f, err := files.CreateHeader(&header)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(f, fakeGo("1.26.7 of the proxy")); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}
