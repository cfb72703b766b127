package bundle

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/app"
)

// extractInto unpacks a into a fresh directory beside a canary, and fails when
// anything but that directory changed.
func extractInto(t *testing.T, a *Archive) (string, error) {
	t.Helper()
	top := t.TempDir()
	dir := filepath.Join(top, "in")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	err = a.Extract(t.Context(), root)
	if err != nil && app.KindOf(err) == app.Internal {
		t.Errorf("a stranger's bytes made an internal error: %v", err)
	}
	names, rerr := os.ReadDir(top)
	if rerr != nil || len(names) != 1 {
		t.Errorf("outside the directory: %v %v", names, rerr)
	}
	return dir, err
}

func mustOpen(t *testing.T, lim Limits, entries ...raw) *Archive {
	t.Helper()
	a, err := Open(file(t, rawZIP(t, entries...)), lim, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	return a
}

func TestExtract(t *testing.T) {
	withUmask(t, 0o077)
	big := strings.Repeat("0123456789", 100_000)
	a := mustOpen(t, Limits{},
		raw{name: "app/run.sh", data: "#!/bin/sh", creator: unix, attrs: mode(0o106755)},
		raw{name: "app/owner-only", data: "x", creator: unix, attrs: mode(0o100000)},
		raw{name: "app/deep/er/file", data: big, method: deflated, stream: true},
		raw{name: "app/empty/", creator: unix, attrs: mode(0o042777)},
		raw{name: "app/deep/", creator: unix, attrs: mode(0o040111)})
	dir, err := extractInto(t, a)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]fs.FileMode{
		"run.sh": 0o755, "owner-only": 0o644, "deep/er/file": 0o644,
		"empty": fs.ModeDir | 0o755, "deep": fs.ModeDir | 0o755, "deep/er": fs.ModeDir | 0o755,
	} {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
	got, err := os.ReadFile(filepath.Join(dir, "deep/er/file"))
	if err != nil || string(got) != big {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	// 0x5821 is 2024-01-01 in the format's calendar.
	if info, err := os.Stat(filepath.Join(dir, "run.sh")); err != nil || info.ModTime().UTC().Year() != 2024 {
		t.Errorf("time %v, %v", info.ModTime(), err)
	}
}

func TestExtractRefuses(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("\x00", 1<<20)
	tests := []struct {
		name string
		lim  Limits
		zip  []raw
		kind app.Kind
		want string
	}{
		{
			"checksum",
			Limits{},
			[]raw{{name: "a", data: "hello", crc: ptr(7)}},
			app.Unusable,
			`cannot unpack the ZIP: entry "a" is damaged: its checksum does not match`,
		},
		{"checksum, streamed", Limits{}, []raw{{name: "a", data: "hello", crc: ptr(7), stream: true}}, app.Unusable, "checksum"},
		{
			"bad deflate",
			Limits{},
			[]raw{{name: "a", data: "hello", method: deflated, body: []byte{0xff}}},
			app.Unusable,
			`entry "a" is damaged: its data cannot be read`,
		},
		{"size too small", Limits{}, []raw{{name: "a", data: "hello", size: ptr(2)}}, app.Unusable, `entry "a" is damaged`},
		{"size too large", Limits{}, []raw{{name: "a", data: "hello", size: ptr(9)}}, app.Unusable, `entry "a" is damaged`},
		{
			"bomb that lies to archive/zip",
			Limits{MaxUnpacked: 1000},
			[]raw{{name: "a", data: zeros, method: deflated, size: ptr(10)}},
			app.Unusable, `entry "a" is damaged`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir, err := extractInto(t, mustOpen(t, tt.lim, tt.zip...))
			if app.KindOf(err) != tt.kind || !strings.Contains(text(err), tt.want) {
				t.Errorf("got kind %d, %v", app.KindOf(err), err)
			}
			var size int64
			_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, _ error) error {
				if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
					size += info.Size()
				}
				return nil
			})
			if size > chunk {
				t.Errorf("%d bytes were written", size)
			}
		})
	}
}

// The limit is on what comes out, over all files, to the byte.
func TestExtractCountsRealBytes(t *testing.T) {
	t.Parallel()
	lim := Limits{MaxUnpacked: 10}
	if _, err := extractInto(t, mustOpen(t, lim, raw{name: "a", data: "01234"}, raw{name: "b", data: "56789"})); err != nil {
		t.Errorf("exactly the limit: %v", err)
	}
	// archive/zip checks the announced size as well; the budget must hold
	// without it.
	a := mustOpen(t, lim, raw{name: "a", data: "01234"})
	n, err := a.copyEntry(t.Context(), io.Discard, strings.NewReader("01234567890"), a.entries[0], 10, make([]byte, 4))
	if app.KindOf(err) != app.TooLarge || n != 11 || !strings.Contains(text(err), "it unpacks to more than 10 bytes") {
		t.Errorf("above the limit: %d, %v", n, err)
	}
}

func TestExtractHonoursContext(t *testing.T) {
	t.Parallel()
	a := mustOpen(t, Limits{}, raw{name: "a", data: "x"})
	root, err := os.OpenRoot(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := a.Extract(ctx, root); !errors.Is(err, context.Canceled) {
		t.Errorf("between entries: %v", err)
	}
	// Within a file: the context ends after the first piece.
	ctx, cancel = context.WithCancel(t.Context())
	r := readerFunc(func(p []byte) (int, error) { cancel(); return len(p), nil })
	n, err := a.copyEntry(ctx, io.Discard, r, entry{name: "a"}, 1<<40, make([]byte, 10))
	if !errors.Is(err, context.Canceled) || n != 10 {
		t.Errorf("within a file: %d, %v", n, err)
	}
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// What was planted in the directory is neither followed nor replaced.
func TestExtractIntoPlantedLinks(t *testing.T) {
	t.Parallel()
	for _, plant := range []string{"a", "d"} {
		top := t.TempDir()
		dir := filepath.Join(top, "in")
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Mkdir(filepath.Join(top, "out"), 0o755),
			os.WriteFile(filepath.Join(top, "secret"), []byte("keep"), 0o600)); err != nil {
			t.Fatal(err)
		}
		target := map[string]string{"a": "../secret", "d": "../out"}[plant]
		if err := os.Symlink(target, filepath.Join(dir, plant)); err != nil {
			t.Fatal(err)
		}
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		a := mustOpen(t, Limits{}, raw{name: "a", data: "new"}, raw{name: "d/x", data: "new"})
		if err := a.Extract(t.Context(), root); err == nil {
			t.Error("extracted through a link")
		}
		root.Close()
		got, _ := os.ReadFile(filepath.Join(top, "secret"))
		out, _ := os.ReadDir(filepath.Join(top, "out"))
		if string(got) != "keep" || len(out) != 0 {
			t.Errorf("outside: %q %v", got, out)
		}
	}
}

func TestWriterRoundTrip(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := NewWriter(&b)
	day := time.Date(2023, 5, 6, 7, 8, 10, 0, time.UTC)
	long := strings.Repeat("compressible ", 1000)
	add := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	add(w.AddFile("discloud.config", false, day, 7, strings.NewReader("MAIN=a\n")))
	add(w.AddDir("empty", day))
	add(w.AddFile("é/run", true, day, int64(len(long)), strings.NewReader(long)))
	add(w.AddDir("é", time.Time{}))
	add(w.AddFile("photo.PNG", false, time.Unix(0, 0), 4, strings.NewReader("cut off here")))
	add(w.AddFile("shrunk", false, day, 100, strings.NewReader("short")))
	add(w.AddFile("void", false, day, 0, strings.NewReader("ignored")))
	add(w.Close())
	if b.Len() > 3000 {
		t.Errorf("%d bytes: not compressed", b.Len())
	}
	a, err := Open(file(t, b.Bytes()), Limits{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, found := a.Config, a.Found; !found {
		t.Error("the config got lost")
	}
	dir, err := extractInto(t, a)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"discloud.config": "MAIN=a\n", "é/run": long, "photo.PNG": "cut ", "shrunk": "short", "void": "",
	} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	info, err := os.Stat(filepath.Join(dir, "é/run"))
	if err != nil || info.Mode().Perm() != 0o755 || !info.ModTime().Equal(day) {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "empty")); err != nil || !info.IsDir() {
		t.Errorf("empty: %v", err)
	}
}

func TestWriterRefuses(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, entry, want string }{
		{"climbing", "../x", "climbs out"},
		{"bad UTF-8", "a\xff", "not valid UTF-8"},
		{"control character", "a\nb", "control character"},
		{"backslash", `a\b`, "backslash"},
		{"no name", ".", "no name"},
		{"taken", "a", "occurs more than once"},
		{"below a file", "a/b", "which is a file"},
		{"where a directory is", "d", "is a file and a directory at once"},
		{"too deep", strings.Repeat("d/", 40) + "x", "directories deep"},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, name := range []string{"a", "d/x"} {
		if err := w.AddFile(name, false, time.Time{}, 1, strings.NewReader("x")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := w.AddFile(tt.entry, false, time.Time{}, 1, strings.NewReader("x"))
			if app.KindOf(err) != app.Unusable || !strings.Contains(text(err), tt.want) {
				t.Errorf("got %v", err)
			}
		})
	}
	if err := w.AddDir("../x", time.Time{}); app.KindOf(err) != app.Unusable {
		t.Errorf("directory: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a, err := Open(file(t, b.Bytes()), Limits{}, nil)
	if err != nil || len(a.entries) != 2 {
		t.Fatalf("what was refused got in: %v", err)
	}
	a.Close()
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

func TestWriterKeepsTheCause(t *testing.T) {
	t.Parallel()
	w := NewWriter(brokenWriter{})
	err := w.AddFile("a", false, time.Time{}, 1<<20, bytes.NewReader(make([]byte, 1<<20)))
	if err = errors.Join(err, w.Close()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// A ZIP made on Windows says nothing of permissions.
func TestProgramsAreExecutable(t *testing.T) {
	dir, err := extractInto(t, mustOpen(t, Limits{},
		raw{name: "elf", data: "\x7fELF\x02..."}, raw{name: "script", data: "#!/bin/sh\n"}, raw{name: "text", data: "#text"},
		raw{name: "short", data: "\x7fE"}, raw{name: "none"},
	))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{"elf": 0o755, "script": 0o755, "text": 0o644, "short": 0o644, "none": 0o644} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", name, info.Mode(), err, want)
		}
	}
}

// A ZIP whose files are unpacked as they are keeps its folder, and what an upload leaves out, but for variables.
func TestOpenFiles(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.zip")
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	zw := zip.NewWriter(f)
	for _, name := range []string{"top/package.json", "top/node_modules/p/x.js", "top/.git/config", "top/" + app.VariablesFile, "__MACOSX/x"} {
		w, err := zw.Create(name)
		if err == nil {
			_, err = io.WriteString(w, `{"dependencies":{"p":"1"}}`)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(zw.Close(), f.Close()); err != nil {
		t.Fatal(err)
	}
	a, err := OpenFiles(file, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	var names []string
	for _, e := range a.entries {
		names = append(names, e.name)
	}
	if want := []string{"top/package.json", "top/node_modules/p/x.js", "top/.git/config"}; !slices.Equal(names, want) {
		t.Errorf("it has %q, want %q", names, want)
	}
	if _, err := OpenFiles(filepath.Join(t.TempDir(), "none"), Limits{}); err == nil {
		t.Error("there is none")
	}
	if err := os.WriteFile(file, []byte("no ZIP"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFiles(file, Limits{}); app.KindOf(err) != app.Unusable {
		t.Errorf("what is none: %v", err)
	}
}
