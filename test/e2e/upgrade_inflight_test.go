package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// half starts an upload and returns when half of it was sent; rest sends the
// other half.
func (c *client) half(method, path string, zip []byte) (rest func(), done <-chan answer) {
	c.t.Helper()
	whole := c.form(method, path, zip)
	var b bytes.Buffer
	if _, err := io.Copy(&b, whole.Body); err != nil {
		c.t.Fatal(err)
	}
	r, w := io.Pipe()
	request := c.request(method, path, r)
	request.Header = whole.Header
	request.ContentLength = int64(b.Len())
	answers := make(chan answer, 1)
	go func() {
		a, err := c.try(request)
		if err != nil {
			a = answer{t: c.t, body: []byte(err.Error())}
		}
		answers <- a
	}()
	if _, err := w.Write(b.Next(b.Len() / 2)); err != nil {
		c.t.Fatal(err)
	}
	return func() {
		_, _ = w.Write(b.Bytes()) // refused, perhaps
		_ = w.Close()
	}, answers
}

// incompressible is more than the buffers of a connection hold.
func incompressible() string {
	b := make([]byte, 8<<20)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // never fails
	return string(b)
}

// asked makes the daemon begin an upgrade.
func (d *daemon) asked() {
	d.t.Helper()
	d.Signal(syscall.SIGHUP)
	harness.Eventually(d.t, "the upgrade begins", func() bool { return strings.Contains(d.Out.String(), "msg=upgrading") })
}

// Uploads that come within the patience are taken, others refused; meanwhile
// all else is answered.
func TestUpgradeWaitsForUploads(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--upgrade-patience", "60s")
	d.start()
	c := d.account("ana", 300)
	rest, done := c.half("POST", "/v2/upload", nodeBot(idleNode, "RAM=64").with("data.bin", strings.Repeat("x", 200<<10)).zip())
	harness.Eventually(t, "the upload is on its way", func() bool { return len(d.files("staging")) > 0 })
	d.asked()
	harness.Eventually(t, "others are told to come again", func() bool {
		resp, err := web.Do(c.request("GET", "/v2/user", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode == 200 && resp.Close
	})
	late := c.post(nodeBot(idleNode, "RAM=32").zip()).want(503).says("message", "being upgraded")
	if late.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if d.images() != 1 {
		t.Fatal("it did not wait")
	}
	rest()
	id := (<-done).want(200).text("app.id")
	d.untilImages(2)
	c.info(id).want(200, "apps.online", true)
}

// What takes longer is refused with a sentence, and leaves nothing.
func TestUpgradeRefusesWhatIsTooSlow(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--upgrade-patience", "2s")
	d.start()
	c := d.account("ana", 300)
	id := c.upload(nodeBot(idleNode, "RAM=64"))
	pid := d.pid(id)
	rest, done := c.half("POST", "/v2/upload", nodeBot(idleNode, "RAM=64").with("data.bin", incompressible()).zip())
	socket := c.socket("/upload")
	if err := socket.conn.Write(t.Context(), websocket.MessageText, harness.Frame([]byte("PK"), 1, 0, 2)); err != nil {
		t.Fatal(err)
	}
	building := c.form("PUT", "/v2/app/"+id+"/commit", files{"discloud.config": config("TYPE=bot", "MAIN=index.js", "RAM=64", "BUILD=touch began; sleep 1000"), "index.js": "broken("}.zip())
	commit := make(chan answer, 1)
	go func() {
		a, err := c.try(building)
		if err != nil {
			a = answer{t: t, body: []byte(err.Error())}
		}
		commit <- a
	}()
	harness.Eventually(t, "all are on their way", func() bool {
		return exists(t, d.data+"/staging/*/build/began") && len(d.files("staging")) >= 3
	})
	d.upgrade()
	for what, a := range map[string]answer{"upload": <-done, "commit": <-commit} {
		a.want(503, "status", "error")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After: %s", what, a.body)
		}
	}
	rest()
	if last := socket.end(503, websocket.StatusTryAgainLater); !strings.Contains(*last.Message, "being upgraded") {
		t.Errorf("the socket was closed with %q", *last.Message)
	}
	if d.pid(id) != pid {
		t.Error("the program is another")
	}
	c.info(id).want(200, "apps.online", true)
	if left := d.files("staging"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
