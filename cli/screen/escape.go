package screen

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Escape is others' text as a terminal may show it: every control character but the tab
// and the end of a line is shown as an escape such as \x1b, and so is what is no UTF-8 and
// what changes the direction of a line. Sequences that set colours and nothing else (SGR)
// stay if colour is true, and end with their line; otherwise they are left out.
func Escape(text string, colour bool) string {
	var b strings.Builder
	b.Grow(len(text))
	painted := false
	end := func() {
		if painted {
			b.WriteString(reset)
			painted = false
		}
	}
	for i := 0; i < len(text); {
		if n := sgr(text[i:]); n > 0 {
			if colour {
				b.WriteString(text[i : i+n])
				painted = true
			}
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\n':
			end()
			b.WriteByte('\n')
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, text[i])
		case r == '\t' || !acts(r):
			b.WriteString(text[i : i+n])
		case r < utf8.RuneSelf:
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += n
	}
	end()
	return b.String()
}

const reset = "\x1b[0m"

// sgr is how many bytes at the beginning of a text are a sequence that sets colours, such
// as ESC [ 1 ; 31 m; 0 for none, and for one that hides text or lets it blink.
func sgr(text string) int {
	const longest = 64
	if !strings.HasPrefix(text, "\x1b[") {
		return 0
	}
	for i := 2; i < min(len(text), longest); i++ {
		switch c := text[i]; {
		case c == 'm':
			if !paints(text[2:i]) {
				return 0
			}
			return i + 1
		case c != ';' && c != ':' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}

// paints reports whether the parameters of SGR do nothing but paint: what follows 38, 48
// and 58 is a colour, by its number or in three parts.
func paints(parameters string) bool {
	all := strings.Split(parameters, ";")
	for i := 0; i < len(all); i++ {
		kind, _, whole := strings.Cut(all[i], ":")
		switch strings.TrimLeft(kind, "0") {
		case "5", "6", "8": // blink, blink fast, hide
			return false
		case "38", "48", "58":
			if whole || i+1 >= len(all) {
				continue
			}
			i += map[string]int{"5": 2, "2": 4}[all[i+1]]
		}
	}
	return true
}

// acts reports whether a terminal does something else with a character than to show it:
// control characters, and those that change the direction of what follows, or hide.
func acts(r rune) bool {
	switch {
	case r < ' ', r >= 0x7f && r <= 0x9f:
	case r == 0x061c, r == 0x200e, r == 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2066 && r <= 0x206f:
	case r == 0x2028, r == 0x2029, r == 0xfeff, r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe007f:
	default:
		return false
	}
	return true
}

// JSON is JSON that a terminal can show: what would act on it, which JSON allows in texts,
// is written as an escape. The values stay the same.
func JSON(text []byte) []byte {
	if !bytes.ContainsFunc(text, hidden) {
		return text
	}
	var b bytes.Buffer
	for _, r := range string(text) {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.Bytes()
}

// NewEncoder returns an encoder whose values go to out as JSON shows them.
func NewEncoder(out io.Writer) *json.Encoder {
	e := json.NewEncoder(shown{out})
	e.SetEscapeHTML(false)
	return e
}

// shown passes on whole values, as an encoder writes them.
type shown struct{ to io.Writer }

// Write implements io.Writer.
func (s shown) Write(text []byte) (int, error) {
	if _, err := s.to.Write(JSON(text)); err != nil {
		return 0, err
	}
	return len(text), nil
}

// hidden is acts for JSON, whose encoder has escaped what is below the space in texts.
func hidden(r rune) bool { return r > ' ' && acts(r) }
