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
func (c *client) ask(method, path, body string) answer {
	c.t.Helper()
	r := c.request(method, "/v2"+path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	return c.send(r)
}

func siteNamed(id string) files {
	return files{"discloud.config": config("TYPE=site", "ID="+id, "MAIN=index.js", "RAM=32"), "index.js": idleNode}
}

// TestSubdomains: who has a name, with a site and without one.
func TestSubdomains(t *testing.T) {
	t.Parallel()
	d := launch(t, "--names-per-account", "2")
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	ana.ask("POST", "/subdomain/kept", "").want(200, "status", "ok", "subdomain.id", "kept", "subdomain.userID", ana.account, "subdomain.status", 1)
	bob.ask("POST", "/subdomain/kept", "").want(409, "status", "error", "code", 409).says("message", "taken")
	bob.get("/subdomain/kept").want(403)
	bob.get("/subdomain/nobodys").want(404)
	bob.ask("DELETE", "/subdomain/kept", "").want(403)
	for _, name := range []string{"www", "all", "xn--a", "Kept", "a_b", strings.Repeat("a", 21)} {
		bob.ask("POST", "/subdomain/"+name, "{}").want(400, "status", "error").says("message", "cannot be a subdomain")
	}
	bob.post(siteNamed("kept").zip()).want(409).says("message", `"kept" is taken`)
	bob.post(siteNamed("www").zip()).want(422).says("message", "discloud.config line 2: ID=", "reserved")
	bob.get("/user").want(200, "user.ramUsedMb", 0, "user.subdomains", "[]")

	ana.upload(siteNamed("kept"))
	ana.upload(siteNamed("shop"))
	ana.get("/subdomain/kept").want(200, "subdomain.status", 2)
	a := ana.get("/subdomain/all").want(200)
	if got := fmt.Sprint(a.at("subdomains")); strings.Count(got, "status:2") != 2 || strings.Index(got, "kept") > strings.Index(got, "shop") {
		t.Errorf("the subdomains are %s", got)
	}
	ana.get("/user").want(200, "user.subdomains", "[kept shop]")
	ana.ask("DELETE", "/subdomain/shop", "").want(409).says("message", "in use")
	ana.delete("kept").want(200)
	ana.delete("shop").want(200)
	ana.get("/user").want(200, "user.subdomains", "[kept]")
	ana.get("/subdomain/kept").want(200, "subdomain.status", 1)
	bob.upload(siteNamed("shop")) // it went with its site
	ana.ask("POST", "/subdomain/more", "").want(200)
	ana.ask("POST", "/subdomain/toomuch", "").want(422).says("message", "names.per_account")

	d.restart()
	ana.get("/user").want(200, "user.subdomains", "[kept more]")
	ana.ask("DELETE", "/subdomain/kept", "{}").want(200, "status", "ok")
	ana.get("/subdomain/kept").want(404)
	bob.upload(siteNamed("kept"))
	ana.post(siteNamed("kept").zip()).want(409)
}

// A site that was called off, or whose daemon died, leaves no name behind.
func TestSubdomainOfAnUploadThatCameToNothing(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	site := siteNamed("shop").with("discloud.config", config("TYPE=site", "ID=shop", "MAIN=index.js", "RAM=32", "BUILD=sleep 600"))
	pending := func() chan answer {
		done := make(chan answer, 1)
		go func() {
			a, _ := ana.try(ana.form(http.MethodPost, "/v2/upload", site.zip())) // cut off when the daemon dies
			done <- a
		}()
		harness.Eventually(t, "the site is being built", func() bool { return ana.get("/subdomain/shop").code == 200 })
		return done
	}
	done := pending()
	bob.ask("POST", "/subdomain/shop", "").want(409)
	harness.Eventually(t, "the build is called off", func() bool { return ana.put("/app/shop/stop", "").code == 200 })
	if a := <-done; a.code != 409 {
		t.Errorf("the upload answers %d %s", a.code, a.body)
	}
	ana.get("/subdomain/shop").want(404)
	done = pending()
	d.End(syscall.SIGKILL)
	<-done
	d.start()
	ana.get("/subdomain/shop").want(404)
	bob.ask("POST", "/subdomain/shop", "").want(200)
}

// TestDomains: a domain from its claim to its end, with a DNS of its own.
func TestDomains(t *testing.T) {
	t.Parallel()
	server := dns.Start(t)
	d := launch(t, "--names-resolver", server.Addr(), "--names-domain", "apps.example.net", "--names-addresses", "192.0.2.1,2001:db8::1")
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	ana.upload(siteNamed("shop"))
	bob.upload(siteNamed("rival"))
	ana.get("/customdomain/all").want(200, "domains", "[]")

	const path, record = "/customdomain/www.example.org", "_berth.www.example.org"
	a := ana.ask("POST", "/customdomain/create", `{"appID":"shop","domainName":"WWW.example.org"}`)
	a.want(200, "status", "ok", "domain.id", "www.example.org", "domain.dns_status", "unverified", "domain.isLegacy", false,
		"domain.app.id", "shop", "domain.app.type", 1, "domain.app.online", true)
	b := bob.ask("POST", "/customdomain/create", `{"appID":"rival","domain":"www.example.org"}`).want(200, "domain.dns_status", "unverified")
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
		ana.ask("POST", "/customdomain/create", body).want(code, "status", "error")
	}

	ana.get(path+"/verify").want(200, "domain.dns_status", "failed")
	server.Fail(record, dns.ServFail)
	if a := ana.get(path + "/verify").want(503); a.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	ana.get(path).want(200, "domain.dns_status", "failed", "customdomain.dns_status", "failed")
	server.Set(record, []string{"v=spf1 -all"}, []string{proof})
	bob.get(path+"/verify").want(200, "domain.dns_status", "failed")
	ana.get(path+"/verify").want(200, "status", "ok", "domain.dns_status", "verified")
	bob.get(path).want(404)
	bob.ask("POST", "/customdomain/create", `{"appID":"rival","domain":"www.example.org"}`).want(409).says("message", record)

	d.restart()
	ana.get("/user").want(200, "user.customdomains", "[www.example.org]")
	ana.upload(siteNamed("second"))
	ana.ask("PUT", path+"/edit", `{"newAppID":"rival"}`).want(404)
	ana.ask("PUT", path+"/edit", `{"newAppID":"second"}`).want(200, "status", "ok")
	ana.delete("shop").want(200)
	ana.get(path).want(200, "domain.dns_status", "verified", "domain.app.id", "second")
	bob.ask("DELETE", path+"/remove", "").want(404)
	ana.delete("second").want(200)
	ana.get(path).want(404)
	ana.get("/user").want(200, "user.customdomains", "[]")
	bob.ask("POST", "/customdomain/create", `{"appID":"rival","domainName":"www.example.org"}`).want(200)
	bob.ask("DELETE", path+"/remove", "").want(200, "status", "ok")
	bob.get("/customdomain/all").want(200, "domains", "[]")
}

// proofOf is the content of the TXT record; the other records must be these.
func proofOf(a answer, name string, others ...string) string {
	a.t.Helper()
	list, _ := a.at("domain.instructions").([]any)
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
		a.t.Errorf("no TXT record for %s, or not all of %v, in %s", name, others, a.body)
	}
	return proof
}

// TestDeleteAll deletes what runs, what is stopped and what is being built,
// and nobody else's.
func TestDeleteAll(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 200), d.account("bob", 100)
	ana.ask("DELETE", "/app/all/delete", "").want(200, "apps.removealled", "[]", "apps.alreadyOffline", "[]", "apps.alreadyInProcess", "[]")
	running, stopped := ana.upload(shellBot(idleShell, "RAM=32")), ana.upload(shellBot(idleShell, "RAM=32"))
	ana.put("/app/"+stopped+"/stop", "").want(200)
	theirs := bob.upload(shellBot(idleShell, "RAM=32"))
	done := make(chan answer, 1)
	go func() {
		a, _ := ana.try(ana.form(http.MethodPost, "/v2/upload", shellBot(idleShell, "RAM=32", "BUILD=sleep 600").zip()))
		done <- a
	}()
	harness.Eventually(t, "the third is being built", func() bool { return len(ana.ids()) == 3 })
	a := ana.ask("DELETE", "/app/all/delete", "{}").want(200, "status", "ok", "apps.alreadyOffline", "[]", "apps.alreadyInProcess", "[]")
	if list := a.list("apps.removealled"); len(list) != 3 || !strings.Contains(string(a.body), running) || !strings.Contains(string(a.body), stopped) {
		t.Errorf("deleted were %v", list)
	}
	if a := <-done; a.code != 409 {
		t.Errorf("the upload answers %d %s", a.code, a.body)
	}
	if left := ana.ids(); len(left) > 0 || len(d.of(running)) > 0 {
		t.Errorf("left are %v, and %v run", left, d.of(running))
	}
	bob.info(theirs).want(200, "apps.online", true)
}
