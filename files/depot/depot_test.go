package depot

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
)

// piece is one entry of an archive that a test makes.
type piece struct {
	name string
	text string
	mode int64
	kind byte   // of a tar; 0 is a file
	link string // its target
}

// tarball makes a tar.gz.
func tarball(t testing.TB, pieces ...piece) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	w := tar.NewWriter(z)
	for _, p := range pieces {
		h := &tar.Header{Name: p.name, Mode: p.mode, Typeflag: p.kind, Linkname: p.link, Uid: 1000, Gid: 1000}
		if p.kind == 0 {
			h.Typeflag, h.Size = tar.TypeReg, int64(len(p.text))
		}
		err := w.WriteHeader(h)
		if err == nil && p.kind == 0 {
			_, err = w.Write([]byte(p.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), z.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// zipped makes a ZIP.
func zipped(t testing.TB, pieces ...piece) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, p := range pieces {
		h := &zip.FileHeader{Name: p.name, Method: zip.Deflate}
		h.SetMode(fs.FileMode(p.mode))
		if p.link != "" {
			h.SetMode(fs.ModeSymlink | 0o777)
			p.text = p.link
		}
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write([]byte(p.text))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// node is what an archive of Node.js looks like.
func node(t testing.TB, version string) []byte {
	t.Helper()
	top := "node-v" + version + "-linux-x64/"
	return tarball(t,
		piece{name: top, mode: 0o700, kind: tar.TypeDir},
		piece{name: top + "bin/node", text: version, mode: 0o6755},
		piece{name: top + "bin/npm", kind: tar.TypeSymlink, link: "../lib/npm.js"},
		piece{name: top + "lib/npm.js", text: "npm", mode: 0o600},
		piece{name: top + "lib/same.js", kind: tar.TypeLink, link: top + "lib/npm.js"},
		piece{name: top + "lib/gone", kind: tar.TypeSymlink, link: "nowhere"},
	)
}

func sumOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// onDisk writes an archive to a file.
func onDisk(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "archive")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// says is a version that its command holds instead of telling it.
func says(bin, command string) string {
	text, _ := os.ReadFile(filepath.Join(bin, command))
	return string(text)
}

// changed opens a depot in an empty directory.
func changed(t testing.TB) *Change {
	t.Helper()
	c, err := Of(t.TempDir()).Change()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// refused checks what an error says, and that nothing is left of what was tried.
func refused(t *testing.T, c *Change, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("it was not refused")
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("the error %q does not say %q", err, w)
		}
	}
	list, _ := os.ReadDir(c.dir)
	for _, e := range list {
		if strings.HasPrefix(e.Name(), newPrefix) {
			t.Errorf("%s is left", e.Name())
		}
	}
}

func TestInstall(t *testing.T) {
	c := changed(t)
	data := node(t, "22.11.0")
	r, err := c.Install(t.Context(), File("node", "22", onDisk(t, data), sumOf(data)), says)
	if err != nil {
		t.Fatal(err)
	}
	if r.Language != "node" || r.Version != "22.11.0" || r.SHA256 != sumOf(data) || r.Source != "archive" || r.At.IsZero() {
		t.Errorf("%+v", r)
	}
	if all := Of(filepath.Dir(c.dir)).Runtimes(); len(all) != 1 || all[0] != r {
		t.Errorf("%+v", all)
	}
	for path, want := range map[string]fs.FileMode{
		"": fs.ModeDir | 0o755, "bin": fs.ModeDir | 0o755, "bin/node": 0o755, "lib/npm.js": 0o644, "lib/same.js": 0o644,
		"bin/npm": fs.ModeSymlink | 0o777, "lib/gone": fs.ModeSymlink | 0o777,
	} {
		info, err := os.Lstat(filepath.Join(c.Tree("node", "22.11.0"), path))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", path, info, err, want)
		}
	}
	if text, err := os.ReadFile(filepath.Join(c.Bin("node", "22.11.0"), "npm")); string(text) != "npm" {
		t.Errorf("npm is %q, %v", text, err)
	}
	if info, err := os.Stat(c.recordPath("node", "22.11.0")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the record: %v, %v", info, err)
	}
	_, err = c.Install(t.Context(), File("node", "22.11", onDisk(t, data), ""), says)
	refused(t, c, err, "cannot install node 22.11: node 22.11.0 is installed already")
	if language, version, ok := c.Holds(c.Bin("node", "22.11.0") + "/node"); language != "node" || version != "22.11.0" || !ok {
		t.Errorf("Holds: %s %s %v", language, version, ok)
	}
	if _, _, ok := c.Holds("/usr/bin/node"); ok {
		t.Error("it holds the host's own")
	}
}

// The same version from an archive with another sum is another one, also when the first is
// removed.
func TestSumIsRemembered(t *testing.T) {
	c := changed(t)
	first := node(t, "22.11.0")
	if _, err := c.Install(t.Context(), File("node", "22.11.0", onDisk(t, first), ""), says); err != nil {
		t.Fatal(err)
	}
	if err := c.Remove("node", "22.11.0"); err != nil {
		t.Fatal(err)
	}
	if left := c.Versions("node"); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	other := tarball(t, piece{name: "x/bin/node", text: "22.11.0", mode: 0o755})
	_, err := c.Install(t.Context(), File("node", "22", onDisk(t, other), ""), says)
	refused(t, c, err, "this host had node 22.11.0 before", sumOf(first), sumOf(other), c.recordPath("node", "22.11.0"))
	if _, err := c.Install(t.Context(), File("node", "22", onDisk(t, first), ""), says); err != nil {
		t.Error(err)
	}
	if err := c.Remove("node", "22.0.0"); err == nil {
		t.Error("a version that is not there was removed")
	}
}

func TestVersions(t *testing.T) {
	c := changed(t)
	for _, version := range []string{"9.1.0", "22.9.0", "22.11.0", "20.1.0"} {
		if _, err := c.Install(t.Context(), File("node", version, onDisk(t, node(t, version)), ""), says); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"latest", "1", ".x", "22.12.0-rc1"} {
		if err := os.Mkdir(filepath.Join(c.dir, "node", name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := c.Versions("node"), []string{"22.11.0", "22.9.0", "20.1.0", "9.1.0"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, tt := range []struct {
		version, with string
		want          bool
	}{
		{"22.3.1", "22", true},
		{"22.3.1", "22.3", true},
		{"22.3.1", "22.3.1", true},
		{"22.3.1", "2", false},
		{"22.3.1", "22.31", false},
		{"22.3", "22.3.1", false},
		{"22.3.1", "", false},
	} {
		if got := Begins(tt.version, tt.with); got != tt.want {
			t.Errorf("Begins(%q, %q) = %v", tt.version, tt.with, got)
		}
	}
	for language, want := range map[string]string{"node": "22", "python": "22.11", "java": "22", "deno": "22", "bun": "22"} {
		if got := Line(language, "22.11.0"); got != want {
			t.Errorf("the line of %s is %s", language, got)
		}
	}
}

// What does not run here, or is another version, is not installed.
func TestTriedVersion(t *testing.T) {
	c := changed(t)
	for _, tt := range []struct{ asked, told, words string }{
		{"22", "", "its program node does not run on this host"},
		{"22", "20.1.0", "its program node says that it is 20.1.0"},
		{"22.11.0", "22.12.0", "says that it is 22.12.0"},
		{"22", "22", "says that it is 22"},
		{"22", "../../x", "says that it is ../../x"},
	} {
		_, err := c.Install(t.Context(), File("node", tt.asked, onDisk(t, node(t, tt.told)), ""), says)
		refused(t, c, err, "cannot install node "+tt.asked, tt.words)
	}
	// The first release of a line of Java does not say more.
	jdk := tarball(t, piece{name: "jdk-21+35-jre/bin/java", text: "21", mode: 0o755})
	if r, err := c.Install(t.Context(), File("java", "21.0.0", onDisk(t, jdk), ""), says); err != nil || r.Version != "21.0.0" {
		t.Errorf("%+v, %v", r, err)
	}
}

// An installation that was killed counts for nothing, and the next command removes it.
func TestKilledInstallation(t *testing.T) {
	c := changed(t)
	half := filepath.Join(c.dir, newPrefix+"123")
	if err := os.MkdirAll(filepath.Join(half, "tree", "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.dir, newPrefix+"record"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	// Killed between the record and the name of the tree: it is installed again.
	data := node(t, "22.11.0")
	if err := os.Mkdir(filepath.Join(c.dir, "node"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.remember(Runtime{"node", "22.11.0", Record{SHA256: sumOf(data)}}); err != nil {
		t.Fatal(err)
	}
	if all := c.Runtimes(); len(all) > 0 {
		t.Errorf("%v", all)
	}
	if _, err := c.Change(); err == nil || !strings.Contains(err.Error(), "another command is doing that") {
		t.Errorf("two commands at once: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	next, err := c.Change()
	if err != nil {
		t.Fatal(err)
	}
	defer next.Close()
	if left, _ := filepath.Glob(filepath.Join(c.dir, newPrefix+"*")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	if _, err := next.Install(t.Context(), File("node", "22", onDisk(t, data), ""), says); err != nil {
		t.Error(err)
	}
}

func TestFileOfThisMachine(t *testing.T) {
	c := changed(t)
	_, err := c.Install(t.Context(), File("node", "22", filepath.Join(t.TempDir(), "absent"), ""), says)
	refused(t, c, err, "no such file")
	_, err = c.Install(t.Context(), File("node", "22", t.TempDir(), ""), says)
	refused(t, c, err, "is not a file")
	fifo := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = c.Install(t.Context(), File("node", "22", fifo, ""), says)
	refused(t, c, err, "is not a file")
	data := node(t, "22.11.0")
	_, err = c.Install(t.Context(), File("node", "22", onDisk(t, data), strings.Repeat("0", 64)), says)
	refused(t, c, err, "has the SHA-256 "+sumOf(data)+", and the publisher's list says 0000")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = c.Install(ended, File("node", "22", onDisk(t, data), ""), says)
	refused(t, c, err, "context canceled")
}

// A full disk leaves nothing.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root for a small file system")
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("cannot mount: ", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, 0) })
	c, err := Of(dir).Change()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	large := tarball(t, piece{name: "x/bin/node", text: "22.11.0", mode: 0o755}, piece{name: "x/large", text: strings.Repeat("0", 1<<20)})
	_, err = c.Install(t.Context(), File("node", "22", onDisk(t, large), ""), says)
	refused(t, c, err, "cannot install the runtime: "+app.DiskFull)
	if app.KindOf(err) != app.NoSpace {
		t.Errorf("the kind is %v", app.KindOf(err))
	}
}
