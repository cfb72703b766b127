package e2e

import (
	"archive/zip"
	"bytes"
	"testing"

	"berth/test/harness"
)

// A program goes on writing and removing while its backup is made and its
// disk use is measured.
func TestBackupOfABusyTree(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 200)
	id := c.Upload(harness.PythonBot(`import os, shutil
print("up")
n = 0
while True:
    n += 1
    d = "cache/%d/deep" % (n % 50)
    os.makedirs(d, exist_ok=True)
    for i in range(5):
        open(d + "/%d.tmp" % i, "w").write("x" * 3000)
    shutil.rmtree("cache/%d" % ((n + 25) % 50), ignore_errors=True)
`))
	c.UntilLog(id, "up")
	for range 20 {
		link := c.Get("/app/"+id+"/backup").Want(200, "status", "ok").Text("backups.url")
		if t.Failed() {
			return
		}
		content := c.Download(link)
		if _, err := zip.NewReader(bytes.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		c.Get("/app/"+id+"/status").Want(200, "apps.container", "Online")
	}
	c.Commit(id, harness.Files{"extra.txt": "x"}).Want(200, "status", "ok")
	c.Info(id).Want(200, "apps.online", true)
}
