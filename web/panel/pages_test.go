package panel

import (
	"compress/gzip"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template/parse"
	"time"

	"berth/app"
	"berth/app/text"
	"berth/db"
)

// addApp makes the database know an application.
func addApp(t testing.TB, w *world, id app.ID) error {
	t.Helper()
	ids := db.IDRange{UIDBase: 70000, UIDCount: 100, PortFirst: 20000, PortLast: 20100}
	a := w.host.all[id].App
	a.Wanted = app.WantOnline
	a, err := w.db.Allocations(ids).Reserve(t.Context(), a, func(app.Account, app.Use) error { return nil })
	if err == nil {
		_, err = w.db.Apps.CreateApp(t.Context(), a, app.Deploy{Kind: app.DeployUpload})
	}
	return err
}

// Every page says everything in every language, in each state of an application.
func TestEveryPageInEveryLanguage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	killed := &app.Exit{Code: 137, OOM: true, LimitMB: 100}
	for name, change := range map[app.ID]func(*app.Snapshot){
		"online":  func(s *app.Snapshot) { s.StartedAt = time.Now().Add(-50 * time.Hour) },
		"waiting": func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Waiting, false, &app.Exit{Code: 1} },
		"oom":     func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, killed },
		"short": func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 137, Signal: 9, HostOOM: true, LimitMB: 100}
		},
		"crashed": func(s *app.Snapshot) {
			s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Code: 139, Signal: 11}
		},
		"ended":     func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{} },
		"stopped":   func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &app.Exit{Asked: true} },
		"preparing": func(s *app.Snapshot) { s.State, s.Running, s.Position = app.Preparing, false, 2 },
		"starting":  func(s *app.Snapshot) { s.State = app.Starting },
		"stopping":  func(s *app.Snapshot) { s.State = app.Stopping },
		"hostile":   func(s *app.Snapshot) { s.Name = `<script>alert(1)</script>"'` },
	} {
		w.host.add(w.ana.ID, name, change)
		add(t, w, name)
	}
	key, err := w.signIns.Invite(t.Context(), w.bob.ID)
	must(t, err)
	for _, locale := range app.Locales {
		b := w.as("ana")
		must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
		b.post("/account/tokens", "label", `<script>`)
		b.header["Accept-Language"] = locale
		stranger := w.browser()
		stranger.header["Accept-Language"] = locale
		for path, asked := range map[string]page{
			"/": b.get("/"), "/account": b.get("/account"), "/nothing": b.get("/nothing"),
			"/device": b.get("/device"), "/device, asked": b.post("/device", "code", w.deviceCode()),
			"/login": stranger.get("/login"), "/setup": stranger.get("/setup/" + key),
			"/account/factors": b.get("/account/factors"), "/account/factors, offered": b.post("/account/factors/app"),
		} {
			asPageShouldBe(t, path, locale, asked)
		}
		for _, id := range []app.ID{"online", "waiting", "oom", "crashed", "ended", "stopped", "preparing", "starting", "stopping", "hostile"} {
			for _, tab := range []string{"", "/terminal", "/logs", "/logs?of=build", "/logs?q=nothing", "/deploys"} {
				p := b.get("/apps/" + string(id) + tab)
				p.want(t, string(id)+tab, http.StatusOK, `class="tabs"`)
				asPageShouldBe(t, string(id)+tab, locale, p)
			}
		}
	}
	rows := regexp.MustCompile(`class="app (\w+)"`).FindAllStringSubmatch(w.as("ana").get("/").body, -1)
	var order []string
	for _, r := range rows {
		order = append(order, r[1])
	}
	if got, want := strings.Join(order, " "), "bad bad bad bad busy busy busy good good off off"; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
}

// asPageShouldBe fails unless a page is whole, in its language, and without what
// the policy forbids.
func asPageShouldBe(t *testing.T, path, locale string, asked page) {
	t.Helper()
	if !strings.Contains(asked.body, `<html lang="`+locale+`"`) || !strings.HasSuffix(asked.body, "</html>\n") ||
		strings.Contains(asked.body, "<script>") || strings.Contains(asked.body, "%!") {
		t.Errorf("%s in %s is not as it should be:\n%s", path, locale, asked.body)
	}
	for _, inline := range []string{" style=", "<style", " onclick=", "javascript:"} {
		if strings.Contains(asked.body, inline) {
			t.Errorf("%s has %q, which the policy forbids", path, inline)
		}
	}
	for name, want := range map[string]string{"Content-Type": "text/html; charset=utf-8", "Cache-Control": "no-store"} {
		if got := asked.Header.Get(name); got != want {
			t.Errorf("%s has %s %q", path, name, got)
		}
	}
	if entrance := path == "/login" || path == "/setup"; strings.Contains(asked.body, `action="/logout"`) == entrance {
		t.Errorf("%s has no button to sign out, or one for strangers", path)
	}
	for _, field := range regexp.MustCompile(`<input [^>]*name="(?:password|again|old|prove-password)"[^>]*>`).FindAllString(asked.body, -1) {
		if !strings.Contains(field, ` type="password"`) || !regexp.MustCompile(` autocomplete="(?:current|new)-password"`).MatchString(field) {
			t.Errorf("%s does not mask a password, or keeps password managers from it: %s", path, field)
		}
	}
}

// The scripts take no name from outside for one of an object, where it could be that of a
// prototype, make nothing of text that runs, and keep nothing of the page in the browser but
// whether lines wrap.
func TestScriptsKeepNothing(t *testing.T) {
	t.Parallel()
	kept := []string{`static/log.js: localStorage`, `static/passkey.js: response[name] =`, `static/terminal.js: new WebSocket`}
	scripts, err := filepath.Glob("static/*.js")
	must(t, err)
	if len(scripts) < 5 {
		t.Fatalf("only %d scripts", len(scripts))
	}
	for _, name := range scripts {
		text, err := os.ReadFile(name)
		must(t, err)
		for _, found := range regexp.MustCompile(
			`\w+\[[^\]"'\d]+\]\s*=[^=>]|__proto__|\.prototype|Object\.assign|\beval\b|new Function|localStorage|sessionStorage|indexedDB|document\.cookie|postMessage|new WebSocket`).FindAllString(string(text), -1) {
			what := name + ": " + strings.TrimSpace(found)
			if i := slices.Index(kept, what); i >= 0 {
				kept = slices.Delete(kept, i, i+1)
				continue
			}
			t.Error(what)
		}
	}
	if len(kept) > 0 {
		t.Errorf("not found: %q", kept)
	}
}

// Each sentence of the panel is in the catalogue of every other language.
func TestCatalogueIsComplete(t *testing.T) {
	t.Parallel()
	said := map[string]bool{}
	pages, err := parsed()
	must(t, err)
	for _, tree := range pages {
		sentences(tree.Root, said)
	}
	sources, err := filepath.Glob("*.go")
	must(t, err)
	call := regexp.MustCompile(`(?:\.Say\(|\.Count\([^"\n]*|app\.Errorf\(app\.\w+, )((?:"(?:[^"\\]|\\.)*"(?:, )?)+)`)
	quoted := regexp.MustCompile(`"(?:[^"\\]|\\.)*"`)
	for _, name := range sources {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		source, err := os.ReadFile(name)
		must(t, err)
		for _, found := range call.FindAllStringSubmatch(string(source), -1) {
			for _, q := range quoted.FindAllString(found[1], -1) {
				s, err := strconv.Unquote(q)
				must(t, err)
				said[s] = true
			}
		}
	}
	if len(said) < 100 {
		t.Fatalf("only %d sentences were found", len(said))
	}
	for _, locale := range app.Locales[1:] {
		catalogue, err := os.ReadFile("../../app/text/" + locale + ".txt")
		must(t, err)
		for s := range said {
			if !strings.Contains(string(catalogue), "\n"+strconv.Quote(s)+" = ") {
				t.Errorf("%q is not in the catalogue of %s", s, locale)
			}
		}
	}
}

// parsed are the templates as trees, without functions.
func parsed() (map[string]*parse.Tree, error) {
	pages := map[string]*parse.Tree{}
	sets, err := parsePages(files, text.In("en-US"))
	for _, set := range sets {
		for _, page := range set.Templates() {
			if page.Tree != nil {
				pages[page.Name()+set.Name()+page.Tree.ParseName] = page.Tree
			}
		}
	}
	return pages, err
}

// sentences adds the texts that t and count are given below a node.
func sentences(n parse.Node, said map[string]bool) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n != nil {
			for _, c := range n.Nodes {
				sentences(c, said)
			}
		}
	case *parse.ActionNode:
		sentences(n.Pipe, said)
	case *parse.TemplateNode:
		sentences(n.Pipe, said)
	case *parse.IfNode:
		branch(&n.BranchNode, said)
	case *parse.RangeNode:
		branch(&n.BranchNode, said)
	case *parse.WithNode:
		branch(&n.BranchNode, said)
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, c := range n.Cmds {
			command(c, said)
		}
	}
}

func branch(n *parse.BranchNode, said map[string]bool) {
	sentences(n.Pipe, said)
	sentences(n.List, said)
	sentences(n.ElseList, said)
}

func command(c *parse.CommandNode, said map[string]bool) {
	name, is := c.Args[0].(*parse.IdentifierNode)
	for _, arg := range c.Args {
		sentences(arg, said)
		if s, text := arg.(*parse.StringNode); text && is && (name.Ident == "t" || name.Ident == "count") {
			said[s.Text] = true
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.browser()
	page := b.get("/login")
	links := regexp.MustCompile(`(?:href|src)="(/static/[^"]+)"`).FindAllStringSubmatch(page.body, -1)
	if len(links) != 4 {
		t.Fatalf("%d assets", len(links))
	}
	for _, l := range links {
		p := b.get(l[1])
		p.want(t, l[1], http.StatusOK)
		if p.Header.Get("Cache-Control") != assetAge || p.Header.Get("Content-Type") == "" || p.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: %v", l[1], p.Header)
		}
		head := b.ask(http.MethodHead, l[1], nil)
		if head.StatusCode != http.StatusOK || head.body != "" || head.Header.Get("Content-Length") != p.Header.Get("Content-Length") {
			t.Errorf("HEAD %s: %d, %d bytes", l[1], head.StatusCode, len(head.body))
		}
	}
	css := links[1][1]
	for _, asset := range []string{css, assetURL("xterm.mjs")} {
		delete(b.header, "Accept-Encoding")
		plain := b.get(asset)
		b.header["Accept-Encoding"], b.header["Sec-Fetch-Site"] = "br, gzip", "same-origin"
		packed := b.get(asset)
		r, err := gzip.NewReader(strings.NewReader(packed.body))
		must(t, err)
		unpacked, err := io.ReadAll(r)
		must(t, err)
		if string(unpacked) != plain.body || packed.Header.Get("Content-Encoding") != "gzip" || len(packed.body) > len(plain.body)/2 {
			t.Errorf("packed, %s is %d bytes of %d", asset, len(packed.body), len(plain.body))
		}
		if plain.Header.Get("Content-Encoding") != "" || plain.Header.Get("Vary") == "" || packed.Header.Get("Content-Length") != strconv.Itoa(len(packed.body)) {
			t.Errorf("the headers of %s: %v, and packed %v", asset, plain.Header, packed.Header)
		}
	}
	for _, site := range []string{"", "same-site", "cross-site"} {
		b.header["Sec-Fetch-Site"] = site
		if b.get(css).Header.Get("Content-Encoding") != "" {
			t.Errorf("packed for %q", site)
		}
	}
	b.header["Accept-Encoding"], b.header["Sec-Fetch-Site"] = "gzip;q=0", "none"
	if b.get(css).Header.Get("Content-Encoding") != "" {
		t.Error("packed, though it was refused")
	}
	for _, path := range []string{"/static/panel.css", "/static/x.css", "/static/..%2fpanel.go", "/static/"} {
		b.get(path).want(t, path, http.StatusNotFound)
	}
	if p := b.ask(http.MethodHead, "/login", nil); p.StatusCode != http.StatusOK || p.body != "" || p.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("HEAD of a page: %d, %d bytes", p.StatusCode, len(p.body))
	}
}
