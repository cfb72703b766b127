package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"testing"
	"time"
)

var made = time.Date(2026, 11, 20, 9, 0, 0, 123456789, time.UTC)

// odd is a file name that is no UTF-8, and as long as a path gets.
var odd = "odd\xff\"\n/" + strings.Repeat("x/", 1000) + "é"

func entry(path string, mode fs.FileMode, size int) Entry {
	e := Plain(mode, int64(size))
	e.Path, e.UID, e.GID, e.Time = path, 70001, 70002, made
	return e
}

// write makes an archive with every kind of entry.
func write(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := NewWriter(&b, Manifest{Berth: "v1", Made: made, Host: "one"})
	must(t, err)
	add := func(e Entry, text string) {
		t.Helper()
		must(t, w.Add(e, strings.NewReader(text)))
	}
	w.Begin("berth.toml")
	add(entry("", 0o600, 3), "x=1")
	w.Begin("apps/shop")
	add(entry("", fs.ModeDir|0o700, 0), "")
	add(entry("old", 0o644, 2), "no")
	w.Begin("apps/shop") // deployed meanwhile
	add(entry("", fs.ModeDir|0o700, 0), "")
	add(entry("tmp", fs.ModeDir|fs.ModeSticky|0o777, 0), "")
	add(entry(odd, 0o750, 5), "hello and more")
	add(entry("shrank", 0o644, 10), "short")
	named := entry("twin", 0o750, 0)
	named.HardLink = "shrank"
	add(named, "")
	link := entry("link", fs.ModeSymlink|0o777, 0)
	link.Link = "/etc/passwd"
	add(link, "")
	sparse := entry("sparse", 0o644, 0)
	sparse.Total = 1 << 40
	add(sparse, "")
	sparse.Total, sparse.Offset, sparse.Size = -1, 1<<39, 4
	add(sparse, "data")
	w.Begin("berth.db")
	add(entry("", 0o600, 4), "rows")
	m, err := w.Close(7)
	must(t, err)
	if m.Schema != 7 || len(m.Parts) != 4 || !m.Parts[1].Void || m.Parts[2].Void {
		t.Errorf("the manifest is %+v", m)
	}
	return b.Bytes()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	text := write(t)
	var got []string
	m, err := Read(bytes.NewReader(text), func(n int, part string, e Entry, r io.Reader) error {
		b, err := io.ReadAll(r)
		if e.UID != 70001 || e.GID != 70002 || !e.Time.Equal(made) {
			t.Errorf("%q is %+v", e.Path, e)
		}
		got = append(got, fmt.Sprintf("%d %s %q %v %q %d %d %q", n, part, e.Path, e.Mode, e.Link+e.HardLink, e.Total, e.Offset, b))
		return err
	})
	must(t, err)
	want := []string{
		`0 berth.toml "" -rw------- "" -1 -1 "x=1"`,
		`1 apps/shop "" drwx------ "" -1 -1 ""`,
		`1 apps/shop "old" -rw-r--r-- "" -1 -1 "no"`,
		`2 apps/shop "" drwx------ "" -1 -1 ""`,
		`2 apps/shop "tmp" dtrwxrwxrwx "" -1 -1 ""`,
		fmt.Sprintf(`2 apps/shop %q -rwxr-x--- "" -1 -1 "hello"`, odd),
		`2 apps/shop "shrank" -rw-r--r-- "" -1 -1 "short\x00\x00\x00\x00\x00"`,
		`2 apps/shop "twin" -rwxr-x--- "shrank" -1 -1 ""`,
		`2 apps/shop "link" Lrwxrwxrwx "/etc/passwd" -1 -1 ""`,
		`2 apps/shop "sparse" -rw-r--r-- "" 1099511627776 -1 ""`,
		`2 apps/shop "sparse" -rw-r--r-- "" -1 549755813888 "data"`,
		`3 berth.db "" -rw------- "" -1 -1 "rows"`,
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if m.Berth != "v1" || m.Host != "one" || !m.Made.Equal(made) || m.Parts[2].Bytes != 19 || m.Parts[2].Entries != 8 || m.Format != 2 {
		t.Errorf("the manifest is %+v", m)
	}
}

func skip(int, string, Entry, io.Reader) error { return nil }

// Whatever byte of an archive is another one, and wherever it ends, it is told.
// The padding between entries, and what tar itself does not read, is nobody's.
func TestDamage(t *testing.T) {
	text := write(t)
	for n := 0; n < len(text)-1024-512; n += 97 {
		if _, err := Read(bytes.NewReader(text[:n]), skip); !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrFormat) {
			t.Fatalf("cut at %d: %v", n, err)
		}
	}
	for _, what := range []string{"hello", "data", "rows", "x=1", "/etc/passwd", "apps/shop/shrank"} {
		broken := bytes.Replace(text, []byte(what), []byte(strings.ToUpper(what)), 1)
		if bytes.Equal(broken, text) {
			t.Fatalf("%s is not in it", what)
		}
		if _, err := Read(bytes.NewReader(broken), skip); !errors.Is(err, ErrDamaged) {
			t.Errorf("%s changed: %v", what, err)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	head := &tar.Header{Name: headName, Typeflag: tar.TypeReg, Size: 2, Mode: 0o600}
	for name, tt := range map[string]struct {
		want error
		says string
		make func(w *tar.Writer)
	}{
		"another tar": {ErrFormat, "it does not begin like one", func(w *tar.Writer) { must(t, w.WriteHeader(&tar.Header{Name: "x", Typeflag: tar.TypeReg})) }},
		"a newer one": {ErrFormat, `its format is "4", and this one knows 1 to 3`, func(w *tar.Writer) { must(t, w.WriteHeader(head)); w.Write([]byte("4\n")) }},
		"a twin elsewhere": {ErrDamaged, `"apps/x/y" is another name of nothing in its part`, func(w *tar.Writer) {
			must(t, w.WriteHeader(head))
			w.Write([]byte("2\n"))
			must(t, w.WriteHeader(&tar.Header{Name: "apps/x/y", Typeflag: tar.TypeLink, Linkname: "apps/z/y", PAXRecords: map[string]string{partRecord: "0"}}))
		}},
		"two formats": {ErrDamaged, "it begins as format 2, and its manifest says 1", func(w *tar.Writer) {
			must(t, w.WriteHeader(head))
			w.Write([]byte("2\n"))
			must(t, w.WriteHeader(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg, Size: 12}))
			w.Write([]byte(`{"format":1}`))
		}},
		"no manifest": {ErrDamaged, "it ends before its manifest", func(w *tar.Writer) { must(t, w.WriteHeader(head)); w.Write([]byte("1\n")) }},
		"no part": {ErrDamaged, `"apps/x" belongs to no part`, func(w *tar.Writer) {
			must(t, w.WriteHeader(head))
			w.Write([]byte("1\n"))
			must(t, w.WriteHeader(&tar.Header{Name: "apps/x", Typeflag: tar.TypeReg}))
		}},
		"a device": {ErrDamaged, `"apps/x/y" is no file, directory or link`, func(w *tar.Writer) {
			must(t, w.WriteHeader(head))
			w.Write([]byte("1\n"))
			must(t, w.WriteHeader(&tar.Header{Name: "apps/x/y", Typeflag: tar.TypeChar, PAXRecords: map[string]string{partRecord: "0"}}))
		}},
		"a bad manifest": {ErrDamaged, "its manifest cannot be read", func(w *tar.Writer) {
			must(t, w.WriteHeader(head))
			w.Write([]byte("1\n"))
			must(t, w.WriteHeader(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg}))
		}},
		"a part less": {ErrDamaged, "it has 0 parts of 1", func(w *tar.Writer) {
			must(t, w.WriteHeader(head))
			w.Write([]byte("1\n"))
			must(t, w.WriteHeader(&tar.Header{Name: manifestName, Typeflag: tar.TypeReg, Size: 14}))
			w.Write([]byte(`{"parts":[{}]}`))
		}},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		tt.make(w)
		must(t, w.Close())
		_, err := Read(&b, skip)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mine := errors.New("mine")
	if _, err := Read(bytes.NewReader(write(t)), func(int, string, Entry, io.Reader) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("the visitor's own error became %v", err)
	}
}

func TestAddRefuses(t *testing.T) {
	w, err := NewWriter(io.Discard, Manifest{})
	must(t, err)
	if err := w.Add(entry("x", 0o600, 0), nil); err == nil {
		t.Error("an entry of no part was taken")
	}
	w.Begin("apps/x")
	if err := w.Add(entry("x", fs.ModeNamedPipe, 0), nil); err == nil {
		t.Error("a pipe was taken")
	}
}

// failing is content that cannot be read to its end.
type failing struct{ left int }

func (f *failing) Read(p []byte) (int, error) {
	if f.left == 0 {
		return 0, errors.New("unreadable")
	}
	n := min(f.left, len(p))
	f.left -= n
	return n, nil
}

// What cannot be read leaves an archive that goes on; what cannot be written does not.
func TestUnreadableContent(t *testing.T) {
	var b bytes.Buffer
	w, err := NewWriter(&b, Manifest{Made: made})
	must(t, err)
	w.Begin("apps/shop")
	if err := w.Add(entry("bad", 0o600, 1000), &failing{10}); err == nil || !strings.Contains(err.Error(), "unreadable") || w.Err() != nil {
		t.Errorf("%v, %v", err, w.Err())
	}
	w.Void("apps/shop")
	w.Begin("apps/well")
	must(t, w.Add(entry("", 0o600, 2), strings.NewReader("ok")))
	_, err = w.Close(1)
	must(t, err)
	m, err := Read(&b, skip)
	if err != nil || !m.Parts[0].Void || m.Parts[1].Void {
		t.Errorf("%+v, %v", m, err)
	}
	if w, err = NewWriter(&full{2000}, Manifest{}); err != nil {
		t.Fatal(err)
	}
	w.Begin("apps/shop")
	if err := w.Add(entry("x", 0o600, 10_000), strings.NewReader(strings.Repeat("x", 10_000))); err == nil || w.Err() == nil {
		t.Errorf("on a full disk %v, %v", err, w.Err())
	}
}

// full is a disk of so many bytes.
type full struct{ left int }

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.left {
		return 0, errors.New("full")
	}
	f.left -= len(p)
	return len(p), nil
}
