package importer

import (
	"errors"
	"testing"

	"berth/app"
)

func TestBackup(t *testing.T) {
	config := app.Config{Name: "Bot", Main: "index.js", RAM: 200}
	for name, tt := range map[string]struct {
		up        app.Unpacked
		why, vars string
		notes     []string
	}{
		"of the hosted service": {app.Unpacked{Found: true, Config: config, Left: []string{`"node_modules" (9 entries) was left out.`}}, "", "", []string{"node_modules", "no variables but those"}},
		"of a berth": {
			app.Unpacked{
				Found: true, Config: config, Left: []string{"the variables"},
				Variables: app.PackedVariables{Found: true, Left: "the variables", All: []app.Variable{{Name: "TOKEN", Value: "hush"}, {Name: "PORT", Value: "1"}}},
			}, "", "TOKEN", []string{"PORT is not taken over"},
		},
		"with broken variables": {app.Unpacked{Found: true, Config: config, Variables: app.PackedVariables{Found: true, Err: errors.New("line 1 is odd")}}, "", "", []string{"line 1 is odd"}},
		"of a site":             {app.Unpacked{Found: true, Config: app.Config{Type: app.Site, ID: "shop", Main: "index.html"}}, "", "", nil},
		"without a name":        {app.Unpacked{Found: true, Config: app.Config{Main: "index.js"}}, "its discloud.config has no NAME=, by which berth finds the application again: add one, or send it with berth deploy", "", nil},
		"without a config":      {app.Unpacked{}, "it has no discloud.config, so it is no backup of an application: berth deploy sends any ZIP", "", nil},
		"with it elsewhere":     {app.Unpacked{Hint: app.Textf("it is called x")}, "it has no discloud.config at its top: it is called x", "", nil},
	} {
		c := Backup("/backups/a.zip", tt.up)
		if c.Refusal != tt.why || names(c) != tt.vars || c.ZIP != "/backups/a.zip" || c.Config.Name != tt.up.Config.Name {
			t.Errorf("%s: %+v", name, c)
		}
		wantNotes(t, c, tt.notes...)
		silent(t, c, "hush")
	}
}
