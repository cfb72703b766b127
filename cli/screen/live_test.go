package screen

import (
	"strings"
	"testing"
)

func TestColumns(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "abc": 3, "世界": 4, "é": 1, "e\u0301": 1, "🚀": 2, "\x1b[31mred\x1b[0m": 3, "ﾊ": 1, "Ａ": 2,
	} {
		if got := Columns(text); got != want {
			t.Errorf("%q has %d columns, want %d", text, got, want)
		}
	}
}

func TestCutAndPad(t *testing.T) {
	for _, tt := range []struct {
		text    string
		columns int
		cut     string
		padded  string
	}{
		{"abc", 3, "abc", "abc"},
		{"abc", 5, "abc", "abc  "},
		{"abcdef", 4, "abc…", "abc…"},
		{"世界世界", 4, "世…", "世… "},
		{"世界", 4, "世界", "世界"},
		{"\x1b[31mabcdef\x1b[0m", 4, "\x1b[31mabc…\x1b[0m", "\x1b[31mabc…\x1b[0m"},
		{"abc", 1, "…", "…"},
		{"abc", 0, "", ""},
	} {
		if got := Cut(tt.text, tt.columns); got != tt.cut {
			t.Errorf("%q in %d columns is %q, want %q", tt.text, tt.columns, got, tt.cut)
		}
		if got := Pad(tt.text, tt.columns, false); got != tt.padded {
			t.Errorf("%q padded to %d is %q, want %q", tt.text, tt.columns, got, tt.padded)
		}
	}
	if got := Pad("12", 4, true); got != "  12" {
		t.Errorf("to the right: %q", got)
	}
}

// live is a block on a terminal of a size.
func live(columns, rows int) (*Live, *strings.Builder) {
	var out strings.Builder
	l := NewLive(&out)
	l.size = func() (int, int) { return columns, rows }
	return l, &out
}

func TestLiveIsDrawnInPlace(t *testing.T) {
	l, out := live(20, 10)
	step := func(do func() error, want string) {
		t.Helper()
		out.Reset()
		if err := do(); err != nil || out.String() != want {
			t.Errorf("printed %q, %v, want %q", out.String(), err, want)
		}
	}
	step(func() error { return l.Draw("one", "two") }, "one\x1b[K\r\ntwo\x1b[K\r\n\x1b[J")
	step(func() error { return l.Draw("1") }, "\x1b[2A\r1\x1b[K\r\n\x1b[J")
	step(func() error { return l.Above("stays\n") }, "\x1b[1A\r\x1b[Jstays\x1b[K\r\n1\x1b[K\r\n")
	step(func() error { return l.Draw("a line that is too wide") }, "\x1b[1A\ra line that is too…\x1b[K\r\n\x1b[J")
	l.size = func() (int, int) { return 10, 10 } // the line is two now
	step(func() error { return l.Draw("x") }, "\x1b[2A\rx\x1b[K\r\n\x1b[J")
	l.Done()
	step(func() error { return l.Draw("below") }, "below\x1b[K\r\n\x1b[J")
	l, out = live(20, 4)
	step(func() error { return l.Draw("1", "2", "3", "4", "5") }, "1\x1b[K\r\n2\x1b[K\r\n... and 3 more\x1b[K\r\n\x1b[J")
}

// Without a terminal each change is a line.
func TestLiveWithoutATerminal(t *testing.T) {
	l, out := live(0, 0)
	for _, lines := range [][]string{{"a", "b"}, {"a", "b"}, {"a", "c"}, {"a"}, {"a", "d"}} {
		if err := l.Draw(lines...); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Above("more\n"); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "a\nb\nc\nd\nmore\n" {
		t.Errorf("printed %q", got)
	}
}
