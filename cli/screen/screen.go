package screen

import (
	"os"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/term"
)

// Width is how many columns a terminal has; 0 for what is no terminal.
func Width(out any) int {
	f, is := out.(*os.File)
	if !is {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// Wrap is a text in lines of at most width bytes, all but the first behind an
// indent. A word that is longer has a line of its own.
func Wrap(text string, width, indent int) string {
	var b strings.Builder
	at := 0
	for word := range strings.FieldsSeq(text) {
		switch {
		case at == 0:
		case at+1+len(word) > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			at = 0
		default:
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += len(word)
	}
	return b.String()
}

// Fit breaks the lines of a text between words for a terminal of so many columns; 0 leaves
// them as they are, for what is no terminal.
func Fit(text string, columns int) string {
	if columns == 0 {
		return text
	}
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if len(line) > columns {
			lines[i] = Wrap(line, columns-2, 2)
		}
	}
	return strings.Join(lines, "\n")
}

// Word quotes a name or another short text of others where it has what would move a
// terminal's cursor, or hide. Fit for a cell of a table.
func Word(s string) string {
	if strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(s)
	}
	return s
}

// Colour reports whether text to out may have colours: out is a terminal, and NO_COLOR is
// not set (https://no-color.org).
func Colour(out any, getenv func(string) string) bool {
	return Width(out) > 0 && getenv("NO_COLOR") == "" && getenv("TERM") != "dumb"
}
