package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"berth/test/dns"
	"berth/test/harness"
)

// visitor asks the sites of a daemon, by name.
type visitor struct {
	t       *testing.T
	address string
}

var sitesAt = regexp.MustCompile(`sites are served.* listen=([0-9.:]+)`)

func (d *daemon) visitor() visitor {
	d.T.Helper()
	m := sitesAt.FindStringSubmatch(d.Out.String())
	if m == nil {
		d.T.Fatalf("the daemon serves no sites: %s", d.Out)
	}
	return visitor{d.T, m[1]}
}

// ask sends a request for a path of a site; header is pairs.
func (v visitor) ask(method, host, path string, header ...string) (*http.Response, string) {
	v.t.Helper()
	r, err := http.NewRequestWithContext(v.t.Context(), method, "http://"+v.address+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	r.Host = host
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(r) // follows nothing
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return resp, string(text)
}

// until waits for an answer of a site.
func (v visitor) until(host string, status int, says string) {
	v.t.Helper()
	harness.Eventually(v.t, fmt.Sprintf("%s answers %d %q", host, status, says), func() bool {
		resp, text := v.ask("GET", host, "/")
		return resp.StatusCode == status && strings.Contains(text, says)
	})
}

const siteNode = `require('http').createServer((q, s) => q.url == '/end' ? process.exit(3) : s.end(process.env.BERTH_APP_ID + ' for ' + q.headers.host)).listen(process.env.PORT)`

// TestSites: a site's way from its upload to a domain of its own and back.
func TestSites(t *testing.T) {
	t.Parallel()
	server := dns.Start(t)
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org", "--proxy-access-log", "--names-resolver", server.Addr())
	v, ana := d.visitor(), d.account("ana", 200)
	v.until("shop.apps.example.org", 404, "no site")
	ana.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode})
	bot := ana.Upload(harness.Files{"discloud.config": harness.Config("MAIN=index.js", "RAM=64"), "index.js": siteNode})
	v.until("shop.apps.example.org", 200, "shop for shop.apps.example.org")
	v.until("SHOP.apps.example.org.", 200, "shop for shop.apps.example.org")
	v.until(bot+".apps.example.org", 404, "no site")

	claim := ana.ask("POST", "/customdomain/create", `{"appID":"shop","domainName":"shop.example.com"}`).Want(200)
	proof := regexp.MustCompile(`berth=[A-Z2-7]+`).FindString(fmt.Sprint(claim.Value))
	v.until("shop.example.com", 404, "no site")
	server.Set("_berth.shop.example.com", []string{proof})
	ana.Get("/customdomain/shop.example.com/verify").Want(200)
	v.until("shop.example.com", 200, "shop for shop.example.com")

	v.until("shop.apps.example.org", 200, "shop")
	// A transport that had a connection open already asks once more, and finds nobody.
	if resp, text := v.ask("GET", "shop.apps.example.org", "/end"); resp.StatusCode != 502 {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	v.until("shop.example.com", 502, "has ended with an error")
	ana.Put("/app/shop/start", "").Want(200)
	v.until("shop.example.com", 200, "shop")
	ana.Put("/app/shop/stop", "").Want(200)
	v.until("shop.example.com", 503, "stopped by its owner")
	log, err := os.ReadFile(filepath.Join(d.Data, "logs", "shop", "access.log"))
	if err != nil || !strings.Contains(string(log), `"GET /end HTTP/1.1" 502 `) {
		t.Errorf("the access log: %s, %v", log, err)
	}
	ana.Delete("shop").Want(200)
	v.until("shop.example.com", 404, "no site")
	v.until("shop.apps.example.org", 404, "no site")
}

// TestSiteThatSendsWhatNobodyAskedFor: a program fills no log but its own with bytes behind
// its answers, and no visitor gets them.
func TestSiteThatSendsWhatNobodyAskedFor(t *testing.T) {
	t.Parallel()
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	v, ana := d.visitor(), d.account("ana", 200)
	ana.Upload(harness.Files{
		"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"),
		"index.js": `require('net').createServer(c => {
			c.on('error', () => {}).on('data', () => c.write('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok' + 'unasked '.repeat(100)))
		}).listen(process.env.PORT)`,
	})
	v.until("shop.apps.example.org", 200, "ok")
	for range 20 {
		if resp, text := v.ask("GET", "shop.apps.example.org", "/"); resp.StatusCode != 200 || text != "ok" {
			t.Errorf("%d %q", resp.StatusCode, text)
		}
	}
	if text := d.Out.String(); strings.Contains(text, "unasked") {
		t.Errorf("the daemon prints what the program sends: %.2000s", text)
	}
}

// TestSitesThroughAnUpgrade: visitors are never refused, and sites of files are
// there again.
func TestSitesThroughAnUpgrade(t *testing.T) {
	t.Parallel()
	address := harness.Address(t)
	d := upgradable(t, "--proxy-mode", "behind", "--proxy-listen", address, "--proxy-domain", "apps.example.org", "--proxy-access-log")
	d.Serve()
	v, ana := d.visitor(), d.account("ana", 200)
	ana.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=64"), "index.js": siteNode})
	ana.Upload(harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=pages", "MAIN=index.html", "RAM=32"), "index.html": "hello"})
	v.until("shop.apps.example.org", 200, "shop")
	v.until("pages.apps.example.org", 200, "hello")
	stop, visits, answered := make(chan struct{}), make(chan error, 1), 0
	go func() {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // each time a new connection
		for {
			select {
			case <-stop:
				visits <- nil
				return
			default:
			}
			r, _ := http.NewRequest("GET", "http://"+address+"/visit", nil)
			r.Host = "shop.apps.example.org"
			resp, err := client.Do(r)
			if err == nil {
				_ = resp.Body.Close()
				if resp.StatusCode != 200 {
					err = fmt.Errorf("status %d", resp.StatusCode)
				}
			}
			if err != nil {
				visits <- err
				return
			}
			answered++
		}
	}()
	d.Upgrade()
	v.until("pages.apps.example.org", 200, "hello")
	v.until("shop.apps.example.org", 200, "shop")
	close(stop)
	if err := <-visits; err != nil {
		t.Errorf("a visitor during the upgrade: %v", err)
	}
	harness.Eventually(t, "the access log has each visit once", func() bool {
		log, err := os.ReadFile(filepath.Join(d.Data, "logs", "shop", "access.log"))
		return err == nil && strings.Count(string(log), `"GET /visit HTTP/1.1" 200 `) == answered
	})
}

// TestStaticSite: a site of files lives as others do, and nothing runs for it.
func TestStaticSite(t *testing.T) {
	t.Parallel()
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	v, ana := d.visitor(), d.account("ana", 100)
	page := func(text string) harness.Files {
		return harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.html", "RAM=32"), "index.html": text, ".env": "secret"}
	}
	ana.Upload(page("one"))
	const host = "shop.apps.example.org"
	ana.Until("shop", "apps.online", true)
	v.until(host, 200, "one")
	if got := d.runs("shop"); len(got) != 0 {
		t.Errorf("something runs: %q", got)
	}
	if resp, text := v.ask("GET", host, "/.env"); resp.StatusCode != 404 || strings.Contains(text, "secret") {
		t.Errorf("%d %s", resp.StatusCode, text)
	}
	ana.Get("/app/shop/status").Want(200, "apps.container", "Online")
	ana.Put("/app/shop/console", `{"command":"cat index.html"}`).Want(200).Says("apps.shell.stdout", "one")
	ana.Commit("shop", page("two")).Want(200)
	v.until(host, 200, "two")
	ana.Put("/app/shop/stop", "").Want(200)
	v.until(host, 503, "stopped by its owner")
	ana.Put("/app/shop/start", "").Want(200)
	v.until(host, 200, "two")
	ana.Put("/app/shop/restart", "").Want(200)
	v.until(host, 200, "two")
	ana.Put("/app/shop/ram", `{"ramMB":64}`).Want(200)
	ana.Commit("shop", harness.Files{"discloud.config": harness.Config("TYPE=site", "ID=shop", "MAIN=index.html", "BUILD=mkdir -p dist && echo three > dist/index.html")}).Want(200)
	v.until(host, 200, "three")
	ana.Delete("shop").Want(200)
	v.until(host, 404, "no site")
}

// An upload, the status and the log say where a site is, and one of files fits into an
// account that is full.
func TestSiteSaysWhereItIs(t *testing.T) {
	t.Parallel()
	site := func(id, main, text string) harness.Files {
		return harness.Files{"discloud.config": harness.Config("TYPE=site", "ID="+id, "MAIN="+main, "RAM=64"), main: text}
	}
	d := launch(t, "--proxy-mode", "behind", "--proxy-listen", "127.0.0.1:0", "--proxy-domain", "apps.example.org")
	ana := d.account("ana", 100)
	const at = "http://shop.apps.example.org"
	a := ana.Post(site("shop", "index.js", siteNode).Zip()).Want(200, "site.id", "shop", "site.port", 0, "site.message", "")
	if got := a.List("site.addresses"); !slices.Equal(got, []string{at}) {
		t.Errorf("an upload names %q", got)
	}
	ana.UntilLog("shop", "its visitors find it at "+at)
	ana.Until("shop", "site.listening", "yes")
	ana.Get("/app/shop/status").Want(200, "apps.container", "Online", "site.listening", "yes")
	ana.Put("/app/shop/stop", "").Want(200)
	ana.Get("/app/shop/status").Want(200, "apps.container", "Offline", "site.listening", "offline")
	bot := ana.Upload(harness.Files{"discloud.config": harness.Config("MAIN=index.js", "RAM=32"), "index.js": "setInterval(() => {}, 1000)"})
	if a := ana.Info(bot); a.At("site") != nil {
		t.Errorf("a bot has a site: %s", a.Body)
	}

	ana.Post(site("more", "index.js", siteNode).Zip()).Want(422) // 96 of 100 MB are assigned
	docs := site("docs", "index.html", "files")
	ana.Post(docs.Zip()).Want(200, "app.ram", 64, "site.listening", "yes")
	ana.Get("/user").Want(200, "user.ramUsedMb", 96)
	ana.Commit("docs", site("docs", "index.js", siteNode)).Want(422).Says("message", "the account has 100 MB, 96 MB are assigned")
	d.visitor().until("docs.apps.example.org", 200, "files")
	ana.Delete("shop").Want(200)
	ana.Commit("docs", site("docs", "index.js", siteNode)).Want(200)
	ana.Get("/user").Want(200, "user.ramUsedMb", 96)
	d.visitor().until("docs.apps.example.org", 200, "docs for")
	ana.Get("/app/all").Want(200).Says("sites", "id:docs", "listening:yes")

	dark := launch(t)
	bob := dark.account("bob", 100)
	bob.Post(site("shop", "index.js", siteNode).Zip()).Want(200).Says("site.message", "this host serves no sites")
	bob.UntilLog("shop", "this host serves no sites")
}
