package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/app"
)

// book keeps what is recorded.
type book struct {
	mu   sync.Mutex
	acts []app.AuditRecord
}

func (b *book) Record(a app.AuditRecord) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acts = append(b.acts, a)
}

// lines are the records as a person would read them.
func (b *book) lines() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var lines []string
	for _, a := range b.acts {
		lines = append(lines, line1(a))
	}
	return lines
}

func line1(a app.AuditRecord) string {
	counted := ""
	if a.Counted {
		counted = " counted"
	}
	return fmt.Sprintf("%s %q token %d %q for %d from %s: %s %s %q %q %d %q%s",
		a.Actor, a.Name, a.Token, a.Label, a.Account, a.From, a.Operation, a.App, a.AppName, a.Detail, a.Status, a.Refusal, counted)
}

func audited(t *testing.T) (*world, *book) {
	w, b := newWorld(t), &book{}
	w.config.Record = b.Record
	return w, b
}

// me is how every record of an accepted request begins.
const me = `7 "ada" token 3 "laptop" for 7 from 192.0.2.1: `

func TestEveryChangeHasAName(t *testing.T) {
	for _, r := range new(server).routes() {
		if strings.HasPrefix(r.Path, "/v2/device/") { // nobody is known before there is a token: TestDeviceTokenIsRecorded
			continue
		}
		changes := r.Method != http.MethodGet || strings.HasPrefix(r.Path, socketPrefix)
		extra := slices.Contains([]string{"app.logs", "app.backup", "domain.verify", "env.reveal"}, r.audit)
		if changes == (r.audit == "") && !extra {
			t.Errorf("%s %s is recorded as %q", r.Method, r.Path, r.audit)
		}
		if r.audit != "" && r.access == public {
			t.Errorf("%s %s is recorded without an account", r.Method, r.Path)
		}
	}
}

func TestAuditRecords(t *testing.T) {
	const shop = `bot-one "Bot bot-one" `
	stoppedOne := func(w *world) { w.apps = []app.Snapshot{stopped("bot-one")} }
	for _, tt := range []struct {
		method, path, body string
		arrange            func(w *world)
		want               []string
	}{
		{"PUT", "/v2/app/bot-one/start", "", stoppedOne, []string{"app.start " + shop + `"" 200 ""`}},
		{"PUT", "/v2/app/bot-one/start", "", nil, []string{"app.start " + shop + `"" 200 "Your application is online already."`}},
		{"PUT", "/v2/app/bot-one/restart", "", nil, []string{"app.restart " + shop + `"" 200 ""`}},
		{"PUT", "/v2/app/nobody-knows/stop", "", nil, []string{`app.stop nobody-knows "" "" 404 "You have no application with this ID."`}},
		{"PUT", "/v2/app/%1b%5b2J/stop", "", nil, []string{"app.stop \x1b[2J \"\" \"\" 404 \"You have no application with this ID.\""}},
		{"PUT", "/v2/app/bot-one/ram", `{"ramMB":256}`, nil, []string{"app.ram " + shop + `"ramMB=256" 200 ""`}},
		{"PUT", "/v2/app/bot-one/ram", `{"ramMB":"much"}`, nil, []string{"app.ram " + shop + `"" 400 "The field ramMB must be a whole number."`}},
		{"PUT", "/v2/app/bot-one/ram", `{"ramMB":9000}`, failing("SetRAM", app.Exhausted, "Too much."), []string{"app.ram " + shop + `"ramMB=9000" 200 "Too much."`}},
		{"PUT", "/v2/app/bot-one/profile", `{"name":"New"}`, nil, []string{"app.profile " + shop + `"name=\"New\"" 200 ""`}},
		{"DELETE", "/v2/app/bot-one/delete", "", nil, []string{"app.delete " + shop + `"" 200 ""`}},
		{"PUT", "/v2/app/bot-one/env", `{"env":{"TOKEN":"very-secret","A=very-secret":"x","OLD":null}}`, nil, []string{"env.set " + shop + `"set=A,TOKEN removed=OLD" 200 ""`}},
		{"GET", "/v2/app/bot-one/env/values", "", func(w *world) { w.variables = []app.Variable{{Name: "TOKEN", Value: "very-secret"}} }, []string{"env.reveal " + shop + `"" 200 ""`}},
		{"DELETE", "/v2/app/bot-one/env/TOKEN", "", func(w *world) { w.variables = []app.Variable{{Name: "TOKEN", Value: "very-secret"}} }, []string{"env.remove " + shop + `"removed=TOKEN" 200 ""`}},
		{"PUT", "/v2/app/bot-one/apt", `{"apt":"ffmpeg,tools"}`, nil, []string{"apt.add " + shop + `"apt=ffmpeg,tools" 200 ""`}},
		{"PUT", "/v2/app/bot-one/console", `{"command":"echo very-secret"}`, nil, []string{"app.console " + shop + `"" 200 ""`}},
		{"POST", "/v2/app/bot-one/input", `{"line":"very-secret"}`, nil, []string{"app.input " + shop + `"" 200 ""`}},
		{"POST", "/v2/app/bot-one/team", `{"modID":"8","perms":["logs_app"]}`, nil, []string{"team.add " + shop + `"member=8 permissions=logs_app" 200 ""`}},
		{"DELETE", "/v2/app/bot-one/team/8", "", nil, []string{"team.remove " + shop + `"member=8" 200 ""`}},
		{"PUT", "/v2/locale/pt-BR", "", nil, []string{`account.locale  "" "locale=pt-BR" 200 ""`}},
		{"PUT", "/v2/locale/xx", "", nil, []string{`account.locale  "" "locale=xx" 404 "There is no locale \"xx\"."`}},
		{"POST", "/v2/channel", `{"service":"ntfy","name":"phone","target":"https://very-secret.example","token":"very-secret"}`, nil, []string{`channel.add  "" "service=\"ntfy\" name=\"phone\" channel=6" 200 ""`}},
		{"PUT", "/v2/channel/4", `{"on":true,"target":"https://very-secret.example"}`, testChannels, []string{`channel.set  "" "channel=4 name=\"<b>hook\" on=true target=true" 200 ""`}},
		{"PUT", "/v2/channel/5", `{"on":true}`, testChannels, []string{`channel.set  "" "channel=5" 404 "you have no channel 5"`}},
		{"DELETE", "/v2/channel/4", "", testChannels, []string{`channel.remove  "" "channel=4" 200 ""`}},
		{"POST", "/v2/channel/4/test", "", testChannels, []string{`channel.test  "" "channel=4" 200 ""`}},
		{"POST", "/v2/channel/4/secret", "", testChannels, []string{`channel.turnSecret  "" "channel=4" 200 ""`}},
		{"DELETE", "/v2/channel/4/secret", "", testChannels, []string{`channel.endSecret  "" "channel=4" 200 ""`}},
		{"POST", "/v2/delivery/9/again", "", testChannels, []string{`delivery.again  "" "delivery=9" 200 ""`}},
		{"POST", "/v2/subdomain/blog", "", nil, []string{`subdomain.reserve  "" "subdomain=blog" 200 ""`}},
		{"GET", "/v2/app/bot-one/logs", "", nil, []string{"app.logs " + shop + `"" 200 "" counted`}},
		{"GET", "/v2/app/bot-one/backup", "", nil, []string{"app.backup " + shop + `"" 200 ""`}},
		{"GET", "/v2/app/bot-one/backup?env=true", "", nil, []string{"app.backup " + shop + `"env=true" 200 ""`}},
		{"GET", "/v2/app/bot-one/backup", "", failing("Backup", app.NoSpace, "The disk is full."), []string{"app.backup " + shop + `"" 503 "The disk is full."`}},
		{"PUT", "/v2/app/bot-one/commit", "no form", nil, []string{"app.commit " + shop + `"" 400 "` + howToUpload + `"`}},
		{"POST", "/v2/upload", "no form", nil, []string{`app.upload  "" "" 400 "` + howToUpload + `"`}},
		{"HEAD", "/v2/app/bot-one/backup", "", nil, nil},
		{"GET", "/v2/app/bot-one", "", nil, nil},
		{"GET", "/v2/user", "", nil, nil},
		{"PUT", "/v2/nowhere", "", nil, nil},
		{"PUT", "/v2/app/all/stop", "", func(w *world) {
			w.apps = []app.Snapshot{bot("bot-one"), stopped("bot-two"), bot("bot-three")}
			w.fail["Stop bot-three"] = app.Errorf(app.Conflict, "Busy.")
		}, []string{"app.stop " + shop + `"" 200 ""`, `app.stop bot-three "Bot bot-three" "" 409 "Busy."`}},
		{"PUT", "/v2/app/all/start", "", nil, []string{`app.start all "" "" 200 ""`}},
	} {
		w, b := audited(t)
		if tt.arrange != nil {
			tt.arrange(w)
		}
		do(t, w.handler(), newRequest(tt.method, tt.path, tt.body))
		for i := range tt.want {
			tt.want[i] = me + tt.want[i]
		}
		if got := b.lines(); !slices.Equal(got, tt.want) {
			t.Errorf("%s %s\n got %q\nwant %q", tt.method, tt.path, got, tt.want)
		}
		for _, a := range b.acts {
			if text := fmt.Sprintf("%+v", a); strings.Contains(text, "very-secret") || strings.Contains(text, goodToken) {
				t.Errorf("a secret is recorded: %s", text)
			}
			if a.At.IsZero() || a.Request != "request-1" || a.Times != 1 {
				t.Errorf("incomplete: %+v", a)
			}
		}
	}
}

func TestAuditOfUploads(t *testing.T) {
	w, b := audited(t)
	w.deployed = app.Deployed{Snapshot: bot("bot-new")}
	h := w.handler()
	do(t, h, zipRequest("POST", "/v2/upload", "PK"))
	do(t, h, zipRequest("PUT", "/v2/app/bot-one/commit", "PK"))
	want := []string{me + `app.upload bot-new "Bot bot-new" "" 200 ""`, me + `app.commit bot-one "Bot bot-one" "" 200 ""`}
	if got := b.lines(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A member acts in its own name, on what is the owner's.
func TestAuditOfAMember(t *testing.T) {
	w, b := audited(t)
	w.join(app.Permissions(0).With(app.StopApp))
	h := w.handler()
	do(t, h, newRequest("PUT", "/v2/team/bot-one/stop", ""))
	do(t, h, newRequest("PUT", "/v2/team/bot-one/ram", `{"ramMB":1}`))
	do(t, h, newRequest("PUT", "/v2/team/all/stop", ""))
	const bob = `8 "bob" token 3 "laptop" for 7 from 192.0.2.1: `
	got := b.lines()
	if len(got) != 3 || got[0] != bob+`app.stop bot-one "Bot bot-one" "" 200 ""` || got[2] != got[0] ||
		!strings.HasPrefix(got[1], `8 "bob" token 3 "laptop" for 8 from 192.0.2.1: app.ram bot-one "" "" 403 "This needs`) {
		t.Errorf("got %q", got)
	}
}

func TestAuditOfFailedAuthentication(t *testing.T) {
	w, b := audited(t)
	w.config.RateLimit = 2
	h := w.handler()
	for range 3 {
		do(t, h, withToken("wrong", "[2001:db8::1]:4000"))
	}
	do(t, h, withToken(offToken, "192.0.2.9:4000"))
	for range 3 {
		do(t, h, withToken(goodToken, "192.0.2.9:4000"))
	}
	const stranger = `-1 "" token 0 "" for 0 from 2001:db8::/64: `
	want := []string{
		stranger + `auth.failed  "" "" 401 "The API token is not valid." counted`,
		stranger + `auth.failed  "" "" 401 "The API token is not valid." counted`,
		stranger + `auth.limited  "" "" 429 "Too many requests: 2 a minute are allowed. Try again in 60 seconds." counted`,
		`9 "off" token 4 "" for 9 from 192.0.2.9: auth.failed  "" "" 403 "This account is disabled." counted`,
		`7 "ada" token 3 "laptop" for 7 from 192.0.2.9: auth.limited  "" "" 429 "Too many requests: 2 a minute are allowed. Try again in 60 seconds." counted`,
	}
	if got := b.lines(); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestAuditOfAPanic(t *testing.T) {
	w, b := audited(t)
	w.before = func(context.Context, string) { panic("boom") }
	do(t, w.handler(), newRequest("PUT", "/v2/app/bot-one/start", ""))
	want := []string{me + `app.start bot-one "Bot bot-one" "" 500 "internal error"`}
	if got := b.lines(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// wait returns the records once there are n.
func (b *book) wait(t *testing.T, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		if got := b.lines(); len(got) >= n {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("got %q, want %d records", b.lines(), n)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestAuditOverAWebSocket(t *testing.T) {
	const from = `7 "ada" token 3 "laptop" for 7 from 127.0.0.1: `
	for name, tt := range map[string]struct {
		path    string
		arrange func(w *world)
		act     func(c *talker)
		want    string
	}{
		"an upload": {"/v2/ws/upload", nil, func(c *talker) { c.send(framesOf([]byte("PK content"), 100)...); c.listen() }, `app.upload bot-new "Bot bot-new" "" 200 ""`},
		"a refused commit": {
			"/v2/ws/app/bot-one/commit", failing("Commit", app.Conflict, "Busy."),
			func(c *talker) { c.send(framesOf([]byte("PK content"), 100)...); c.listen() },
			`app.commit bot-one "Bot bot-one" "" 409 "Busy."`,
		},
		"an exact commit": {
			"/v2/ws/app/bot-one/commit?exact=true", func(w *world) { w.deployed.Snapshot = bot("bot-one") },
			func(c *talker) { c.send(framesOf([]byte("PK content"), 100)...); c.listen() },
			`app.commit bot-one "Bot bot-one" "exact=true" 200 ""`,
		},
		"no such application": {"/v2/ws/app/bot-none/commit", nil, func(c *talker) { c.listen() }, `app.commit bot-none "" "" 404 "You have no application with this ID."`},
		"a client that goes away": {
			"/v2/ws/upload", nil,
			func(c *talker) {
				_ = c.conn.Ping(c.conn.CloseRead(c.t.Context())) // it receives: earlier, net/http ends the request
				_ = c.conn.CloseNow()
			},
			`app.upload  "" "" 400 "The connection was closed before the upload was complete."`,
		},
		"not JSON": {"/v2/ws/upload", nil, func(c *talker) {
			_ = c.conn.Write(c.t.Context(), websocket.MessageBinary, []byte("PK"))
			c.listen()
		}, `app.upload  "" "" 400 "Send the upload in text frames, as JSON."`},
	} {
		t.Run(name, func(t *testing.T) {
			w, b := audited(t)
			w.deployed = app.Deployed{Snapshot: bot("bot-new")}
			if tt.arrange != nil {
				tt.arrange(w)
			}
			tt.act(talk(t, w, tt.path, nil))
			if got := b.wait(t, 1); len(got) != 1 || got[0] != from+tt.want {
				t.Errorf("got %q, want %q", got, from+tt.want)
			}
		})
	}
}
