package channel

import (
	"strings"
	"unicode"

	"berth/app"
)

// marks say at a glance how urgent a message is, where nothing else does.
var marks = []string{app.Info: "🔵 ", app.Warning: "🟠 ", app.Failure: "🔴 "}

// gap is a character of no width: what it parts is no mention and no fence any more.
const gap = "\u200b"

// clean is text without what controls a terminal, a header or the order in which it is read. Lines stay.
func clean(text string) string {
	text = strings.ToValidUTF8(strings.ReplaceAll(text, "\r\n", "\n"), "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n':
			return r
		case r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029':
			return -1
		}
		return r
	}, text)
}

// line is clean text in one line.
func line(text string) string { return strings.Join(strings.Fields(clean(text)), " ") }

// lines are clean lines.
func lines(m app.Message) string {
	all := make([]string, len(m.Lines))
	for i, l := range m.Lines {
		all[i] = line(l)
	}
	return strings.Join(all, "\n")
}

// quiet is text that mentions nobody: an @ has nothing behind it.
func quiet(text string) string { return strings.ReplaceAll(text, "@", "@"+gap) }

// fenceless is text that has no code fence.
func fenceless(text string) string { return strings.ReplaceAll(text, "``", "`"+gap+"`") }

// units is how much of a limit a character takes where UTF-16 is counted.
func units(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// bytesOf is how much of a limit a character takes where bytes are counted.
func bytesOf(r rune) int { return len(string(r)) }

// size is how much of a limit a text takes.
func size(text string, cost func(rune) int) (n int) {
	for _, r := range text {
		n += cost(r)
	}
	return n
}

// head is the beginning of a text that a limit takes.
func head(text string, limit int, cost func(rune) int) string {
	if size(text, cost) <= limit {
		return text
	}
	left := limit - cost('…')
	for i, r := range text {
		if left -= cost(r); left < 0 {
			return text[:i] + "…"
		}
	}
	return text
}

// tail is the end of a text that a limit takes: that is where an error is.
func tail(text string, limit int, cost func(rune) int) string {
	if size(text, cost) <= limit {
		return text
	}
	all := []rune(text)
	left := limit - cost('…')
	for i := len(all) - 1; i >= 0; i-- {
		if left -= cost(all[i]); left < 0 {
			return "…" + string(all[i+1:])
		}
	}
	return text
}
