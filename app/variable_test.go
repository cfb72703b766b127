package app

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestMasked(t *testing.T) {
	for value, want := range map[string]string{
		"":                                       "****",
		"1":                                      "****",
		strings.Repeat("x", 19):                  "****",
		strings.Repeat("x", 16) + "abcd":         "****abcd",
		strings.Repeat("é", 19):                  "****",
		strings.Repeat("é", 20):                  "****éééé",
		strings.Repeat("x", 5000) + "WXYZ":       "****WXYZ",
		"-----BEGIN KEY-----\nabc\n-----END--\n": "****",
		strings.Repeat("x", 30) + "\x1b[2J":      "****",
		strings.Repeat("x", 30) + "\u202eabc":    "****",
		strings.Repeat("x", 30) + "\xff\xffab":   "****",
	} {
		if got := (Variable{"A", value}).Masked(); got != want {
			t.Errorf("%q is masked as %q, want %q", value, got, want)
		}
	}
}

// However a variable is printed by mistake, its value is not.
func TestVariablesDoNotPrintTheirValues(t *testing.T) {
	const secret = "hunter2-hunter2"
	p := Program{App: "shop", Variables: []Variable{{"TOKEN", secret}}}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, printed := range []string{
		fmt.Sprint(p), fmt.Sprintf("%v", p), fmt.Sprintf("%+v", p), fmt.Sprintf("%#v", p), fmt.Sprintf("%s %q", p.Variables[0], p.Variables), string(text),
	} {
		if strings.Contains(printed, secret) || !strings.Contains(printed, "TOKEN=****") {
			t.Errorf("printed %s", printed)
		}
	}
}

func FuzzMasked(f *testing.F) {
	for _, seed := range []string{"", "short", strings.Repeat("long", 9), "\xff\xfe", strings.Repeat("\x00", 40)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		got := Variable{"A", value}.Masked()
		tail, masked := strings.CutPrefix(got, "****")
		if !masked || len([]rune(tail)) > 4 || !strings.HasSuffix(value, tail) || tail != "" && len([]rune(value)) < 20 {
			t.Errorf("%q is masked as %q", value, got)
		}
	})
}

// What FormatEnv writes, ParseEnv reads.
func TestEnvBothWays(t *testing.T) {
	all := []Variable{
		{"EMPTY", ""},
		{"PLAIN", "value"},
		{"SPACE", " a b "},
		{"QUOTE", `it's "so"`},
		{"LINES", "a\nb\r\nc"},
		{"BACK", `a\b\n`},
		{"BACKQ", `'\n`},
		{"HASH", "a # b"},
		{"DOLLAR", "$HOME ${X} $(id)"},
		{"COMMAND", "it's $(id) `id` ${HOME} \\$(id)"},
		{"UTF", "olá \u00a0"},
		{"EQUALS", "a=b="},
	}
	text := "# comment\n\nexport " + FormatEnv(all)
	got, err := ParseEnv(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range all {
		if got[v.Name] == nil || *got[v.Name] != v.Value {
			t.Errorf("%s was %q", v.Name, v.Value)
		}
	}
	if len(got) != len(all) {
		t.Errorf("%d variables, want %d", len(got), len(all))
	}
}
