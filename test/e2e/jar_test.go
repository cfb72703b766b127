package e2e

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestCommitOfAJar: a jar that is sent in place of a ZIP is the new program, and nothing
// of it lies beside it. Elsewhere it is refused, for it would change nothing that runs.
func TestCommitOfAJar(t *testing.T) {
	t.Parallel()
	d := launch(t)
	c := d.account("ana", 1024)
	f := example(t, "java-bot")
	id := c.Upload(f)
	c.UntilLog(id, "java-bot version 1")
	jar := with(t, f["bot.jar"], "more.properties")
	c.Send(c.Form("PUT", "/v2/app/"+id+"/commit", jar)).Want(200, "status", "ok").Says("logs", "takes the place of MAIN=bot.jar")
	c.Info(id).Want(200, "apps.online", true)
	text, err := os.ReadFile(d.Path(id, "bot.jar"))
	if err != nil || !bytes.Equal(text, jar) {
		t.Errorf("the program is another: %v", err)
	}
	if _, err := os.Stat(d.Path(id, "META-INF")); err == nil {
		t.Error("the jar was unpacked")
	}
	harness.Eventually(t, "the new program says who it is", func() bool { return strings.Count(c.Log(id), "java-bot version 1") == 2 })
	c.Post(jar).Want(422).Says("message", "the file is a Java program (.jar)")
	shell := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	c.Send(c.Form("PUT", "/v2/app/"+shell+"/commit", jar)).Want(422).Says("message", "and MAIN=start.sh is none")
}

// with is a ZIP with one file more, and without entries for directories.
func with(t *testing.T, text, name string) []byte {
	t.Helper()
	r, err := zip.NewReader(strings.NewReader(text), int64(len(text)))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, file := range r.File {
		if file.FileInfo().IsDir() {
			continue
		}
		if err := w.Copy(file); err != nil {
			t.Fatal(err)
		}
	}
	out, err := w.Create(name)
	if err == nil {
		_, err = io.WriteString(out, "x=y\n")
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
