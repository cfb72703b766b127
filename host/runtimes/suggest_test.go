package runtimes

import (
	"strings"
	"testing"

	"berth/app"
)

func TestSuggest(t *testing.T) {
	for name, tt := range map[string]struct {
		files tree
		cfg   app.Config
		want  app.Config
		err   string
	}{
		"a usual name":   {tree{"index.js": "x"}, app.Config{}, app.Config{Main: "index.js"}, ""},
		"a manifest":     {tree{"package.json": `{"main":"src/bot.js"}`, "src/bot.js": "x", "index.js": "x"}, app.Config{}, app.Config{Main: "src/bot.js"}, ""},
		"a start script": {tree{"package.json": `{"scripts":{"start":"next start"}}`}, app.Config{}, app.Config{Start: "npm start"}, ""},
		"its own choice": {tree{"index.js": "x", "other.js": "x"}, app.Config{Main: "other.js"}, app.Config{Main: "other.js"}, ""},
		"what a build makes": {
			tree{"package.json": `{"scripts":{"build":"tsc","start":"node dist/index.js"}}`, "src/index.ts": "x"},
			app.Config{},
			app.Config{Build: "npm run build", Main: "dist/index.js"},
			"",
		},
		"a build of pages": {
			tree{"package.json": `{"scripts":{"build":"next build","start":"next start"}}`},
			app.Config{Type: app.Site},
			app.Config{Type: app.Site, Build: "npm run build", Start: "npm start"},
			"",
		},
		"Python":            {tree{"main.py": "x", "requirements.txt": "a"}, app.Config{}, app.Config{Main: "main.py"}, ""},
		"Go":                {tree{"go.mod": "module a\n", "main.go": "package main"}, app.Config{}, app.Config{Main: "main.go"}, ""},
		"a page":            {tree{"index.html": "x"}, app.Config{}, app.Config{}, "only a site can show"},
		"a page of a site":  {tree{"index.html": "x"}, app.Config{Type: app.Site}, app.Config{Type: app.Site, Main: "index.html"}, ""},
		"nothing":           {tree{"README": "x"}, app.Config{}, app.Config{}, "cannot tell what to start"},
		"what is not there": {tree{"index.js": "x"}, app.Config{Main: "none.js"}, app.Config{}, "cannot find MAIN"},
		"no JSON":           {tree{"package.json": "{", "index.js": "x"}, app.Config{}, app.Config{}, "package.json"},
	} {
		got, _, err := Suggest(tt.cfg, tt.files)
		switch {
		case tt.err != "":
			if err == nil || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%s: %v", name, err)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case got.Main != tt.want.Main || got.Start != tt.want.Start || got.Build != tt.want.Build || got.Type != tt.want.Type:
			t.Errorf("%s: %+v", name, got)
		}
	}
}
