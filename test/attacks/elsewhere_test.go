package attacks

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"berth/test/harness"
)

// siteElsewhere is a site that knows neither PORT nor 8080, with a debugger of its own. It
// closes its port when it is asked to, and goes on.
const siteElsewhere = `
import os, socket, threading, time
def bound(host, port):
    l = socket.socket(); l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    l.bind((host, port)); l.listen(); return l
def serve(l, says):
    while True:
        c, _ = l.accept()
        path = c.recv(4096).split(b" ")[1]
        c.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(says), says)); c.close()
        if path == b"/leave": l.close(); return
threading.Thread(target=serve, args=(bound("127.0.0.1", 9229), b"the debugger"), daemon=True).start()
serve(bound("0.0.0.0", 3000), b"hello from " + os.environ["BERTH_APP_ID"].encode())
time.sleep(3600)
`

// tried is what a program of another account finds at ports of this host, and at its own.
const tried = `python3 -c 'import errno, socket, sys
for host in ("127.0.0.1", "::1", "127.0.0.2", "0.0.0.0", "%s"):
    for port in %s:
        try: socket.create_connection((host, port), 5); print("reached", host, port)
        except OSError as e: print(errno.errorcode.get(e.errno, e))
'`

// TestKernelAttacksOnSitesElsewhere: a site that listens on a port of its own choice is
// reached by its visitors, and by nobody else: not by the host's users, not by programs of
// others that listen on the same, and not by who takes its port when it has left it.
func TestKernelAttacksOnSitesElsewhere(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	d.run("account", "create", "bob", "--ram", "4096")
	bob := d.in(t)
	bob.token = d.run("token", "create", "bob")
	v := visits{t, "http://" + sitesAt.FindStringSubmatch(d.Out.String())[1]}
	made := func(by *daemon, id string) {
		by.upload(map[string]string{"discloud.config": "TYPE=site\nID=" + id + "\nMAIN=main.py\nRAM=64\n", "main.py": siteElsewhere})
	}
	made(d, "shop")
	made(bob, "thief") // listens on the same ports
	v.until("shop", 200, "hello from shop")
	v.until("thief", 200, "hello from thief")
	d.untilLog("shop", "it listens on port 3000, where its visitors are brought")
	d.untilLog("shop", "stays private: 9229")
	if got := v.ask("shop", "/"); got != "200 hello from shop" {
		t.Errorf("with another site on the same port: %q", got)
	}

	ports := listensOf(t, d.uid("shop"))
	if len(ports) != 2 {
		t.Fatalf("the site listens on %v, want two ports", ports)
	}
	for _, port := range ports { // the host's own users
		if got := reached(port); got != "" {
			t.Errorf("the host reaches port %d of the site: %q", port, got)
		}
	}
	numbers := fmt.Sprintf("(%d, %d, 8080)", ports[0], ports[1])
	spy := bob.upload(bot("main.py", map[string]string{"main.py": "import time\ntime.sleep(3600)"}))
	out := bob.console(spy, fmt.Sprintf(tried, host4, strings.Replace(numbers, "8080", "8080, 3000, 9229", 1))).want(200).text("apps.shell.stdout")
	if strings.Contains(out, "reached") || strings.Count(out, "ECONNREFUSED")+strings.Count(out, "EPERM") != 25 {
		t.Errorf("a program of another account finds\n%s", out)
	}

	// It leaves its port, and the host's own has it at once. The connection that berth
	// makes is closed before a word is said.
	v.until("shop", 200, "hello from shop")
	v.ask("shop", "/leave")
	var left []int
	harness.Eventually(t, "the site has left its port", func() bool {
		left = slices.DeleteFunc(slices.Clone(ports), func(p int) bool { return slices.Contains(listensOf(t, d.uid("shop")), p) })
		return len(left) == 1
	})
	thief := takes(t, left[0])
	for deadline := time.Now().Add(4 * time.Second); time.Now().Before(deadline); {
		if got := v.ask("shop", "/"); strings.HasPrefix(got, "200") {
			t.Fatalf("visitors of a site that has left its port get %q", got)
		}
	}
	if said := thief.Load(); said != 0 {
		t.Errorf("who took the port was told %d bytes of what visitors ask", said)
	}

	// The same after its end.
	ports = listensOf(t, bob.uid("thief"))
	bob.put("/app/thief/stop").want(200)
	for _, port := range ports {
		thief := takes(t, port)
		if got := v.ask("thief", "/"); !strings.HasPrefix(got, "503") {
			t.Errorf("visitors of a site that was stopped get %q", got)
		}
		if said := thief.Load(); said != 0 {
			t.Errorf("who took the port was told %d bytes", said)
		}
	}
	made(d, "next")
	v.until("next", 200, "hello from next")
	for _, id := range []string{"thief", spy} { // the rest goes with its account
		bob.send(bob.request(http.MethodDelete, "/app/"+id+"/delete", nil)).want(200)
	}
}

// visits are requests for sites.
type visits struct {
	t  *testing.T
	at string
}

// ask returns the status and what the answer says.
func (v visits) ask(id, path string) string {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), http.MethodGet, v.at+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.Host = id + ".apps.example.org"
	resp, err := web.Do(r)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return fmt.Sprint(resp.StatusCode, " ", string(body))
}

func (v visits) until(id string, status int, says string) {
	v.t.Helper()
	harness.Eventually(v.t, id+" says "+says, func() bool { return v.ask(id, "/") == fmt.Sprint(status, " ", says) })
}

// listensOf returns the ports of loopback at which a user's programs listen, in order.
func listensOf(t *testing.T, uid int) (ports []int) {
	t.Helper()
	text, err := os.ReadFile("/proc/thread-self/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != "0A" || f[7] != strconv.Itoa(uid) {
			continue
		}
		_, port, _ := strings.Cut(f[1], ":")
		n, err := strconv.ParseUint(port, 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, int(n))
	}
	slices.Sort(ports)
	return ports
}

// reached is what a port of loopback says to a process of the host, "" when nobody is there.
func reached(port int) string {
	c, err := net.DialTimeout("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), 300*time.Millisecond)
	if err != nil {
		return ""
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, "GET / HTTP/1.0\r\n\r\n")
	said, _ := io.ReadAll(c)
	return "connected " + string(said)
}

// takes listens on a port of loopback as a process of the host, and answers as a site. It
// counts the bytes that it is told.
func takes(t *testing.T, port int) *atomic.Int64 {
	t.Helper()
	var l net.Listener
	harness.Eventually(t, "the port can be had", func() (had bool) {
		var err error
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err != nil && !errors.Is(err, syscall.EADDRINUSE) {
			t.Fatal(err)
		}
		return err == nil
	})
	said, done := new(atomic.Int64), make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecret")
			_ = c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			n, _ := io.Copy(io.Discard, c)
			said.Add(n)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return said
}
