package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// What public clients need of the answers, beyond the API's document. Each row
// is one need, named after who has it and what breaks.
func TestWhatClientsReadInAnswers(t *testing.T) {
	isInt := func(v any) bool { n, ok := v.(float64); return ok && n == float64(int64(n)) }
	isText := func(v any) bool { _, ok := v.(string); return ok }
	isBool := func(v any) bool { _, ok := v.(bool); return ok }
	digits := func(v any) bool { _, err := strconv.ParseInt(fmt.Sprint(v), 10, 64); return isText(v) && err == nil }
	isList := func(v any) bool { _, ok := v.([]any); return ok }
	is := func(want any) func(any) bool { return func(v any) bool { return v == want } }
	future := func(v any) bool {
		at, err := time.Parse("2006-01-02T15:04:05.000Z", fmt.Sprint(v))
		return err == nil && at.After(testNow.AddDate(50, 0, 0))
	}
	for _, tt := range []struct {
		need, method, path string
		at                 string
		holds              func(v any) bool
	}{
		{"int(userID)", "GET", "/v2/user", "user.userID", digits},
		{"a plan of the known ones", "GET", "/v2/user", "user.plan", is("Diamond")},
		{"the end of the plan is a text that is a date", "GET", "/v2/user", "user.planDataEnd", future},
		{"the rest of the plan in whole numbers", "GET", "/v2/user", "user.lastDataLeft.days", isInt},
		{"lists are never null", "GET", "/v2/user", "user.customdomains", isList},
		{"type is a number", "GET", "/v2/app/bot-one", "apps.type", is(0.0)},
		{"and 1 for a site", "GET", "/v2/app/shop", "apps.type", is(1.0)},
		{"long names of languages", "GET", "/v2/app/bot-one", "apps.lang", is("javascript")},
		{"autoDeployGit", "GET", "/v2/app/bot-one", "apps.autoDeployGit", is("no")},
		{"mods are a list", "GET", "/v2/app/bot-one", "apps.mods", isList},
		{"avatarURL is a text without an avatar too", "GET", "/v2/app/1745338954955", "apps.avatarURL", is("")},
		{"exitCode is a number before the first end too", "GET", "/v2/app/shop", "apps.exitCode", is(0.0)},
		{"ramKilled is a truth", "GET", "/v2/app/shop", "apps.ramKilled", isBool},
		{"all is a list", "GET", "/v2/app/all", "apps", isList},
		{"container is Online", "GET", "/v2/app/bot-one/status", "apps.container", is("Online")},
		{"container is Offline", "GET", "/v2/app/1745338954955/status", "apps.container", is("Offline")},
		{"startedAt is a text without a start too", "GET", "/v2/app/shop/status", "apps.startedAt", is("")},
		{"netIO is texts", "GET", "/v2/app/shop/status", "apps.netIO.down", isText},
		{"status of all is a list", "GET", "/v2/app/all/status", "apps", isList},
		{"the log's url is a text", "GET", "/v2/app/shop/logs", "apps.terminal.url", isText},
		{"the log's big is a text", "GET", "/v2/app/shop/logs", "apps.terminal.big", isText},
		{"logs of all are a list", "GET", "/v2/app/all/logs", "apps", isList},
		{"a backup has a status", "GET", "/v2/app/bot-one/backup", "backups.status", is("ok")},
		{"backups of all are a list", "GET", "/v2/app/all/backup", "backups", isList},
		{"the state of start", "PUT", "/v2/app/1745338954955/start", "appStatus.online", is(true)},
		{"the state of a start of all", "PUT", "/v2/app/all/start", "appStatus.online", isBool},
		{"exitCode of a start of all", "PUT", "/v2/app/all/start", "appStatus.exitCode", isInt},
		{"ramKilled of a start of all", "PUT", "/v2/app/all/start", "appStatus.ramKilled", isBool},
		{"a start that is refused has no statusCode 200", "PUT", "/v2/app/bot-one/start", "statusCode", is(nil)},
		{"limits that there are not are not printed", "GET", "/v2/user", "user.limits", is(nil)},
		{"exitCode of start is a number", "PUT", "/v2/app/1745338954955/start", "appStatus.exitCode", isInt},
		{"a start of one online is no fault", "PUT", "/v2/app/bot-one/start", "status", is("error")},
		{"a stop of one offline is no fault", "PUT", "/v2/app/1745338954955/stop", "status", is("error")},
		{"a new locale has a message", "PUT", "/v2/locale/pt-BR", "message", isText},
		{"a wrong locale has the list", "PUT", "/v2/locale/fr-FR", "localeList", isList},
		{"stop of all in the service's spelling", "PUT", "/v2/app/all/stop", "apps.stoped", isList},
		{"stop of all in the other spelling", "PUT", "/v2/app/all/stop", "apps.stopped", isList},
		{"start of all has every key", "PUT", "/v2/app/all/start", "apps.alreadyInProcess", isList},
		{"restart of all has every key", "PUT", "/v2/app/all/restart", "apps.alreadyInProcess", isList},
		{"delete of all has every key", "DELETE", "/v2/app/all/delete", "apps.alreadyOffline", isList},
		{"the date of a subdomain is a number", "GET", "/v2/subdomain/shop", "subdomain.date", isInt},
		{"the owner of a subdomain is a text", "GET", "/v2/subdomain/shop", "subdomain.userID", digits},
		{"the code of an error is its status", "GET", "/v2/app/nobody", "code", is(404.0)},
		{"statusCode of an error too", "GET", "/v2/app/nobody", "statusCode", is(404.0)},
		{"an error has a message", "GET", "/v2/app/nobody", "message", isText},
	} {
		t.Run(tt.need, func(t *testing.T) {
			w := newWorld(t)
			several(w)
			rec := do(t, w.handler(), newRequest(tt.method, tt.path, ""))
			var v any
			decode(t, rec, &v)
			for key := range strings.SplitSeq(tt.at, ".") {
				object, _ := v.(map[string]any)
				v = object[key]
			}
			if !tt.holds(v) {
				t.Errorf("%s %s: %s is %#v in %s", tt.method, tt.path, tt.at, v, rec.Body)
			}
		})
	}
}

// Clients parse the number of every amount and divide without its unit.
func TestMemoryAsClientsReadIt(t *testing.T) {
	w := newWorld(t)
	w.usage["bot-one"] = app.Status{Usage: app.Usage{MemoryBytes: 50 << 20, LimitBytes: 100 << 20}}
	var answer struct{ Apps struct{ Memory string } }
	decode(t, do(t, w.handler(), newRequest("GET", "/v2/app/bot-one/status", "")), &answer)
	numbers := regexp.MustCompile(`[\d.]+`).FindAllString(answer.Apps.Memory, -1)
	if len(numbers) != 2 {
		t.Fatalf("memory %q has %d numbers", answer.Apps.Memory, len(numbers))
	}
	used, err1 := strconv.ParseFloat(numbers[0], 64)
	limit, err2 := strconv.ParseFloat(numbers[1], 64)
	if err1 != nil || err2 != nil || used/limit != 0.5 {
		t.Errorf("memory %q is %v of %v", answer.Apps.Memory, used, limit)
	}
}

// Addresses of downloads are absolute, and the last segment is the file's name.
func TestAddressesAsClientsReadThem(t *testing.T) {
	w := newWorld(t)
	w.addBackup("PK")
	h := w.handler()
	var b struct{ Backups struct{ URL string } }
	decode(t, do(t, h, newRequest("GET", "/v2/app/bot-one/backup", "")), &b)
	u, err := url.Parse(b.Backups.URL)
	if err != nil || !u.IsAbs() || u.Host == "" || path.Base(u.Path) != "bot-one.zip" || path.Ext(u.Path) != ".zip" {
		t.Fatalf("the address is %q, %v", b.Backups.URL, err)
	}
	for range 2 { // some clients ask twice
		r := newRequest("GET", u.Path, "")
		r.Header.Del(tokenHeader)
		if rec := do(t, h, r); rec.Code != 200 || rec.Body.String() != "PK" || rec.Header().Get("Content-Type") != "application/zip" {
			t.Errorf("status %d, %s, %q", rec.Code, rec.Header().Get("Content-Type"), rec.Body)
		}
	}
}

// What clients send of bodies, one request behind the other on one connection:
// a body that is left in it would be taken for the next request.
func TestBodiesAsClientsSendThem(t *testing.T) {
	w := newWorld(t)
	several(w)
	w.deployed.Snapshot = bot("bot-one")
	conn := connect(t, w)
	head := func(method, path string, lines ...string) string {
		lines = append([]string{method + " " + path + " HTTP/1.1", "Host: example.com", "api-token: " + goodToken, "Accept: */*"}, lines...)
		return strings.Join(lines, "\r\n") + "\r\n"
	}
	const typed, inChunks, none = "content-type: application/json", "Transfer-Encoding: chunked", "Content-Length: 0"
	body := func(text string) string { return announced(len(text)) + text }
	multipart := "Content-Type: multipart/form-data; boundary=b"
	requests := []struct {
		name, text string
		want       int
	}{
		{"GET with a type and no body", head("GET", "/v2/user", typed) + "\r\n", 200},
		{"GET with an empty body", head("GET", "/v2/app/bot-one", typed, none) + "\r\n", 200},
		{"GET with a body", head("GET", "/v2/app/all", typed) + body("{}"), 200},
		{"GET with a body in chunks", head("GET", "/v2/app/all/status", typed, inChunks) + "\r\n" + chunked("{}"), 200},
		{"GET with parameters that nobody asked for", head("GET", "/v2/user?x=1&y") + "\r\n", 200},
		{"PUT without a length", head("PUT", "/v2/app/bot-one/restart") + "\r\n", 200},
		{"PUT with the length 0", head("PUT", "/v2/app/bot-one/restart", none) + "\r\n", 200},
		{"PUT with {}", head("PUT", "/v2/app/bot-one/restart", typed) + body("{}"), 200},
		{"PUT with {} in chunks", head("PUT", "/v2/locale/en-US", typed, inChunks) + "\r\n" + chunked("{}"), 200},
		{"PUT with null", head("PUT", "/v2/app/all/stop", typed) + body("null"), 200},
		{"ram in chunks", head("PUT", "/v2/app/bot-one/ram", typed, inChunks) + "\r\n" + chunked(`{"ramMB":256}`), 200},
		{"ram of an odd type", head("PUT", "/v2/app/bot-one/ram", "Content-Type: text/plain") + body(`{"ramMB":256}`), 400},
		{"profile with a null", head("PUT", "/v2/app/bot-one/profile", typed) + body(`{"name":"x","avatarURL":null}`), 200},
		{"profile with one field", head("PUT", "/v2/app/bot-one/profile", typed) + body(`{"avatarURL":"https://example.org/a.webp"}`), 200},
		{"upload in chunks", head("POST", "/v2/upload", multipart, inChunks) + "\r\n" + chunked(uploadBody), 200},
		{"upload under the file's name", head("POST", "/v2/upload", multipart) + body(strings.Replace(uploadBody, "name=f;", `name="a.zip";`, 1)), 200},
		{"upload without a file", head("POST", "/v2/upload", multipart) + body("--b\r\nContent-Disposition: form-data; name=file\r\n\r\nx\r\n--b--\r\n"), 404},
		{"commit", head("PUT", "/v2/app/bot-one/commit", multipart) + body(uploadBody), 200},
		{"POST without a body", head("POST", "/v2/subdomain/fresh", none) + "\r\n", 200},
		{"DELETE with a body", head("DELETE", "/v2/app/bot-one/delete", typed) + body("{}"), 200},
		{"DELETE with a body in chunks", head("DELETE", "/v2/app/all/delete", typed, inChunks) + "\r\n" + chunked(`{"x":[1]}`), 200},
		{"the end", head("GET", "/v2/app/bot-one") + "\r\n", 200},
	}
	sent := make(chan error, 1)
	go func() {
		for _, r := range requests {
			if _, err := io.WriteString(conn, r.text); err != nil {
				sent <- fmt.Errorf("%s: %w", r.name, err)
				return
			}
		}
		sent <- nil
	}()
	answers := bufio.NewReader(conn)
	for _, r := range requests {
		resp, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatalf("%s: %v", r.name, err)
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != r.want || err != nil || len(text) == 0 || resp.Close {
			t.Errorf("%s: status %d, want %d, %v: %s", r.name, resp.StatusCode, r.want, err, text)
		}
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
	if !slices.Contains(w.calls, "SetRAM bot-one 256") || !slices.Contains(w.calls, `SetProfile bot-one "x" -`) {
		t.Errorf("called %v", w.calls)
	}
}

// A file of 100 MB, the most that clients send, is not refused for its size
// alone; whether it is more is known before it was sent.
func TestSizeOfUploads(t *testing.T) {
	for size, want := range map[int64]int{
		100<<20 + 1<<10: http.StatusBadRequest, // it breaks off below
		101<<20 + 1:     http.StatusRequestEntityTooLarge,
		512 << 20:       http.StatusRequestEntityTooLarge,
	} {
		r := zipRequest("POST", "/v2/upload", "PK")
		r.Body, r.ContentLength = io.NopCloser(errorReader{}), size
		if rec := do(t, newWorld(t).handler(), r); rec.Code != want {
			t.Errorf("%d bytes: status %d, want %d", size, rec.Code, want)
		}
	}
}

// Reads that fail are never 200 with an error inside, which crashes clients
// that go on to what is not there.
func TestFailedReadsAreNo200(t *testing.T) {
	for _, kind := range []app.Kind{app.Internal, app.NotFound, app.Conflict, app.Unavailable} {
		for _, path := range []string{"/v2/user", "/v2/app/bot-one", "/v2/app/bot-one/status", "/v2/app/bot-one/logs", "/v2/app/bot-one/backup"} {
			w := newWorld(t)
			for _, call := range []string{"Names", "App", "Status", "Terminal", "Backup"} {
				w.fail[call] = app.Errorf(kind, "No.")
			}
			if rec := do(t, w.handler(), newRequest("GET", path, "")); rec.Code < 400 {
				t.Errorf("%s with kind %d: status %d: %s", path, kind, rec.Code, rec.Body)
			}
		}
	}
}
