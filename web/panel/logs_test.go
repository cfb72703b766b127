package panel

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/app"
	"berth/host/account"
)

func TestLogs(t *testing.T) {
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	b := w.as("ana")
	b.get("/apps/shop/logs").want(t, "an empty log", http.StatusOK, "It has not printed anything yet.", `role="log"`, `aria-live="off"`, `data-of="program"`)
	w.logs.print("shop", "\x1b[32mready\x1b[0m <script>alert(1)</script>", "second")
	w.logs.of("shop", true).Note("npm install")
	p := b.get("/apps/shop/logs")
	p.want(t, "the log", http.StatusOK, `<span class="c2">ready</span> &lt;script&gt;`, `<div class="own"><time datetime="`, "second", "what=log")
	p.lacks(t, "the log", "npm install", "\x1b")
	b.get("/apps/shop/logs?of=build").want(t, "the build's", http.StatusOK, "npm install", `data-of="build"`, "what=build")
	w.change("shop", func(s *app.Snapshot) { s.State, s.Running = app.Preparing, false })
	b.get("/apps/shop/logs").want(t, "while it is built", http.StatusOK, "npm install", `data-of="build"`, "under way")
	b.get("/apps/shop/logs?of=program").want(t, "the program's, while it is built", http.StatusOK, "ready")

	d := b.get("/apps/shop/logs/download?of=program")
	if lines := strings.Split(d.body, "\n"); len(lines) != 3 || !strings.HasSuffix(lines[1], " [berth] second") ||
		d.Header.Get("Content-Disposition") != `attachment; filename="shop.log"` || d.Header.Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("the download is %q with %v", d.body, d.Header)
	}
	if act := w.acts.last(); act.Operation != "app.logs" || act.App != "shop" {
		t.Errorf("the audit log has %+v", act)
	}
	if d := b.get("/apps/shop/logs/download?of=build"); !strings.Contains(d.body, "npm install") || !strings.Contains(d.Header.Get("Content-Disposition"), "shop.build.log") {
		t.Errorf("the build's download is %q with %v", d.body, d.Header)
	}
	bob := w.as("bob")
	bob.get("/apps/shop/logs").want(t, "another's", http.StatusNotFound)
	must(t, onlyError(account.NewTeams(w.db.Teams).AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app"})))
	for _, path := range []string{"/apps/shop/logs", "/apps/shop/logs/download", "/apps/shop/logs?q=x"} {
		bob.get(path).want(t, "a member without logs_app: "+path, http.StatusForbidden, "logs_app")
	}
}

// A search goes through everything that is kept, and shows the last lines.
func TestSearchLogs(t *testing.T) {
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	for i := range 2500 {
		w.logs.print("shop", fmt.Sprintf("\x1b[31mREQ\x1b[0mUEST %d", i), "other")
	}
	b := w.as("ana")
	p := b.get("/apps/shop/logs?q=request")
	p.want(t, "many", http.StatusOK, "2500 lines of all that is kept have it.", "These are the last 1000.", `value="request"`, "UEST 1500<", "UEST 2499<")
	p.lacks(t, "many", "UEST 1499<", "other", "data-stream")
	if strings.Index(p.body, "UEST 1500<") > strings.Index(p.body, "UEST 2499<") {
		t.Error("the lines are not in their order")
	}
	b.get("/apps/shop/logs?q=REQUEST+1").want(t, "fewer", http.StatusOK, "1111 lines", "UEST 1999<")
	p = b.get("/apps/shop/logs?q=uest+2499")
	p.want(t, "one", http.StatusOK, "1 line of all that is kept has it.")
	p.lacks(t, "one", "These are the last")
	b.get("/apps/shop/logs?q=nothing+has+it").want(t, "none", http.StatusOK, "0 lines", "No line has it.")
	b.get("/apps/shop/logs?q="+strings.Repeat("x", 201)).want(t, "too long", http.StatusBadRequest, "at most 200 bytes")
}

// What others have written is what they have published, with its licence.
func TestVendor(t *testing.T) {
	list, err := os.ReadFile("static/vendor/SHA256SUMS")
	must(t, err)
	listed := map[string]bool{"SHA256SUMS": true}
	for line := range strings.Lines(string(list)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		body, err := os.ReadFile(filepath.Join("static/vendor", name))
		must(t, err)
		if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s was changed", name)
		}
		listed[name] = true
	}
	all, err := os.ReadDir("static/vendor")
	must(t, err)
	for _, e := range all {
		if !listed[e.Name()] {
			t.Errorf("%s is not in SHA256SUMS", e.Name())
		}
	}
	if !listed["uPlot.LICENSE"] || !listed["uPlot.iife.min.js"] || len(listed) < 4 {
		t.Errorf("only %v are listed", listed)
	}
	w := newWorld(t)
	w.browser().get(assetURL("uPlot.iife.min.js")).want(t, "uPlot", http.StatusOK, "uPlot")
	for name := range assets() {
		if strings.Contains(name, "LICENSE") || strings.Contains(name, "SHA256SUMS") {
			t.Errorf("%s is served", name)
		}
	}
}

// A program that prints colours in every other letter makes no page that the
// daemon has no memory for.
func TestSearchIsBounded(t *testing.T) {
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	colours := strings.Repeat("\x1b[1mA\x1b[0mB", 1600)
	for range 300 {
		w.logs.print("shop", colours)
	}
	p := w.as("ana").get("/apps/shop/logs?q=aba")
	p.want(t, "a search", http.StatusOK, "300 lines of all that is kept have it.", "These are the last ")
	if len(p.body) > 4<<20 {
		t.Errorf("the page has %d bytes", len(p.body))
	}
}

// The owner of an application that reads lines has a field for one below its log, on the page of its output
// alone; what the audit log has is no content.
func TestInput(t *testing.T) {
	w := newWorld(t)
	seed(w)
	const field = `action="/apps/shop/input"`
	b := w.as("ana")
	b.get("/apps/shop/logs").lacks(t, "an application that reads none", field)
	w.change("shop", func(s *app.Snapshot) { s.Code.Stdin = true })
	b.get("/apps/shop/logs").want(t, "one that reads", http.StatusOK, field, `name="line"`)
	for _, path := range []string{"/apps/shop/logs?of=build", "/apps/shop/logs?q=x"} {
		b.get(path).lacks(t, path, field)
	}
	must(t, onlyError(w.config.Teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, app.AllPermissions.Names())))
	w.as("bob").get("/apps/shop/logs").lacks(t, "a member", field)
	b.post("/apps/shop/input", "line", "secret").leads(t, "a line", "/apps/shop/logs?of=program#line")
	if act := w.acts.last(); act.Operation != "app.input" || act.App != "shop" || act.Detail != "" || act.Status != http.StatusSeeOther {
		t.Errorf("the audit log has %+v", act)
	}
	if p := b.post("/apps/shop/input", "line", "more", "stay", ""); p.StatusCode != http.StatusNoContent || p.body != "" {
		t.Errorf("to a script: %d %q", p.StatusCode, p.body)
	}
	if want := []string{"line secret to shop", "line more to shop"}; !slices.Equal(w.host.done, want) {
		t.Errorf("done was %q", w.host.done)
	}
	w.host.fail = app.Errorf(app.Conflict, "the application is offline, so nothing reads this line; start it first")
	b.post("/apps/shop/input", "line", "<typed>").want(t, "a refusal", http.StatusConflict, "The application is offline, so nothing reads this line; start it first.", `value="&lt;typed&gt;"`, "autofocus")
}
