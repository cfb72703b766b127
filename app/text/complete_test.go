package text

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func newSource(t *testing.T) *source {
	t.Helper()
	return &source{t: t, set: token.NewFileSet(), consts: map[string]ast.Expr{}, said: map[string]string{}, called: map[string]bool{}}
}

// TestComplete: every catalogue has every sentence of the program, and no other.
func TestComplete(t *testing.T) {
	s := newSource(t)
	s.read("../..")
	for _, why := range s.wrong {
		t.Error(why)
	}
	for name := range sayers {
		if !s.called[name] && !strings.HasPrefix(name, "template.") && !strings.HasPrefix(name, "(method).") {
			t.Errorf("nobody calls %s, of which sayers speaks", name)
		}
	}
	if len(s.said) < 300 {
		t.Fatalf("only %d sentences were found", len(s.said))
	}
	for _, c := range catalogues {
		t.Run(c.tag, func(t *testing.T) { complete(t, s, c.read()) })
	}
}

// complete holds one catalogue against what the program says. What it lacks, and what nobody
// says, are two lists of one sentence a line, to be taken into an editor.
func complete(t *testing.T, s *source, entries map[string]string) {
	t.Helper()
	var lacking, unsaid []string
	for _, sentence := range slices.Sorted(maps.Keys(s.said)) {
		own, there := entries[sentence]
		switch {
		case !there && says(sentence):
			lacking = append(lacking, fmt.Sprintf("%q = \"\" # %s", sentence, s.said[sentence]))
		case there:
			alike(t, sentence, own)
		}
	}
	for _, sentence := range slices.Sorted(maps.Keys(entries)) {
		if _, used := s.said[sentence]; !used {
			unsaid = append(unsaid, strconv.Quote(sentence))
		}
	}
	if len(lacking) > 0 {
		t.Errorf("%d sentences are not translated:\n%s", len(lacking), strings.Join(lacking, "\n"))
	}
	if len(unsaid) > 0 {
		t.Errorf("nobody says these %d sentences:\n%s", len(unsaid), strings.Join(unsaid, "\n"))
	}
}

// alike holds a translation against the sentence: code puts both into the same
// places of longer ones.
func alike(t *testing.T, sentence, own string) {
	t.Helper()
	if err := sameVerbs(sentence, own); err != nil {
		t.Error(err)
	}
	first, _ := utf8.DecodeRuneInString(sentence)
	ownFirst, _ := utf8.DecodeRuneInString(own)
	if unicode.IsUpper(first) && unicode.IsLower(ownFirst) || (first == ' ' || first == ';') && first != ownFirst {
		t.Errorf("%q and %q begin in different ways", sentence, own)
	}
	const ends = ".?!:"
	last, ownLast := sentence[len(sentence)-1], own[len(own)-1]
	if last != ownLast && (strings.IndexByte(ends, last) >= 0 || strings.IndexByte(ends, ownLast) >= 0) {
		t.Errorf("%q and %q end in different ways", sentence, own)
	}
}

// TestTone: sentences are plain, and one language has one word for a thing.
func TestTone(t *testing.T) {
	never := map[string]*regexp.Regexp{
		"en-US": regexp.MustCompile(`(?i)\b(please|sorry|oops|simply)\b`),
		"pt-BR": regexp.MustCompile(`(?i)\b(por favor|desculpe|ops|ficheiro|utilizador|ecrã)\b`),
		"es":    regexp.MustCompile(`(?i)\b(por favor|lo sentimos|usted|vosotros|vos|fichero|ordenador|cabecera|aplicativo)s?\b`),
	}
	for _, c := range catalogues {
		if never[c.tag] == nil {
			t.Errorf("no words are known that %s must not have", c.tag)
			continue
		}
		for sentence, own := range c.read() {
			// Names of settings, fields and commands are English everywhere, and stand in both.
			if word := never[c.tag].FindString(own); word != "" && !strings.Contains(sentence, word) {
				t.Errorf("%s: %q has the word %q", c.tag, own, word)
			}
			if word := never[english].FindString(sentence); word != "" {
				t.Errorf("%q has the word %q", sentence, word)
			}
		}
	}
}

// TestCompletenessSeesMistakes: the test above is worth what it finds.
func TestCompletenessSeesMistakes(t *testing.T) {
	const head = "package host\n\nimport (\n\t\"berth/app\"\n\t\"strings\"\n)\n\nconst three = \"three %d\"\n\n"
	for body, want := range map[string]string{
		`var x = app.Errorf(app.Invalid, "one %s", "a")`:                    "one %s",
		`var x = app.Textf("one " + ("two " + three), 3)`:                   "one two three %d",
		`func f(l Language) string { return l.Say("two") }`:                 "two",
		`func f(l Language) string { return l.Count(1, "a", "b") }`:         "a|b",
		`func (u *unit) busy(w string) { app.Words(w); u.busy("offline") }`: "offline",
		`var x = strings.Count("one", "two")`:                               "",
		`func f(w string) { app.Words(w) }`:                                 "!must be a literal",
		`func f() { const four = "4"; app.Words(four) }`:                    "!must be a literal",
		`func f() { w := "4"; app.Words(w) }`:                               "!must be a literal",
		`func f() { app.Textf("a" + g()) }`:                                 "!must be a literal",
		`func f(l Language, s string) string { return l.Say(s) }`:           "!must be a literal",
		`func f(l Language) int { return l.Count() }`:                       "!no argument",
	} {
		dir := t.TempDir()
		if err := os.Mkdir(filepath.Join(dir, "host"), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "host", "x.go"), []byte(head+body), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSource(t)
		s.read(dir)
		checkFound(t, body, s, want)
	}
	for content, want := range map[string]string{
		`<p>{{t "one"}} {{if .X}}{{range .Y}}{{t "two %d" .N | print}}{{else}}{{(t "three")}}{{end}}{{end}}`: "one|three|two %d",
		`{{define "x"}}{{template "y" (t "in")}}{{end}}{{with t "w"}}{{end}}`:                                "in|w",
		`{{count 2 "a" "b" .N}}`:    "a|b",
		`{{.T "no"}}{{print "no"}}`: "",
		`{{t .X}}`:                  "!must be a literal",
		`{{t}}`:                     "!must be a literal",
		`{{count 2 "a"}}`:           "!must be a literal",
		`{{if}}`:                    "!missing value",
	} {
		s := newSource(t)
		s.template("page.html", content)
		checkFound(t, content, s, want)
	}
}

// checkFound compares what was found with "a|b", or the mistake with "!why".
func checkFound(t *testing.T, what string, s *source, want string) {
	t.Helper()
	got := strings.Join(slices.Sorted(maps.Keys(s.said)), "|")
	mistake, expected := strings.CutPrefix(want, "!")
	wrong := strings.Join(s.wrong, "\n")
	if expected && !strings.Contains(wrong, mistake) || !expected && (got != want || wrong != "") {
		t.Errorf("%s: found %q and %q, want %q", what, got, wrong, want)
	}
}

func TestVerbs(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"%s and %d", "%[2]d e %[1]s", true},
		{"%s and %d", "%d e %s", false},
		{"%.40q", "%.40q!", true},
		{"%.40q", "%q", false},
		{"100%%", "cem", true},
		{"%s", "nothing", false},
		{"%s", "%s %[1]s", false},
		{"%", "%", false},
		{"%[x]s", "%s", false},
		{"%*d", "%*d", false},
		{"%é", "%é", false},
	} {
		if err := sameVerbs(c.a, c.b); (err == nil) != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, err)
		}
	}
	for format, want := range map[string]bool{"%s: %v.": false, "%[2]d %.1f 100%%": false, "a": true, "%sx": true, "%d MB": true} {
		if says(format) != want {
			t.Errorf("%q says something: %t", format, !want)
		}
	}
}
