package panel

import (
	"net/http"
	"strings"
	"testing"

	"berth/app"
)

// Who is new is led through the first steps, can leave them, and finds them again. What is done is seen.
func TestFirstSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(c *Config) { c.Sites = "" })
	must(t, onlyError(w.db.Accounts.UpdateAccount(t.Context(), w.ana.ID, func(a *app.Account, _ app.MB) error { a.Admin = true; return nil })))
	b := w.as("ana")
	b.get("/").want(t, "the applications", http.StatusOK, `href="/first-steps"`, "0 of 4 done")
	b.get("/first-steps").want(t, "an administrator", http.StatusOK, "sudo berth setup", `href="/upload"`, `href="/account/channels"`, `href="/docs/backups"`)
	w.host.add(w.ana.ID, "shop", func(*app.Snapshot) {})
	w.notices.all = append(w.notices.all, app.Channel{ID: 1, Account: w.ana.ID, Name: "phone", Service: app.Ntfy})
	b.get("/first-steps").want(t, "two are done", http.StatusOK, "2 of 4 done", "berth sends you a message when something goes wrong.")
	b.post("/first-steps", "hide", "true").leads(t, "leave", "/")
	if strings.Contains(b.get("/").body, `href="/first-steps"`) {
		t.Error("what was left is still among the applications")
	}
	b.get("/docs").want(t, "found again", http.StatusOK, `href="/first-steps"`)
	b.post("/first-steps", "hide", "false").leads(t, "show again", "/first-steps")
	b.get("/").want(t, "shown again", http.StatusOK, "2 of 4 done")
	w.as("bob").get("/first-steps").want(t, "no administrator", http.StatusOK, "0 of 2 done")
}
