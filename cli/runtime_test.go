//go:build linux

package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"berth/app/exit"
)

// archive is one of Node.js whose command says a version.
func archive(t *testing.T, version string) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	text := "#!/bin/sh\necho v" + version + "\n"
	err := w.WriteHeader(&tar.Header{Name: "node/bin/node", Mode: 0o755, Size: int64(len(text)), Typeflag: tar.TypeReg})
	if err == nil {
		_, err = w.Write([]byte(text))
	}
	if err := errors.Join(err, w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// mirror serves versions of Node.js.
type mirror struct {
	files map[string][]byte
	index []string
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, ok := m.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write(data)
}

// publish adds a version.
func (m *mirror) publish(t *testing.T, version string) {
	t.Helper()
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	dir, name := "/dist/v"+version+"/", "node-v"+version+"-linux-"+arch+".tar.gz"
	m.files[dir+name] = archive(t, version)
	m.files[dir+"SHASUMS256.txt"] = fmt.Appendf(nil, "%x  %s\n", sha256.Sum256(m.files[dir+name]), name)
	m.index = append(m.index, fmt.Sprintf(`{"version":"v%s","files":["linux-%s"]}`, version, arch))
	m.files["/dist/index.json"] = []byte("[" + strings.Join(m.index, ",") + "]")
}

// The newest of a line is installed and upgraded from a mirror on this machine.
func TestRuntimesOfAMirror(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the runtimes belong to root")
	}
	root, err := os.MkdirTemp("/tmp", "berth-runtime.") //nolint:usetesting // t.TempDir is closed to other users
	if err == nil {
		err = os.Chmod(root, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(root) })
	dir := filepath.Join(root, "data")
	made(t, dir)
	m := &mirror{files: map[string][]byte{}}
	m.publish(t, "22.9.0")
	m.publish(t, "20.18.1")
	server := httptest.NewServer(m)
	defer server.Close()
	env := map[string]string{"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": dir, "BERTH_RUNTIMES_NODE": server.URL + "/dist"}
	do := func(args string, want int, says ...string) {
		t.Helper()
		code, stdout, stderr := start(t, env, append([]string{"runtime"}, strings.Fields(args)...)...)
		if code != want {
			t.Errorf("%s: exit %d, want %d: %s", args, code, want, stderr)
		}
		for _, text := range says {
			if !strings.Contains(stdout+stderr, text) {
				t.Errorf("%s: does not say %q: %s%s", args, text, stdout, stderr)
			}
		}
	}
	do("list node --available", exit.OK, "node      22.9.0\n", "node      20.18.1\n")
	do("install node 18", exit.NotFound, "cannot install node 18: its publisher offers none for this machine", "berth runtime list node --available")
	do("install node 22.x", exit.OK, "getting "+server.URL+"/dist/v22.9.0/", "node 22.9.0 is installed: programs with VERSION=22 take it")
	do("install node 22", exit.OK, "node 22.9.0 is installed already")
	do("install node 20.18.1", exit.OK, "node 20.18.1 is installed")
	do("upgrade", exit.OK, "node 22.9.0 is the newest", "node 20.18.1 is the newest")
	m.publish(t, "22.11.0")
	do("upgrade node 20", exit.OK, "node 20.18.1 is the newest")
	do("upgrade node 22", exit.OK, "node 22.11.0 is installed", "node 22.9.0 stays for what uses it; berth runtime remove node 22.9.0")
	do("list", exit.OK, "22.11.0", "22.9.0", "20.18.1", server.URL)
	do("remove node 22.9.0", exit.OK, "node 22.9.0 is removed")
	// A publisher that goes back in time takes nothing away.
	m.index = nil
	m.publish(t, "22.1.0")
	do("upgrade node 22", exit.OK, "node 22.11.0 is the newest")
	do("upgrade python", exit.NotFound, "no such runtime is installed")
}

// A command that is killed in the middle of a download installs nothing, and the next one
// removes what it left.
func TestKilledRuntimeInstall(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("the runtimes belong to root")
	}
	dir := filepath.Join(t.TempDir(), "data")
	made(t, dir)
	m := &mirror{files: map[string][]byte{}}
	m.publish(t, "22.11.0")
	half, gone := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, ".tar.gz") {
			m.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000000")
		_, _ = w.Write(make([]byte, 1000))
		_ = http.NewResponseController(w).Flush()
		half <- struct{}{}
		<-gone
	}))
	defer server.Close()
	defer close(gone)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe") // the test binary is berth by this name
	cmd.Args = []string{"berth", "runtime", "install", "node", "22", "--data-dir", dir}
	cmd.Env = []string{"BERTH_CONFIG=" + os.DevNull, "BERTH_RUNTIMES_NODE=" + server.URL + "/dist"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	<-half
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	left := func() int {
		list, err := filepath.Glob(filepath.Join(dir, "runtimes", ".new-*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if left() != 1 {
		t.Errorf("%d directories of an installation are there", left())
	}
	env := map[string]string{"BERTH_CONFIG": os.DevNull, "BERTH_DATA_DIR": dir}
	if code, stdout, stderr := start(t, env, "runtime", "list", "--json"); code != exit.OK || strings.TrimSpace(stdout) != "[]" {
		t.Errorf("exit %d, said %s%s", code, stdout, stderr)
	}
	if code, _, _ := start(t, env, "runtime", "remove", "node", "22"); code != exit.NotFound || left() != 0 {
		t.Errorf("exit %d, and %d directories are left", code, left())
	}
}
