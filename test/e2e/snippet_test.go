package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// webServers is a directory with Debian's nginx and Caddy, fetched once.
func webServers(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../.cache/servers")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "bin", "nginx")); err == nil {
		return dir
	}
	if out, err := exec.Command("../../test/scripts/servers", dir).CombinedOutput(); err != nil {
		harness.Ready(t, fmt.Sprintf("needs nginx and Caddy from Debian: %v %s", err, out))
	}
	return dir
}

// freeAddress is one of loopback at which nobody listens.
func freeAddress(t *testing.T) (address, port string) {
	t.Helper()
	address = harness.Address(t)
	_, port, _ = net.SplitHostPort(address)
	return address, port
}

// from is a client whose connections come from an address of loopback and go to
// another, whatever the name.
func from(t *testing.T, source, address string) *http.Client {
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}
		return d.DialContext(ctx, "tcp", address)
	}}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, Timeout: harness.Patience}
}

// TestSnippets: what berth prints for nginx and Caddy works in them.
func TestSnippets(t *testing.T) {
	t.Parallel()
	listen, _ := freeAddress(t)
	settings := []string{"--proxy-mode", "behind", "--proxy-listen", listen, "--proxy-domain", "apps.example.org", "--proxy-trusted", "127.0.0.1"}
	d := launch(t, settings...)
	code, err := os.ReadFile("../browser/testdata/node/index.js")
	if err != nil {
		t.Fatal(err)
	}
	d.account("ana", 200).Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=128"), "index.js": string(code), "page.html": "hello"})
	d.visitor().until("shop.apps.example.org", 200, "hello")
	snippet := func(server string) string {
		cmd := exec.Command(harness.Binary, append([]string{"proxy", "snippet", server}, settings[2:6]...)...)
		cmd.Env = harness.CleanEnv()
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("berth proxy snippet %s: %v", server, err)
		}
		return string(text)
	}
	t.Run("nobody", func(t *testing.T) { // who is not trusted is not believed
		headersAre(t, from(t, "127.0.0.3", listen), map[string]string{"x-forwarded-for": "127.0.0.3", "x-real-ip": "127.0.0.3", "x-forwarded-proto": "http"})
	})
	t.Run("nginx", func(t *testing.T) {
		address, port := freeAddress(t)
		text := strings.NewReplacer("listen 80;", "listen 127.0.0.1:"+port+";", "listen [::]:80;", "").Replace(snippet("nginx"))
		serveWeb(t, address, text, func(dir string) (string, []string) {
			return "daemon off; pid " + dir + "/pid; events {} http { access_log off; client_body_temp_path " + dir + "/1; proxy_temp_path " + dir + "/2; fastcgi_temp_path " +
				dir + "/3; uwsgi_temp_path " + dir + "/4; scgi_temp_path " + dir + "/5; include " + dir + "/snippet; }", []string{"nginx", "-e", "stderr", "-p", dir, "-c", dir + "/config"}
		})
		worksBehind(t, address)
	})
	t.Run("caddy", func(t *testing.T) {
		address, port := freeAddress(t)
		serveWeb(t, address, snippet("caddy"), func(dir string) (string, []string) {
			return "{\n\tadmin off\n\tauto_https off\n\thttp_port " + port + "\n\tdefault_bind 127.0.0.1\n}\nimport " + dir + "/snippet\n", []string{"caddy", "run", "--adapter", "caddyfile", "--config", dir + "/config"}
		})
		worksBehind(t, address)
	})
}

// serveWeb runs a web server with a snippet until the test ends. made is its
// configuration in a directory, and its command.
func serveWeb(t *testing.T, address, snippet string, made func(dir string) (config string, command []string)) {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "berth-e2e-web.") //nolint:usetesting // nginx's workers are another user
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	text, command := made(dir)
	for name, text := range map[string]string{"config": text, "snippet": snippet} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(filepath.Join(webServers(t), "bin", command[0]), command[1:]...)
	cmd.Env = []string{"HOME=" + dir, "PATH=/usr/bin:/bin"}
	out := &harness.Output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("%s said: %s", command[0], out)
		}
	})
	harness.Eventually(t, command[0]+" listens", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
}

func headersAre(t *testing.T, web *http.Client, want map[string]string) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://shop.apps.example.org/headers", nil)
	r.Header.Set("X-Forwarded-For", "203.0.113.9")
	r.Header.Set("X-Forwarded-Proto", "https")
	r.Header.Set("X-Real-IP", "203.0.113.9")
	resp, err := web.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	got := map[string]any{}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s: %v, want %s", name, got[name], value)
		}
	}
}

// worksBehind asks a site through a web server for everything that sites can do.
func worksBehind(t *testing.T, address string) {
	t.Helper()
	web := from(t, "127.0.0.2", address)
	const site = "http://shop.apps.example.org"
	headersAre(t, web, map[string]string{
		"host": "shop.apps.example.org", "x-forwarded-for": "127.0.0.2, 127.0.0.1", "x-real-ip": "127.0.0.2", "x-forwarded-proto": "http", "x-forwarded-host": "shop.apps.example.org",
	})
	c, _, err := websocket.Dial(t.Context(), site+"/echo", &websocket.DialOptions{HTTPClient: web})
	if err != nil {
		t.Fatal(err)
	}
	defer c.CloseNow()
	if err := c.Write(t.Context(), websocket.MessageText, []byte("over the wire")); err != nil {
		t.Fatal(err)
	}
	if _, text, err := c.Read(t.Context()); err != nil || string(text) != "over the wire" {
		t.Errorf("the WebSocket: %q, %v", text, err)
	}
	events, err := web.Get(site + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer events.Body.Close()
	in := bufio.NewReader(events.Body)
	for i := range 3 { // they come one by one: the program sends for ever
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
			t.Fatalf("event %d: %q, %v", i, line, err)
		}
		_, _ = in.ReadString('\n')
	}
	body, feed := io.Pipe() // a long upload whose length nobody knows
	go func() {
		for range 40 {
			_, _ = feed.Write(make([]byte, 1<<20))
		}
		_ = feed.Close()
	}()
	resp, err := web.Post(site+"/length", "application/octet-stream", body)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if text, err := io.ReadAll(resp.Body); err != nil || string(text) != fmt.Sprint(40<<20) {
		t.Errorf("the upload: %s, %v", text, err)
	}
}
