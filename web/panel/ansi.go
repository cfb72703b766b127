package panel

import (
	"strconv"
	"strings"
)

// styled is text of one style. Class is "" or words of a fixed list: b, d, i and u
// for bold, dim, italic and underlined, and c0 to c15 for a colour.
type styled struct{ Class, Text string }

// style is what escape sequences have chosen.
type style struct {
	on     [5]bool // by its code: bold 1, dim 2, italic 3, underlined 4
	colour int     // from 1, 0 for none
}

func (k style) class() string {
	var words []string
	for code, word := range [...]string{1: "b", 2: "d", 3: "i", 4: "u"} {
		if k.on[code] {
			words = append(words, word)
		}
	}
	if k.colour > 0 {
		words = append(words, "c"+strconv.Itoa(k.colour-1))
	}
	return strings.Join(words, " ")
}

const esc = '\x1b'

// styledParts parses a line with the escape sequences of terminals (ECMA-48).
// Of SGR it understands what changes letters; backgrounds are left out, for what is
// written on them could not be read in every theme. All other sequences are dropped.
// Each line begins without a style: most programs reset theirs at its end.
func styledParts(line string) []styled {
	var all []styled
	var k style
	var text []byte // of the part that goes on, with this class
	class := ""
	finish := func() {
		if len(text) > 0 {
			all = append(all, styled{class, string(text)})
		}
		text = text[:0]
	}
	for line != "" {
		n := strings.IndexByte(line, esc)
		if n < 0 {
			n = len(line)
		}
		if n > 0 {
			if now := k.class(); now != class {
				finish()
				class = now
			}
			text, line = append(text, line[:n]...), line[n:]
			continue
		}
		var final byte
		var parameters string
		final, parameters, line = sequence(line[1:])
		if final == 'm' {
			k.choose(parameters)
		}
	}
	finish()
	return all
}

// withoutEscapes is a line without escape sequences.
func withoutEscapes(line string) string {
	if strings.IndexByte(line, esc) < 0 {
		return line
	}
	var b strings.Builder
	for _, s := range styledParts(line) {
		b.WriteString(s.Text)
	}
	return b.String()
}

// sequence cuts off one sequence, the ESC of which is gone already, and returns its
// final byte if it is a control sequence, with its parameters.
func sequence(s string) (final byte, parameters, rest string) {
	switch {
	case s == "":
		return 0, "", ""
	case s[0] == '[':
		for i := 1; i < len(s); i++ {
			if s[i] >= 0x40 && s[i] <= 0x7e {
				return s[i], s[1:i], s[i+1:]
			}
			if s[i] < 0x20 || s[i] > 0x7e { // it was cut: this is text again
				return 0, "", s[i:]
			}
		}
		return 0, "", ""
	case s[0] == ']': // up to BEL, which logs replace, or ST; another sequence ends it too
		inner, _, _ := strings.Cut(s, string(esc))
		if strings.HasPrefix(s[len(inner):], "\x1b\\") {
			return 0, "", s[len(inner)+2:]
		}
		if i := strings.Index(inner, "\uFFFD"); i >= 0 {
			return 0, "", s[i+len("\uFFFD"):]
		}
		return 0, "", s[1:]
	}
	rest = strings.TrimLeft(s, " !\"#$%&'()*+,-./") // as of a character set
	if rest != "" && rest[0] > 0x20 && rest[0] < 0x7f {
		rest = rest[1:]
	}
	return 0, "", rest
}

// choose applies the parameters of SGR.
func (k *style) choose(parameters string) {
	codes := strings.FieldsFunc(strings.ReplaceAll(parameters, ";;", ";0;"), func(r rune) bool { return r == ';' || r == ':' })
	if len(codes) == 0 {
		*k = style{}
	}
	for len(codes) > 0 {
		n, err := strconv.Atoi(codes[0])
		if codes = codes[1:]; err != nil {
			return
		}
		if n == 38 || n == 48 || n == 58 {
			var colour int
			colour, codes = indexed(codes)
			if n == 38 {
				k.colour = colour
			}
			continue
		}
		k.one(n)
	}
}

// one applies a code that needs no more.
func (k *style) one(n int) {
	switch {
	case n == 0:
		*k = style{}
	case n >= 1 && n <= 4:
		k.on[n] = true
	case n == 22:
		k.on[1], k.on[2] = false, false
	case n == 23, n == 24:
		k.on[n-20] = false
	case n >= 30 && n <= 37:
		k.colour = n - 30 + 1
	case n == 39:
		k.colour = 0
	case n >= 90 && n <= 97:
		k.colour = n - 90 + 8 + 1
	}
}

// indexed reads a colour of 256 or of 16 million and returns the one of 16 that is
// nearest, from 1.
func indexed(codes []string) (colour int, rest []string) {
	number := func(i int) int {
		n, err := strconv.Atoi(codes[i])
		if err != nil || n < 0 || n > 255 {
			return 0
		}
		return n
	}
	switch {
	case len(codes) >= 2 && codes[0] == "5":
		switch n := number(1); {
		case n < 16:
			colour = n + 1
		case n >= 232:
			g := 8 + 10*(n-232)
			colour = nearest(g, g, g)
		default:
			steps := [...]int{0, 95, 135, 175, 215, 255}
			n -= 16
			colour = nearest(steps[n/36], steps[n/6%6], steps[n%6])
		}
		return colour, codes[2:]
	case len(codes) >= 4 && codes[0] == "2":
		return nearest(number(1), number(2), number(3)), codes[4:]
	}
	return 0, nil
}

// nearest is the one of the 16 colours, from 1, that a light is most like: by which
// of its parts are strong, and whether it is bright.
func nearest(r, g, b int) int {
	top := max(r, g, b)
	if top < 48 {
		return 1
	}
	colour := 0
	for i, part := range [...]int{r, g, b} {
		if part*10 >= top*6 {
			colour |= 1 << i
		}
	}
	if colour == 7 && top < 170 {
		return 8 + 1 // grey
	}
	if top >= 200 {
		colour += 8
	}
	return colour + 1
}
