package attacks

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"berth/test/harness"
)

// outsideOf makes files that are no application's, of whom links tell.
func (d *daemon) outsideOf(t *testing.T) (dir string, unchanged func()) {
	t.Helper()
	dir = filepath.Join(d.root, "outside")
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "dir"), 0o755), os.WriteFile(filepath.Join(dir, "file"), []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(dir, "dir/f"), []byte("secret"), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	state := func() (all []string) {
		err := filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
			if err != nil {
				return err
			}
			text := ""
			if info.Mode().IsRegular() {
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				text = string(b)
			}
			all = append(all, strings.Join([]string{path, info.Mode().String(), text, owner(info)}, " "))
			return nil
		})
		if err != nil {
			t.Error(err)
		}
		return all
	}
	before := strings.Join(state(), "\n")
	return dir, func() {
		t.Helper()
		if now := strings.Join(state(), "\n"); now != before {
			t.Errorf("outside was\n%s\nand is\n%s", before, now)
		}
	}
}

// TestKernelAttacksByLinks lets a program plant links, and swap a directory
// with one all the time, while the daemon works in its tree as root.
func TestKernelAttacksByLinks(t *testing.T) {
	t.Parallel()
	d := launch(t)
	outside, unchanged := d.outsideOf(t)
	victim := d.upload(bot("main.py", map[string]string{"main.py": "open('secret', 'w').write('secret')\nprint('up', flush=True)\nimport signal; signal.pause()"}))
	d.untilLog(victim, "up")
	planter := bot("planter.py", map[string]string{"planter.py": source(t, "planter.py"), "outside": outside, "victim": d.path(victim)})
	id := d.upload(planter)
	d.untilLog(id, "planted")
	kinds := map[bool]bool{}
	harness.Eventually(t, "the directory changes", func() bool {
		info, err := os.Lstat(d.path(id, "d"))
		if err == nil {
			kinds[info.IsDir()] = true
		}
		return len(kinds) == 2
	})
	backups, commits := 10, 3
	if slow { // emulated, the swaps keep a processor busy
		backups, commits = 3, 1
	}
	for range backups {
		d.backup(t, id)
		unchanged()
	}
	// A commit writes where links stand.
	for range commits {
		d.form(http.MethodPut, "/app/"+id+"/commit", harness.Zip(map[string]string{
			"new": "new", "plain": "new", "to-file": "new", "to-dir/f": "new", "to-victim/secret": "new", "node_modules/f": "new", "up": "new", "fifo": "new",
		}))
		unchanged()
		if got, err := os.ReadFile(d.path(victim, "secret")); err != nil || string(got) != "secret" {
			t.Errorf("the victim's secret is %q, %v", got, err)
		}
		// An exact one removes what that brought, from beneath the links that the program
		// has planted again meanwhile.
		d.form(http.MethodPut, "/app/"+id+"/commit?exact=true", harness.Zip(planter))
		unchanged()
		if got, err := os.ReadFile(d.path(victim, "secret")); err != nil || string(got) != "secret" {
			t.Errorf("the victim's secret is %q, %v", got, err)
		}
		d.put("/app/" + id + "/start")
		d.get("/app/" + id + "/logs")
		d.get("/app/" + id + "/status")
	}
	d.form(http.MethodPut, "/app/"+id+"/commit", harness.Zip(planter)) // with a build of its packages, which are links
	d.put("/app/" + id + "/restart")
	unchanged()
	d.send(d.request(http.MethodDelete, "/app/"+id+"/delete", nil)).want(200)
	unchanged()
	d.get("/app/"+victim).want(200, "apps.online", true)
	if got, err := os.ReadFile(d.path(victim, "secret")); err != nil || string(got) != "secret" {
		t.Errorf("the victim's secret is %q, %v", got, err)
	}
}

// backup makes one and looks into it.
func (d *daemon) backup(t *testing.T, id string) {
	t.Helper()
	a := d.get("/app/" + id + "/backup").want(200)
	content := d.download(a.text("backups.url"))
	archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	own := 0
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(text, []byte("secret")) && !strings.HasSuffix(f.Name, ".py") {
			t.Errorf("%s (%v) in the backup holds %.100q", f.Name, f.Mode(), text)
		}
		if string(text) == "own" {
			own++
		}
		if !f.Mode().IsRegular() && !f.Mode().IsDir() {
			t.Errorf("%s in the backup is %v", f.Name, f.Mode())
		}
	}
	if own == 0 {
		t.Error("nothing of the program's own is in its backup")
	}
}

// TestKernelAttacksByZip uploads archives that would write elsewhere, be more
// than they say, or bring what is no file.
func TestKernelAttacksByZip(t *testing.T) {
	t.Parallel()
	d := launch(t, "--upload-max", "4", "--upload-max-socket", "4", "--upload-max-unpacked", "8")
	_, unchanged := d.outsideOf(t)
	before := entries(t, "/tmp")
	id := d.upload(bot("main.py", map[string]string{"main.py": "import signal\nprint('up', flush=True)\nsignal.pause()"}))
	d.untilLog(id, "up")
	const link = os.ModeSymlink | 0o777
	for _, tt := range []struct {
		name    string
		entries []entry
		taken   bool // and harmless
	}{
		{"dots", []entry{{"../../evil", 0o644, "x"}}, false},
		{"dots within", []entry{{"a/../../../evil", 0o644, "x"}}, false},
		{"an absolute path", []entry{{d.root + "/outside/evil", 0o644, "x"}}, false},
		{"backslashes", []entry{{`..\..\evil`, 0o644, "x"}}, false},
		{"a drive", []entry{{`C:\evil`, 0o644, "x"}}, false},
		{"a zero byte", []entry{{"evil\x00.py", 0o644, "x"}}, false},
		{"a link", []entry{{"link", link, d.root + "/outside/file"}}, false},
		{"a link and what is behind it", []entry{{"link", link, d.root + "/outside"}, {"link/evil", 0o644, "x"}}, false},
		{"a device", []entry{{"device", os.ModeDevice | os.ModeCharDevice | 0o666, ""}}, false},
		{"a FIFO", []entry{{"fifo", os.ModeNamedPipe | 0o666, ""}}, false},
		{"a name twice", []entry{{"twice", 0o644, "x"}, {"twice", 0o644, "y"}}, false},
		{"a file that is a directory", []entry{{"both", 0o644, "x"}, {"both/evil", 0o644, "y"}}, false},
		{"a bomb", []entry{{"bomb", 0o644, strings.Repeat("\x00", 9<<20)}}, false},
		{"many small bombs", bombs(), false},
		{"a set-uid program", []entry{{"program", os.ModeSetuid | os.ModeSetgid | 0o777, "#!/bin/sh\n"}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := d.in(t)
			for method, path := range map[string]string{http.MethodPost: "/upload", http.MethodPut: "/app/" + id + "/commit"} {
				main := []entry{{"discloud.config", 0o644, "TYPE=bot\nMAIN=main.py\nAUTORESTART=false\n"}, {"main.py", 0o644, "import signal\nsignal.pause()"}}
				a := d.form(method, path, packed(t, append(main, tt.entries...)))
				if taken := a.code == 200; taken != tt.taken || a.code >= 500 {
					t.Errorf("%s: %d %s", path, a.code, a.body)
				}
				if !tt.taken {
					continue
				}
				where := id
				if method == http.MethodPost {
					where = a.text("app.id")
				}
				info, err := os.Lstat(d.path(where, "program"))
				if err != nil || info.Mode()&(os.ModeSetuid|os.ModeSetgid) != 0 || info.Mode().Perm()&0o002 != 0 {
					t.Errorf("%v, %v", info, err)
				}
			}
			unchanged()
		})
	}
	if a := d.form(http.MethodPost, "/upload", overlapping(t)); a.code != http.StatusUnprocessableEntity && a.code != http.StatusBadRequest && a.code != http.StatusRequestEntityTooLarge {
		t.Errorf("members that are one in the archive: %d %s", a.code, a.body)
	}
	for _, dir := range []string{d.root, d.data, filepath.Dir(d.path(id)), filepath.Join(d.data, "staging")} {
		if _, err := os.Lstat(filepath.Join(dir, "evil")); err == nil {
			t.Errorf("there is evil in %s", dir)
		}
	}
	for name := range entries(t, "/tmp") {
		if !before[name] && strings.Contains(name, "evil") {
			t.Errorf("%s has come to /tmp", name)
		}
	}
	d.get("/app/"+id).want(200, "apps.online", true)
}

// entry is one of an archive.
type entry struct {
	name string
	mode os.FileMode
	text string
}

// bombs are archives' members that are small alone.
func bombs() (all []entry) {
	zeros := strings.Repeat("\x00", 1<<20)
	for i := range 9 {
		all = append(all, entry{string(rune('a' + i)), 0o644, zeros})
	}
	return all
}

// packed packs entries as they are.
func packed(t *testing.T, entries []entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, e := range entries {
		h := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		h.SetMode(e.mode)
		part, err := w.CreateHeader(h)
		if err == nil {
			_, err = io.WriteString(part, e.text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// overlapping is an archive with many members of which only one is there.
func overlapping(t *testing.T) []byte {
	t.Helper()
	whole := packed(t, []entry{{"discloud.config", 0o644, "TYPE=bot\nMAIN=main.py\n"}, {"main.py", 0o644, "x"}, {"a", 0o644, strings.Repeat("\x00", 1<<20)}})
	end := bytes.LastIndex(whole, []byte("PK\x05\x06"))  // the end of the directory (APPNOTE 4.3.16)
	last := bytes.LastIndex(whole, []byte("PK\x01\x02")) // the entry of a
	first := bytes.Index(whole, []byte("PK\x01\x02"))    // that of discloud.config
	made := append([]byte{}, whole[:end]...)
	const name, copies = 46, 20 // where an entry has its name
	for i := range copies {
		record := bytes.Clone(whole[last:end])
		record[name] = byte('b' + i)
		made = append(made, record...)
	}
	tail := bytes.Clone(whole[end:])
	binary.LittleEndian.PutUint16(tail[8:], 3+copies)
	binary.LittleEndian.PutUint16(tail[10:], 3+copies)
	binary.LittleEndian.PutUint32(tail[12:], uint32(len(made)-first))
	made = append(made, tail...)
	if r, err := zip.NewReader(bytes.NewReader(made), int64(len(made))); err != nil || len(r.File) != 3+copies {
		t.Fatal("the archive is wrong: ", err)
	}
	return made
}

func entries(t *testing.T, dir string) map[string]bool {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, e := range list {
		names[e.Name()] = true
	}
	return names
}
