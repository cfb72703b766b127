package files

import "testing"

func TestPathsSurviveJSON(t *testing.T) {
	for _, path := range []string{"a", odd, "é/\u2028", "a\nb\x00\x7f", "\xed\xa0\x80", `"\`, "`", "'"} {
		text, err := pathStr(path).MarshalText()
		must(t, err)
		var back pathStr
		must(t, back.UnmarshalText(text))
		if string(back) != path {
			t.Errorf("%q became %q", path, back)
		}
	}
}
