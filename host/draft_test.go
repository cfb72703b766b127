package host

import (
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// What the owner decided before is in effect from the first start on.
func TestUploadWithFirst(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx := app.WithFirst(t.Context(), app.First{
			Config: "MAIN=decided\nRAM=200\n", Variables: []app.Variable{{Name: "TOKEN", Value: "secret"}, {Name: "A", Value: ""}},
		})
		d, err := w.host.Upload(ctx, app.Account{ID: owner, TotalRAM: w.total}, "MAIN=own")
		if err != nil || d.RAM != 200 || d.Code.Main != "decided" {
			t.Fatalf("Upload() = %+v, %v", d, err)
		}
		if got := w.runs[0].p.Variables; !slices.Equal(got, []app.Variable{{Name: "A"}, {Name: "TOKEN", Value: "secret"}}) {
			t.Errorf("the first run has %v", got)
		}
		if w.env[d.ID]["TOKEN"] != "secret" || len(w.env[d.ID]) != 2 {
			t.Errorf("kept: %v", w.env[d.ID])
		}
	})
}

func TestUploadWithBadVariables(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		for _, name := range []string{"HOME", "MY-KEY", ""} {
			ctx := app.WithFirst(t.Context(), app.First{Variables: []app.Variable{{Name: name, Value: "hunter2"}}})
			_, err := w.host.Upload(ctx, app.Account{ID: owner, TotalRAM: w.total}, "MAIN=a")
			_, judged := w.host.Draft(ctx, app.Account{ID: owner, TotalRAM: w.total}, "MAIN=a", nil)
			if app.KindOf(err) != app.Invalid || app.KindOf(judged) != app.Invalid || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q: %v, %v", name, err, judged)
			}
		}
		if len(w.runs) != 0 || len(w.host.Apps(owner)) != 0 {
			t.Error("something was made")
		}
	})
}

func TestDraft(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		if _, err := w.upload("MAIN=a,TYPE=site,ID=shop"); err != nil {
			t.Fatal(err)
		}
		account := app.Account{ID: owner, TotalRAM: w.total, Limits: app.Limits{Apps: 2}}
		for _, c := range []struct {
			what, file string
			fields     app.ConfigField
			want       []string // FIELD: sentence
		}{
			{"a config", "MAIN=a.js", nil, nil},
			{"a config with too much RAM", "MAIN=a.js,RAM=5000", nil, []string{"RAM: the account has 1000 MB"}},
			{"a main file that is not there", "MAIN=missing", nil, []string{"MAIN: no MAIN"}},
			{"a site without an ID", "MAIN=a.js,TYPE=site", nil, []string{"ID: a site needs an ID, its subdomain"}},
			{"a site with a bad ID", "MAIN=a.js,TYPE=site,ID=1", nil, []string{`ID: "1" cannot be a subdomain: it needs a name with a letter`}},
			{"a site whose ID is taken", "MAIN=a.js,TYPE=site,ID=Shop", nil, []string{`ID: the id "shop" is taken`}},
			{"fields", "MAIN=missing", app.ConfigField{"MAIN": "a.js"}, nil},
			{"fields that are wrong", "MAIN=a.js", app.ConfigField{"MAIN": "missing", "RAM": "5000"}, []string{"MAIN: no MAIN", "RAM: the account has 1000 MB"}},
			{"none", "", nil, nil},
		} {
			d, err := w.host.Draft(t.Context(), account, c.file, c.fields)
			if err != nil {
				t.Fatalf("%s: %v", c.what, err)
			}
			var got []string
			for _, p := range d.Problems {
				got = append(got, p.Field+": "+p.Text.String())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", c.what, got, c.want)
			}
		}
		account.Limits.Apps = 1
		if d, err := w.host.Draft(t.Context(), account, "MAIN=a.js", nil); err != nil || len(d.Problems) != 1 || d.Problems[0].Field != "" {
			t.Errorf("one application too many: %+v, %v", d, err)
		}
		if _, err := w.host.Draft(t.Context(), account, "bad", nil); app.KindOf(err) != app.Unusable {
			t.Errorf("no ZIP: %v", err)
		}
		if len(w.stages) != 0 {
			t.Error("something was unpacked")
		}
	})
}

// Without a config the form begins with what the files show.
func TestDraftSuggests(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		for _, c := range []struct{ file, page, name, want string }{
			{"my bot.zip", "", "my bot", "bot a.js  "},
			{"My Page.zip", "index.html", "My Page", "site index.html my-page "},
			{"x.zip", "index.html", "x", "site index.html  "}, // the subdomain is too short
		} {
			w.host.Suggest = func(cfg app.Config, _ app.Files) (app.Config, app.Plan, error) {
				if cfg.Main = "a.js"; c.page != "" {
					cfg.Main = c.page
				}
				if c.page != "" && cfg.Type == app.Bot {
					return cfg, app.Plan{}, errTest
				}
				return cfg, app.Plan{Code: app.Code{Lang: "test"}}, nil
			}
			d, err := w.host.Draft(app.WithFileName(t.Context(), c.file), app.Account{ID: owner, TotalRAM: w.total}, "", nil)
			f := d.Fields
			if got := f["TYPE"] + " " + f["MAIN"] + " " + f["ID"] + " " + f["START"]; err != nil || got != c.want || f["NAME"] != c.name || f["RAM"] != "100" || d.Lang != "test" {
				t.Errorf("%s: %q, %v, %v", c.file, got, d, err)
			}
		}
	})
}
