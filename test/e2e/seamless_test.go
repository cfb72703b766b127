package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// versioned is a site that says which version it is, after a moment, and echoes
// on WebSockets for as long as it lives.
const versioned = `
const http = require('http'), crypto = require('crypto')
const version = '%s'
const server = http.createServer((q, s) => {
  if (q.url == '/health') { s.statusCode = %d; return s.end() }
  setTimeout(() => s.end(version), 5)
})
server.on('upgrade', (q, socket) => {
  const accept = crypto.createHash('sha1').update(q.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
  socket.write('HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ' + accept + '\r\n\r\n')
  socket.on('data', d => {
    if ((d[0] & 15) == 8) return socket.end()
    socket.write(Buffer.concat([Buffer.from([0x81, version.length]), Buffer.from(version)]))
  })
  socket.on('error', () => {})
})
%s
`

const listens = "server.listen(process.env.PORT)"

// version is the files of a version of the site.
func version(name string, health int, last string, lines ...string) harness.Files {
	return harness.Files{
		"discloud.config": harness.Config(append([]string{"TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"}, lines...)...),
		"index.js":        fmt.Sprintf(versioned, name, health, last),
	}
}

func seamless(t *testing.T, args ...string) (*daemon, visitor, *client) {
	t.Helper()
	d := launch(t, append([]string{"--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org", "--proxy-drain-timeout", "2m"}, args...)...)
	return d, d.visitor(), d.account("ana", 400)
}

const shopHost = "shop.apps.example.org"

// load asks the site without end, on kept and on new connections.
type load struct {
	t    *testing.T
	stop chan struct{}
	work sync.WaitGroup

	mu     sync.Mutex
	seen   map[string]int
	failed []string
}

func (v visitor) load() *load {
	l := &load{t: v.t, stop: make(chan struct{}), seen: map[string]int{}}
	for n := range 6 {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: n%2 == 0}, Timeout: 2 * time.Minute}
		l.work.Go(func() {
			defer client.CloseIdleConnections()
			for {
				select {
				case <-l.stop:
					return
				default:
					l.ask(client, v.address)
				}
			}
		})
	}
	return l
}

func (l *load) ask(client *http.Client, address string) {
	r, _ := http.NewRequest(http.MethodGet, "http://"+address+"/", nil)
	r.Host = shopHost
	resp, err := client.Do(r)
	var text []byte
	if err == nil {
		text, err = io.ReadAll(resp.Body)
		_ = resp.Body.Close()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.failed = append(l.failed, err.Error())
	case resp.StatusCode != http.StatusOK:
		l.failed = append(l.failed, fmt.Sprintf("%d %.200s", resp.StatusCode, text))
	default:
		l.seen[string(text)]++
	}
}

// until waits for answers of a version.
func (l *load) until(version string) {
	l.t.Helper()
	l.mu.Lock()
	from := l.seen[version]
	l.mu.Unlock()
	harness.Eventually(l.t, "the load is answered by "+version, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.seen[version] > from+20
	})
}

// end stops the load, none of which may have failed, and returns who answered
// how often.
func (l *load) end() map[string]int {
	l.t.Helper()
	close(l.stop)
	l.work.Wait()
	if len(l.failed) > 0 {
		l.t.Errorf("%d requests failed of %v: %q", len(l.failed), l.seen, l.failed[:min(5, len(l.failed))])
	}
	return l.seen
}

// dial opens a WebSocket to the site.
func (v visitor) dial() *websocket.Conn {
	v.t.Helper()
	c, _, err := websocket.Dial(v.t.Context(), "ws://"+v.address+"/", &websocket.DialOptions{Host: shopHost})
	if err != nil {
		v.t.Fatal(err)
	}
	v.t.Cleanup(func() { _ = c.CloseNow() })
	return c
}

// echo asks on a WebSocket which version answers.
func echo(ctx context.Context, c *websocket.Conn) (string, error) {
	if err := c.Write(ctx, websocket.MessageText, []byte("which")); err != nil {
		return "", err
	}
	_, text, err := c.Read(ctx)
	return string(text), err
}

// TestCommitWithoutAPause: no request fails while one version follows another,
// and a WebSocket of the old one lives on until it is drained.
func TestCommitWithoutAPause(t *testing.T) {
	t.Parallel()
	d, v, ana := seamless(t, "--proxy-drain-timeout", "10s")
	ana.Upload(version("one", 200, listens))
	l := v.load()
	l.until("one")
	socket := v.dial()
	if who, err := echo(t.Context(), socket); who != "one" || err != nil {
		t.Fatalf("the WebSocket is answered by %q, %v", who, err)
	}
	old := d.PID("shop")
	ana.Commit("shop", version("two", 200, listens, "HEALTH=/health")).Want(200)
	l.until("two")
	if who, err := echo(t.Context(), socket); who != "one" || err != nil {
		t.Errorf("the WebSocket is then answered by %q, %v", who, err)
	}
	if runs := d.Of("shop"); len(runs) != 2 {
		t.Errorf("while it drains there run %v", runs)
	}
	if _, err := echo(t.Context(), socket); err == nil {
		_, _, err = socket.Read(t.Context()) // until the old program ends
		if err == nil {
			t.Error("the WebSocket outlived the old program")
		}
	}
	harness.Eventually(t, "the old program is gone", func() bool { return syscall.Kill(old, 0) != nil && len(d.Of("shop")) == 1 })
	for _, name := range []string{"three", "four", "five"} { // from one port to the other, and into the drain before
		ana.Commit("shop", version(name, 200, listens)).Want(200)
		l.until(name)
	}
	seen := l.end()
	t.Logf("answered: %v", seen)
	ana.Info("shop").Want(200, "apps.online", true, "apps.exitCode", 0, "apps.ramKilled", false)
}

// TestUnwellCommitChangesNothing: visitors never see new code that is not well.
func TestUnwellCommitChangesNothing(t *testing.T) {
	t.Parallel()
	d, v, ana := seamless(t, "--proxy-health-timeout", "10s")
	ana.Upload(version("one", 200, listens))
	l, pid := v.load(), d.PID("shop")
	l.until("one")
	for name, c := range map[string]struct {
		code harness.Files
		says string
	}{
		"dies":    {version("bad", 200, "console.log('last words'); process.exit(3)"), "exited with code 3"},
		"ill":     {version("bad", 500, listens, "HEALTH=/health"), "GET /health answered 500"},
		"no port": {version("bad", 200, "setInterval(() => {}, 1000)"), "it has opened no port"},
	} {
		a := ana.Commit("shop", c.code).Want(422)
		if !strings.Contains(a.Text("message"), c.says) || !strings.Contains(a.Text("message"), "goes on") || name == "dies" && !strings.Contains(a.Text("logs"), "last words") {
			t.Errorf("%s: %v", name, a.Value)
		}
		if now := d.PID("shop"); now != pid || !strings.Contains(d.text("shop", "index.js"), "'one'") {
			t.Errorf("%s: the program is %d, want %d", name, now, pid)
		}
	}
	if seen := l.end(); seen["bad"] > 0 {
		t.Errorf("answered: %v", seen)
	}
	ana.Info("shop").Want(200, "apps.online", true, "apps.exitCode", 0)
}

// TestCommitWithoutRAMForTwo: the old program ends first, and visitors wait.
func TestCommitWithoutRAMForTwo(t *testing.T) {
	t.Parallel()
	var mem struct{ kb int }
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &mem.kb); err != nil {
		t.Fatal(err)
	}
	d, v, ana := seamless(t, "--host-reserve", strconv.Itoa(mem.kb>>10-100), "--host-overcommit", "1")
	ana.Upload(version("one", 200, listens))
	l := v.load()
	l.until("one")
	ana.Commit("shop", version("two", 200, listens)).Want(200)
	l.until("two")
	ana.UntilLog("shop", "the old program is stopped before the new one is started")
	ana.Put("/app/shop/restart", "").Want(200)
	l.until("two")
	ana.ask("POST", "/app/shop/rollback", "").Want(200)
	l.until("one")
	t.Logf("answered: %v", l.end())
	if runs := d.Of("shop"); len(runs) != 1 {
		t.Errorf("there run %v", runs)
	}
}

// TestCommitsOfAStaticSite: visitors of a site of files wait for the moment in
// which they change.
func TestCommitsOfAStaticSite(t *testing.T) {
	t.Parallel()
	_, v, ana := seamless(t)
	page := func(text string) harness.Files {
		return harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.html", "RAM=32"), "index.html": text}
	}
	ana.Upload(page("p0"))
	l := v.load()
	l.until("p0")
	for n := 1; n <= 8; n++ {
		name := fmt.Sprintf("p%d", n)
		ana.Commit("shop", page(name)).Want(200)
		l.until(name)
	}
	t.Logf("answered: %v", l.end())
}
