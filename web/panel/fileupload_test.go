package panel

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"berth/app"
)

// folderForm is a form with fields, and files by the names that a browser gives them.
func folderForm(t *testing.T, replace bool, files ...string) (kind string, body *bytes.Buffer) {
	t.Helper()
	body = &bytes.Buffer{}
	w := multipart.NewWriter(body)
	if replace {
		must(t, w.WriteField("replace", "true"))
	}
	for i := 0; i+1 < len(files); i += 2 {
		h := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="file"; filename="` + files[i] + `"`}, "Content-Type": {"application/octet-stream"}}
		part, err := w.CreatePart(h)
		must(t, err)
		_, err = part.Write([]byte(files[i+1]))
		must(t, err)
	}
	must(t, w.Close())
	return w.FormDataContentType(), body
}

// Many files, and those of folders, get their places in one form; what is there is replaced only where that is chosen.
func TestUploadMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	const to = "/apps/shop/files/upload?path=src"
	send := func(replace bool, files ...string) page {
		kind, body := folderForm(t, replace, files...)
		return b.sendTo(to, kind, body)
	}
	next := send(false, "a.txt", "1", "", "", "web/css/b.css", "2\r\n", "web/c %22d%22.js", "").leads(t, "a folder", "/apps/shop/files?path=src")
	b.get(next).want(t, "what came of it", http.StatusOK, "3 files were uploaded.")
	if act := w.acts.last(); act.Operation != "file.write" || act.Detail != `path="src" first="src/a.txt" files=3 bytes=4 refused=0 replace=false` {
		t.Errorf("the audit log has %+v", act)
	}
	for name, want := range map[string]string{"src/a.txt": "1", "src/web/css/b.css": "2\r\n", `src/web/c "d".js`: ""} {
		if got, there := w.host.texts[name]; !there || got != want {
			t.Errorf("%s holds %q, %v", name, got, there)
		}
	}
	if made := slices.DeleteFunc(slices.Clone(w.host.done), func(s string) bool { return !strings.HasPrefix(s, "make ") }); !slices.Equal(made, []string{"make src/web shop", "make src/web/css shop"}) {
		t.Errorf("made: %v", made)
	}
	p := send(false, "a.txt", "new", "b\u202e<b>.txt", "3", "a.txt", "new")
	p.want(t, "taken", http.StatusConflict, "2 files were not stored", "1 file was uploaded.", "Something has this name already.", "<code>a.txt</code>", "data-again")
	if w.host.texts["src/a.txt"] != "1" {
		t.Error("it was replaced")
	}
	send(true, "a.txt", "new").leads(t, "replacing", "/apps/shop/files?path=src")
	if w.host.texts["src/a.txt"] != "new" {
		t.Error("it was not replaced")
	}
	before := maps.Clone(w.host.texts)
	for _, name := range []string{"../x", "/etc/x", "a/../../x", "a//b", "./x", "x/", "a/./b", "C:\\\\x", "a\\\\..\\\\b", strings.Repeat("d/", 40) + "x", "a\u0085b", ".."} {
		p := send(true, name, "evil")
		if p.StatusCode != http.StatusConflict || !strings.Contains(p.body, "1 file was not stored") || !maps.Equal(w.host.texts, before) {
			t.Errorf("%q: %d", name, p.StatusCode)
		}
	}
	w.host.busy = true // which is no name that is taken
	p = send(false, "fresh.txt", "x")
	p.want(t, "while it is deployed", http.StatusConflict, "1 file was not stored", "being deployed")
	p.lacks(t, "while it is deployed", "data-again")
	w.host.busy = false
	for _, dir := range []string{"//", "/.", "/x/..", "/", "..", "../..", "src/..//"} { // the address of a form is anybody's
		kind, body := folderForm(t, true, "a/b/evil.txt", "evil")
		b.sendTo("/apps/shop/files/upload?"+query("path", dir), kind, body)
	}
	send(false, "", "").want(t, "nothing", http.StatusBadRequest, "Choose a file to upload.")
	var many []string
	for i := range maxFiles + 1 {
		many = append(many, fmt.Sprint("f", i), "")
	}
	send(false, many...).want(t, "too many", http.StatusRequestEntityTooLarge, "One upload has at most 2000 files")
}

// A ZIP of the tree, or one that is sent, is unpacked; what is there is replaced only after a question.
func TestUnzip(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	w.host.tree["src"] = []app.Entry{{Name: "A.ZIP", Kind: app.EntryFile, Bytes: 3}}
	w.host.texts["src/A.ZIP"] = "PK"
	b.get("/apps/shop/files?path=src").want(t, "the list", http.StatusOK, `aria-label="Unzip A.ZIP"`, `href="/apps/shop/files/zip?path=src"`)
	p := b.post("/apps/shop/files/unzip", "dir", "src", "zip", "src%2FA.ZIP")
	p.want(t, "a question", http.StatusOK, "Replace 21 files?", `a\u202e&lt;b&gt;`, "and 19 more", `name="replace" value="true"`, `name="zip" value="src%2FA.ZIP"`)
	if len(w.host.done) > 0 {
		t.Errorf("done before it was sure: %v", w.host.done)
	}
	next := b.post("/apps/shop/files/unzip", "dir", "src", "zip", "src%2FA.ZIP", "replace", "true").leads(t, "sure", "/apps/shop/files?path=src")
	b.get(next).want(t, "what came of it", http.StatusOK, "3 files were unpacked.")
	if act := w.acts.last(); act.Operation != "file.unzip" || act.Detail != `path="src" zip="src/A.ZIP" replace=true files=3` {
		t.Errorf("the audit log has %+v", act)
	}
	b.upload("/apps/shop/files/unzip/upload?path=src", "PK").want(t, "sent", http.StatusConflict, "Nothing was unpacked: 21 of the files are here already")
	b.upload("/apps/shop/files/unzip/upload?path=src", "PK", "replace", "true").leads(t, "sent to replace", "/apps/shop/files?path=src")
	b.upload("/apps/shop/files/unzip/upload", "PK").leads(t, "sent elsewhere", "/apps/shop/files?path=.")
	b.post("/apps/shop/files/unzip", "dir", "src", "zip", "none").want(t, "no ZIP", http.StatusNotFound, "There is no such file.")
	b.post("/apps/shop/files/unzip", "dir", "src", "zip", "%zz").want(t, "a form that is none", http.StatusBadRequest, "The form could not be read.")
}

// A directory comes as a ZIP; so many at once as the host has processors for.
func TestDownloadDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	p := b.get("/apps/shop/files/zip?path=src")
	if p.StatusCode != http.StatusOK || p.body != "PK src" || p.Header.Get("Content-Type") != "application/zip" || !strings.Contains(p.Header.Get("Content-Disposition"), "src.zip") ||
		!strings.Contains(p.Header.Get("Content-Security-Policy"), "sandbox") {
		t.Errorf("%d, %q, %v", p.StatusCode, p.body, p.Header)
	}
	if act := w.acts.last(); act.Operation != "file.read" || act.Detail != `path="src" zip=true` {
		t.Errorf("the audit log has %+v", act)
	}
	if p := b.get("/apps/shop/files/zip"); !strings.Contains(p.Header.Get("Content-Disposition"), "shop.zip") {
		t.Errorf("the whole tree: %v", p.Header)
	}
	for range 2 * allTurns { // each gives its place back
		b.get("/apps/shop/files/zip?path=src").want(t, "again", http.StatusOK)
	}
	b.get("/apps/shop/files/zip?path=none").want(t, "no directory", http.StatusNotFound, "There is no such file.")
	w.as("bob").get("/apps/shop/files/zip").want(t, "a member with backups", http.StatusOK, "PK .")
}

// Whatever comes of a ZIP, its account can unpack the next one.
func TestUnzipGivesItsTurnBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	w.host.texts["src/A.ZIP"] = "PK"
	there, replace := []string{"dir", "src", "zip", "src%2FA.ZIP"}, []string{"dir", "src", "zip", "src%2FA.ZIP", "replace", "true"}
	post := func(fields ...string) func() page {
		return func() page { return b.post("/apps/shop/files/unzip", fields...) }
	}
	send := func(dir string) func() page {
		return func() page { return b.upload("/apps/shop/files/unzip/upload?path="+dir, "PK") }
	}
	refused := app.Errorf(app.Unusable, "it is no ZIP")
	for _, c := range []struct {
		outcome string
		fail    error
		status  int
		ask     func() page
	}{
		{"a question", nil, http.StatusOK, post(there...)},
		{"success", nil, http.StatusSeeOther, post(replace...)},
		{"a refusal", refused, http.StatusUnprocessableEntity, post(replace...)},
		{"no ZIP", nil, http.StatusNotFound, post("dir", "src", "zip", "none")},
		{"sent, and names are taken", nil, http.StatusConflict, send("src")},
		{"sent, success", nil, http.StatusSeeOther, send(".")},
		{"sent, a refusal", refused, http.StatusUnprocessableEntity, send(".")},
		{"no form", nil, http.StatusBadRequest, func() page { return b.sendTo("/apps/shop/files/unzip/upload", "text/plain", strings.NewReader("PK")) }},
	} {
		w.host.fail = c.fail
		for range accountTurns + 1 {
			c.ask().want(t, c.outcome, c.status)
		}
	}
}

// packing are contents whose directories are packed by a function.
type packing struct {
	app.Contents
	pack func(context.Context)
}

// PackDir calls it.
func (p packing) PackDir(ctx context.Context, _ app.ID, _ int, _ string, _ io.Writer) error {
	p.pack(ctx)
	return nil
}

// Downloads of directories that stand still keep nobody from unpacking, and end after packTime.
func TestSlowDownloadsOfDirectories(t *testing.T) {
	t.Parallel()
	began, end := make(chan time.Duration, 2*accountTurns), make(chan struct{})
	w := newWorld(t, func(c *Config) {
		c.Contents = packing{c.Contents, func(ctx context.Context) {
			last, _ := ctx.Deadline() // the zero time is long ago
			began <- time.Until(last)
			<-end
		}}
	})
	seed(w)
	var work sync.WaitGroup
	for range accountTurns {
		b := w.as("ana")
		work.Go(func() {
			b.get("/apps/shop/files/zip?path=src")
			began <- 0 // also of one that is refused
		})
		if left := <-began; left <= 0 || left > packTime {
			t.Errorf("a download may last %s", left)
		}
	}
	b := w.as("ana")
	b.get("/apps/shop/files/zip?path=src").want(t, "one more", http.StatusTooManyRequests)
	b.upload("/apps/shop/files/unzip/upload", "PK").leads(t, "a ZIP that is sent", "/apps/shop/files?path=.")
	w.host.texts["A.ZIP"] = "PK"
	b.post("/apps/shop/files/unzip", "dir", ".", "zip", "A.ZIP").leads(t, "a ZIP that is there", "/apps/shop/files?path=.")
	close(end)
	work.Wait()
}

// One account gets some turns, and leaves the others theirs.
func TestTurns(t *testing.T) {
	t.Parallel()
	all := zipTurns(allTurns)
	var ends []func()
	took := func(account app.AccountID) bool {
		end, err := all.begin(account)
		if err == nil {
			ends = append(ends, end)
		} else if app.KindOf(err) != app.Limited {
			t.Error(err)
		}
		return err == nil
	}
	for account := range app.AccountID(allTurns / accountTurns) {
		for range accountTurns {
			if !took(account) {
				t.Fatalf("account %d gets no turn", account)
			}
		}
		if took(account) {
			t.Errorf("account %d gets one too many", account)
		}
	}
	if took(100) {
		t.Error("there are more than all")
	}
	for _, end := range ends {
		end()
	}
	if all.all != 0 || len(all.of) != 0 || !took(100) {
		t.Errorf("left: %d, %v", all.all, all.of)
	}
}

// stubborn are applications that do not start anew.
type stubborn struct{ app.Applications }

// Restart fails.
func (stubborn) Restart(context.Context, app.AccountID, app.ID) error {
	return app.Errorf(app.Exhausted, "there is no RAM")
}

// A page that is shown at the address of a refused form says its own, for what asks for it again.
func TestOwnAddress(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Applications = stubborn{c.Applications} })
	seed(w)
	b := w.as("ana")
	b.post("/apps/shop/restart", "back", "/apps/shop").want(t, "on its page", http.StatusUnprocessableEntity, `<body data-page="/apps/shop">`)
	b.post("/apps/shop/restart", "back", "/").want(t, "in the list", http.StatusUnprocessableEntity, `<body data-page="/">`)
	b.get("/apps/shop").lacks(t, "at its own address", "data-page=")
}

// The script sifts a list that is whole; of one that a search has made it would hide what it was not sent.
func TestSearchedListIsNotSifted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	b.get("/").want(t, "the list", http.StatusOK, "data-sieve=")
	b.get("/?q=shop").lacks(t, "a search", "data-sieve=")
}

// What was saved is said to be, although the program did not start anew.
func TestSavedButNotRestarted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Applications = stubborn{c.Applications} })
	seed(w)
	was := string(app.OverText([]byte(w.host.texts["index.js"])))
	p := w.as("ana").post("/apps/shop/files/write", "path", "index.js", "text", "typed", "was", was, "then", "run")
	p.want(t, "no restart", http.StatusUnprocessableEntity, "The file was saved, but the program was not started anew: there is no RAM.", string(app.OverText([]byte("typed"))), "data-save")
	p.lacks(t, "no restart", "since you opened it")
	if w.host.texts["index.js"] != "typed" {
		t.Error("it was not saved")
	}
}
