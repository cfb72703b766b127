package command

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// A table that a terminal is too narrow for becomes a block for each row, and loses no word.
func TestColumns(t *testing.T) {
	rows := "ID\tNAME\tSTATE\n1745338954955\tshop\tended: exit code 137\n1745338954956\tbot\tonline\n"
	wide := "ID             NAME  STATE\n1745338954955  shop  ended: exit code 137\n1745338954956  bot   online\n"
	for _, width := range []int{0, 80, 43} {
		if got := columns(rows, width); got != wide {
			t.Errorf("at %d columns: %q", width, got)
		}
	}
	for _, width := range []int{40, 30, 20} {
		got := columns(rows, width)
		for line := range strings.Lines(got) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("at %d columns: %q", width, line)
			}
		}
		if width == 40 && !strings.HasPrefix(got, "ID     1745338954955\nNAME   shop\nSTATE  ended: exit code 137\n\nID ") {
			t.Errorf("got %q", got)
		}
		for word := range strings.FieldsSeq(rows) {
			if !strings.Contains(got, word) {
				t.Errorf("at %d columns %q is lost", width, word)
			}
		}
	}
	for _, rows := range []string{"", "name\tana of a long name\nid\t1\n", "A\tB\nsomething wide\tx\n"} { // no table with titles
		if got, want := columns(rows, 10), columns(rows, 0); got != want {
			t.Errorf("%q becomes %q", rows, got)
		}
	}
}
