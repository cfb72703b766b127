package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"berth/test/dns"
	"berth/test/harness"
)

// ask sends a request with a JSON body, none when it is "".
func (c *client) ask(method, path, body string) harness.Answer {
	c.T.Helper()
	r := c.Request(method, "/v2"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.Send(r)
}

func siteNamed(id string) harness.Files {
	return harness.Files{"discloud.config": harness.Config("TYPE=site", "ID="+id, "MAIN=index.js", "RAM=32"), "index.js": harness.IdleNode}
}

// TestSubdomains: who has a name, with a site and without one.
func TestSubdomains(t *testing.T) {
	t.Parallel()
	d := launch(t, "--names-per-account", "2")
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	ana.ask("POST", "/subdomain/kept", "").Want(200, "status", "ok", "subdomain.id", "kept", "subdomain.userID", ana.Account, "subdomain.status", 1)
	bob.ask("POST", "/subdomain/kept", "").Want(409, "status", "error", "code", 409).Says("message", "taken")
	bob.Get("/subdomain/kept").Want(403)
	bob.Get("/subdomain/nobodys").Want(404)
	bob.ask("DELETE", "/subdomain/kept", "").Want(403)
	for _, name := range []string{"www", "all", "xn--a", "Kept", "a_b", strings.Repeat("a", 21)} {
		bob.ask("POST", "/subdomain/"+name, "{}").Want(400, "status", "error").Says("message", "cannot be a subdomain")
	}
	bob.Post(siteNamed("kept").Zip()).Want(409).Says("message", `"kept" is taken`)
	bob.Post(siteNamed("www").Zip()).Want(422).Says("message", "discloud.config line 2: ID=", "reserved")
	bob.Get("/user").Want(200, "user.ramUsedMb", 0, "user.subdomains", "[]")

	ana.Upload(siteNamed("kept"))
	ana.Upload(siteNamed("shop"))
	ana.Get("/subdomain/kept").Want(200, "subdomain.status", 2)
	a := ana.Get("/subdomain/all").Want(200)
	if got := fmt.Sprint(a.At("subdomains")); strings.Count(got, "status:2") != 2 || strings.Index(got, "kept") > strings.Index(got, "shop") {
		t.Errorf("the subdomains are %s", got)
	}
	ana.Get("/user").Want(200, "user.subdomains", "[kept shop]")
	ana.ask("DELETE", "/subdomain/shop", "").Want(409).Says("message", "in use")
	ana.Delete("kept").Want(200)
	ana.Delete("shop").Want(200)
	ana.Get("/user").Want(200, "user.subdomains", "[kept]")
	ana.Get("/subdomain/kept").Want(200, "subdomain.status", 1)
	bob.Upload(siteNamed("shop")) // it went with its site
	ana.ask("POST", "/subdomain/more", "").Want(200)
	ana.ask("POST", "/subdomain/toomuch", "").Want(422).Says("message", "names.per_account")

	d.Restart()
	ana.Get("/user").Want(200, "user.subdomains", "[kept more]")
	ana.ask("DELETE", "/subdomain/kept", "{}").Want(200, "status", "ok")
	ana.Get("/subdomain/kept").Want(404)
	bob.Upload(siteNamed("kept"))
	ana.Post(siteNamed("kept").Zip()).Want(409)
}

// A site that was called off, or whose daemon died, leaves no name behind.
func TestSubdomainOfAnUploadThatCameToNothing(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	site := siteNamed("shop").With("discloud.config", harness.Config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=32", "BUILD=sleep 600"))
	pending := func() chan harness.Answer {
		done := make(chan harness.Answer, 1)
		go func() {
			a, _ := ana.Try(ana.Form(http.MethodPost, "/v2/upload", site.Zip())) // cut off when the daemon dies
			done <- a
		}()
		harness.Eventually(t, "the site is being built", func() bool { return ana.Get("/subdomain/shop").Code == 200 })
		return done
	}
	done := pending()
	bob.ask("POST", "/subdomain/shop", "").Want(409)
	harness.Eventually(t, "the build is called off", func() bool { return ana.Put("/app/shop/stop", "").Code == 200 })
	if a := <-done; a.Code != 409 {
		t.Errorf("the upload answers %d %s", a.Code, a.Body)
	}
	ana.Get("/subdomain/shop").Want(404)
	done = pending()
	d.End(syscall.SIGKILL)
	<-done
	d.Serve()
	ana.Get("/subdomain/shop").Want(404)
	bob.ask("POST", "/subdomain/shop", "").Want(200)
}

// TestDomains: a domain from its claim to its end, with a DNS of its own.
func TestDomains(t *testing.T) {
	t.Parallel()
	server := dns.Start(t)
	d := launch(t, "--names-resolver", server.Addr(), "--names-domain", "apps.example.net", "--names-addresses", "192.0.2.1,2001:db8::1")
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	ana.Upload(siteNamed("shop"))
	bob.Upload(siteNamed("rival"))
	ana.Get("/customdomain/all").Want(200, "domains", "[]")

	const path, record = "/customdomain/www.example.org", "_berth.www.example.org"
	a := ana.ask("POST", "/customdomain/create", `{"appID":"shop","domainName":"WWW.example.org"}`)
	a.Want(200, "status", "ok", "domain.id", "www.example.org", "domain.dns_status", "unverified", "domain.isLegacy", false,
		"domain.app.id", "shop", "domain.app.type", 1, "domain.app.online", true)
	b := bob.ask("POST", "/customdomain/create", `{"appID":"rival","domain":"www.example.org"}`).Want(200, "domain.dns_status", "unverified")
	proof := proofOf(a, record, "A www.example.org 192.0.2.1", "AAAA www.example.org 2001:db8::1")
	rivals := proofOf(b, record)
	if proof == rivals {
		t.Errorf("two claims have the proof %s", proof)
	}
	for body, code := range map[string]int{
		`{"appID":"shop","domain":"www.example.org"}`:    409,
		`{"appID":"rival","domain":"a.example.org"}`:     404,
		`{"appID":"all","domain":"a.example.org"}`:       404,
		`{"appID":"shop","domain":"x.apps.example.net"}`: 400,
		`{"appID":"shop","domain":"192.0.2.7"}`:          400,
		`{"appID":"shop"}`:                               400,
	} {
		ana.ask("POST", "/customdomain/create", body).Want(code, "status", "error")
	}

	ana.Get(path+"/verify").Want(200, "domain.dns_status", "failed")
	server.Fail(record, dns.ServFail)
	if a := ana.Get(path + "/verify").Want(503); a.Header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	ana.Get(path).Want(200, "domain.dns_status", "failed", "customdomain.dns_status", "failed")
	server.Set(record, []string{"v=spf1 -all"}, []string{proof})
	bob.Get(path+"/verify").Want(200, "domain.dns_status", "failed")
	ana.Get(path+"/verify").Want(200, "status", "ok", "domain.dns_status", "verified")
	bob.Get(path).Want(404)
	bob.ask("POST", "/customdomain/create", `{"appID":"rival","domain":"www.example.org"}`).Want(409).Says("message", record)

	d.Restart()
	ana.Get("/user").Want(200, "user.customdomains", "[www.example.org]")
	ana.Upload(siteNamed("second"))
	ana.ask("PUT", path+"/edit", `{"newAppID":"rival"}`).Want(404)
	ana.ask("PUT", path+"/edit", `{"newAppID":"second"}`).Want(200, "status", "ok")
	ana.Delete("shop").Want(200)
	ana.Get(path).Want(200, "domain.dns_status", "verified", "domain.app.id", "second")
	bob.ask("DELETE", path+"/remove", "").Want(404)
	ana.Delete("second").Want(200)
	ana.Get(path).Want(404)
	ana.Get("/user").Want(200, "user.customdomains", "[]")
	bob.ask("POST", "/customdomain/create", `{"appID":"rival","domainName":"www.example.org"}`).Want(200)
	bob.ask("DELETE", path+"/remove", "").Want(200, "status", "ok")
	bob.Get("/customdomain/all").Want(200, "domains", "[]")
}

// proofOf is the content of the TXT record; the other records must be these.
func proofOf(a harness.Answer, name string, others ...string) string {
	a.T.Helper()
	list, _ := a.At("domain.instructions").([]any)
	proof, wanted := "", map[string]bool{}
	for _, o := range others {
		wanted[o] = true
	}
	for _, v := range list {
		r, _ := v.(map[string]any)
		if line := fmt.Sprint(r["type"], " ", r["name"], " ", r["content"]); r["type"] == "TXT" && r["name"] == name {
			proof = fmt.Sprint(r["content"])
		} else {
			delete(wanted, line)
		}
	}
	if proof == "" || len(wanted) > 0 {
		a.T.Errorf("no TXT record for %s, or not all of %v, in %s", name, others, a.Body)
	}
	return proof
}

// TestDeleteAll deletes what runs, what is stopped and what is being built,
// and nobody else's.
func TestDeleteAll(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 200), d.account("bob", 100)
	ana.ask("DELETE", "/app/all/delete", "").Want(200, "apps.removealled", "[]", "apps.alreadyOffline", "[]", "apps.alreadyInProcess", "[]")
	running, stopped := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=32")), ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	ana.Put("/app/"+stopped+"/stop", "").Want(200)
	theirs := bob.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	done := make(chan harness.Answer, 1)
	go func() {
		a, _ := ana.Try(ana.Form(http.MethodPost, "/v2/upload", harness.ShellBot(harness.IdleShell, "RAM=32", "BUILD=sleep 600").Zip()))
		done <- a
	}()
	harness.Eventually(t, "the third is being built", func() bool { return len(ana.IDs()) == 3 })
	a := ana.ask("DELETE", "/app/all/delete", "{}").Want(200, "status", "ok", "apps.alreadyOffline", "[]", "apps.alreadyInProcess", "[]")
	if list := a.List("apps.removealled"); len(list) != 3 || !strings.Contains(string(a.Body), running) || !strings.Contains(string(a.Body), stopped) {
		t.Errorf("deleted were %v", list)
	}
	if a := <-done; a.Code != 409 {
		t.Errorf("the upload answers %d %s", a.Code, a.Body)
	}
	if left := ana.IDs(); len(left) > 0 || len(d.Of(running)) > 0 {
		t.Errorf("left are %v, and %v run", left, d.Of(running))
	}
	bob.Info(theirs).Want(200, "apps.online", true)
}
