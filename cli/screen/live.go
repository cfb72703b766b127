package screen

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
	"golang.org/x/text/width"
)

// Live is a block of lines at the end of what was printed, which is drawn again in place,
// within the terminal. Where there is no terminal, it prints each line of the block that
// is not what it was. It is safe for concurrent use.
type Live struct {
	out  io.Writer
	size func() (columns, rows int) // 0 for what is no terminal

	mu     sync.Mutex
	drawn  []string // as they stand on the terminal
	widths []int    // of each
}

// lineEnd ends a line: a terminal that is raw, as for keys, does not return by itself.
const lineEnd = "\x1b[K\r\n"

// NewLive returns an empty block.
func NewLive(out io.Writer) *Live {
	return &Live{out: out, size: func() (int, int) {
		f, is := out.(*os.File)
		if !is {
			return 0, 0
		}
		columns, rows, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 0, 0
		}
		return columns, rows
	}}
}

// Draw replaces the block. Lines hold no control characters but colours, as Escape leaves
// them; what is wider than the terminal is cut, and so is what is higher.
func (l *Live) Draw(lines ...string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	columns, rows := l.size()
	if columns == 0 {
		return l.changes(lines)
	}
	if most := max(rows-1, 1); rows > 0 && len(lines) > most {
		lines = append(slices.Clone(lines[:most-1]), fmt.Sprintf("... and %d more", len(lines)-most+1))
	}
	var b strings.Builder
	l.up(&b, columns)
	l.drawn, l.widths = nil, nil
	for _, line := range lines {
		line = Cut(line, columns-1) // the last column makes some terminals begin another line
		b.WriteString(line + lineEnd)
		l.drawn, l.widths = append(l.drawn, line), append(l.widths, Columns(line))
	}
	b.WriteString("\x1b[J")
	_, err := io.WriteString(l.out, b.String())
	return err
}

// Above prints whole lines that stay, before the block.
func (l *Live) Above(text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	columns, _ := l.size()
	if columns == 0 {
		_, err := io.WriteString(l.out, text)
		return err
	}
	var b strings.Builder
	l.up(&b, columns)
	b.WriteString("\x1b[J" + strings.ReplaceAll(text, "\n", lineEnd))
	for _, line := range l.drawn {
		b.WriteString(line + lineEnd)
	}
	_, err := io.WriteString(l.out, b.String())
	return err
}

// Done leaves the block where it is: what is printed next, or drawn, stands below it.
func (l *Live) Done() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drawn, l.widths = nil, nil
}

// up brings the cursor to where the block begins. A terminal that was made narrower has
// broken its lines since.
func (l *Live) up(b *strings.Builder, columns int) {
	rows := 0
	for _, w := range l.widths {
		rows += max(1, (w+columns-1)/columns)
	}
	if rows > 0 {
		fmt.Fprintf(b, "\x1b[%dA\r", rows)
	}
}

// changes prints the lines that the block did not have before.
func (l *Live) changes(lines []string) error {
	for i, line := range lines {
		if i < len(l.drawn) && l.drawn[i] == line {
			continue
		}
		if _, err := io.WriteString(l.out, line+"\n"); err != nil {
			return err
		}
	}
	l.drawn = slices.Clone(lines)
	return nil
}

// Columns is how many columns a text has on a terminal, without its colours.
func Columns(text string) int {
	n := 0
	for len(text) > 0 {
		if colour := sgr(text); colour > 0 {
			text = text[colour:]
			continue
		}
		r, size := utf8.DecodeRuneInString(text)
		n += columnsOf(r)
		text = text[size:]
	}
	return n
}

// Cut returns the beginning of a text that fits into some columns; where that is not all, it
// ends with "…", and its colours end.
func Cut(text string, columns int) string {
	if Columns(text) <= columns {
		return text
	}
	var b strings.Builder
	left, painted := columns-1, false
	for i := 0; i < len(text); {
		if n := sgr(text[i:]); n > 0 {
			b.WriteString(text[i : i+n])
			painted = true
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(text[i:])
		if left -= columnsOf(r); left < 0 {
			break
		}
		b.WriteString(text[i : i+n])
		i += n
	}
	if columns > 0 {
		b.WriteString("…")
	}
	if painted {
		b.WriteString(reset)
	}
	return b.String()
}

// Pad is a text in exactly some columns, cut or filled; to the right if right.
func Pad(text string, columns int, right bool) string {
	text = Cut(text, columns)
	spaces := strings.Repeat(" ", max(columns-Columns(text), 0))
	if right {
		return spaces + text
	}
	return text + spaces
}

// columnsOf is how many columns a character has: none for what is put over another.
func columnsOf(r rune) int {
	switch k := width.LookupRune(r).Kind(); {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case k == width.EastAsianWide || k == width.EastAsianFullwidth:
		return 2
	}
	return 1
}
