package e2e

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"berth/test/harness"

	"github.com/coder/websocket"
)

// large is a ZIP of an application with n bytes that do not shrink.
func large(n int) []byte {
	junk := make([]byte, n)
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(junk) // never fails
	return harness.NodeBot(harness.IdleNode).With("data.bin", string(junk)).Zip()
}

// TestLargeUploads: an upload over HTTP and WebSocket that no buffer holds.
func TestLargeUploads(t *testing.T) {
	t.Parallel()
	largeUploads(t, 16<<20)
}

// largeUploads is TestLargeUploads with so many bytes.
func largeUploads(t *testing.T, n int) {
	d := launch(t)
	c := d.account("ana", 200)
	zip := large(n)
	c.Post(zip).Want(200, "status", "ok")
	s := c.socket("/upload")
	done := make(chan struct{})
	go func() { defer close(done); s.offer(zip, 256<<10) }()
	s.end(200, websocket.StatusNormalClosure)
	<-done
	for i := 1; i < len(s.bars); i++ {
		if s.bars[i] < s.bars[i-1] {
			t.Errorf("the bars are %v", s.bars)
		}
	}
	if ids := c.IDs(); len(ids) != 2 {
		t.Errorf("there are %v", ids)
	}
}

// Test10000Files: an upload of many small files takes seconds. Its request has
// no length, its ZIP directory entries and sizes behind the data.
func Test10000Files(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 100)
	var b bytes.Buffer
	w := zip.NewWriter(&b) // writes data descriptors
	add := func(name, content string) {
		entry, err := w.Create(name)
		if err == nil {
			_, err = io.WriteString(entry, content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range harness.NodeBot(harness.IdleNode) {
		add(name, content)
	}
	for i := range 10_000 {
		if i%100 == 0 {
			add(fmt.Sprintf("part-%d/", i/100), "")
		}
		add(fmt.Sprintf("part-%d/file-%d.txt", i/100, i), "a few words")
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	r := c.Form(http.MethodPost, "/v2/upload", b.Bytes())
	r.ContentLength = -1
	id := c.Send(r).Want(200, "status", "ok").Text("app.id")
	t.Logf("10,000 files took %v", time.Since(began).Round(time.Millisecond))
	if files, err := os.ReadDir(d.Path(id, "part-99")); err != nil || len(files) != 100 {
		t.Errorf("part-99 has %d files, %v", len(files), err)
	}
}

// TestOddZIPs: names of other systems and encodings, and what slips into ZIPs.
func TestOddZIPs(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 200)
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range []struct {
		header  zip.FileHeader
		content string
	}{
		{zip.FileHeader{Name: `bot\discloud.config`}, harness.Config("MAIN=src/index.js")},
		{zip.FileHeader{Name: `bot\src\`}, ""},
		{zip.FileHeader{Name: `bot\src\index.js`, Method: zip.Deflate}, "console.log('from Windows', require('./na\u00efve.json').n)\n" + harness.IdleNode},
		{zip.FileHeader{Name: "bot\\src\\na\x8bve.json", NonUTF8: true}, `{"n":437}`},
		{zip.FileHeader{Name: "bot/.git/config", CreatorVersion: 3 << 8}, "x"},
		{zip.FileHeader{Name: "bot/node_modules/left/index.js"}, "kept: there is no package.json"},
	} {
		entry, err := w.CreateHeader(&f.header)
		if err == nil {
			_, err = io.WriteString(entry, f.content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	a := c.Post(b.Bytes()).Want(200, "status", "ok").Says("logs", `".git" of the ZIP (1 entry) was left out`)
	id := a.Text("app.id")
	c.UntilLog(id, "from Windows 437")
	if harness.Exists(t, d.Path(id, ".git")) || !harness.Exists(t, d.Path(id, "node_modules", "left")) {
		t.Error("the wrong directories are left out")
	}
}

// TestNodeModulesAreInstalledAnew: those of the upload are left out, and a
// commit that brings some takes none away.
func TestNodeModulesAreInstalledAnew(t *testing.T) {
	t.Parallel()
	harness.Needs(t, "npm")
	d := launch(t)
	c := d.account("ana", 200)
	bot := harness.NodeBot("console.log('has', require('foo'))\n"+harness.IdleNode).With("package.json", `{"dependencies":{"foo":"file:./foo"}}`).
		With("foo/package.json", `{"name":"foo","version":"1.0.0"}`).With("foo/index.js", "module.exports = 'ours'").
		With("node_modules/foo/index.js", "module.exports = 'foreign'").With("node_modules/stray/index.js", "")
	a := c.Post(bot.Zip()).Want(200).Says("logs", `"node_modules" of the ZIP (2 entries) was left out`)
	id := a.Text("app.id")
	c.UntilLog(id, "has ours")
	if harness.Exists(t, d.Path(id, "node_modules", "stray")) {
		t.Error("the upload's node_modules are there")
	}
	harness.Write(t, d.Path(id, "node_modules", "own"), "")
	c.Commit(id, bot.With("index.js", "console.log('again', require('foo'))\n"+harness.IdleNode)).Want(200).Says("logs", "was left out")
	if log := c.UntilLog(id, "again"); !strings.Contains(log, "again ours") {
		t.Errorf("the log is %s", log)
	}
}
