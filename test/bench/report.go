package main

import (
	"fmt"
	"strings"
	"time"
)

// row is one line of the table.
type row struct {
	what        string
	berth       string
	aim         string // with its verdict
	pm2         string
	supervisord string
	reference   string
}

// below is the aim that a figure is less than a bound.
func below(v, bound float64, unit string) string {
	return verdict(v < bound, fmt.Sprintf("under %s %s", digits(bound), unit))
}

func verdict(within bool, aim string) string {
	if within {
		return aim + ": within"
	}
	return aim + ": **beyond**"
}

// set puts a figure into the column of who it belongs to.
func (r *row) set(who, text string) {
	switch who {
	case "berth":
		r.berth = text
	case "PM2":
		r.pm2 = text
	case "supervisord":
		r.supervisord = text
	default:
		r.reference = text
	}
}

// table writes rows in Markdown.
func table(rows []row) string {
	var b strings.Builder
	b.WriteString("| measure | berth | aim | PM2 | supervisord | reference |\n|---|---|---|---|---|---|\n")
	clean := strings.NewReplacer("|", "\\|", "\n", " ")
	for _, r := range rows {
		for _, cell := range []string{r.what, r.berth, r.aim, r.pm2, r.supervisord, r.reference} {
			if cell = clean.Replace(cell); cell != "" {
				cell += " "
			}
			b.WriteString("| " + cell)
		}
		b.WriteString("|\n")
	}
	return b.String()
}

// preface opens the page.
const preface = `# Performance

Written by ` + "`make bench`" + `, which anybody can run. Every figure of a row was measured in the same
run, in turns where they are compared: a busy or slow machine changes all of them, and their ratio
least. A figure is the median, with the least and the greatest value behind it. "beyond" says that
an aim was missed; it is no error.

[PM2](https://pm2.keymetrics.io) and [supervisord](http://supervisord.org) start, restart and log
programs as berth does. They have the settings they come with; PM2 runs the program as it is, not
with Node.js. They take no uploads, and give no program a user, a control group and a memory limit
of its own, which berth does in all of these figures. nginx and Caddy, in the last
column, bring requests to the same programs as berth's proxy, with the settings that their
documentation gives for it.

berth has its own settings too, but for three that let measuring go on: apps.ok_delay is 1ms instead
of 2s, rate_limit 1000000, and host.overcommit 100, so that 1,000 programs fit. All run the same
program, a static one in C that needs less than 1 MB.
`

// document writes the page.
func document(m machine, made []measure, rows []row) string {
	var b strings.Builder
	b.WriteString(preface)
	fmt.Fprintf(&b, "\nMeasured on %s, on %s.\n\n", time.Now().UTC().Format(time.DateOnly), m)
	b.WriteString(wrap("Versions: "+strings.Join(m.versions, ", ")+".") + "\n\n")
	b.WriteString(table(rows))
	b.WriteString("\n## Method\n")
	for _, x := range made {
		b.WriteString("\n" + wrap(fmt.Sprintf("**%s** (`make bench ONLY=%s`). %s", x.title, x.name, x.method)) + "\n")
	}
	return b.String()
}

// wrap makes one paragraph of a text, in lines as wide as the other pages'.
func wrap(text string) string {
	const width = 100
	var b strings.Builder
	column := 0
	for i, word := range strings.Fields(text) {
		switch {
		case i == 0:
		case column+1+len(word) > width:
			b.WriteByte('\n')
			column = 0
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += len(word)
	}
	return b.String()
}
