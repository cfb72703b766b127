package panel

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"berth/app"
	"berth/host/account"
)

// crashed lets the program of an application print lines and end.
func (w *world) crashed(id app.ID, e app.Exit, lines ...string) {
	w.t.Helper()
	w.logs.program(id, lines...)
	e.At = time.Now()
	w.change(id, func(s *app.Snapshot) { s.State, s.Running, s.LastExit = app.Stopped, false, &e })
}

// noModule is what Node.js prints of a package that is not installed, with the frames of its own.
func noModule(id string) []string {
	lines := []string{
		"node:internal/modules/cjs/loader:1210", "  throw err;", "  ^", "", "Error: Cannot find module 'express'", "Require stack:", "- /var/lib/berth/apps/" + id + "/src/index.js",
		"    at Object.<anonymous> (/var/lib/berth/apps/" + id + "/src/index.js:7:17)",
	}
	for n := range 12 {
		lines = append(lines, fmt.Sprintf("    at frame%d (node:internal:%d)", n, n))
	}
	return append(lines, "", "Node.js v20.20.2")
}

// The reason comes first: the line that says why, what helps, and the way there.
func TestCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "1795349880722")
	add(t, w, "1795349880722")
	w.logs.program("1795349880722", "Error: of the run before")
	w.crashed("1795349880722", app.Exit{Code: 1, Ran: time.Second}, noModule("1795349880722")...)
	b := w.as("ana")
	p := b.get("/apps/1795349880722")
	p.want(t, "the overview", http.StatusOK, "What it printed last", "The package &#34;express&#34; is not installed.",
		`<div class="likely">`, "The likely reason: </span>Error: Cannot find module &#39;express&#39;", "It ended with code 1.",
		`<a class="button main" href="/apps/1795349880722/commit">`, `href="/apps/1795349880722/files/view?path=src%2Findex.js"`, "Edit src/index.js", "See the whole log")
	p.lacks(t, "the overview", "of the run before", "Node.js v20", "[berth]")
	if lines := strings.Count(p.body[strings.Index(p.body, `class="log short"`):], "<time datetime="); lines < crashLines {
		t.Errorf("%d lines are shown", lines)
	}
	b.get("/").want(t, "the list", http.StatusOK, `<p class="said"><code>Error: Cannot find module &#39;express&#39;</code></p>`)

	w.crashed("1795349880722", app.Exit{Code: 3}, "<script>alert(1)</script> \x1b[31mred\x1b[0m "+strings.Repeat("x", 500))
	p = b.get("/apps/1795349880722")
	p.want(t, "nothing that is known", http.StatusOK, "&lt;script&gt;alert(1)", `<span class="c1">red</span>`, "Edit files", "Set variables", "New version")
	p.lacks(t, "nothing that is known", "button main\" href=\"/apps/1795349880722/", "<script>alert")
	p = b.get("/")
	p.want(t, "a long line", http.StatusOK, "&lt;script&gt;alert(1)&lt;/script&gt; red xxx", "x…</code>")
	p.lacks(t, "a long line", strings.Repeat("x", 200))

	w.crashed("1795349880722", app.Exit{Code: 137, OOM: true, LimitMB: 100}, "Error: Cannot find module 'express'")
	p = b.get("/apps/1795349880722")
	p.want(t, "a kill for its RAM", http.StatusOK, "It needed more than its 100 MB of RAM.", `<a class="button main" href="/apps/1795349880722/settings">`, "Raise RAM")
	p.lacks(t, "a kill for its RAM", "is not installed", `class="likely"`)
	b.get("/").lacks(t, "a kill for its RAM, in the list", `class="said"`)

	w.crashed("1795349880722", app.Exit{Code: 1})
	b.get("/apps/1795349880722").want(t, "silence", http.StatusOK, "What it printed last")
	w.change("1795349880722", func(s *app.Snapshot) { s.LastExit.Asked = true })
	b.get("/apps/1795349880722").lacks(t, "a stop", "What it printed last")
}

// What a program printed is for those who may read its log.
func TestCrashOfATeam(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop")
	add(t, w, "shop")
	w.crashed("shop", app.Exit{Code: 1}, "Error: Cannot find module 'express'")
	teams := account.NewTeams(w.db.Teams)
	must(t, onlyError(teams.AddMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app"})))
	bob := w.as("bob")
	for _, path := range []string{"/", "/apps/shop"} {
		p := bob.get(path)
		p.want(t, path, http.StatusOK, "It ended with code 1.")
		p.lacks(t, path, "Cannot find module", "express")
	}
	must(t, onlyError(teams.SetMember(t.Context(), w.ana.ID, "shop", w.bob.ID, []string{"status_app", "logs_app"})))
	p := bob.get("/apps/shop")
	p.want(t, "with logs_app", http.StatusOK, "Cannot find module", "See the whole log")
	p.lacks(t, "with logs_app", `href="/apps/shop/env"`, `href="/apps/shop/commit"`, `href="/apps/shop/files`)
}

// An upload that crashes ends red, with the reason, and never in a green box.
func TestUploadThatCrashes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	w.host.deployed = func(ctx context.Context, _ string) (app.Deployed, error) {
		app.ProgressOf(ctx)(app.Progress{Phase: app.Launching, App: "shop"})
		w.crashed("shop", app.Exit{Code: 1}, "ModuleNotFoundError: No module named 'discord'")
		s, _ := w.host.Find("shop")
		return app.Deployed{Snapshot: s}, nil
	}
	b := w.as("ana")
	to := b.upload("/upload", "PK").Header.Get("Location")
	w.work.Wait()
	p := b.get(to)
	p.want(t, "the job", http.StatusOK, "is deployed, and crashed.", "It ended with code 1.", "The package &#34;discord.py&#34; is not installed.", `<li class="bad"><span class="state">`)
	p.lacks(t, "the job", "notice good", "is online")
	b.get("/upload").want(t, "the list of jobs", http.StatusOK, "Crashed")
	w.host.deployed = func(context.Context, string) (app.Deployed, error) {
		return app.Deployed{}, &app.Error{Kind: app.Unusable, Message: app.Textf("cannot prepare the application: it failed"), Logs: "\x1b[31mmain.go:2:8: no required module provides package example.org/x; to add it:\x1b[0m"}
	}
	to = b.upload("/upload", "PK").Header.Get("Location")
	w.work.Wait()
	b.get(to).want(t, "a build that fails", http.StatusOK, "go.mod does not name the package &#34;example.org/x&#34;.")
}
