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
		case rest[0] == '[' && setEnd(rest) > 0:
			end := setEnd(rest)
			b.WriteString(ignoreSet(rest[1:end]))
			i += end + 1
		default:
			b.WriteString(regexp.QuoteMeta(rest[:1]))
			i++
		}
	}
	b.WriteString("$")
	return b.String()
}

// setEnd is where a set of characters such as [a-z] ends, 0 for none. The first of them may be
// the bracket itself.
func setEnd(rest string) int {
	first := 1
	if len(rest) > 1 && (rest[1] == '!' || rest[1] == '^') {
		first = 2
	}
	for i := first; i < len(rest); i++ {
		switch {
		case rest[i] == '\\':
			i++
		case rest[i] == ']' && i > first:
			return i
		}
	}
	return 0
}

// ignoreSet is what stands in the brackets, as a regular expression. No set matches a slash.
func ignoreSet(inner string) string {
	var b strings.Builder
	b.WriteString("[")
	if inner[0] == '!' || inner[0] == '^' {
		b.WriteString("^/")
		inner = inner[1:]
	}
	escaped := false
	for _, r := range inner {
		if r == '\\' && !escaped {
			escaped = true
			continue
		}
		if strings.ContainsRune(`\[]^`, r) || escaped && r == '-' {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
		escaped = false
	}
	b.WriteString("]")
	return b.String()
}
