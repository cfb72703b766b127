package app

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"plain\twords\n":                  "plain\twords\n",
		"\x1b[31mred\x1b[0m":              "red",
		"\x1b]0;a title\x07words":         "words",
		"\x1b]8;;https://x\x1b\\link":     "link",
		"a\x00b\x7fc\u009fd\u202ee\u2066": "abcde",
		"olá, שלום\u200f":                 "olá, שלום\u200f",
		"half of a sequence \x1b[":        "half of a sequence ",
	} {
		if got := Printable(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
