package panel

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func TestStretches(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                         "",
		"plain":                    "plain",
		"\x1b[31mred\x1b[0m plain": "<c1>red</> plain",
		"\x1b[1;32mok\x1b[m":       "<b c2>ok</>",
		"\x1b[;1mbold":             "<b>bold</>",
		"\x1b[1mb\x1b[22mn\x1b[3mi\x1b[23m\x1b[4mu\x1b[24m\x1b[2md": "<b>b</>n<i>i</><u>u</><d>d</>",
		"\x1b[97mwhite\x1b[39mplain":                                "<c15>white</>plain",
		"\x1b[38;5;9mbright":                                        "<c9>bright</>",
		"\x1b[38;5;208morange":                                      "<c9>orange</>",
		"\x1b[38;5;232mblack":                                       "<c0>black</>",
		"\x1b[38;5;244mgrey":                                        "<c8>grey</>",
		"\x1b[38;2;0;0;255;1mblue":                                  "<b c12>blue</>",
		"\x1b[38:2:10:140:10mgreen":                                 "<c2>green</>",
		"\x1b[38;5mcut":                                             "cut",
		"\x1b[41;97mno background":                                  "<c15>no background</>",
		"\x1b[48;5;1mno background":                                 "no background",
		"\x1b[2J\x1b[1;1Hcleared\x1b[K":                             "cleared",
		"\x1b]0;title\uFFFDtext":                                    "text",
		"\x1b]8;;http://x\x1b\\link":                                "link",
		"\x1b(Btext\x1b=":                                           "text",
		"end\x1b":                                                   "end",
		"end\x1b[":                                                  "end",
		"end\x1b[12":                                                "end",
		"\x1b[3\u00e9":                                              "\u00e9",
		"\x1b[31ma\x1b[31mb":                                        "<c1>ab</>",
		"\x1b[999999999999999999999mx":                              "x",
	} {
		var b strings.Builder
		for _, s := range styledParts(in) {
			if s.Class == "" {
				b.WriteString(s.Text)
			} else {
				b.WriteString("<" + s.Class + ">" + s.Text + "</>")
			}
		}
		if b.String() != want {
			t.Errorf("%q is %q, want %q", in, b.String(), want)
		}
	}
}

// Whatever a program prints, what is left is text without escapes, in classes of
// the list.
func FuzzStretches(f *testing.F) {
	f.Add("\x1b[1;38;5;208mtext\x1b[0m\x1b]0;x\x1b\\ \x1b(B")
	f.Add("\x1b[38;2;1;2;3;38;5m\x1b[;;;m<script>")
	known := map[string]bool{"b": true, "d": true, "i": true, "u": true}
	for c := range 16 {
		known[style{colour: c + 1}.class()] = true
	}
	f.Fuzz(func(t *testing.T, line string) {
		left := 0
		for _, s := range styledParts(line) {
			left += len(s.Text)
			if strings.ContainsRune(s.Text, esc) || s.Text == "" || utf8.ValidString(line) && !utf8.ValidString(s.Text) {
				t.Errorf("%q has the text %q", line, s.Text)
			}
			for word := range strings.FieldsSeq(s.Class) {
				if !known[word] {
					t.Errorf("%q has the class %q", line, word)
				}
			}
		}
		if left > len(line) || withoutEscapes(line) == "" != (left == 0) {
			t.Errorf("%q: %d bytes are left", line, left)
		}
	})
}

// A line of nothing but sequences takes time by its length, not by its square: a search
// takes each line of a log apart, and any program can print such lines.
func TestStretchesOfHostileLines(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // others may have the processor meanwhile
	defer runtime.UnlockOSThread()
	spent := func() time.Duration {
		var used unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &used); err != nil {
			t.Fatal(err)
		}
		return time.Duration(used.Nano())
	}
	for _, part := range []string{"\x1b]", "\x1b[0mA", "\x1b[1mA\x1b[0mB", "\x1b[", "\x1b", "\x1b("} {
		cost := func(size int) time.Duration {
			line, best := strings.Repeat(part, size/len(part)), time.Hour
			for range 3 {
				began := spent()
				styledParts(line)
				best = min(best, spent()-began)
			}
			return best
		}
		if small, large := cost(32<<10), cost(512<<10); large > 80*small+20*time.Millisecond {
			t.Errorf("%q: %v for 32 KB, %v for 16 times as much", part, small, large)
		}
	}
}
