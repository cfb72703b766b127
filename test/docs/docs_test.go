package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"berth/cli"
	"berth/cli/command"
)

// Every page is what its table gives.
func TestPagesAreFresh(t *testing.T) {
	const root = "../.."
	for name, page := range pages {
		text, err := os.ReadFile(filepath.Join(root, "docs", name))
		if err != nil {
			t.Fatal(err)
		}
		made, err := page(root, string(text))
		if err != nil {
			t.Errorf("docs/%s: %v", name, err)
		} else if made != string(text) {
			t.Errorf("docs/%s is not what the code gives: make docs", name)
		}
	}
}

func TestBetween(t *testing.T) {
	got, err := between("a\n"+begin+"old\n"+end+"\nb", "new\n")
	if want := "a\n" + begin + "new\n" + end + "\nb"; err != nil || got != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
	for _, text := range []string{"", begin, end} {
		if _, err := between(text, "new"); err == nil {
			t.Errorf("%q has both marks", text)
		}
	}
}

// Each command has a manual page that names all its flags.
func TestManual(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	if err := writeManual(dir); err != nil {
		t.Fatal(err)
	}
	pages := 0
	cli.Walk(cli.Root(&command.Caller{}), func(cmd *cobra.Command) {
		if cmd.Name() == "help" { // which cobra takes for no command
			return
		}
		pages++
		text, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".8"))
		if err != nil {
			t.Error(err)
			return
		}
		name := strings.ToUpper(strings.ReplaceAll(cmd.CommandPath(), " ", "-"))
		if want := `.TH "` + name + `" "8" "Nov 2023"`; !strings.Contains(string(text), want) {
			t.Errorf("%s begins with %.60q, want %q", cmd.CommandPath(), text, want)
		}
		plain := strings.ReplaceAll(string(text), `\-`, "-")
		cli.EachFlag(cmd, func(name, _ string) {
			if word, _, _ := strings.Cut(name, " "); !strings.Contains(plain, word) {
				t.Errorf("the page of %s does not name %s", cmd.CommandPath(), word)
			}
		})
	})
	if pages < 28 {
		t.Errorf("%d pages", pages)
	}
}

// An operation without a summary or a tag is an error, not a row that lacks.
func TestOperations(t *testing.T) {
	file := filepath.Join(t.TempDir(), "openapi.json")
	for text, want := range map[string]string{
		`{`: "unexpected end",
		`{"tags":[{"name":"a"}],"paths":{"/x":{"get":{"tags":["a"]}}}}`:   "no summary",
		`{"tags":[],"paths":{"/x":{"get":{"summary":"x","tags":["a"]}}}}`: "tags that the document does not list: [a]",
		`{"tags":[{"name":"a"}],"paths":{"/x":{"get":{"summary":"x","tags":["a"],"description":"Of this server.",
			"parameters":[{"$ref": "#/components/parameters/AppOrAll"},{"name":"q","in":"query"}],
			"requestBody":{"content":{"application/json":{"schema":{"$ref":"#/components/schemas/In"}}}},
			"responses":{"200":{"content":{"application/json":{"schema":{"oneOf":[{"properties":{"status":{},"b":{}}},{"properties":{"a":{}}}]}}}}}}}},
			"components":{"schemas":{"In":{"properties":{"ramMB":{}}}}}}`: "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := operations(file)
		switch {
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v, want %q", text, err, want)
		case want == "" && (err != nil || !strings.Contains(got, "| `GET /x` | x; one or `all` (berth's own) | `?q` `ramMB` | `a`, `b` |\n")):
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	if _, err := operations(file + "none"); err == nil {
		t.Error("a document that is not there has operations")
	}
}

// A row that claims what is not so fails, and so does a number that is not there.
func TestASVS(t *testing.T) {
	const root = "../.."
	text, err := os.ReadFile(filepath.Join(root, "docs", "asvs.md"))
	if err != nil {
		t.Fatal(err)
	}
	tests, err := testNames(root)
	if err != nil {
		t.Fatal(err)
	}
	row := func(number string) string {
		_, rest, _ := strings.Cut(string(text), "| "+asvsNumber+number+" |")
		line, _, _ := strings.Cut(rest, "\n")
		if line == "" {
			t.Fatalf("%s is not there", number)
		}
		return "| " + asvsNumber + number + " |" + line + "\n"
	}
	for want, change := range map[string][2]string{
		"6.2.1 is missing":         {row("6.2.1"), ""},
		"there twice":              {row("6.2.1"), row("6.2.1") + row("6.2.1")},
		"is no requirement":        {asvsNumber + "6.2.1 ", asvsNumber + "6.2.99 "},
		"no requirement, or there": {"6.2.1 | 1 |", "6.2.1 | 2 |"},
		"has 4 cells":              {"6.2.1 | 1 |", "6.2.1 |"},
		"there is no test TestX":   {"`TestCheckPassword`", "`TestX`"},
		"there is no test db.Test": {"`TestCheckPassword`", "`db.TestCheckPassword`"},
		": say which, such as ":    {"`TestCheckPassword`", "`TestPlan`"},
		"nothing proves it":        {row("6.2.1"), "| " + asvsNumber + "6.2.1 | 1 | x | x | - |\n"},
		"too many: [6.2.1]":        {row("6.2.1"), "| " + asvsNumber + "6.2.1 | 1 | x | exception: x | - |\n"},
		"of level 2":               {" | not applicable: ", " | exception: "},
		"has no heading #nowhere":  {"limits.md#accounts", "limits.md#nowhere"},
		"nowhere.md":               {"limits.md#accounts", "nowhere.md#accounts"},
	} {
		if _, err := asvsPageOf(root, strings.ReplaceAll(string(text), change[0], change[1]), tests); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q in place of %q: %v, want %q", change[1], change[0], err, want)
		}
	}
}
