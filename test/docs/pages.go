package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"berth/cli"
	"berth/cli/command"
	"berth/daemon/settings"
	"berth/host/notify"
	"berth/web/metrics"
)

// pages are the documents with a part that comes from the code. Each function
// returns the text of a page with that part made anew.
var pages = map[string]func(root, text string) (string, error){
	"asvs.md":            asvsPage,
	"commands.md":        commandsPage,
	"berth.toml.example": func(_, _ string) (string, error) { return settings.Example(), nil },
	"settings.md":        func(_, text string) (string, error) { return between(text, settingsTable()) },
	"compatibility.md":   func(_, text string) (string, error) { return between(text, clientsTable()) },
	"monitoring.md":      func(_, text string) (string, error) { return between(text, metricsTable()) },
	"notifications.md":   func(_, text string) (string, error) { return between(text, noticesTable()) },
	"deploy.md": func(root, text string) (string, error) {
		examples, err := ciExamples(root)
		if err != nil {
			return "", err
		}
		return between(text, examples)
	},
	"api.md": func(root, text string) (string, error) {
		table, err := operations(filepath.Join(root, "httpapi", "openapi.json"))
		if err != nil {
			return "", err
		}
		return between(text, table)
	},
}

const (
	begin = "<!-- made by make docs -->\n"
	end   = "<!-- end of what make docs makes -->"
)

// between puts what was made between the two marks of a page.
func between(text, made string) (string, error) {
	before, rest, found := strings.Cut(text, begin)
	_, after, ended := strings.Cut(rest, end)
	if !found || !ended {
		return "", errors.New("the marks of make docs are missing")
	}
	return before + begin + made + end + after, nil
}

// cell is a text as a cell of a table.
func cell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// commandsPage has two parts: the exit statuses and the commands.
func commandsPage(root, text string) (string, error) {
	all, err := readViews(root)
	if err != nil {
		return "", err
	}
	made, err := commands(all)
	if err != nil {
		return "", err
	}
	statuses, rest, _ := strings.Cut(text, end)
	if statuses, err = between(statuses+end, exitTable()); err != nil {
		return "", err
	}
	rest, err = between(rest, made)
	return statuses + rest, err
}

func commands(all views) (string, error) {
	var failed error
	var table, each strings.Builder
	table.WriteString("| command | what it does |\n|---|---|\n")
	cli.Walk(cli.Root(&command.Caller{}), func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		fmt.Fprintf(&table, "| [`%s`](#%s) | %s |\n", path, strings.ReplaceAll(path, " ", "-"), cell(cmd.Short))
		fmt.Fprintf(&each, "\n### %s\n\n`%s`\n", path, cmd.UseLine())
		for _, alias := range cmd.Aliases {
			fmt.Fprintf(&each, "\nAlias: `%s %s`\n", cmd.Parent().CommandPath(), alias)
		}
		rows, flags := "", 0
		cli.EachFlag(cmd, func(name, text string) {
			rows += fmt.Sprintf("| `%s` | %s |\n", name, cell(text))
			flags++
		})
		if flags > len(settings.Rows()) {
			rows = ""
			of := map[string]bool{"--config": true}
			for _, s := range settings.Rows() {
				of["--"+s.Flag] = true
			}
			cli.EachFlag(cmd, func(name, text string) {
				word, _, _ := strings.Cut(name, " ")
				if !of[word] {
					rows += fmt.Sprintf("| `%s` | %s |\n", name, cell(text))
				}
			})
			fmt.Fprintf(&each, "\n`%s` has a flag for every [setting](settings.md)%s", path, map[bool]string{true: ", and these flags:\n", false: ".\n"}[rows != ""])
		}
		if rows != "" {
			each.WriteString("\n| flag | meaning |\n|---|---|\n" + rows)
		}
		fields, err := all.printed(cmd)
		failed = errors.Join(failed, err)
		each.WriteString(fields)
	})
	return table.String() + each.String(), failed
}

// ciExamples are the files of examples/ci, which test/e2e runs.
func ciExamples(root string) (string, error) {
	var b strings.Builder
	for _, forge := range [][2]string{{"GitHub Actions", "github"}, {"GitLab", "gitlab"}, {"Forgejo", "forgejo"}} {
		text, err := os.ReadFile(filepath.Join(root, "examples", "ci", forge[1]+".yml"))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "### %s\n\n```yaml\n%s```\n\n", forge[0], text)
	}
	return b.String(), nil
}

// noticesTable is the table of the kinds of notices.
func noticesTable() string {
	var b strings.Builder
	b.WriteString("| kind | severity | who gets it | what it says |\n|---|---|---|---|\n")
	for _, k := range notify.Kinds {
		who := "the account"
		if k.Host {
			who = "administrators"
		}
		if k.Chosen {
			who += ", if it is chosen"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.Kind, k.Severity, who, cell(k.What))
	}
	return b.String()
}

// metricsTable is the table of the metrics.
func metricsTable() string {
	var b strings.Builder
	b.WriteString("| metric | type | labels | what it is |\n|---|---|---|---|\n")
	for _, f := range metrics.Families {
		labels := strings.Join(f.Labels, ", ")
		if f.Type == "histogram" {
			labels += ", le"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, f.Type, labels, cell(f.Help))
	}
	return b.String()
}

// clientsTable is the table of the clients that berth client-env knows.
func clientsTable() string {
	var b strings.Builder
	b.WriteString("| client | what it is | how you set the base address | how you set the token |\n|---|---|---|---|\n")
	for _, row := range cli.PublicClients("https://apps.example.org") {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", row[0], cell(row[1]), cell(row[2]), cell(row[3]))
	}
	return b.String()
}

func settingsTable() string {
	var b strings.Builder
	section := ""
	b.WriteString("| key | default | meaning |\n|---|---|---|\n")
	rows := settings.Rows()
	slices.SortStableFunc(rows, func(a, b settings.Row) int { return cmp.Compare(sectionOf(a.Key), sectionOf(b.Key)) })
	for _, s := range rows {
		if of := sectionOf(s.Key); of != section {
			section = of
			fmt.Fprintf(&b, "| **`[%s]`** | | |\n", section)
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s |\n", s.Key, cell(code(s.Default)), cell(s.Help))
	}
	return b.String()
}

func sectionOf(key string) string {
	section, _, dotted := strings.Cut(key, ".")
	if !dotted {
		return ""
	}
	return section
}

func code(text string) string {
	if text == "" {
		return "empty"
	}
	return "`" + text + "`"
}
