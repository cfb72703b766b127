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
	first := ""
	for _, field := range []string{"file", "file.zip", "data", "upload[]"} {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("note", "text before the file") // a Buffer takes everything
		part, _ := w.CreateFormFile(field, "my app.zip")
		_, _ = part.Write(harness.ShellBot(harness.IdleShell, "RAM=32").Zip())
		_ = w.Close()
		r := c.Request("POST", "/v2/upload", struct{ io.Reader }{&b}) // no Content-Length: chunked
		r.Header.Set("Content-Type", w.FormDataContentType())
		a := c.Send(r).Want(200, "status", "ok", "app.ram", 32, "app.name", "my app")
		if r.ContentLength != 0 {
			t.Errorf("%s: it was not chunked: %s", field, a.Body)
		}
		if first == "" {
			first = a.Text("app.id")
			continue
		}
		a.Says("message", `You already had an application named "my app", with the ID `+first+", and have two now")
	}
	if n := len(c.IDs()); n != 4 {
		t.Errorf("%d applications, want 4", n)
	}
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	_ = w.WriteField("file", "no file")
	_ = w.Close()
	r := c.Request("POST", "/v2/upload", &b)
	r.Header.Set("Content-Type", w.FormDataContentType())
	c.Send(r).Want(404, "status", "error").Says("message", "missing required file")
	c.Send(c.Request("POST", "/v2/upload", strings.NewReader("PK"))).Want(400, "status", "error").Says("message", "multipart/form-data")
}

// TestRequests sends what clients send and people mistype.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 100)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
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
		{"GET", "/v2", "", 404, ""},
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
		r := c.Request(tt.method, tt.path, strings.NewReader(tt.body))
		r.Header.Set("Content-Type", "application/json")
		a := c.Send(r)
		pairs := []any{"status", "ok"}
		if tt.code >= 400 {
			pairs = []any{"status", "error", "code", tt.code, "statusCode", tt.code}
		}
		if a.Want(tt.code, pairs...); a.Text("message") == "" || a.Header.Get("ratelimit-limit") == "" {
			t.Errorf("%s %s: %s with %v", tt.method, tt.path, a.Body, a.Header)
		}
		if !strings.Contains(a.Header.Get("Allow"), tt.allow) {
			t.Errorf("%s %s allows %q, want %q", tt.method, tt.path, a.Header.Get("Allow"), tt.allow)
		}
	}
	c.Get("/user").Want(200, "user.locale", "pt-BR")
	if list := c.Put("/locale/xx", "").List("localeList"); fmt.Sprint(list) != "[en-US es pt-BR]" {
		t.Errorf("the locales are %v", list)
	}
	head := c.Send(c.Request("HEAD", "/v2/app/"+id, nil)).Want(200)
	if n, _ := strconv.Atoi(head.Header.Get("Content-Length")); len(head.Body) > 0 || n == 0 {
		t.Errorf("HEAD has a body of %d bytes and the length %d", len(head.Body), n)
	}
	if a := c.Send(c.Request("OPTIONS", "/v2/app/"+id, nil)); a.Code >= 300 || !strings.Contains(a.Header.Get("Allow"), "GET") {
		t.Errorf("OPTIONS answers %d, allows %q", a.Code, a.Header.Get("Allow"))
	}
}

// TestDocument holds the OpenAPI document against the routes that answer.
func TestDocument(t *testing.T) {
	t.Parallel()
	c := launch(t).account("ana", 100)
	r := c.Request("GET", "/v2/openapi.json", nil)
	r.Header.Del("api-token")
	a := c.Send(r).Want(200)
	var document struct {
		OpenAPI string
		Paths   map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(a.Body, &document); err != nil || !strings.HasPrefix(document.OpenAPI, "3.1") {
		t.Fatalf("%v in %.200s", err, a.Body)
	}
	operations := 0
	for path, methods := range document.Paths {
		for method := range methods {
			operations++
			path = strings.NewReplacer("{appID}", "1234567890123", "{locale}", "xx", "{token}", "x", "{name}", "x.zip").Replace(path)
			if path == "/v2/events" {
				path += "?types=none" // else it has no end
			}
			a := c.Send(c.Request(strings.ToUpper(method), path, nil))
			if a.Code == 405 || a.Code >= 500 || strings.Contains(a.Text("message"), "nothing at this address") {
				t.Errorf("%s %s is documented and answers %d %s", method, path, a.Code, a.Body)
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
		a := c.Get("/user").Want(200)
		left, err := strconv.Atoi(a.Header.Get("ratelimit-remaining"))
		if err != nil || left < 1 || left > 5-i || a.Header.Get("ratelimit-limit") != "5" {
			t.Errorf("request %d: %v", i, a.Header)
		}
	}
	for range 2 {
		a := c.Get("/user").Want(429, "status", "error", "code", 429)
		reset, err := strconv.Atoi(a.Header.Get("ratelimit-reset"))
		if err != nil || reset < 1 || reset > 60 || a.Header.Get("ratelimit-remaining") != "0" || a.Header.Get("Retry-After") == "" {
			t.Errorf("the refusal has %v", a.Header)
		}
	}
	other.Get("/user").Want(200) // another token has its own
	d.Clients = nil              // they could not clean up; there is nothing
}

// TestAccounts: who may do what, while the daemon runs.
func TestAccounts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	ana, bob := d.account("ana", 100), d.account("bob", 100)
	id := ana.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	for _, path := range []string{"", "/status", "/logs", "/backup"} {
		bob.Get("/app/"+id+path).Want(404, "status", "error", "code", 404)
	}
	for _, path := range []string{"/start", "/stop", "/restart"} {
		bob.Put("/app/"+id+path, "").Want(404)
	}
	bob.Put("/app/"+id+"/ram", `{"ramMB":50}`).Want(404)
	bob.Put("/app/"+id+"/profile", `{"name":"mine"}`).Want(404)
	bob.Commit(id, harness.Files{"start.sh": "exit 1"}).Want(404)
	bob.Delete(id).Want(404)
	bob.Get("/app/all").Want(200, "apps", "[]")
	bob.Put("/app/all/stop", "").Want(200, "apps.stopped", "[]")
	ana.Info(id).Want(200, "apps.online", true, "apps.ram", 32)

	if code, _, stderr := d.Run("account", "delete", "ana"); code == 0 || !strings.Contains(stderr, "owns 1 application") {
		t.Errorf("an account with an application was deleted: %d %s", code, stderr)
	}
	d.CLI("account", "set", "ana", "--ram", "200")
	ana.Get("/user").Want(200, "user.totalRamMb", 200)
	ana.Put("/app/"+id+"/ram", `{"ramMB":150}`).Want(200)
	d.CLI("account", "disable", "ana")
	ana.Get("/user").Want(403, "status", "error", "code", 403).Says("message", "disabled")
	if len(d.Of(id)) != 1 {
		t.Error("disabling an account ended its program")
	}
	d.CLI("account", "enable", "ana")
	ana.Get("/user").Want(200)

	second := ana.in(t)
	second.Token = d.CLI("token", "create", ana.Account, "--label", "second")
	second.Get("/user").Want(200, "user.userID", ana.Account)
	var tokens []struct {
		ID    int64
		Label string
	}
	if err := json.Unmarshal([]byte(d.CLI("token", "list", "ana", "--json")), &tokens); err != nil || len(tokens) != 2 {
		t.Fatalf("the tokens are %v, %v", tokens, err)
	}
	for _, token := range tokens {
		if token.Label == "second" {
			d.CLI("token", "revoke", strconv.FormatInt(token.ID, 10))
		}
	}
	second.Get("/user").Want(401, "status", "error", "code", 401)
	ana.Get("/user").Want(200)
	for _, token := range []string{"", "x", ana.Token + "x", strings.Repeat("a", 5000)} {
		c := &harness.Client{T: t, Berth: d.Berth, Token: token}
		c.Get("/user").Want(401, "status", "error", "code", 401)
	}
	if parts := strings.Split(ana.Token, "."); len(parts) != 3 {
		t.Errorf("the token has %d parts, want those of a JWT", len(parts))
	}
}

// A link needs no token and answers ranges and HEAD as downloaders expect.
func TestLinks(t *testing.T) {
	t.Parallel()
	d := launch(t, "--backups-ttl", "3s")
	c := d.account("ana", 100)
	id := c.Upload(harness.ShellBot(harness.IdleShell, "RAM=32"))
	link := c.Get("/app/" + id + "/backup").Text("backups.url")
	whole := c.Download(link)
	r, _ := http.NewRequest("GET", link, nil) // the link was used already
	r.Header.Set("Range", "bytes=0-3")
	if a := c.Send(r).Want(206); !bytes.Equal(a.Body, whole[:4]) {
		t.Errorf("the range is %q", a.Body)
	}
	log := c.Get("/app/" + id + "/logs").Text("apps.terminal.url")
	c.Delete(id).Want(200)
	for _, gone := range []string{log, link[:len(link)-8] + "AAAA.zip"} {
		r, _ := http.NewRequest("GET", gone, nil)
		c.Send(r).Want(404, "status", "error", "code", 404)
	}
	harness.Eventually(t, "the backup expires", func() bool {
		r, _ := http.NewRequest("GET", link, nil)
		return c.Send(r).Code == 404
	})
}
