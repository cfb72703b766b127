package screen

import (
	"encoding/json"
	"strings"
	"testing"
)

// What programs print must not act on the terminal that shows it.
func TestEscape(t *testing.T) {
	for _, tt := range []struct{ name, text, plain, coloured string }{
		{"text", "olá 👩‍🚀\tx\n", "olá 👩‍🚀\tx\n", "olá 👩‍🚀\tx\n"},
		{"colours", "\x1b[1;31mred\x1b[0m", "red", "\x1b[1;31mred\x1b[0m\x1b[0m"},
		{"a colour ends with its line", "\x1b[31mred\nplain\n", "red\nplain\n", "\x1b[31mred\x1b[0m\nplain\n"},
		{"colours of 24 bits", "\x1b[38:2::1:2:3mx", "x", "\x1b[38:2::1:2:3mx\x1b[0m"},
		{"a colour of 256 whose number is 8", "\x1b[38;5;8mx", "x", "\x1b[38;5;8mx\x1b[0m"},
		{"a colour whose parts are 5 and 8", "\x1b[48;2;5;8;6mx", "x", "\x1b[48;2;5;8;6mx\x1b[0m"},
		{"text that is hidden", "\x1b[8mrm -rf", `\x1b[8mrm -rf`, `\x1b[8mrm -rf`},
		{"hidden among colours", "\x1b[31;08mx", `\x1b[31;08mx`, `\x1b[31;08mx`},
		{"hidden behind a colour", "\x1b[38;5;1;8mx", `\x1b[38;5;1;8mx`, `\x1b[38;5;1;8mx`},
		{"blinking", "\x1b[5;1mx", `\x1b[5;1mx`, `\x1b[5;1mx`},
		{"a link, OSC 8", "\x1b]8;;http://x\x1b\\y", `\x1b]8;;http://x\x1b\y`, `\x1b]8;;http://x\x1b\y`},
		{"the other screen", "\x1b[?1049h", `\x1b[?1049h`, `\x1b[?1049h`},
		{"asking the terminal", "\x1b[c\x1b[6n\x05", `\x1b[c\x1b[6n\x05`, `\x1b[c\x1b[6n\x05`},
		{"another character set", "\x1b(0\x0e", `\x1b(0\x0e`, `\x1b(0\x0e`},
		{"clear the screen", "\x1b[2Jx", `\x1b[2Jx`, `\x1b[2Jx`},
		{"the cursor", "\x1b[10A", `\x1b[10A`, `\x1b[10A`},
		{"a private sequence that ends as colours do", "\x1b[>4;1mx", `\x1b[>4;1mx`, `\x1b[>4;1mx`},
		{"the clipboard, OSC 52", "\x1b]52;c;ZWNobw==\a", `\x1b]52;c;ZWNobw==\x07`, `\x1b]52;c;ZWNobw==\x07`},
		{"the title", "\x1b]0;root\x1b\\", `\x1b]0;root\x1b\`, `\x1b]0;root\x1b\`},
		{"a device control string", "\x1bP+q544e\x1b\\", `\x1bP+q544e\x1b\`, `\x1bP+q544e\x1b\`},
		{"C1 in UTF-8", "\u009b2J\u009d0;x\u009c", `\u009b2J\u009d0;x\u009c`, `\u009b2J\u009d0;x\u009c`},
		{"C1 as a byte", "\x9b2J", `\x9b2J`, `\x9b2J`},
		{"a line written over", "secret\rpublic\b\v\f\x00\x7f", `secret\x0dpublic\x08\x0b\x0c\x00\x7f`, `secret\x0dpublic\x08\x0b\x0c\x00\x7f`},
		{"the direction", "a\u202egpj.exe\u2066\u200f", `a\u202egpj.exe\u2066\u200f`, `a\u202egpj.exe\u2066\u200f`},
		{"tags", "a\U000e0041", `a\ue0041`, `a\ue0041`},
		{"an escape at the end", "x\x1b", `x\x1b`, `x\x1b`},
		{"half a colour", "\x1b[31", `\x1b[31`, `\x1b[31`},
		{"no UTF-8", "\xff\xc3", `\xff\xc3`, `\xff\xc3`},
	} {
		if got := Escape(tt.text, false); got != tt.plain {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.plain)
		}
		if got := Escape(tt.text, true); got != tt.coloured {
			t.Errorf("%s in colour: %q, want %q", tt.name, got, tt.coloured)
		}
	}
	if got := Escape("\x1b["+strings.Repeat("1;", 100)+"m", true); !strings.HasPrefix(got, `\x1b[1;`) {
		t.Errorf("a sequence without end: %.20q", got)
	}
}

// What JSON says stays the same, and a terminal shows it.
func TestJSON(t *testing.T) {
	for _, value := range []string{"olá 👩‍🚀", "\u009b2J\x7f\u202e\u2028", "\x1b]0;x\a\n", "a\U000e0041"} {
		text, err := json.Marshal([]string{value})
		if err != nil {
			t.Fatal(err)
		}
		shown := JSON(text)
		var back []string
		if err := json.Unmarshal(shown, &back); err != nil || back[0] != value {
			t.Errorf("%q becomes %q: %v", value, back, err)
		}
		if strings.ContainsFunc(string(shown), acts) {
			t.Errorf("%q becomes %s", value, shown)
		}
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("a\x1b[31mb\x1b]0;x\a\u202e\x9b")
	f.Fuzz(func(t *testing.T, text string) {
		for line := range strings.Lines(Escape(text, false)) {
			if strings.ContainsFunc(strings.TrimRight(line, "\n"), func(r rune) bool { return r != '\t' && acts(r) }) {
				t.Errorf("%q becomes %q", text, line)
			}
		}
	})
}
