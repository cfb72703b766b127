package bundle

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// draft judges a ZIP of these entries.
func draft(t *testing.T, fields app.ConfigField, entries ...raw) (*Archive, app.Draft) {
	t.Helper()
	a, d, err := OpenDraft(file(t, rawZIP(t, entries...)), Limits{}, fields)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a, d
}

// problems are those of a draft, as FIELD: sentence.
func problems(d app.Draft) []string {
	var all []string
	for _, p := range d.Problems {
		all = append(all, p.Field+": "+p.Text.String())
	}
	return all
}

// The case of TYPE does not count, also for a form.
func TestDraftOfAType(t *testing.T) {
	t.Parallel()
	if _, d := draft(t, nil, raw{name: "discloud.config", data: "TYPE=Site\nID=shop\nMAIN=index.html\nRAM=100\n"}, raw{name: "index.html", data: "x"}); d.Fields["TYPE"] != "site" {
		t.Errorf("the fields are %v", d.Fields)
	}
}

func TestDraftFields(t *testing.T) {
	t.Parallel()
	const config = "# mine\r\nmain = old.js # here\r\nRAM=lots\r\nVERSION=nonsense\r\nhello\r\nAVATAR=https://example.org/#a\r\nAPT=tools\r\n"
	entries := []raw{{name: "bot/discloud.config", data: config}, {name: "bot/old.js", data: "x"}, {name: "bot/new.js", data: "y"}}
	a, d := draft(t, nil, entries...)
	if !d.Found || d.Files != 3 || d.Bytes == 0 || d.Text != "" {
		t.Errorf("as it came: %+v", d)
	}
	if want := (app.ConfigField{"MAIN": "old.js", "RAM": "lots"}); !maps.Equal(d.Fields, want) {
		t.Errorf("fields %v, want %v", d.Fields, want)
	}
	if got, want := problems(d), []string{"RAM: must be an amount such as 512, 512MB or 1.5GB"}; !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	if len(d.Dropped) != 2 || !strings.Contains(d.Dropped[0].String(), `line 4: VERSION="nonsense"`) || !strings.Contains(d.Dropped[1].String(), "line 5") {
		t.Errorf("dropped %q", d.Dropped)
	}
	if a.Config.Main != "old.js" || !a.Exists("new.js") {
		t.Errorf("the archive: %+v", a.Config)
	}

	a, d = draft(t, app.ConfigField{"MAIN": " new.js ", "RAM": "128", "TYPE": "bot", "OTHER": "x"}, entries...)
	if want := "TYPE=bot\nMAIN=new.js\nRAM=128\n# mine\nAVATAR=https://example.org/#a\nAPT=tools\n"; d.Text != want {
		t.Errorf("text %q, want %q", d.Text, want)
	}
	if d.Problems != nil || a.Config.Main != "new.js" || a.Config.RAM != 128 || a.Config.AvatarURL != "https://example.org/#a" {
		t.Errorf("%q, %+v", problems(d), a.Config)
	}
	if d.Files != 3 {
		t.Errorf("%d files", d.Files)
	}
}

func TestDraftOfHostileFields(t *testing.T) {
	t.Parallel()
	_, d := draft(t, app.ConfigField{
		"TYPE": "server", "NAME": strings.Repeat("n", 31), "MAIN": "../../etc/passwd", "RAM": "-1",
		"START": "node a.js # b", "BUILD": "make\nMAIN=evil.js",
	}, raw{name: "a.js", data: "x"})
	want := []string{
		"START: must not hold # or the end of a line", "BUILD: must not hold # or the end of a line",
		"TYPE: must be bot or site", "NAME: must have 1 to 30 characters",
		"MAIN: must be the path of a file in the ZIP, such as src/index.js", "RAM: must be an amount such as 512, 512MB or 1.5GB",
	}
	if got := problems(d); !slices.Equal(got, want) {
		t.Errorf("problems %q, want %q", got, want)
	}
	if strings.Contains(d.Text, "evil") {
		t.Errorf("a field has become a line: %q", d.Text)
	}
	for _, c := range []struct{ what, config, want string }{
		{"too large", strings.Repeat("#\n", maxConfig), "is larger than 64 KB"},
		{"no text", "\xff", "is not UTF-8 text"},
	} {
		if _, _, err := OpenDraft(file(t, rawZIP(t, raw{name: ConfigName, data: c.config})), Limits{}, app.ConfigField{}); !strings.Contains(text(err), c.want) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	if _, d := draft(t, nil, raw{name: ConfigName, data: strings.Repeat("x\n", 20000)}); len(d.Dropped) != maxDropped {
		t.Errorf("%d lines are told of", len(d.Dropped))
	}
}

// What takes the place of a config is unpacked with the rest, and says what is left out.
func TestOpenAs(t *testing.T) {
	t.Parallel()
	path := file(t, rawZIP(t, raw{name: "x/" + ConfigName, data: "MAIN=old.js"}, raw{name: "x/a.js", data: "x"}, raw{name: "x/.git/HEAD", data: "h"}))
	a, err := OpenAs(path, Limits{}, "MAIN=a.js\nSTART=sh .git/HEAD\n")
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.Config.Main != "a.js" || !a.Found {
		t.Errorf("%+v", a.Config)
	}
	dir, err := extractInto(t, a)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(dir, ConfigName)); err != nil || string(got) != "MAIN=a.js\nSTART=sh .git/HEAD\n" {
		t.Errorf("unpacked: %q, %v", got, err)
	}
	if got := filesIn(t, dir); !slices.Equal(got, []string{".git/HEAD", "a.js", ConfigName}) {
		t.Errorf("unpacked: %q", got)
	}
	for _, entries := range [][]raw{{{name: ConfigName + "/a", data: "x"}}, {{name: ConfigName + "/"}, {name: "a", data: "x"}}} {
		if _, err := OpenAs(file(t, rawZIP(t, entries...)), Limits{}, "MAIN=a"); !strings.Contains(text(err), "is a directory") && len(entries) > 1 {
			t.Errorf("%v: %v", entries, err)
		}
	}
	if _, err := OpenAs(path, Limits{}, "RAM=lots"); app.KindOf(err) != app.Unusable {
		t.Errorf("a broken config: %v", err)
	}
}
