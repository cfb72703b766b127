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

// Readers of .env files disagree: dotenv for Node.js ends an unquoted value at every #, and Docker
// Compose expands $. This is what berth makes of each line, everywhere.
func TestParseEnv(t *testing.T) {
	for line, want := range map[string]string{
		"A=abc":                          "abc",
		"A=abc.def # my token":           "abc.def",
		"A=abc.def\t# my token":          "abc.def",
		"A=abc#def":                      "abc#def",
		"A=#ff0000":                      "#ff0000",
		"A= # fill in":                   "",
		"A=":                             "",
		"A =  a b  ":                     "a b",
		"A=\"a b\" # note":               "a b",
		"A=\"a b\"# note":                "a b",
		"A='a # b'":                      "a # b",
		`A="line1\nline2"`:               "line1\nline2",
		`A='line1\nline2'`:               `line1\nline2`,
		"export A=yes":                   "yes",
		"export  A = yes":                "yes",
		"\ufeffA=yes\r\n":                "yes",
		"A=\"first\nsecond\"":            "first\nsecond",
		"A='first\r\n# second' # note":   "first\n# second",
		"A=\"say \\\"hi\\\" # now\"":     `say "hi" # now`,
		`A="C:\\dir\\" # note`:           `C:\dir\`,
		"A=pa$$word":                     "pa$$word",
		"A=${PLAIN}-x":                   "${PLAIN}-x",
		"A=`id` # note":                  "`id`",
		`A={"a": "b # c"}`:               `{"a": "b # c"}`,
		"A=it's # a note":                "it's",
		"A=it's # Bob's note":            "it's",
		`A=5" # a size`:                  `5"`,
		`A=" # " # note`:                 " # ",
		"A=postgres://u:p%23w@h/d?x=a":   "postgres://u:p%23w@h/d?x=a",
		"# A=1\n\n \t\nA=\"b\n\n#c\" \n": "b\n\n#c",
	} {
		got, err := ParseEnv(line)
		if err != nil || len(got) != 1 || got["A"] == nil || *got["A"] != want {
			t.Errorf("%q: %v, %v; want %q", line, got, err, want)
			continue
		}
		more, err := ParseEnv(line + "\nLAST=1\n")
		if err != nil || *more["A"] != want || more["LAST"] == nil || len(more) != 2 {
			t.Errorf("%q and a line: %v, %v", line, more, err)
		}
	}
	for text, want := range map[string]string{
		"":                          "there is no line with NAME=VALUE",
		"# A=1\n":                   "there is no line with NAME=VALUE",
		"A=1\nsecret":               "line 2 is not NAME=VALUE",
		"A=1\nB='secret\nC=3\n":     "the quotes in line 2 do not close",
		"A=\"secret\\\"":            "the quotes in line 1 do not close",
		"A='x\ny' secret\n":         "line 2 has more than a comment behind the quotes",
		"A='x\ny'\nB=1\nB=secret":   "line 4 sets a variable for the second time",
		"A='x\ny'\n\nsecret = 1\nz": "line 5 is not NAME=VALUE",
	} {
		if got, err := ParseEnv(text); err == nil || err.Error() != want {
			t.Errorf("%q: %v, %v; want %q", text, got, err, want)
		}
	}
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
