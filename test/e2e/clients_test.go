package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"berth/test/harness"
)

// TestFieldNames: clients disagree about the name of the file's part, and
// about what they put before it.
func TestFieldNames(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 1000)
	for _, field := range []string{"file", "file.zip", "data", "upload[]"} {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("note", "text before the file") // a Buffer takes everything
		part, _ := w.CreateFormFile(field, "my app.zip")
		_, _ = part.Write(shellBot(idleShell, "RAM=32").zip())
		_ = w.Close()
		r := c.request("POST", "/v2/upload", struct{ io.Reader }{&b}) // no Content-Length: chunked
		r.Header.Set("Content-Type", w.FormDataContentType())
		if a := c.send(r).want(200, "status", "ok", "app.ram", 32); r.ContentLength != 0 {
			t.Errorf("%s: it was not chunked: %s", field, a.body)
		}
	}
	if n := len(c.ids()); n != 4 {
		t.Errorf("%d applications, want 4", n)
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("file", "no file")
	_ = w.Close()
	r := c.request("POST", "/v2/upload", &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	c.send(r).want(404, "status", "error").says("message", "missing required file")
	c.send(c.request("POST", "/v2/upload", strings.NewReader("PK"))).want(400, "status", "error").says("message", "multipart/form-data")
}

// TestRequests sends what clients send and people mistype.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 100)
	id := c.upload(shellBot(idleShell, "RAM=32"))
	for _, tt := range []struct {
		method, path, body string
		code               int
		allow              string
	}{
		{"PUT", "/v2/app/" + id + "/stop", "", 200, ""},
		{"PUT", "/v2/app/" + id + "/start", "{}", 200, ""},
		{"GET", "/v2/app/" + id, "{}", 200, ""},
		{"GET", "/v2/app/" + id + "/", "", 404, ""},
		{"GET", "/v2/app/" + id + "%2fstatus", "", 404, ""},
		{"GET", "/v2/app/../user", "", 404, ""},
		{"GET", "/v2/app/0123456789012", "", 404, ""},
		{"GET", "/v2/app/no%00body", "", 404, ""},
		{"GET", "/v2/nothing", "", 404, ""},
		{"GET", "/", "", 404, ""},
		{"PUT", "/v2/app/all/ram", `{"ramMB":50}`, 404, ""},
		{"POST", "/v2/user", "", 405, "GET"},
		{"GET", "/v2/app/" + id + "/delete", "", 405, "DELETE"},
		{"PUT", "/v2/app/" + id + "/ram", "", 400, ""},
		{"PUT", "/v2/app/" + id + "/ram", "{", 400, ""},
		{"PUT", "/v2/app/" + id + "/ram", "[]", 400, ""},
		{"PUT", "/v2/app/" + id + "/profile", `{"name":""}`, 400, ""},
		{"PUT", "/v2/app/" + id + "/profile", `{"avatarURL":"javascript:x"}`, 400, ""},
		{"PUT", "/v2/locale/xx", "", 404, ""},
		{"PUT", "/v2/locale/pt-BR", "", 200, ""},
	} {
		r := c.request(tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		a := c.send(r)
		pairs := []any{"status", "ok"}
		if tt.code >= 400 {
			pairs = []any{"status", "error", "code", tt.code, "statusCode", tt.code}
		}
		if a.want(tt.code, pairs...); a.text("message") == "" || a.header.Get("ratelimit-limit") == "" {
			t.Errorf("%s %s: %s with %v", tt.method, tt.path, a.body, a.header)
		}
		if !strings.Contains(a.header.Get("Allow"), tt.allow) {
			t.Errorf("%s %s allows %q, want %q", tt.method, tt.path, a.header.Get("Allow"), tt.allow)
		}
	}
	c.get("/user").want(200, "user.locale", "pt-BR")
	if list := c.put("/locale/xx", "").list("localeList"); fmt.Sprint(list) != "[en-US pt-BR]" {
		t.Errorf("the locales are %v", list)
	}
	head := c.send(c.request("HEAD", "/v2/app/"+id, nil)).want(200)
	if n, _ := strconv.Atoi(head.header.Get("Content-Length")); len(head.body) > 0 || n == 0 {
		t.Errorf("HEAD has a body of %d bytes and the length %d", len(head.body), n)
	}
	if a := c.send(c.request("OPTIONS", "/v2/app/"+id, nil)); a.code >= 300 || !strings.Contains(a.header.Get("Allow"), "GET") {
		t.Errorf("OPTIONS answers %d, allows %q", a.code, a.header.Get("Allow"))
	}
}

// TestDocument holds the OpenAPI document against the routes that answer.
func TestDocument(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 100)
	r := c.request("GET", "/v2/openapi.json", nil)
	r.Header.Del("api-token")
	a := c.send(r).want(200)
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(a.body, &document); err != nil || !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Fatalf("%v in %.200s", err, a.body)
	}
	operations := 0
	for path, methods := range document.Paths {
		for method := range methods {
			operations++
			path = strings.NewReplacer("{appID}", "1234567890123", "{locale}", "xx", "{token}", "x", "{name}", "x.zip").Replace(path)
			a := c.send(c.request(strings.ToUpper(method), path, nil))
			if a.code == 405 || a.code >= 500 || strings.Contains(a.text("message"), "nothing at this address") {
				t.Errorf("%s %s is documented and answers %d %s", method, path, a.code, a.body)
			}
		}
	}
	if operations < 14 {
		t.Errorf("%d operations are documented, want 14 at least", operations)
	}
}

// TestRateLimit uses a token up.
func TestRateLimit(t *testing.T) {
	t.Parallel()
	d := launch(t, "--rate-limit", "5")
	c := d.account("ana", 100)
	other := d.account("bob", 100)
	for i := range 5 {
		a := c.get("/user").want(200)
		left, err := strconv.Atoi(a.header.Get("ratelimit-remaining"))
		if err != nil || left < 1 || left > 5-i || a.header.Get("ratelimit-limit") != "5" {
			t.Errorf("request %d: %v", i, a.header)
		}
	}
	for range 2 {
		a := c.get("/user").want(429, "status", "error", "code", 429)
		reset, err := strconv.Atoi(a.header.Get("ratelimit-reset"))
		if err != nil || reset < 1 || reset > 60 || a.header.Get("ratelimit-remaining") != "0" || a.header.Get("Retry-After") == "" {
			t.Errorf("the refusal has %v", a.header)
		}
	}
	other.get("/user").want(200) // another token has its own
	d.clients = nil              // they could not clean up; there is nothing
}

// TestAccounts: who may do what, while the daemon runs.
func TestAccounts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	id := ana.upload(shellBot(idleShell, "RAM=32"))
	for _, path := range []string{"", "/status", "/logs", "/backup"} {
		bob.get("/app/"+id+path).want(404, "status", "error", "code", 404)
	}
	for _, path := range []string{"/start", "/stop", "/restart"} {
		bob.put("/app/"+id+path, "").want(404)
	}
	bob.put("/app/"+id+"/ram", `{"ramMB":50}`).want(404)
	bob.put("/app/"+id+"/profile", `{"name":"mine"}`).want(404)
	bob.commit(id, files{"start.sh": "exit 1"}).want(404)
	bob.delete(id).want(404)
	bob.get("/app/all").want(200, "apps", "[]")
	bob.put("/app/all/stop", "").want(200, "apps.stopped", "[]")
	ana.info(id).want(200, "apps.online", true, "apps.ram", 32)

	if code, _, stderr := d.run("account", "delete", "ana"); code == 0 || !strings.Contains(stderr, "owns 1 application") {
		t.Errorf("an account with an application was deleted: %d %s", code, stderr)
	}
	d.berth("account", "set", "ana", "--ram", "200")
	ana.get("/user").want(200, "user.totalRamMb", 200)
	ana.put("/app/"+id+"/ram", `{"ramMB":150}`).want(200)
	d.berth("account", "disable", "ana")
	ana.get("/user").want(403, "status", "error", "code", 403).says("message", "disabled")
	if len(d.of(id)) != 1 {
		t.Error("disabling an account ended its program")
	}
	d.berth("account", "enable", "ana")
	ana.get("/user").want(200)

	second := *ana
	second.token = d.berth("token", "create", ana.account, "--label", "second")
	second.get("/user").want(200, "user.userID", ana.account)
	var tokens []struct {
		ID    int64
		Label string
	}
	if err := json.Unmarshal([]byte(d.berth("token", "list", "ana", "--json")), &tokens); err != nil || len(tokens) != 2 {
		t.Fatalf("the tokens are %v, %v", tokens, err)
	}
	for _, token := range tokens {
		if token.Label == "second" {
			d.berth("token", "revoke", strconv.FormatInt(token.ID, 10))
		}
	}
	second.get("/user").want(401, "status", "error", "code", 401)
	ana.get("/user").want(200)
	for _, token := range []string{"", "x", ana.token + "x", strings.Repeat("a", 5000)} {
		c := client{t: t, d: d, token: token}
		c.get("/user").want(401, "status", "error", "code", 401)
	}
	if parts := strings.Split(ana.token, "."); len(parts) != 3 {
		t.Errorf("the token has %d parts, want those of a JWT", len(parts))
	}
}

// A link needs no token and answers ranges and HEAD as downloaders expect.
func TestLinks(t *testing.T) {
	t.Parallel()
	d := launch(t, "--backups-ttl", "3s")
	c := d.account("ana", 100)
	id := c.upload(shellBot(idleShell, "RAM=32"))
	link := c.get("/app/" + id + "/backup").text("backups.url")
	whole := c.download(link)
	r, _ := http.NewRequest("GET", link, nil) // the link was used already
	r.Header.Set("Range", "bytes=0-3")
	if a := c.send(r).want(206); !bytes.Equal(a.body, whole[:4]) {
		t.Errorf("the range is %q", a.body)
	}
	log := c.get("/app/" + id + "/logs").text("apps.terminal.url")
	c.delete(id).want(200)
	for _, gone := range []string{log, link[:len(link)-8] + "AAAA.zip"} {
		r, _ := http.NewRequest("GET", gone, nil)
		c.send(r).want(404, "status", "error", "code", 404)
	}
	harness.Eventually(t, "the backup expires", func() bool {
		r, _ := http.NewRequest("GET", link, nil)
		return c.send(r).code == 404
	})
}
