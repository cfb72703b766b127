package panel

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"berth/app"
	"berth/host/account"
	"berth/web/terminal"
)

// shell is an app.ExecService: it answers each line with itself, "size" with the size of the terminal, and
// ends with "exit".
func shell(ctx context.Context, owner app.AccountID, id app.ID, e app.Exec, use func(context.Context, app.Streams)) (app.Shell, error) {
	if id == "busy" {
		return app.Shell{}, app.Errorf(app.Conflict, "the application is being deployed for the first time; wait until that is done, or stop it")
	}
	in, typed := io.Pipe()
	printed, out := io.Pipe()
	ended, sizes := make(chan struct{}), make(chan app.Size, 16)
	answer := app.Shell{Online: true}
	go func() {
		defer close(ended)
		defer out.Close()
		fmt.Fprintf(out, "%d %s %s %v %dx%d\n", owner, id, e.Term, e.TTY, e.Size.Cols, e.Size.Rows)
		for lines := bufio.NewScanner(in); lines.Scan(); {
			switch lines.Text() {
			case "exit":
				answer.Exit.Code = 3
				return
			case "size":
				fmt.Fprintln(out, <-sizes)
			default:
				fmt.Fprintln(out, lines.Text())
			}
		}
	}()
	kill := func() {
		_ = in.CloseWithError(io.ErrUnexpectedEOF)
		_ = printed.Close()
	}
	defer context.AfterFunc(ctx, func() {
		if said, is := errors.AsType[*app.Error](context.Cause(ctx)); is {
			answer.Cut = said.Message
		}
		kill()
	})()
	use(ctx, app.Streams{Input: typed, Output: printed, Ended: ended, Resize: func(to app.Size) error { sizes <- to; return nil }})
	kill()
	<-ended
	return answer, nil
}

// seen is what the page of a terminal receives until the end.
type seen struct {
	out     string
	exit    *terminal.Exit
	refused string
}

// dial opens the WebSocket of a page as its browser does; the status is that of the handshake.
func (b *browser) dial(life context.Context, path string, header ...string) (conn *websocket.Conn, status int) {
	b.w.t.Helper()
	server := httptest.NewServer(b.w.handler)
	b.w.t.Cleanup(server.Close)
	h := http.Header{"Origin": {server.URL}, "Sec-Fetch-Site": {"same-origin"}, "Sec-Fetch-Mode": {"websocket"}}
	for name, value := range b.cookies {
		h.Add("Cookie", name+"="+value)
	}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
		if header[i+1] == "" {
			h.Del(header[i])
		}
	}
	conn, resp, err := websocket.Dial(life, server.URL+path, &websocket.DialOptions{
		HTTPHeader: h,
		HTTPClient: &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	})
	if resp == nil {
		b.w.t.Fatal(err)
	}
	if err == nil {
		b.w.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, resp.StatusCode
}

func read(t *testing.T, conn *websocket.Conn) (s seen) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patienceOfTests)
	defer cancel()
	for {
		kind, data, err := conn.Read(ctx)
		if err != nil {
			return s
		}
		if kind == websocket.MessageBinary {
			s.out += string(data)
			continue
		}
		var frame struct {
			terminal.ToClient
			terminal.Refusal
		}
		must(t, json.Unmarshal(data, &frame))
		s.exit, s.refused = frame.Exit, frame.Message
	}
}

func typeIn(t *testing.T, conn *websocket.Conn, kind websocket.MessageType, text string) {
	t.Helper()
	must(t, conn.Write(t.Context(), kind, []byte(text)))
}

func (w *world) execs() (all []string) {
	w.acts.mu.Lock()
	defer w.acts.mu.Unlock()
	for _, a := range w.acts.all {
		if strings.HasPrefix(a.Operation, "app.exec") {
			all = append(all, fmt.Sprintf("%s %s %s %s %d %s", a.Operation, a.Name, a.Label, a.App, a.Status, a.Detail))
		}
	}
	return all
}

// audited waits until so many sessions have begun or ended.
func (w *world) audited(most int) []string {
	for deadline := time.Now().Add(patienceOfTests); len(w.execs()) < most && time.Now().Before(deadline); {
		time.Sleep(5 * time.Millisecond)
	}
	return w.execs()
}

// A shell in the page: what is typed, what is printed, the size, the end, and the audit log, which has
// nothing of what was typed.
func TestTerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Exec = shell })
	w.host.add(w.ana.ID, "shop")
	w.host.add(w.ana.ID, "busy")
	b := w.as("ana")
	b.get("/apps/shop/terminal").want(t, "the page", http.StatusOK, `data-address="/apps/shop/terminal/session"`, "<noscript>", "berth exec shop")
	conn, status := b.dial(t.Context(), "/apps/shop/terminal/session?cols=100&rows=30")
	if status != http.StatusSwitchingProtocols {
		t.Fatalf("status %d", status)
	}
	typeIn(t, conn, websocket.MessageBinary, "secret\nsize\n")
	typeIn(t, conn, websocket.MessageText, `{"resize":{"cols":132,"rows":43}}`)
	typeIn(t, conn, websocket.MessageBinary, "exit\n")
	if s := read(t, conn); s.out != fmt.Sprintf("%d shop xterm-256color true 100x30\nsecret\n{132 43}\n", w.ana.ID) || s.exit == nil || *s.exit != (terminal.Exit{Code: 3}) {
		t.Errorf("the page got %+v", s)
	}
	if all := strings.Join(w.audited(2), "\n"); all != "app.exec ana panel shop 200 \napp.exec.end ana panel shop 200 seconds=0 code=3" {
		t.Errorf("the audit log has\n%s", all)
	}
	must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, "pt-BR"))
	conn, _ = b.dial(t.Context(), "/apps/busy/terminal/session")
	if s := read(t, conn); s.refused != "A aplicação está no primeiro deploy; espere até que ele termine, ou pare-a." || s.exit != nil {
		t.Errorf("a busy application: %+v", s)
	}
	if all := w.audited(3); len(all) != 3 || all[2] != "app.exec ana panel busy 409 " {
		t.Errorf("the audit log has %q", all)
	}
}

// A session ends with that of the panel, with the account, the application, and the daemon.
func TestTerminalEnds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end  func(w *world, b *browser)
		says string
	}{
		"signed out": {func(_ *world, b *browser) { b.post("/logout") }, "you are not signed in"},
		"suspended": {func(w *world, _ *browser) {
			must(w.t, onlyError(account.NewAdmin(w.db.Accounts, stillPrograms{}).Suspend(w.t.Context(), w.ana.ID, "unpaid")))
		}, "this account is suspended (unpaid); ask the owner of the server"},
		"deleted": {func(w *world, _ *browser) {
			w.host.mu.Lock()
			defer w.host.mu.Unlock()
			delete(w.host.all, "shop")
		}, "You have no application with this ID."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(c *Config) { c.Exec = shell })
			w.host.add(w.ana.ID, "shop")
			b := w.as("ana")
			conn, _ := b.dial(t.Context(), "/apps/shop/terminal/session")
			typeIn(t, conn, websocket.MessageBinary, "a\n")
			tt.end(w, b)
			if s := read(t, conn); s.exit == nil || s.exit.Reason != tt.says {
				t.Errorf("%+v", s)
			}
			if all := w.audited(2); len(all) != 2 || !strings.Contains(all[1], fmt.Sprintf("reason=%q", tt.says)) {
				t.Errorf("the audit log has %q", all)
			}
		})
	}
}

// Nobody else opens one: no page of another site, whose browser has the cookie; no member of the team;
// nobody who has not proved lately who they are.
func TestTerminalIsTheOwnersAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) {
		c.Exec, c.BaseURL, c.Trusted = shell, "https://panel.example.org", []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	})
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, app.AllPermissions.Names())))
	const path = "/apps/shop/terminal/session"
	ana, bob, eve := w.as("ana"), w.as("bob"), w.browser()
	for name, tt := range map[string]struct {
		b      *browser
		header []string
		status int
	}{
		"the address of base_url":           {ana, []string{"Origin", "https://panel.example.org"}, 101},
		"an old browser":                    {ana, []string{"Sec-Fetch-Site", "", "Sec-Fetch-Mode", ""}, 101},
		"an encrypted page":                 {ana, []string{"Origin", "https://panel.example.org", "X-Forwarded-Proto", "https"}, 101},
		"a page in plain, encrypted itself": {ana, []string{"Origin", "http://panel.example.org", "X-Forwarded-Proto", "https", "Sec-Fetch-Site", ""}, 403},
		"another site":                      {ana, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403},
		"another site, in an old browser":   {ana, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", ""}, 403},
		"a site of this host":               {ana, []string{"Origin", "https://shop.example.org", "Sec-Fetch-Site", "same-site"}, 403},
		"a page without an origin":          {ana, []string{"Origin", "null"}, 403},
		"no origin":                         {ana, []string{"Origin", ""}, 403},
		"a member who may everything":       {bob, nil, 404},
		"a stranger":                        {eve, nil, 303},
		"an address that is no size at all": {ana, nil, 400},
	} {
		address := path
		if tt.status == 400 && tt.header == nil {
			address += "?cols=0"
		}
		if _, status := tt.b.dial(t.Context(), address, tt.header...); status != tt.status {
			t.Errorf("%s: %d, want %d", name, status, tt.status)
		}
	}
	ana.get(path).want(t, "no WebSocket", http.StatusBadRequest, "for the terminal&#39;s page alone")
	bob.get("/apps/shop/terminal").want(t, "a member", http.StatusNotFound)
	bob.get("/apps/shop").lacks(t, "a member", "/terminal")
	ana.get("/apps/shop").want(t, "the owner", http.StatusOK, `<a href="/apps/shop/terminal"`)
	w.forgetProof("ana")
	ana.get("/apps/shop/terminal").leads(t, "without a proof", "/again?next=%2Fapps%2Fshop%2Fterminal")
	if _, status := ana.dial(t.Context(), path); status != http.StatusSeeOther {
		t.Errorf("without a proof: %d", status)
	}
}

// One page alone may make styles of its own, and it shows nothing that somebody else wrote.
func TestTerminalPolicy(t *testing.T) {
	t.Parallel()
	if strings.Contains(policy, "unsafe") || strings.Replace(terminalPolicy, " 'unsafe-inline'", "", 1) != policy ||
		!strings.Contains(terminalPolicy, "style-src 'self' 'unsafe-inline';") || !strings.Contains(terminalPolicy, "connect-src 'self';") {
		t.Errorf("the policies are\n%s\n%s", policy, terminalPolicy)
	}
	w := newWorld(t, func(c *Config) { c.Exec = shell })
	seed(w)
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	other := w.browser()
	other.header["User-Agent"] = "evil <style> Chrome/1 (Linux)"
	other.post("/login", "name", "ana", "password", password)
	b.get("/").want(t, "another page", http.StatusOK, "New sign-in")
	b.get("/apps/shop/terminal").lacks(t, "the terminal", "New sign-in")
	replace := strings.NewReplacer("{app}", "shop", "{account}", "1", "{token}", "1", "{session}", "1", "{member}", "2", "{domain}", "shop.example.org",
		"{number}", "1", "{job}", "x", "{key}", "x", "{$}", "", "{provider}", "discord", "{channel}", "1", "{snapshot}", "x")
	inline, stranger, bob := map[string]bool{}, w.browser(), w.as("bob")
	for _, r := range (&pages{}).routes() {
		if r.method != http.MethodGet || r.pattern == "/events" {
			continue
		}
		path := replace.Replace(r.pattern)
		for _, p := range []page{b.get(path), stranger.get(path), bob.get(path)} {
			if strings.Contains(p.Header.Get("Content-Security-Policy"), "unsafe") {
				inline[r.pattern] = true
				if p.StatusCode != http.StatusOK {
					t.Errorf("%s: an error has the policy of the terminal", path)
				}
			}
		}
	}
	if len(inline) != 1 || !inline["/apps/{app}/terminal"] {
		t.Errorf("these pages may have styles of their own: %v", inline)
	}
}

// Other pages load nothing of the terminal, and its page loads nothing of theirs.
func TestTerminalAssets(t *testing.T) {
	t.Parallel()
	entries, err := os.ReadDir("template")
	must(t, err)
	for _, e := range entries {
		body, err := os.ReadFile("template/" + e.Name())
		must(t, err)
		if got, want := strings.Contains(string(body), `asset "xterm`), e.Name() == "terminal.html"; got != want {
			t.Errorf("%s loads xterm.js: %v", e.Name(), got)
		}
	}
	w := newWorld(t)
	kinds := maps.Collect(func(yield func(string, string) bool) {
		for _, name := range []string{"xterm.mjs", "xterm-addon-fit.mjs", "terminal.js"} {
			if !yield(name, w.browser().get(assetURL(name)).Header.Get("Content-Type")) {
				return
			}
		}
	})
	for name, kind := range kinds {
		if !strings.HasPrefix(kind, "text/javascript") { // browsers take no other for a module
			t.Errorf("%s is %s", name, kind)
		}
	}
}
