package attacks

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"testing"
	"time"
)

var sitesAt = regexp.MustCompile(`sites are served.* listen=([0-9.:]+)`)

const siteInPython = `
import http.server, os
class Hello(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "5"); self.end_headers(); self.wfile.write(b"hello")
    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"])); self.do_GET()
http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Hello).serve_forever()
`

// TestAttacksOnVisitors: strangers at a few addresses, then at many, hold as many
// connections to the sites as they get, with nothing said or with a body that does
// not come. Whoever visits a site finds it.
func TestAttacksOnVisitors(t *testing.T) {
	t.Parallel()
	const places, few, many = 64, 4, 20
	w := connected(t)
	d := launch(t, "--connections", fmt.Sprint(places), "--proxy-mode", "behind", "--proxy-listen", host4+":0", "--proxy-domain", "apps.example.org")
	at := sitesAt.FindStringSubmatch(d.Out.String())[1]
	d.upload(map[string]string{"discloud.config": "TYPE=site\nID=shop\nMAIN=main.py\nRAM=64\n", "main.py": siteInPython})
	from := func(address string) (c net.Conn) {
		t.Helper()
		var err error
		w.do(func() {
			c, err = (&net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}).Dial("tcp", at)
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	const shop = " / HTTP/1.1\r\nHost: shop.apps.example.org\r\n"
	visit := func() error {
		c := from(peer4)
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		_, _ = io.WriteString(c, "GET"+shop+"Connection: close\r\n\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && string(body) != "hello" {
			err = fmt.Errorf("status %d, %q", resp.StatusCode, body)
		}
		return err
	}
	if err := visit(); err != nil {
		t.Fatal("before the attack: ", err)
	}
	for i := range many {
		address := fmt.Sprint("10.77.0.", 100+i)
		var err error
		w.do(func() { err = ips("addr add " + address + "/24 dev berth1") })
		if err != nil {
			t.Fatal(err)
		}
		for n := range places / 4 {
			if c := from(address); n%2 == 0 {
				_, _ = io.WriteString(c, "POST"+shop+"Content-Length: 5\r\n\r\n") // the daemon may have closed it
			}
		}
		if i+1 == few || i+1 == many {
			for range 3 {
				if err := visit(); err != nil {
					t.Errorf("%d addresses keep visitors out: %v", i+1, err)
				}
			}
		}
	}
}
