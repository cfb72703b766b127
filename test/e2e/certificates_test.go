package e2e

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"berth/test/ca"
	"berth/test/harness"
)

// TestCertificates: from the creation of a domain to an answer over HTTPS with a
// certificate of a real authority, and to the end of it.
func TestCertificates(t *testing.T) {
	t.Parallel()
	e := atTheEdge(t, func(c *ca.Config) { c.Blocked = []string{"blocked.example.com"} })
	e.leads("shop.apps.example.org", "second.apps.example.org", "www.example.com", "blocked.example.com")
	e.trust()
	e.Serve()
	ana := e.account("ana", 300)
	ana.ask("POST", "/subdomain/kept", "").Want(200) // a name without a site
	e.refused("shop.apps.example.org", "kept.apps.example.org", "apps.example.org", "www.example.com")
	ana.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode})
	e.untilCurl("shop.apps.example.org", "shop for shop.apps.example.org:"+strconv.Itoa(ca.Port(t, e.https)))
	if out, err := e.curl("shop.apps.example.org", "/", "-o", "/dev/null", "-w", "%{http_version} %{http_code}"); err != nil || out != "2 200" {
		t.Errorf("over HTTP/2: %s, %v", out, err)
	}
	out, err := exec.Command("curl", "-sS", "--noproxy", "*", "-H", "Host: shop.apps.example.org", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", "http://"+e.http+"/a?b").CombinedOutput()
	if want := "308 https://shop.apps.example.org:" + strconv.Itoa(ca.Port(t, e.https)) + "/a?b"; err != nil || string(out) != want {
		t.Errorf("over HTTP: %s, %v; want %s", out, err, want)
	}
	out, err = exec.Command("curl", "-sS", "--noproxy", "*", "-H", "Host: shop.apps.example.org", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", "http://"+e.http+"/.well-known/acme-challenge/x").CombinedOutput()
	if err != nil || string(out) != "404 " {
		t.Errorf("a question that nobody asked: %s, %v", out, err)
	}

	e.claim(ana, "shop", "www.example.com")
	ana.Get("/user").Want(200, "user.subdomains", "[kept shop]", "user.customdomains", "[www.example.com]")
	e.untilCurl("www.example.com", "shop for www.example.com")
	ana.Get("/customdomain/www.example.com").Want(200, "domain.certificate.status", "issued", "customdomain.certificate.status", "issued")
	e.claim(ana, "shop", "blocked.example.com")
	harness.Eventually(t, "the refusal is told", func() bool {
		return ana.Get("/customdomain/blocked.example.com").At("domain.certificate.status") == "failed"
	})
	ana.Get("/customdomain/blocked.example.com").Says("domain.certificate.message", "refused")
	e.refused("blocked.example.com")
	list := e.listed(e.Data)
	if len(list) != 3 || list["www.example.com"] != "issued" || list["shop.apps.example.org"] != "issued" || !strings.HasPrefix(list["blocked.example.com"], "failed the certificate authority refused") {
		t.Errorf("listed are %v", list)
	}

	// It leads elsewhere at once, with the certificate that it has.
	ana.Upload(htmlSite("second", "the second"))
	ana.ask("PUT", "/customdomain/www.example.com/edit", `{"newAppID":"second"}`).Want(200)
	if out, err := e.curl("www.example.com", "/"); err != nil || out != "the second" {
		t.Errorf("after the edit: %s, %v", out, err)
	}
	e.untilCurl("second.apps.example.org", "the second")
	orders := e.ca.Said("POST /order-plz")
	ana.ask("DELETE", "/customdomain/blocked.example.com/remove", "").Want(200)
	ana.Delete("second").Want(200)
	e.refused("www.example.com", "second.apps.example.org", "blocked.example.com")
	ana.Get("/customdomain/www.example.com").Want(404)
	ana.Get("/user").Want(200, "user.subdomains", "[kept shop]", "user.customdomains", "[]")
	ana.Delete("shop").Want(200)
	ana.ask("DELETE", "/subdomain/kept", "").Want(200)
	e.refused("shop.apps.example.org", "kept.apps.example.org")
	if n := e.ca.Said("POST /order-plz"); n != orders || len(e.listed(e.Data)) > 0 {
		t.Errorf("%d orders more, and listed are %v", n-orders, e.listed(e.Data))
	}
}

// TestCertificatesLast: a restart, a crash, an upgrade in place and a backup keep
// them, while there is no authority; and the limit.
func TestCertificatesLast(t *testing.T) {
	t.Parallel()
	e := atTheEdge(t, nil, "--proxy-acme-per-hour", "1")
	const shop, late = "shop.apps.example.org", "late.apps.example.org"
	e.leads(shop, late)
	e.trust()
	e.Serve()
	ana := e.account("ana", 100)
	ana.Upload(htmlSite("shop", "hello"))
	e.untilCurl(shop, "hello")
	first := e.mustVisit(shop)
	ana.Upload(htmlSite("late", "too late"))
	limited := func(after string) {
		t.Helper()
		harness.Eventually(t, "it is told after "+after, func() bool {
			return strings.HasPrefix(e.listed(e.Data)[late], "pending this host has begun with as many new names as it may")
		})
		e.refused(late)
		if c := e.mustVisit(shop); c.SerialNumber.Cmp(first.SerialNumber) != 0 {
			t.Errorf("after %s it is shown another", after)
		}
	}
	limited("the first")
	orders := e.ca.Said("POST /order-plz")
	e.Restart()
	limited("a restart")
	ana.DeleteAll()
	ana.Upload(htmlSite("late", "again"))
	ana.Upload(htmlSite("shop", "again"))
	e.untilCurl(shop, "again")
	limited("all was made anew")
	if n := e.ca.Said("POST /order-plz"); n != orders {
		t.Errorf("%d orders more", n-orders)
	}
	e.ca.Stop()
	if code := e.End(syscall.SIGKILL); code != -1 {
		t.Fatalf("exit status %d", code)
	}
	e.Serve()
	limited("a crash")

	stop, visits := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-stop:
				visits <- nil
				return
			default:
			}
			if c, err := e.visit(shop); err != nil || c.SerialNumber.Cmp(first.SerialNumber) != 0 {
				visits <- fmt.Errorf("shown %v, %w", c, err)
				return
			}
		}
	}()
	e.Upgrade()
	e.mustVisit(shop)
	close(stop)
	if err := <-visits; err != nil {
		t.Errorf("a visitor during the upgrade: %v", err)
	}
	limited("an upgrade")

	archive, restored := filepath.Join(e.Root, "host.tar.gz"), filepath.Join(e.Root, "restored")
	for _, args := range [][]string{{"backup", "create", "--to", archive, "--data-dir", e.Data}, {"backup", "restore", archive, "--data-dir", restored}} {
		if out, err := e.Command(args...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", args, err, out)
		}
	}
	if list := e.listed(restored); list[shop] != "pending" {
		t.Errorf("restored without the key are %v", list)
	}
	if err := os.Link(e.Data+".key", restored+".key"); err != nil {
		t.Fatal(err)
	}
	if list := e.listed(restored); list[shop] != "issued" {
		t.Errorf("restored are %v", list)
	}
	if st, err := os.Stat(filepath.Join(restored, "berth.db")); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("with keys in it: %v, %v", st, err)
	}
}

// TestCertificatesOfFilesAndACME: a wildcard from a file for sites, an authority
// that is down at first and looks at TLS alone for a domain.
func TestCertificatesOfFilesAndACME(t *testing.T) {
	t.Parallel()
	wildcard := filepath.Join(t.TempDir(), "wildcard.pem")
	ca.Pair(t, wildcard, "*.apps.example.org")
	e := atTheEdge(t, func(c *ca.Config) { c.HTTP = 1 }, // where nobody listens
		"--proxy-cert", wildcard, "--proxy-key", wildcard+".key", "--names-proof", "address")
	e.leads("shop.apps.example.org", "www.example.com")
	e.Serve()
	ana := e.account("ana", 100)
	ana.Upload(htmlSite("shop", "hello"))
	e.given = wildcard // its own root
	e.untilCurl("shop.apps.example.org", "hello")
	e.refused("www.example.com")
	ana.ask("POST", "/customdomain/create", `{"appID":"shop","domainName":"www.example.com"}`).Want(200)
	ana.Get("/customdomain/www.example.com/verify").Want(200, "domain.dns_status", "verified") // by its address alone
	harness.Eventually(t, "it is told that the authority is down", func() bool {
		a := ana.Get("/customdomain/www.example.com").Want(200, "domain.certificate.status", "pending")
		return strings.Contains(fmt.Sprint(a.At("domain.certificate.message")), "cannot be reached")
	})
	e.trust()
	e.untilCurl("www.example.com", "hello")
	if n := e.ca.Said("POST /order-plz"); n < 2 { // HTTP-01 was refused before
		t.Errorf("%d orders", n)
	}
	if list := e.listed(e.Data); len(list) != 2 || list["*.apps.example.org"] != "issued" || list["www.example.com"] != "issued" {
		t.Errorf("listed are %v", list)
	}
	if n := strings.Count(e.Out.String(), "the certificate authority does not work, or cannot be reached"); n != 1 {
		t.Errorf("it was told %d times", n)
	}
	e.given = wildcard
	if c := e.mustVisit("shop.apps.example.org"); len(c.DNSNames) != 1 || c.DNSNames[0] != "*.apps.example.org" || time.Until(c.NotAfter) < 0 {
		t.Errorf("it is shown that of %v", c.DNSNames)
	}
	// Settings that could not be served with leave those that are.
	if err := os.Rename(wildcard+".key", wildcard+".gone"); err != nil {
		t.Fatal(err)
	}
	e.Signal(syscall.SIGHUP)
	harness.Eventually(t, "the upgrade is refused", func() bool {
		said := e.Out.String()
		return strings.Contains(said, "not upgraded, serving as before") && strings.Contains(said, "its self check failed: cannot read the certificate")
	})
	if out, err := e.curl("shop.apps.example.org", "/"); err != nil || out != "hello" {
		t.Errorf("after that: %s, %v", out, err)
	}
}

// TestReloadToPortsOfOthers: settings with a port that another process has are not taken, and
// the daemon goes on.
func TestReloadToPortsOfOthers(t *testing.T) {
	t.Parallel()
	d := upgradable(t)
	config := filepath.Join(d.Root, "berth.toml")
	harness.Write(t, config, "")
	d.Env = append(d.Env, "BERTH_CONFIG="+config)
	d.Serve()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	pair := filepath.Join(d.Root, "pair.pem")
	ca.Pair(t, pair, "apps.example.org")
	harness.Write(t, config, fmt.Sprintf("[proxy]\nmode = \"edge\"\ndomain = \"apps.example.org\"\ncert = %q\nkey = %q\nhttp = %q\nhttps = \"127.0.0.1:0\"\n", pair, pair+".key", l.Addr()))
	d.Signal(syscall.SIGHUP)
	harness.Eventually(t, "the reload is refused", func() bool {
		return strings.Contains(d.Out.String(), "not upgraded, serving as before") && strings.Contains(d.Out.String(), fmt.Sprintf("(pid %d)", os.Getpid()))
	})
	d.account("ana", 100).Get("/user").Want(200)
}

// TestCertificateOfAnAddress: without a domain, the panel and the API are at the host's IP
// address, with a certificate of the address that lives for days. Names still have none.
func TestCertificateOfAnAddress(t *testing.T) {
	t.Parallel()
	const short = 6 * 24 * time.Hour
	e := atTheEdge(t, func(c *ca.Config) { c.Short = short })
	e.Args = append(e.Args, "--base-url", "https://"+e.https)
	e.trust()
	e.Serve()
	harness.Eventually(t, "the API answers at the address over HTTPS", func() bool {
		out, err := e.curl("127.0.0.1", "/v2/user")
		return err == nil && strings.Contains(out, `"statusCode":401`)
	})
	c := e.mustVisit("127.0.0.1")
	if len(c.IPAddresses) != 1 || c.NotAfter.Sub(c.NotBefore).Round(time.Hour) != short {
		t.Errorf("it is shown that of %v, for %s", c.IPAddresses, c.NotAfter.Sub(c.NotBefore))
	}
	e.refused("apps.example.org", "shop.apps.example.org")
	out, err := exec.Command("curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code} %{redirect_url}", "http://"+e.http+"/a?b").CombinedOutput()
	if want := "308 https://" + e.https + "/a?b"; err != nil || string(out) != want {
		t.Errorf("over HTTP: %s, %v; want %s", out, err, want)
	}
	if list := e.listed(e.Data); list["127.0.0.1"] != "issued" {
		t.Errorf("listed are %v", list)
	}
	e.Restart()
	if again := e.mustVisit("127.0.0.1"); again.SerialNumber.Cmp(c.SerialNumber) != 0 {
		t.Error("a restart has another certificate")
	}
}
