package host

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/app"
	"berth/db"
	"berth/test/hosted"
)

// another makes a second application beside the one of hosted.New.
func another(t *testing.T, h *hosted.Directory, id app.ID) app.App {
	t.Helper()
	ids := db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20099}
	owner, err := h.DB.Apps.Apps(t.Context())
	hosted.Must(t, err)
	a, err := h.DB.Allocations(ids).Reserve(t.Context(), app.App{ID: id, Account: owner[0].Account, Type: app.Bot, RAM: 100, Wanted: app.WantOnline, Code: app.Code{Main: "a"}}, func(app.Account, app.Use) error { return nil })
	hosted.Must(t, err)
	_, err = h.Store.Publish(t.Context(), h.Stage(map[string]string{"main": "its"}), id, a.UID)
	hosted.Must(t, err)
	_, err = h.DB.Apps.CreateApp(t.Context(), a, app.Deploy{By: a.Account, Kind: app.DeployUpload})
	hosted.Must(t, err)
	return a
}

// One application whose program keeps its files from being read, or has none, is not
// in the backup; all others are, and the exit code tells.
func TestBackupWithoutOneApplication(t *testing.T) {
	for name, tt := range map[string]struct {
		make func(t *testing.T, dir string)
		says string
	}{
		"a lease": {func(t *testing.T, dir string) {
			f, err := os.OpenFile(filepath.Join(dir, "main"), os.O_RDWR, 0)
			hosted.Must(t, err)
			t.Cleanup(func() { f.Close() })
			signal.Ignore(unix.SIGIO)
			_, err = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_WRLCK)
			hosted.Must(t, err)
		}, `a program keeps "main" to itself by a lease`},
		"no files": {func(t *testing.T, dir string) { hosted.Must(t, os.RemoveAll(dir)) }, "has no files"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hosted.New(t)
			bad := another(t, h, "bad")
			tt.make(t, h.Store.Dir(bad.ID))
			parent := filepath.Dir(h.Path)
			file := filepath.Join(parent, "all.tar.gz")
			code, out, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path)
			if code != 3 || out != file+"\n" || !strings.Contains(errs, "warning: the files of the application bad are not in the backup: ") || !strings.Contains(errs, tt.says) ||
				!strings.Contains(errs, "without the files of 1 of the applications") || !strings.Contains(errs, ": 1 applications") {
				t.Fatalf("create: %d %s %s", code, out, errs)
			}
			if code, out, errs := berthBeside(h, "backup", "verify", file); code != 0 || !strings.Contains(out, ": 1 applications") {
				t.Errorf("verify: %d %s %s", code, out, errs)
			}
			to := filepath.Join(parent, "there")
			if code, _, errs = berthBeside(h, "backup", "restore", file, "--data-dir", to); code != 0 || !strings.Contains(errs, "warning: the backup has no files of the application bad") {
				t.Fatalf("restore: %d %s", code, errs)
			}
			if main, err := os.ReadFile(filepath.Join(to, "apps/shop/main")); err != nil || string(main) != "1" {
				t.Errorf("the other has %q, %v", main, err)
			}
			if _, err := os.Lstat(filepath.Join(to, "apps/bad")); err == nil {
				t.Error("a part of it was restored")
			}
			there := hosted.Open(t, to)
			if all, err := there.DB.Apps.Apps(t.Context()); err != nil || len(all) != 2 {
				t.Errorf("the records tell of %v, %v", all, err)
			}
		})
	}
}

// A file with many names is in the backup once.
func TestBackupOfManyNames(t *testing.T) {
	h := hosted.New(t)
	dir := h.Store.Dir("shop")
	noise := make([]byte, 64<<10)
	for i := range noise {
		noise[i] = byte(i * i >> 7)
	}
	hosted.Must(t, errors.Join(os.WriteFile(filepath.Join(dir, "a"), noise, 0o600), os.Lchown(filepath.Join(dir, "a"), h.UID, h.UID)))
	for n := range 100 {
		hosted.Must(t, os.Link(filepath.Join(dir, "a"), filepath.Join(dir, fmt.Sprint("a", n))))
	}
	parent := filepath.Dir(h.Path)
	file := filepath.Join(parent, "all.tar.gz")
	if code, _, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path); code != 0 {
		t.Fatal(errs)
	}
	plain := unpacked(t, file)
	if len(plain) > 2<<20 {
		t.Errorf("64 KB with 101 names became %d bytes", len(plain))
	}
	// Other tools see what it is.
	links := 0
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		e, err := r.Next()
		if err != nil {
			break
		}
		if e.Typeflag == tar.TypeLink && strings.HasPrefix(e.Linkname, "apps/shop/a") {
			links++
		}
	}
	if links != 100 {
		t.Errorf("%d links", links)
	}
	to := filepath.Join(parent, "there")
	if code, _, errs := berthBeside(h, "backup", "restore", file, "--data-dir", to); code != 0 {
		t.Fatal(errs)
	}
	got, want := hosted.Listing(t, filepath.Join(to, "apps")), hosted.Listing(t, filepath.Join(h.Path, "apps"))
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Error("what was restored is not what was there")
	}
}

// unpacked is what an archive is without its compression.
func unpacked(t *testing.T, file string) []byte {
	t.Helper()
	f, err := os.Open(file)
	hosted.Must(t, err)
	defer f.Close()
	zip, err := gzip.NewReader(f)
	hosted.Must(t, err)
	plain, err := io.ReadAll(zip)
	hosted.Must(t, err)
	return plain
}

// No bit of an archive changes unseen: neither in the header of gzip nor behind its
// end. A restore needs no more than the content.
func TestVerifySeesEveryBit(t *testing.T) {
	h := hosted.New(t)
	parent := filepath.Dir(h.Path)
	file := filepath.Join(parent, "all.tar.gz")
	if code, _, errs := berthBeside(h, "backup", "create", "--to", file, "--data-dir", h.Path); code != 0 {
		t.Fatal(errs)
	}
	whole, err := os.ReadFile(file)
	hosted.Must(t, err)
	old, err := os.ReadFile("testdata/format-1.tar.gz")
	hosted.Must(t, err)
	changed := map[string][]byte{
		"a byte more": append(slices.Clone(whole), 0), "an empty member more": append(slices.Clone(whole), whole[len(whole)-58:]...),
		"no seal": whole[:len(whole)-58], "a byte more than the first format": append(slices.Clone(old), 0),
		"an empty member more than the first format": append(slices.Clone(old), emptyMember(t)...),
	}
	flip := func(name string, file []byte, at int) {
		broken := slices.Clone(file)
		broken[at/8] ^= 1 << (at % 8)
		changed[fmt.Sprintf("%s with bit %d flipped", name, at)] = broken
	}
	for bit := range 80 {
		flip("the new format", whole, bit)
		flip("the first format", old, bit)
	}
	for bit := 8 * (len(whole) - 80); bit < 8*len(whole); bit += 3 {
		flip("the new format", whole, bit)
	}
	for name, text := range changed {
		path := filepath.Join(parent, "changed")
		hosted.Must(t, os.WriteFile(path, text, 0o600))
		if code, out, _ := berthBeside(h, "backup", "verify", path); code == 0 {
			t.Errorf("%s: %s", name, out)
		}
	}
	// As other tools compress it.
	var again bytes.Buffer
	zip := gzip.NewWriter(&again)
	_, err = zip.Write(unpacked(t, file))
	hosted.Must(t, errors.Join(err, zip.Close(), os.WriteFile(filepath.Join(parent, "again"), again.Bytes(), 0o600)))
	if code, _, errs := berthBeside(h, "backup", "restore", filepath.Join(parent, "again"), "--data-dir", filepath.Join(parent, "there")); code != 0 {
		t.Errorf("a restore of what is compressed otherwise: %d %s", code, errs)
	}
}

func emptyMember(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	hosted.Must(t, gzip.NewWriter(&b).Close())
	return b.Bytes()
}

// An archive of the release before is verified and restored. It was written by it, of
// what hosted.New makes.
func TestArchiveOfTheFirstFormat(t *testing.T) {
	h := hosted.New(t)
	const file = "testdata/format-1.tar.gz"
	if code, out, errs := berthBeside(h, "backup", "verify", file); code != 0 || !strings.Contains(out, "1 applications") {
		t.Fatalf("verify: %d %s %s", code, out, errs)
	}
	to := filepath.Join(filepath.Dir(h.Path), "there")
	if code, _, errs := berthBeside(h, "backup", "restore", file, "--data-dir", to); code != 0 {
		t.Fatalf("restore: %d %s", code, errs)
	}
	got, want := hosted.Listing(t, filepath.Join(to, "apps")), hosted.Listing(t, filepath.Join(h.Path, "apps"))
	if len(got) != len(want) || !strings.HasSuffix(got["shop/main"], " 1") {
		t.Errorf("got %v, want %v", got, want)
	}
	there := hosted.Open(t, to)
	if vars, err := there.DB.Apps.Variables(t.Context(), "shop"); err != nil || len(vars) != 1 || vars[0].Value != "secret-value" {
		t.Errorf("%v, %v", vars, err)
	}
}
