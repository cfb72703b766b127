package httpapi

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// named is an account with a site, a reserved subdomain and two domains.
func named(w *world) {
	w.apps = append(w.apps, site("shop"))
	w.names.Subdomains = []app.Subdomain{{ID: "blog", Account: 7, Reserved: true, CreatedAt: testNow}}
	failed := ownDomain("blog.example.org", "shop")
	failed.Status = app.DomainFailed
	w.names.Domains = []app.Domain{ownDomain("shop.example.org", "shop"), failed}
}

// certified is named, on a host that gets certificates.
func certified(w *world) {
	named(w)
	other := ownDomain("new.example.org", "shop")
	w.names.Domains = append(w.names.Domains, other)
	w.config.Certificates = func(name string) (app.Certificate, bool) {
		switch name {
		case "shop.example.org":
			return app.Certificate{Name: name, Chain: []byte("x"), Key: []byte("secret"), Expires: testNow.Add(90 * 24 * time.Hour)}, true
		case "new.example.org":
			return app.Certificate{Name: name, Failures: 1, Problem: "the certificate authority refused: http-01: no address"}, true
		}
		return app.Certificate{Name: name}, true // of one that is not verified
	}
}

func namesScenes() []scene {
	const (
		sub    = "/v2/subdomain/{subdomain}"
		domain = "/v2/customdomain/{domain}"
		create = "/v2/customdomain/create"
		edit   = domain + "/edit"
		remove = domain + "/remove"
		verify = domain + "/verify"
		mine   = "/v2/customdomain/shop.example.org"
	)
	body := `{"appID":"shop","domainName":"new.example.org"}`
	big := `{"appID":"` + strings.Repeat("x", maxFields) + `"}`
	return []scene{
		{name: "user_ok_names", method: "GET", path: "/v2/user", arrange: named},

		{name: "subdomain_get_ok", method: "GET", path: "/v2/subdomain/blog", op: sub, arrange: named},
		{name: "subdomain_get_ok_used", method: "GET", path: "/v2/subdomain/shop", op: sub, arrange: named},
		{name: "subdomain_get_ok_all", method: "GET", path: "/v2/subdomain/all", op: sub, arrange: named},
		{name: "subdomain_get_ok_all_empty", method: "GET", path: "/v2/subdomain/all", op: sub},
		{name: "subdomain_get_invalid", method: "GET", path: "/v2/subdomain/a_b", op: sub},
		{name: "subdomain_get_forbidden_theirs", method: "GET", path: "/v2/subdomain/theirs", op: sub},
		{name: "subdomain_get_not_found", method: "GET", path: "/v2/subdomain/nobodys", op: sub},
		{name: "subdomain_post_ok", method: "POST", path: "/v2/subdomain/fresh", op: sub},
		{name: "subdomain_post_invalid", method: "POST", path: "/v2/subdomain/a_b", op: sub},
		{name: "subdomain_post_conflict", method: "POST", path: "/v2/subdomain/theirs", op: sub},
		{
			name: "subdomain_post_exhausted", method: "POST", path: "/v2/subdomain/fresh", op: sub,
			arrange: failing("ReserveSubdomain", app.Exhausted, "Your account has reserved 10 subdomains."),
		},
		{name: "subdomain_delete_ok", method: "DELETE", path: "/v2/subdomain/blog", op: sub, arrange: named},
		{name: "subdomain_delete_invalid", method: "DELETE", path: "/v2/subdomain/a_b", op: sub},
		{name: "subdomain_delete_forbidden_theirs", method: "DELETE", path: "/v2/subdomain/theirs", op: sub},
		{name: "subdomain_delete_not_found", method: "DELETE", path: "/v2/subdomain/nobodys", op: sub},
		{name: "subdomain_delete_conflict", method: "DELETE", path: "/v2/subdomain/shop", op: sub, arrange: named},

		{name: "customdomain_ok", method: "GET", path: mine, op: domain, arrange: named},
		{name: "customdomain_ok_all", method: "GET", path: "/v2/customdomain/all", op: domain, arrange: named},
		{name: "customdomain_ok_all_certificates", method: "GET", path: "/v2/customdomain/all", op: domain, arrange: certified},
		{name: "customdomain_ok_all_empty", method: "GET", path: "/v2/customdomain/all", op: domain},
		{name: "customdomain_invalid", method: "GET", path: "/v2/customdomain/nodot", op: domain},
		{name: "customdomain_not_found", method: "GET", path: mine, op: domain},
		{name: "customdomain_create_ok", method: "POST", path: create, arrange: named, body: body},
		{name: "customdomain_create_invalid", method: "POST", path: create, arrange: named, body: `{"appID":"shop"}`},
		{name: "customdomain_create_not_found", method: "POST", path: create, body: body},
		{
			name: "customdomain_create_conflict", method: "POST", path: create, body: body,
			arrange: failing("ClaimDomain", app.Conflict, "The domain is verified for another account."),
		},
		{name: "customdomain_create_too_large", method: "POST", path: create, body: big},
		{
			name: "customdomain_create_exhausted", method: "POST", path: create, body: body,
			arrange: failing("ClaimDomain", app.Exhausted, "Your account has 10 domains."),
		},
		{name: "customdomain_edit_ok", method: "PUT", path: mine + "/edit", op: edit, arrange: named, body: `{"newAppID":"bot-one"}`},
		{name: "customdomain_edit_invalid", method: "PUT", path: mine + "/edit", op: edit, arrange: named, body: `{}`},
		{name: "customdomain_edit_not_found", method: "PUT", path: mine + "/edit", op: edit, body: `{"newAppID":"bot-one"}`},
		{
			name: "customdomain_edit_conflict", method: "PUT", path: mine + "/edit", op: edit, body: `{"newAppID":"bot-one"}`,
			arrange: failing("AssignDomain", app.Conflict, "The application is being deployed."),
		},
		{name: "customdomain_edit_too_large", method: "PUT", path: mine + "/edit", op: edit, body: big},
		{
			name: "customdomain_edit_unusable", method: "PUT", path: mine + "/edit", op: edit, body: `{"newAppID":"bot-one"}`,
			arrange: failing("AssignDomain", app.Unusable, "Only a site can have a domain."),
		},
		{name: "customdomain_remove_ok", method: "DELETE", path: mine + "/remove", op: remove, arrange: named},
		{name: "customdomain_remove_invalid", method: "DELETE", path: "/v2/customdomain/nodot/remove", op: remove},
		{name: "customdomain_remove_not_found", method: "DELETE", path: mine + "/remove", op: remove},
		{name: "customdomain_delete_ok", method: "DELETE", path: mine, op: domain, arrange: named},
		{name: "customdomain_delete_invalid", method: "DELETE", path: "/v2/customdomain/nodot", op: domain},
		{name: "customdomain_delete_not_found", method: "DELETE", path: mine, op: domain},
		{name: "customdomain_verify_ok", method: "GET", path: mine + "/verify", op: verify, arrange: named},
		{name: "customdomain_verify_ok_failed", method: "GET", path: "/v2/customdomain/blog.example.org/verify", op: verify, arrange: named},
		{name: "customdomain_verify_invalid", method: "GET", path: "/v2/customdomain/nodot/verify", op: verify},
		{name: "customdomain_verify_not_found", method: "GET", path: mine + "/verify", op: verify},
		{
			name: "customdomain_verify_no_answer", method: "GET", path: mine + "/verify", op: verify,
			arrange: failing("VerifyDomain", app.Unavailable, "The DNS did not answer."),
		},
	}
}

// Clients name the domain in two ways, and more fields do no harm.
func TestBodiesOfClaims(t *testing.T) {
	for body, call := range map[string]string{
		`{"appID":"shop","domainName":"a.example"}`:                  "ClaimDomain shop a.example",
		`{"appID":"shop","domain":"a.example"}`:                      "ClaimDomain shop a.example",
		`{"appID":"shop","domain":"b","domainName":"a.example"}`:     "ClaimDomain shop a.example",
		`{"appID":"shop","domainName":null,"domain":"a.example"}`:    "ClaimDomain shop a.example",
		`{"appID":"shop","domain":"a.example","x":{"y":[1]},"z":""}`: "ClaimDomain shop a.example",
		`{"appID":"shop"}`:                  "",
		`{"domain":"a.example"}`:            "",
		`{"appID":null,"domain":"a.b"}`:     "",
		`{"appID":5,"domain":"a.b"}`:        "",
		`{"appID":"shop","domain":5}`:       "",
		`{"appID":"shop","domain":["a.b"]}`: "",
		`[]`:                                "",
		``:                                  "",
	} {
		w := newWorld(t)
		named(w)
		rec := do(t, w.handler(), newRequest("POST", "/v2/customdomain/create", body))
		want := http.StatusBadRequest
		if call != "" {
			want = http.StatusOK
		}
		if rec.Code != want || w.called("ClaimDomain") != w.called(call) {
			t.Errorf("%s: status %d, want %d; called %v", body, rec.Code, want, w.calls)
		}
	}
	for _, id := range []string{"all", "", "a/b", "Shop"} { // a client's default is the first
		w := newWorld(t)
		if rec := do(t, w.handler(), newRequest("POST", "/v2/customdomain/create", `{"appID":"`+id+`","domain":"a.b"}`)); rec.Code != 404 || w.called("ClaimDomain") != 0 {
			t.Errorf("the application %q: status %d", id, rec.Code)
		}
	}
}

// A client fails on an empty list, and finds an absent one in order.
func TestTheSecondNameOfDomainsIsNeverEmpty(t *testing.T) {
	w := newWorld(t)
	if rec := do(t, w.handler(), newRequest("GET", "/v2/customdomain/all", "")); strings.Contains(rec.Body.String(), "customdomains") {
		t.Errorf("got %s", rec.Body)
	}
	named(w)
	var got struct{ Domains, CustomDomains []struct{ ID string } }
	decode(t, do(t, w.handler(), newRequest("GET", "/v2/customdomain/all", "")), &got)
	if len(got.Domains) != 2 || len(got.CustomDomains) != 2 {
		t.Errorf("got %+v", got)
	}
}

// A domain goes with its application, which can be in the middle of a list.
func TestDomainsOfAnApplicationThatWasDeleted(t *testing.T) {
	w := newWorld(t)
	named(w)
	w.names.Domains[0].App = "gone"
	var got struct{ Domains []struct{ ID string } }
	rec := do(t, w.handler(), newRequest("GET", "/v2/customdomain/all", ""))
	decode(t, rec, &got)
	if rec.Code != 200 || len(got.Domains) != 1 || got.Domains[0].ID != "blog.example.org" {
		t.Errorf("status %d, %+v", rec.Code, got)
	}
	if rec := do(t, w.handler(), newRequest("GET", "/v2/customdomain/shop.example.org", "")); rec.Code != 404 {
		t.Errorf("one: status %d, want 404", rec.Code)
	}
	w.fail["App shop"] = app.Errorf(app.Unavailable, "Not now.")
	if rec := do(t, w.handler(), newRequest("GET", "/v2/customdomain/all", "")); rec.Code != 503 {
		t.Errorf("a fault: status %d, want 503", rec.Code)
	}
}

func TestHeadOfVerifyDoesNotVerify(t *testing.T) {
	w := newWorld(t)
	named(w)
	if rec := do(t, w.handler(), newRequest("HEAD", "/v2/customdomain/shop.example.org/verify", "")); rec.Code != 200 || w.called("VerifyDomain") != 0 {
		t.Errorf("status %d, called %v", rec.Code, w.calls)
	}
}

func TestNamesThatCannotBeRead(t *testing.T) {
	for _, path := range []string{"/v2/user", "/v2/subdomain/all", "/v2/customdomain/all"} {
		w := newWorld(t)
		w.fail["Names"] = app.Errorf(app.Unavailable, "Not now.")
		if rec := do(t, w.handler(), newRequest("GET", path, "")); rec.Code != 503 {
			t.Errorf("%s: status %d, want 503", path, rec.Code)
		}
	}
}
