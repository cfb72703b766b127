package e2e

import (
	"bytes"
	"io"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// half starts an upload and returns when half of it was sent; rest sends the
// other half.
func (c *client) half(method, path string, zip []byte) (rest func(), done <-chan harness.Answer) {
	c.T.Helper()
	whole := c.Form(method, path, zip)
	var b bytes.Buffer
	if _, err := io.Copy(&b, whole.Body); err != nil {
		c.T.Fatal(err)
	}
	r, w := io.Pipe()
	request := c.Request(method, path, r)
	request.Header = whole.Header
	request.ContentLength = int64(b.Len())
	answers := make(chan harness.Answer, 1)
	go func() {
		a, err := c.Try(request)
		if err != nil {
			a = harness.Answer{T: c.T, Body: []byte(err.Error())}
		}
		answers <- a
	}()
	if _, err := w.Write(b.Next(b.Len() / 2)); err != nil {
		c.T.Fatal(err)
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
	d.T.Helper()
	d.Signal(syscall.SIGHUP)
	harness.Eventually(d.T, "the upgrade begins", func() bool { return strings.Contains(d.Out.String(), "msg=upgrading") })
}

// Uploads that come within the patience are taken, others refused; meanwhile
// all else is answered.
func TestUpgradeWaitsForUploads(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--upgrade-patience", "60s")
	d.Serve()
	c := d.account("ana", 300)
	rest, done := c.half("POST", "/v2/upload", harness.NodeBot(harness.IdleNode, "RAM=64").With("data.bin", strings.Repeat("x", 200<<10)).Zip())
	harness.Eventually(t, "the upload is on its way", func() bool { return len(d.Entries("staging")) > 0 })
	d.asked()
	harness.Eventually(t, "others are told to come again", func() bool {
		resp, err := harness.Web.Do(c.Request("GET", "/v2/user", nil))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode == 200 && resp.Close
	})
	late := c.Post(harness.NodeBot(harness.IdleNode, "RAM=32").Zip()).Want(503).Says("message", "being upgraded")
	if late.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	if d.Images() != 1 {
		t.Fatal("it did not wait")
	}
	rest()
	id := (<-done).Want(200).Text("app.id")
	d.UntilImages(2)
	c.Info(id).Want(200, "apps.online", true)
}

// At the edge the API is where the sites are, and an upgrade waits there too.
func TestUpgradeWaitsForUploadsAtTheEdge(t *testing.T) {
	t.Parallel()
	const home = "home.example.org"
	e := atTheEdge(t, nil, "--base-url", "https://"+home, "--upgrade-patience", "60s")
	e.leads(home)
	e.trust()
	e.Serve()
	c := e.account("ana", 300)
	c.By = e.visitor(home)
	harness.Eventually(t, "the API answers at the edge", func() bool {
		a, err := c.Try(c.Request("GET", "/v2/user", nil))
		return err == nil && a.Code == 200
	})
	rest, done := c.half("POST", "/v2/upload", harness.NodeBot(harness.IdleNode, "RAM=64").With("data.bin", strings.Repeat("x", 200<<10)).Zip())
	harness.Eventually(t, "the upload is on its way", func() bool { return len(e.Entries("staging")) > 0 })
	e.asked()
	c.Post(harness.NodeBot(harness.IdleNode, "RAM=32").Zip()).Want(503).Says("message", "being upgraded")
	// For longer than it waits for the connections of sites, it answers all else.
	for until := time.Now().Add(7 * time.Second); time.Now().Before(until); {
		c.Get("/user").Want(200)
		if e.Images() != 1 {
			t.Fatal("it did not wait")
		}
	}
	rest()
	id := (<-done).Want(200).Text("app.id")
	e.UntilImages(2)
	c.Info(id).Want(200, "apps.online", true)
}

// What takes longer is refused with a sentence, and leaves nothing.
func TestUpgradeRefusesWhatIsTooSlow(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--upgrade-patience", "2s")
	d.Serve()
	c := d.account("ana", 300)
	id := c.Upload(harness.NodeBot(harness.IdleNode, "RAM=64"))
	pid := d.PID(id)
	rest, done := c.half("POST", "/v2/upload", harness.NodeBot(harness.IdleNode, "RAM=64").With("data.bin", incompressible()).Zip())
	socket := c.socket("/upload")
	if err := socket.conn.Write(t.Context(), websocket.MessageText, harness.Frame([]byte("PK"), 1, 0, 2)); err != nil {
		t.Fatal(err)
	}
	building := c.Form("PUT", "/v2/app/"+id+"/commit", harness.Files{"discloud.config": harness.Config("TYPE=bot", "MAIN=index.js", "RAM=64", "BUILD=touch began; sleep 1000"), "index.js": "broken("}.Zip())
	commit := make(chan harness.Answer, 1)
	go func() {
		a, err := c.Try(building)
		if err != nil {
			a = harness.Answer{T: t, Body: []byte(err.Error())}
		}
		commit <- a
	}()
	harness.Eventually(t, "all are on their way", func() bool {
		return harness.Exists(t, d.Data+"/staging/*/build/began") && len(d.Entries("staging")) >= 3
	})
	d.Upgrade()
	for what, a := range map[string]harness.Answer{"upload": <-done, "commit": <-commit} {
		a.Want(503, "status", "error")
		if a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After: %s", what, a.Body)
		}
	}
	rest()
	if last := socket.end(503, websocket.StatusTryAgainLater); !strings.Contains(*last.Message, "being upgraded") {
		t.Errorf("the socket was closed with %q", *last.Message)
	}
	if d.PID(id) != pid {
		t.Error("the program is another")
	}
	c.Info(id).Want(200, "apps.online", true)
	if left := d.Entries("staging"); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}
