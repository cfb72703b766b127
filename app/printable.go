package app

import (
	"regexp"
	"strings"
)

// unprintable are escape sequences of terminals (ECMA-48), and characters that move or hide
// their neighbours. A sequence ends where it ends for proc/logs: proc/logs marks each line that would
// look like one of berth's own without its sequences.
var unprintable = regexp.MustCompile("\x1b(?:\\[[ -?]*[@-~]?|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)|\\][^\x07\x1b\ufffd]*\ufffd|[ -/]*[0-~]?)|" +
	"[\x00-\x08\x0b-\x1f\x7f-\u009f\u202a-\u202e\u2066-\u2069]")

// Printable returns foreign text, such as a line of a log, without the characters that a terminal
// would obey and those that no reader could see. Tabs and ends of lines stay.
func Printable(text string) string { return unprintable.ReplaceAllString(text, "") }

// reorders reports whether a text has a character that changes the direction of the text behind it
// (Unicode Standard Annex 9).
func reorders(text string) bool {
	return strings.ContainsAny(text, "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
}
