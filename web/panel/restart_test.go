package panel

import (
	"net/http"
	"testing"

	"berth/app"
)

// After a change that a running program gets at its next start, who may restart it can do that
// at once, on the page where the change was made.
func TestRestartNow(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.host.add(w.ana.ID, "shop", func(s *app.Snapshot) { s.Code.Lang = "javascript" })
	w.host.add(w.ana.ID, "snake", func(s *app.Snapshot) { s.Code.Lang = "python" })
	w.host.add(w.ana.ID, "off", func(s *app.Snapshot) { s.Code.Lang, s.State, s.Running = "go", app.Stopped, false })
	for _, id := range []app.ID{"shop", "snake", "off"} {
		add(t, w, id)
		must(t, onlyError(w.config.Teams.AddMember(t.Context(), w.ana.ID, id, w.bob.ID, []string{"edit_ram"})))
	}
	w.host.env["OLD"] = "x"
	ana, bob := w.as("ana"), w.as("bob")
	const button = "Restart now"
	for _, c := range []struct {
		what   string
		b      *browser
		path   string
		pairs  []string
		to     string
		offers bool
	}{
		{"variables", ana, "/apps/shop/env", []string{"name", "TOKEN", "value", "hunter2"}, "/apps/shop/env", true},
		{"a variable that goes", ana, "/apps/shop/env/remove", []string{"name", "OLD"}, "/apps/shop/env", true},
		{"variables of what does not run", ana, "/apps/off/env", []string{"name", "TOKEN", "value", "x"}, "/apps/off/env", false},
		{"RAM", ana, "/apps/shop/ram", []string{"ram", "128"}, "/apps/shop/settings", true},
		{"RAM by a button of the overview", ana, "/apps/shop/raise", []string{"ram", "128"}, "/apps/shop", true},
		{"RAM of what does not hear of it", ana, "/apps/snake/ram", []string{"ram", "128"}, "/apps/snake/settings", false},
		{"RAM of what does not run", ana, "/apps/off/ram", []string{"ram", "128"}, "/apps/off/settings", false},
		{"RAM by who may not restart it", bob, "/apps/shop/ram", []string{"ram", "128"}, "/apps/shop/settings", false},
		{"an avatar", ana, "/apps/shop/profile", []string{"name", "Shop"}, "/apps/shop/settings", false},
	} {
		p := c.b.get(c.b.post(c.path, c.pairs...).leads(t, c.what, c.to))
		if c.offers {
			p.want(t, c.what, http.StatusOK, button, `name="back" value="`+c.to+`"`)
		} else {
			p.lacks(t, c.what, button)
		}
	}
	ana.post("/apps/shop/restart", "back", "/apps/shop/env").leads(t, "the button", "/apps/shop/env")
}
