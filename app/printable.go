package app

import (
	"regexp"
	"strings"
)

// unprintable are escape sequences of terminals (ECMA-48), and characters that move or hide
// what is beside them. Sequences end where they do for proc/logs, which marks what would read as berth's
// own line without them.
var unprintable = regexp.MustCompile("\x1b(?:\\[[ -?]*[@-~]?|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\\][^\x07\x1b\ufffd]*\ufffd|[ -/]*[0-~]?)|" +
	"[\x00-\x08\x0b-\x1f\x7f-\u009f\u202a-\u202e\u2066-\u2069]")

// Printable is what others wrote, such as a line of a log, without what a terminal would obey and
// what no reader could see. Tabs and ends of lines stay.
func Printable(text string) string { return unprintable.ReplaceAllString(text, "") }

// reorders reports whether a text has a character that changes the direction of what is behind it
// (Unicode Standard Annex 9).
func reorders(text string) bool {
	return strings.ContainsAny(text, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
}
