package e2e

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"

	"berth/test/harness"
)

// waiting connects to a site while no daemon may be there, and asks. The answer comes once one is.
func waiting(t *testing.T, address string) (answered func()) {
	t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal("a visitor is refused: ", err)
	}
	if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: shop.apps.example.org\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		defer c.Close()
		if text, err := io.ReadAll(c); err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 200 ") || !strings.Contains(string(text), "shop for shop.apps.example.org") {
			t.Errorf("a visitor got %q, %v", text, err)
		}
	}
}

// closed waits until nobody listens. A process of another test may have the socket for the moment
// between its fork and its exec.
func closed(t *testing.T, address string) {
	t.Helper()
	harness.Eventually(t, "nobody listens on "+address, func() bool { return !listensAt(address) })
}

// TestVisitorsWaitForTheNextDaemon: who comes while no daemon runs waits, if a service manager
// keeps the sockets of the sites. Sites that move leave theirs, at once.
func TestVisitorsWaitForTheNextDaemon(t *testing.T) {
	t.Parallel()
	m := harness.NewManager(t)
	d := upgradable(t, "--proxy-mode", "behind", "--proxy-domain", "apps.example.org")
	sites, moved := harness.Address(t), harness.Address(t)
	_, port, _ := net.SplitHostPort(moved)
	everywhere := "0.0.0.0:" + port
	at := func(address string) {
		t.Helper()
		m.Serve(d.Berth, "--proxy-listen", address)
	}
	keeps := func(when, address string) {
		t.Helper()
		want := []string{"sites/" + strings.ReplaceAll(address, ":", "/")}
		harness.Eventually(t, fmt.Sprintf("%s the manager keeps %v, and has %v", when, want, m.Kept("sites/")), func() bool {
			return slices.Equal(m.Kept("sites/"), want)
		})
	}
	at(sites)
	d.Listens()
	c := d.account("ana", 100)
	id := c.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode})
	waiting(t, sites)()
	keeps("at first", sites)

	for name, signal := range map[string]syscall.Signal{"a restart": syscall.SIGTERM, "a crash": syscall.SIGKILL} {
		d.End(signal)
		var all []func()
		for range 20 {
			all = append(all, waiting(t, sites))
		}
		at(sites)
		for _, answered := range all {
			answered()
		}
		d.Listens()
		keeps("after "+name, sites)
	}

	// In place, the next image has the sockets, and so has who follows it after a crash.
	d.Upgrade()
	waiting(t, sites)()
	keeps("after an upgrade in place", sites)
	d.End(syscall.SIGKILL)
	answered := waiting(t, sites)
	at(sites)
	answered()
	d.Listens()

	// The old socket would be in the way of the new one, which is at every address.
	before := sites
	for _, address := range []string{moved, everywhere, sites} {
		d.End(syscall.SIGTERM)
		at(address)
		d.Listens()
		waiting(t, strings.Replace(address, "0.0.0.0", "127.0.0.1", 1))()
		keeps("after a move", address)
		if before != moved { // where the new one is too
			closed(t, before)
		}
		before = address
	}
	pid := d.PID(id)
	d.End(syscall.SIGTERM)
	m.Forget() // as at a stop
	closed(t, sites)
	at(sites)
	d.Listens()
	waiting(t, sites)()
	if d.PID(id) == pid {
		t.Error("without a unit for them, programs outlive their daemon")
	}
}

// slowSite answers after a while.
const slowSite = `require('http').createServer((q, s) => setTimeout(() => s.end('late'), 300)).listen(process.env.PORT)`

// TestUpgradeBesideASilentClient: a client of the API that says nothing takes no time from the
// visitors of sites when another image takes over.
func TestUpgradeBesideASilentClient(t *testing.T) {
	t.Parallel()
	d := upgradable(t, "--proxy-mode", "behind", "--proxy-listen", harness.Address(t), "--proxy-domain", "apps.example.org")
	d.Serve()
	c := d.account("ana", 100)
	c.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": slowSite})
	v := d.visitor()
	v.until("shop.apps.example.org", 200, "late")
	silent, err := net.Dial("tcp", strings.TrimPrefix(d.Base, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	visitors := harness.Visit(20, func() *http.Request {
		r, err := http.NewRequest("GET", "http://"+v.address+"/", nil)
		if err != nil {
			panic(err)
		}
		r.Host = "shop.apps.example.org"
		return r
	})
	d.Upgrade()
	visitors.End(t, 20)
}
