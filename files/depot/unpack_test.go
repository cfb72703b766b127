package depot

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// unpacked unpacks an archive within bounds into a new directory.
func unpacked(t testing.TB, b bounds, data []byte) (at string, err error) {
	t.Helper()
	f, err := os.Open(onDisk(t, data))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return b.unpack(t.Context(), f, filepath.Join(t.TempDir(), "tree"))
}

var small = bounds{1 << 20, 10}

func TestHostileArchives(t *testing.T) {
	file := piece{name: "x/a", text: "a", mode: 0o644}
	link := func(name, to string) piece { return piece{name: name, kind: tar.TypeSymlink, link: to} }
	hard := func(name, to string) piece { return piece{name: name, kind: tar.TypeLink, link: to} }
	many := make([]piece, 20)
	for i := range many {
		many[i] = piece{name: strings.Repeat("d", i+1), text: "", mode: 0o644}
	}
	const outside, ways = "a name outside of it", "which leads out of it"
	for _, tt := range []struct {
		name  string
		data  []byte
		words string
	}{
		{"absolute name", tarball(t, piece{name: "/etc/x", text: "x"}), outside},
		{"parent", tarball(t, piece{name: "x/../../y", text: "x"}), outside},
		{"backslash", tarball(t, piece{name: `x\..\y`, text: "x"}), outside},
		{"absolute link", tarball(t, file, link("x/l", "/etc/passwd")), ways},
		{"link to the parent", tarball(t, file, link("x/l", "../../y")), ways},
		{"link beside the tree", tarball(t, file, link("x/l", "../y")), ways},
		{"link to the top", tarball(t, file, link("x/l", "..")), ways},
		{"link through a link", tarball(t, file, piece{name: "x/b/c/d", text: ""}, link("x/b/c/up", "../.."), link("x/l", "b/c/up/../y")), ways},
		{"links in a circle", tarball(t, file, link("x/l", "m"), link("x/m", "l")), ways},
		{"file below a link", tarball(t, link("x/l", "a"), piece{name: "x/l/b", text: ""}), `cannot make the link "x/l"`},
		{"hard link outside", tarball(t, file, hard("x/l", "/etc/passwd")), ways},
		{"hard link to the parent", tarball(t, file, hard("x/l", "../y")), ways},
		{"hard link to a link", tarball(t, file, link("x/l", "a"), hard("x/m", "x/l")), `cannot make the link "x/m"`},
		{"hard link to nothing", tarball(t, file, hard("x/m", "x/l")), `cannot make the link "x/m"`},
		{"character device", tarball(t, file, piece{name: "x/null", kind: tar.TypeChar}), "no file, directory or link"},
		{"block device", tarball(t, file, piece{name: "x/sda", kind: tar.TypeBlock}), "no file, directory or link"},
		{"FIFO", tarball(t, file, piece{name: "x/f", kind: tar.TypeFifo}), "no file, directory or link"},
		{"twice", tarball(t, file, file), `holds "x/a" twice`},
		{"file and directory", tarball(t, file, piece{name: "x/a/b", text: ""}), "x/a"},
		{"too many files", tarball(t, many...), "more than a runtime has"},
		{"too large", tarball(t, piece{name: "x", text: strings.Repeat("\x00", 2<<20)}), "more than a runtime has"},
		{"too much behind its end", append(tarball(t, file), zeros(t, 4<<20)...), "more than a runtime has"},
		{"cut short", tarball(t, file)[:60], "damaged or cut short"},
		{"no archive", []byte("<html>not found</html>"), "no .tar.gz and no .zip"},
		{"empty", nil, "no .tar.gz and no .zip"},
		{"ZIP: absolute name", zipped(t, piece{name: "/etc/x"}), outside},
		{"ZIP: parent", zipped(t, piece{name: "../y"}), outside},
		{"ZIP: link outside", zipped(t, file, piece{name: "x/l", link: "../../y"}), ways},
		{"ZIP: FIFO", zipped(t, piece{name: "x", mode: int64(fs.ModeNamedPipe)}), "no file, directory or link"},
		{"ZIP: too large", zipped(t, piece{name: "x", text: strings.Repeat("\x00", 2<<20)}), "more than a runtime has"},
		{"ZIP: cut short", zipped(t, file)[:20], "damaged or cut short"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at, err := unpacked(t, small, tt.data)
			if err == nil || !strings.Contains(err.Error(), tt.words) {
				t.Errorf("%q, %v, want %q", at, err, tt.words)
			}
		})
	}
}

// zeros are n bytes of nothing, compressed.
func zeros(t testing.TB, n int) []byte {
	t.Helper()
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	if _, err := z.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// A ZIP of one program has no directory of its own.
func TestUnpackZip(t *testing.T) {
	for _, tt := range []struct {
		name  string
		piece piece
	}{{"bare", piece{name: "deno", text: "2.1.4", mode: 0o4755}}, {"in a directory", piece{name: "bun-linux-x64/deno", text: "2.1.4", mode: 0o755}}} {
		at, err := unpacked(t, small, zipped(t, tt.piece))
		if err != nil {
			t.Fatal(tt.name, ": ", err)
		}
		info, err := os.Stat(filepath.Join(at, "deno"))
		if err != nil || info.Mode() != 0o755 {
			t.Errorf("%s: %v, %v", tt.name, info, err)
		}
	}
}

// FuzzUnpack: whatever an archive holds, all that comes of it are files, directories and
// links within its bounds, without rights beyond execution, and nothing is beside it.
func FuzzUnpack(f *testing.F) {
	plain := func(data []byte) []byte {
		z, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			f.Fatal(err)
		}
		var out bytes.Buffer
		if _, err := out.ReadFrom(z); err != nil {
			f.Fatal(err)
		}
		return out.Bytes()
	}
	f.Add(plain(node(f, "22.11.0")), false)
	f.Add(plain(tarball(f, piece{name: "a/l", kind: tar.TypeSymlink, link: "../.."}, piece{name: "../x", text: "x"})), false)
	f.Add(zipped(f, piece{name: "deno", text: "x", mode: 0o755}, piece{name: "l", link: "deno"}), true)
	f.Fuzz(func(t *testing.T, data []byte, asZip bool) {
		if !asZip {
			var out bytes.Buffer
			z := gzip.NewWriter(&out)
			_, _ = z.Write(data)
			_ = z.Close()
			data = out.Bytes()
		}
		in, err := os.Open(onDisk(t, data))
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		dir := t.TempDir()
		_, refusal := bounds{1 << 16, 20}.unpack(t.Context(), in, filepath.Join(dir, "tree"))
		var size int64
		count := 0
		err = filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			switch mode := info.Mode(); {
			case mode.IsRegular():
				size += info.Size()
				if refusal == nil && mode != 0o644 && mode != 0o755 {
					t.Errorf("%s has the mode %v", path, mode)
				}
				count++
			case mode.IsDir(), mode.Type() == fs.ModeSymlink:
			default:
				t.Errorf("%s is a %v", path, mode)
			}
			if mode := info.Mode(); mode.Type() == fs.ModeSymlink && refusal == nil {
				if real, err := filepath.EvalSymlinks(path); err == nil && !strings.HasPrefix(real, filepath.Join(dir, "tree")) {
					t.Errorf("%s leads to %s", path, real)
				}
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
			t.Errorf("beside the tree: %v, %v", list, err)
		}
		if count > 20+1 || size > 21<<16 { // a hard link is the same file again
			t.Errorf("%d files of %d bytes", count, size)
		}
	})
}
