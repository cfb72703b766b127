package e2e

import (
	"archive/zip"
	"bytes"
	"testing"
)

// A program goes on writing and removing while its backup is made and its
// disk use is measured.
func TestBackupOfABusyTree(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 200)
	id := c.upload(pythonBot(`import os, shutil
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
	c.untilLog(id, "up")
	for range 20 {
		link := c.get("/app/"+id+"/backup").want(200, "status", "ok").text("backups.url")
		if t.Failed() {
			return
		}
		content := c.download(link)
		if _, err := zip.NewReader(bytes.NewReader(content), int64(len(content))); err != nil {
			t.Fatal(err)
		}
		c.get("/app/"+id+"/status").want(200, "apps.container", "Online")
	}
	c.commit(id, files{"extra.txt": "x"}).want(200, "status", "ok")
	c.info(id).want(200, "apps.online", true)
}
