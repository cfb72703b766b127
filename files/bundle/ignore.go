package bundle

import (
	"regexp"
	"strings"
)

// ignoring are the rules of files such as .gitignore, in the order in which they were read:
// the last one that matches a name decides (gitignore(5)).
type ignoring struct{ rules []ignoreRule }

// ignoreRule is one line of such a file.
type ignoreRule struct {
	base   string // the directory of the file, "" or with a slash at its end
	match  *regexp.Regexp
	keep   bool // the line began with "!"
	onlyIn bool // the line ended with "/": it is for directories
}

// add reads a file that lies in the directory base.
func (g *ignoring) add(base, text string) {
	for line := range strings.Lines(strings.TrimPrefix(text, "\ufeff")) {
		line = strings.TrimRight(line, "\r\n")
		if !strings.HasSuffix(line, `\ `) {
			line = strings.TrimRight(line, " \t")
		}
		if line == "" || line[0] == '#' {
			continue
		}
		r := ignoreRule{base: base}
		if r.keep = line[0] == '!'; r.keep {
			line = line[1:]
		}
		if r.onlyIn = strings.HasSuffix(line, "/"); r.onlyIn {
			line = strings.TrimRight(line, "/")
		}
		var err error
		if r.match, err = regexp.Compile(ignorePattern(line)); err == nil && line != "" { // git passes over what it cannot read
			g.rules = append(g.rules, r)
		}
	}
}

// ignores reports whether a file or a directory is left out. What is in a directory that is
// left out, nobody asks about: no rule brings it back.
func (g *ignoring) ignores(name string, dir bool) bool {
	for i := len(g.rules) - 1; i >= 0; i-- {
		r := g.rules[i]
		inner, below := strings.CutPrefix(name, r.base)
		if below && (dir || !r.onlyIn) && r.match.MatchString(inner) {
			return !r.keep
		}
	}
	return false
}

// ignorePattern is a pattern of gitignore(5) as a regular expression. Without a slash before
// its end it matches a name at any depth.
func ignorePattern(line string) string {
	var b strings.Builder
	b.WriteString("^")
	if !strings.Contains(line, "/") {
		b.WriteString("(?:.*/)?")
	}
	line = strings.TrimPrefix(line, "/")
	for i := 0; i < len(line); {
		rest := line[i:]
		switch {
		case strings.HasPrefix(rest, "**/") && (i == 0 || line[i-1] == '/'):
			b.WriteString("(?:.*/)?")
			i += 3
		case rest == "**" && (i == 0 || line[i-1] == '/'):
			b.WriteString(".+")
			i += 2
		case rest[0] == '*':
			b.WriteString("[^/]*")
			i++
		case rest[0] == '?':
			b.WriteString("[^/]")
			i++
		case rest[0] == '\\' && len(rest) > 1:
			b.WriteString(regexp.QuoteMeta(rest[1:2]))
			i += 2
		case rest[0] == '[' && len(rest) > 2 && strings.Contains(rest[2:], "]"): // which may be the first of them
			end := 2 + strings.Index(rest[2:], "]")
			set := rest[1:end]
			if set[0] == '!' {
				set = "^" + set[1:]
			}
			b.WriteString("[" + strings.ReplaceAll(set, "[", `\[`) + "]")
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	b.WriteString("$")
	return b.String()
}
