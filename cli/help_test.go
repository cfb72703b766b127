package cli

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"berth/cli/command"
)

// On a terminal every line of every help fits, at 80 columns and at 40, and no
// word is lost.
func TestHelpFitsTheTerminal(t *testing.T) {
	for _, width := range []int{80, 40} {
		for _, args := range [][]string{{}, {"serve"}, {"account"}, {"account", "set"}, {"notify", "add"}, {"proxy", "certificates"}} {
			var narrow, wide bytes.Buffer
			for out, columns := range map[*bytes.Buffer]int{&narrow: width, &wide: 0} {
				root := Root(&command.Caller{})
				cmd, _, err := root.Find(args)
				if err != nil {
					t.Fatal(err)
				}
				root.SetOut(&output{to: out, width: columns})
				printHelp(cmd)
			}
			for line := range strings.Lines(narrow.String()) {
				words := strings.Fields(line)
				if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width && len(words) > 1 {
					t.Errorf("%v: %d columns at %d: %q", args, n, width, line)
				}
			}
			if got, want := strings.Fields(narrow.String()), strings.Fields(wide.String()); strings.Join(got, " ") != strings.Join(want, " ") {
				t.Errorf("%v at %d columns says other words", args, width)
			}
		}
	}
}
