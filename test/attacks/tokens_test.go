package attacks

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/test/harness"
)

// as is the same daemon for who has another token.
func (d *daemon) as(token string) *daemon {
	copied := *d
	copied.token = token
	return &copied
}

func (d *daemon) json(method, path, body string) answer {
	d.t.Helper()
	r := d.request(method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	return d.send(r)
}

// bounded makes a token for some applications, with some permissions.
func (d *daemon) bounded(may string, ids ...string) (token, number string) {
	d.t.Helper()
	body, _ := json.Marshal(map[string]any{"label": "ci", "apps": ids, "may": strings.Split(may, ",")}) // texts can be written
	a := d.json(http.MethodPost, "/token", string(body)).want(200)
	return a.text("token.token"), a.text("token.id")
}

const everything = "start_app,stop_app,restart_app,logs_app,commit_app,status_app,edit_ram,backup_app"

// speaker is a bot that says a word again and again.
func speaker(word string) map[string]string {
	program := fmt.Sprintf("import time\nwhile True:\n\tprint('%s', flush=True)\n\ttime.sleep(0.2)\n", word)
	return bot("main.py", map[string]string{"main.py": program}, "NAME="+word)
}

// stream is an open stream of events.
type stream struct {
	lines chan string // closed at its end
}

// follows opens a stream, or returns the status that refuses it.
func (d *daemon) follows(query string) (s *stream, status int) {
	d.t.Helper()
	resp, err := (&http.Client{}).Do(d.request(http.MethodGet, "/events?"+query, nil).WithContext(d.t.Context()))
	if err != nil {
		d.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		_ = resp.Body.Close()
		return nil, resp.StatusCode
	}
	d.t.Cleanup(func() { _ = resp.Body.Close() })
	s = &stream{lines: make(chan string, 10_000)}
	go func() {
		defer close(s.lines)
		for in := bufio.NewScanner(resp.Body); in.Scan(); {
			s.lines <- in.Text()
		}
	}()
	return s, http.StatusOK
}

// until reads on until enough lines hold a text, and returns all that it has read.
func (s *stream) until(t *testing.T, enough int, text string) (all string) {
	t.Helper()
	late := time.After(harness.Patience)
	for enough > 0 {
		select {
		case line, open := <-s.lines:
			if !open {
				t.Fatalf("the stream has ended: %s", all)
			}
			if all += line + "\n"; strings.Contains(line, text) {
				enough--
			}
		case <-late:
			t.Fatalf("no %q in the stream: %s", text, all)
		}
	}
	return all
}

// ends waits for the end of the stream.
func (s *stream) ends(t *testing.T, why string) {
	t.Helper()
	late := time.After(harness.Patience)
	for {
		select {
		case _, open := <-s.lines:
			if !open {
				return
			}
		case <-late:
			t.Fatalf("%s, and its stream goes on", why)
		}
	}
}

// TestAttacksByBoundedTokens: somebody has stolen a token with bounds, such as one of CI, and
// wants what is beyond them: more of its application, other applications of its account and
// of another one, a token without bounds, to stay when it is taken away.
func TestAttacksByBoundedTokens(t *testing.T) {
	t.Parallel()
	connected(t)
	d := launch(t, "--names-domain", "sites.berth.test")
	d.run("account", "create", "bob", "--ram", "1024")
	bob := d.as(d.run("token", "create", "bob"))
	shop, other, bobs := d.upload(speaker("shop-speaks")), d.upload(speaker("other-speaks")), bob.upload(speaker("bobs-speaks"))
	t.Cleanup(func() { bob.send(bob.request(http.MethodDelete, "/app/all/delete", nil)).want(200) })
	d.json(http.MethodPut, "/app/"+shop+"/env", `{"env":{"SECRET":"very-secret-value"}}`).want(200)
	d.untilLog(shop, "shop-speaks")

	t.Run("every route", func(t *testing.T) { d.in(t).everyRoute(t, shop, other, bobs) })
	t.Run("lists", func(t *testing.T) {
		d := d.in(t)
		token, _ := d.bounded(everything, shop)
		for _, path := range []string{
			"/user", "/vscode", "/app/all", "/app/all/status", "/app/all/logs", "/app/all/backup", "/team", "/app/" + shop, "/app/" + shop + "/status",
			"/app/" + shop + "/deploys", "/app/" + shop + "/events",
		} {
			a := d.as(token).get(path).want(200)
			for _, hidden := range []string{other, bobs, "other-speaks", "bobs-speaks", "very-secret", "SECRET"} {
				if strings.Contains(string(a.body), hidden) {
					t.Errorf("%s shows %s: %s", path, hidden, a.body)
				}
			}
		}
	})
	t.Run("streams", func(t *testing.T) {
		d := d.in(t)
		token, _ := d.bounded("logs_app", shop)
		for query, want := range map[string]int{
			"types=log,state": 403, "types=state": 403, "types=metric": 403, "app=" + other + "&types=log": 403,
			"app=" + bobs + "&types=log": 403, "app=1745338954955&types=log": 403, "": 403,
		} {
			if _, status := d.as(token).follows(query); status != want {
				t.Errorf("?%s: %d, want %d", query, status, want)
			}
		}
		for _, query := range []string{"types=log&app=" + shop, "types=log&app=" + shop + "&tail=5", "types=log&since=10m&app=" + shop} {
			s, status := d.as(token).follows(query)
			if s == nil {
				t.Errorf("?%s: %d", query, status)
				continue
			}
			if all := s.until(t, 10, "shop-speaks"); strings.Contains(all, other) || strings.Contains(all, "other-speaks") || strings.Contains(all, bobs) {
				t.Errorf("?%s tells of another application: %s", query, all)
			}
		}
		token, _ = d.bounded("status_app", shop)
		s, status := d.as(token).follows("types=state,exit,deploy,metric")
		if s == nil {
			t.Fatalf("all that it may see: %d", status)
		}
		d.put("/app/" + other + "/restart").want(200)
		bob.in(t).put("/app/" + bobs + "/restart").want(200)
		d.put("/app/" + shop + "/restart").want(200)
		if all := s.until(t, 2, shop); strings.Contains(all, other) || strings.Contains(all, bobs) {
			t.Errorf("the stream of all tells of another application: %s", all)
		}
	})
	t.Run("more than it has", func(t *testing.T) { d.in(t).escalations(t, shop, other) })
	t.Run("taken away", func(t *testing.T) { d.in(t).takenAway(t, shop) })
	t.Run("the same id again", func(t *testing.T) { d.in(t).sameID(t) })
	t.Run("a team", func(t *testing.T) { d.in(t).team(t, bob.in(t), bobs, other) })

	d.get("/app/"+shop).want(200, "apps.online", true)
	d.get("/app/"+other).want(200, "apps.online", true)
	bob.get("/app/"+bobs).want(200, "apps.online", true)
	if strings.Contains(d.Out.String(), "panic") {
		t.Error("the daemon has panicked")
	}
}

// everyRoute calls each route of the document that the daemon serves: what is beyond the
// bounds is refused as that, never as an unknown token, and never by an internal error.
func (d *daemon) everyRoute(t *testing.T, shop, other, bobs string) {
	t.Helper()
	token, _ := d.bounded("status_app", shop)
	before := string(d.get("/token").want(200).body)
	within := map[string]bool{
		"GET /v2/app/{appID}": true, "GET /v2/app/{appID}/status": true, "GET /v2/app/{appID}/metrics": true, "GET /v2/app/{appID}/events": true,
		"GET /v2/app/{appID}/ram": true, "GET /v2/team/{appID}/ram": true, "GET /v2/team/{appID}": true, "GET /v2/team/{appID}/status": true,
	}
	whatever := map[string]bool{"GET /v2/events": true, "GET /v2/team": true, "GET /v2/vscode": true, "GET /v2/user": true}
	var document struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal(d.get("/openapi.json").want(200).body, &document); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for path, operations := range document.Paths {
		for method, operation := range operations {
			method = strings.ToUpper(method)
			route := method + " " + path
			if method == "PARAMETERS" || strings.Contains(string(operation), `"security": []`) || strings.Contains(string(operation), `"security":[]`) || route == "GET /v2/events" {
				continue
			}
			for _, id := range []string{shop, other, bobs, "1745338954955", "all"} {
				if id != shop && !strings.Contains(path, "{appID}") {
					continue
				}
				calls++
				at := strings.NewReplacer("{appID}", id, "{name}", "SECRET", "{modID}", "2", "{tokenID}", "1", "{channelID}", "1", "{deliveryID}", "1", "{locale}", "pt-BR",
					"{subdomain}", "taken", "{domain}", "shop.example.org").Replace(strings.TrimPrefix(path, "/v2"))
				got := d.as(token).json(method, at, `{"env":{"A":"1"},"command":"id","ramMB":64,"modID":"2","perms":["logs_app"],"label":"x"}`)
				refusal := 403
				if strings.HasPrefix(path, "/v2/host/") { // which no token of an account opens
					refusal = 401
				}
				switch allowed := whatever[route] || within[route] && (id == shop || id == "all"); {
				case allowed && got.code == 404 && (strings.Contains(path, "/team/") || id == "all"): // it is its own account's; nothing is known of all
				case allowed && got.code != 200, !allowed && got.code != refusal:
					t.Errorf("%s for %s: %d %s", route, id, got.code, got.body)
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("%d calls alone", calls)
	}
	if after := string(d.get("/token").want(200).body); len(after) < len(before) || strings.Count(after, `"id"`) != strings.Count(before, `"id"`) {
		t.Errorf("the tokens were %s, and are %s", before, after)
	}
}

// escalations are ways to more than the bounds.
func (d *daemon) escalations(t *testing.T, shop, other string) {
	t.Helper()
	token, number := d.bounded(everything, shop)
	thief := d.as(token)
	for what, a := range map[string]answer{
		"a token":                 thief.json(http.MethodPost, "/token", `{"label":"more"}`),
		"a token as it is itself": thief.json(http.MethodPost, "/token", fmt.Sprintf(`{"label":"more","apps":[%q],"may":["logs_app"]}`, shop)),
		"all tokens":              thief.get("/token"),
		"its own end":             thief.json(http.MethodDelete, "/token/"+number, ""),
		"a command":               thief.console(shop, "id"),
		"its variables":           thief.get("/app/" + shop + "/env"),
		"variables in a backup":   thief.get("/app/" + shop + "/backup?env=true"),
		"those of all":            thief.get("/app/all/backup?env=true"),
		"a friend in the team":    thief.json(http.MethodPost, "/app/"+shop+"/team", `{"modID":"2","perms":["commit_app"]}`),
		"an application":          thief.form(http.MethodPost, "/upload", harness.Zip(speaker("more"))),
		"new code of another":     thief.form(http.MethodPut, "/app/"+other+"/commit", harness.Zip(speaker("more"))),
		"the end of another":      thief.put("/app/" + other + "/stop"),
	} {
		if a.code != http.StatusForbidden {
			t.Errorf("%s: %d %s", what, a.code, a.body)
		}
	}
	// A session, by a WebSocket of its own and by one that a browser would open.
	for _, id := range []string{shop, other} {
		for _, header := range []http.Header{{}, {"Origin": {d.Base}}} {
			if s, status := thief.sits(id, true, "", header); s != nil || status != http.StatusForbidden {
				t.Errorf("a session in %s with %v: %d", id, header, status)
			}
		}
	}
	for _, path := range []string{"/ws/upload", "/ws/app/" + other + "/commit", "/ws/team/" + other + "/commit"} {
		address := strings.Replace(d.Base, "http", "ws", 1) + "/v2" + path
		conn, _, err := websocket.Dial(t.Context(), address, &websocket.DialOptions{HTTPHeader: http.Header{"Api-Token": {token}}})
		if err != nil {
			t.Fatal(err)
		}
		if _, text, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(text), `"statusCode":403`) {
			t.Errorf("a WebSocket to %s: %s, %v", path, text, err)
		}
		_ = conn.CloseNow()
	}
	// Words around the token, and around the id.
	for what, change := range map[string]func(r *http.Request){
		"a second token":         func(r *http.Request) { r.Header.Add("api-token", d.token[:10]) },
		"a bearer":               func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
		"the account's name":     func(r *http.Request) { r.Header.Set("Berth-Account", "ana"); r.Header.Set("X-Berth-Account", "ana") },
		"the path of another":    func(r *http.Request) { r.URL.Path = "/v2/app/" + shop + "/../" + other + "/env" },
		"an id in parts":         func(r *http.Request) { r.URL.Path = "/v2/app//" + other + "/env" },
		"an id with its parent":  func(r *http.Request) { r.URL.RawPath = "/v2/app/" + shop + "%2f..%2f" + other + "/env" },
		"another in the query":   func(r *http.Request) { r.URL.RawQuery = url.Values{"appID": {other}, "app": {other}}.Encode() },
		"a method in the header": func(r *http.Request) { r.Header.Set("X-HTTP-Method-Override", "GET") },
	} {
		r := thief.request(http.MethodGet, "/app/"+other+"/env", nil)
		change(r)
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode < 300 || resp.StatusCode == 401 || resp.StatusCode >= 500 {
			t.Errorf("%s: %d %s", what, resp.StatusCode, text)
		}
	}
	// In the panel it is nobody, and allows no code of a device.
	for _, path := range []string{"/device", "/device/allow"} {
		got := postFrom(t, "127.0.0.1", d.Base+path, "@Api-Token", token, "@Cookie", "__Host-berth="+token+"; berth="+token, "@Sec-Fetch-Site", "same-origin", "code", "BBBB-BBBB", "password", token)
		if got.status != http.StatusSeeOther || got.header.Get("Location") != "/login" {
			t.Errorf("%s with the token as a cookie: %d", path, got.status)
		}
	}
	if got := postFrom(t, "127.0.0.1", d.Base+"/v2/device/token", "@Api-Token", token, "client_id", "berth",
		"grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", token); got.status != http.StatusBadRequest || got.Token != "" {
		t.Errorf("a token for a token: %d %s", got.status, got.text)
	}
}

// takenAway ends tokens while they are used.
func (d *daemon) takenAway(t *testing.T, shop string) {
	t.Helper()
	open := func(d *daemon) *stream {
		s, status := d.follows("types=log&app=" + shop)
		if s == nil {
			t.Fatalf("the stream is refused: %d", status)
		}
		s.until(t, 1, "shop-speaks")
		return s
	}
	token, number := d.bounded("logs_app,status_app", shop)
	thief := d.as(token)
	s := open(thief)
	d.json(http.MethodDelete, "/token/"+number, "").want(200)
	thief.get("/app/" + shop).want(401)
	thief.get("/app/all").want(401)
	s.ends(t, "the token is revoked")

	token, _ = d.bounded("logs_app,status_app", shop)
	thief = d.as(token)
	s = open(thief)
	d.run("account", "disable", "ana")
	thief.get("/app/" + shop).want(403)
	thief.get("/user").want(403)
	s.ends(t, "the account is disabled")
	d.run("account", "enable", "ana")
	thief.get("/app/" + shop).want(200)
}

// sameID deletes a site whose token is out, and makes another of the same id.
func (d *daemon) sameID(t *testing.T) {
	t.Helper()
	const id = "again"
	site := func(text string) map[string]string {
		return map[string]string{"discloud.config": "TYPE=site\nID=" + id + "\nMAIN=index.html\nRAM=32\n", "index.html": text}
	}
	if got := d.upload(site("first")); got != id {
		t.Fatalf("its id is %s", got)
	}
	token, _ := d.bounded(everything, id)
	thief := d.as(token)
	thief.get("/app/" + id).want(200)
	s, _ := thief.follows("types=state,deploy")
	d.send(d.request(http.MethodDelete, "/app/"+id+"/delete", nil)).want(200)
	s.until(t, 1, "app.removed")
	thief.get("/app/" + id).want(403)
	if got := d.upload(site("second")); got != id {
		t.Fatalf("its id is %s", got)
	}
	for path, method := range map[string]string{"": http.MethodGet, "/status": http.MethodGet, "/backup": http.MethodGet, "/stop": http.MethodPut, "/rollback": http.MethodPost} {
		thief.json(method, "/app/"+id+path, "{}").want(403)
	}
	thief.form(http.MethodPut, "/app/"+id+"/commit", harness.Zip(site("third"))).want(403)
	if list := string(thief.get("/app/all").body); strings.Contains(list, id) {
		t.Errorf("its list has the second: %s", list)
	}
	// A stream of before forgets it when it is asked the next time.
	own, _ := d.follows("types=state&app=" + id)
	harness.Eventually(t, "the stream shows the second no more", func() bool {
		for len(s.lines) > 0 {
			<-s.lines
		}
		d.put("/app/" + id + "/restart").want(200)
		own.until(t, 1, "app.state")
		return len(s.lines) == 0
	})
}

// team bounds a token to an application whose team its account is in.
func (d *daemon) team(t *testing.T, owner *daemon, id, own string) {
	t.Helper()
	ana := d.get("/user").want(200).text("user.userID")
	member := fmt.Sprintf(`{"modID":%q,"perms":["logs_app","status_app"]}`, ana)
	owner.json(http.MethodPost, "/app/"+id+"/team", member).want(200)
	token, _ := d.bounded(everything, id)
	thief := d.as(token)
	thief.get("/team/" + id + "/logs").want(200)
	for _, verb := range []string{"stop", "start", "restart"} {
		thief.put("/team/" + id + "/" + verb).want(403)
	}
	thief.form(http.MethodPut, "/team/"+id+"/commit", harness.Zip(speaker("more"))).want(403)
	thief.get("/team/" + own + "/logs").want(403)
	s, status := thief.follows("types=log&app=" + id)
	if s == nil {
		t.Fatalf("a member's stream: %d", status)
	}
	s.until(t, 1, "bobs-speaks")
	owner.json(http.MethodDelete, "/app/"+id+"/team/"+ana, "").want(200)
	for _, path := range []string{"", "/status", "/logs", "/backup"} {
		if a := thief.get("/team/" + id + path); !slices.Contains([]int{403, 404}, a.code) {
			t.Errorf("after its end in the team, %q: %d %s", path, a.code, a.body)
		}
	}
	if list := string(thief.get("/team").body); strings.Contains(list, id) {
		t.Errorf("its list has what it was in the team of: %s", list)
	}
	s.ends(t, "it is in the team no more")
}
