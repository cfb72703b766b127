package text

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// spokenHere has entries of its own, so that these tests hold whatever the real
// sentences are.
func spokenHere(t *testing.T, entries ...string) Language {
	t.Helper()
	file := strings.Join(entries, "\n")
	if _, err := parse(file); err != nil {
		t.Fatal(err)
	}
	return Language{newCatalogue("pt-BR", file)}
}

type cause struct {
	format string
	args   []any
}

func (c cause) Phrase() (string, []any) { return c.format, c.args }
func (c cause) Error() string           { return fmt.Sprintf(c.format, c.args...) }

func TestSay(t *testing.T) {
	portuguese := spokenHere(t,
		`"cannot start: %v" = "não foi possível iniciar: %v"`,
		`"it has %d MB" = "ela tem %d MB"`,
		`"the log of %s" = "o log de %s"`,
		`"the permission %s for %q" = "em %[2]q, a permissão %[1]s"`)
	for _, c := range []struct {
		format, english, own string
		args                 []any
	}{
		{"it has %d MB", "it has 64 MB", "ela tem 64 MB", []any{64}},
		{"the permission %s for %q", `the permission logs for "bot"`, `em "bot", a permissão logs`, []any{"logs", "bot"}},
		{"cannot start: %v", "cannot start: it has 64 MB", "não foi possível iniciar: ela tem 64 MB", []any{cause{"it has %d MB", []any{64}}}},
		{
			"cannot start: %v", "cannot start: cannot start: the log of x", "não foi possível iniciar: não foi possível iniciar: o log de x",
			[]any{cause{"cannot start: %v", []any{cause{"the log of %s", []any{"x"}}}}},
		},
		{
			"cannot start: %v", "cannot start: on the way: it has 64 MB", "não foi possível iniciar: on the way: ela tem 64 MB",
			[]any{fmt.Errorf("on the way: %w", cause{"it has %d MB", []any{64}})},
		},
		{"cannot start: %v", "cannot start: EOF", "não foi possível iniciar: EOF", []any{io.EOF}},
		{"it has %d MB", "it has 28 MB", "ela tem 28 MB", []any{syscall.ENOSPC}},
		{"nobody translated %d%%", "nobody translated 3%", "nobody translated 3%", []any{3}},
		// An argument is no key, whatever it says, nor a format.
		{"the log of %s", "the log of %d it has %d MB", "o log de %d it has %d MB", []any{"%d it has %d MB"}},
	} {
		if got := (Language{}).Say(c.format, c.args...); got != c.english {
			t.Errorf("%q in English is %q, want %q", c.format, got, c.english)
		}
		if got := portuguese.Say(c.format, c.args...); got != c.own {
			t.Errorf("%q in Portuguese is %q, want %q", c.format, got, c.own)
		}
	}
}

// What was given stays what it was: a handler says the same arguments twice, to
// the log and to the client.
func TestSayLeavesArguments(t *testing.T) {
	args := []any{cause{"it has %d MB", []any{64}}}
	before := fmt.Sprint(args...)
	_ = spokenHere(t, `"it has %d MB" = "ela tem %d MB"`).Say("%v", args...)
	if after := fmt.Sprint(args...); after != before {
		t.Errorf("the argument was %q and is %q", before, after)
	}
}

func TestIn(t *testing.T) {
	for locale, tag := range map[string]string{
		"en-US": "en-US", "pt-BR": "pt-BR", "": "en-US", "pt": "en-US", "PT-BR": "en-US", "tlh": "en-US", "es": "es", "es-ES": "en-US",
	} {
		if got := In(locale).Tag(); got != tag {
			t.Errorf("In(%q) speaks %s, want %s", locale, got, tag)
		}
	}
}

func TestAccept(t *testing.T) {
	for header, tag := range map[string]string{
		"":                                    "en-US",
		"pt-BR":                               "pt-BR",
		"pt":                                  "pt-BR",
		"pt-PT":                               "pt-BR",
		"PT-br":                               "pt-BR",
		"pt-BR,pt;q=0.9,en-US;q=0.8,en;q=0.7": "pt-BR",
		"en-US,en;q=0.9,pt-BR;q=0.8":          "en-US",
		"en;q=0.5, pt;q=0.6":                  "pt-BR",
		"en;q=0.5,pt;q=0.5":                   "en-US",
		"de-DE, pt;q=0.1":                     "pt-BR",
		"de-DE, fr":                           "en-US",
		"*":                                   "en-US",
		"pt;q=0":                              "en-US",
		"pt;q=-1":                             "en-US",
		"pt;q=2":                              "en-US",
		"pt;q=NaN":                            "en-US",
		"pt;q=Inf":                            "en-US",
		"pt;q=x":                              "en-US",
		"ptx":                                 "en-US",
		"es":                                  "es",
		"es-ES":                               "es",
		"es-MX":                               "es",
		"es-419":                              "es",
		"ES-ar":                               "es",
		"es-419,es;q=0.9,en;q=0.8":            "es",
		"gl-ES,gl;q=0.9,es;q=0.8,en;q=0.7":    "es",
		"pt;q=0.5, es-CO;q=0.6":               "es",
		"est":                                 "en-US",
		",,;;q=,=;pt":                         "en-US",
		strings.Repeat("pt;q=0,", 9999):       "en-US",
	} {
		if got := Accept(header).Tag(); got != tag {
			t.Errorf("%.60q asks for %s, want %s", header, got, tag)
		}
	}
}

func TestCount(t *testing.T) {
	portuguese := spokenHere(t, `"%d site" = "%d site."`, `"%d sites" = "%d sites."`)
	for n, want := range map[int][2]string{0: {"0 sites", "0 sites."}, 1: {"1 site", "1 site."}, 2: {"2 sites", "2 sites."}} {
		for i, l := range []Language{{}, portuguese} {
			if got := l.Count(n, "%d site", "%d sites", n); got != want[i] {
				t.Errorf("%s counts %q, want %q", l.Tag(), got, want[i])
			}
		}
	}
}

func TestNumberAndTime(t *testing.T) {
	portuguese, spanish, noon := In("pt-BR"), In("es"), time.Date(2026, 3, 4, 12, 5, 59, 0, time.UTC)
	for got, want := range map[string]string{
		Language{}.Number(1234.56, 1): "1234.6", portuguese.Number(1234.56, 1): "1234,6",
		Language{}.Number(2, 0): "2", portuguese.Number(3, 0): "3", spanish.Number(1234.5, 2): "1234,50",
		Language{}.Time(noon): "2026-03-04 12:05", portuguese.Time(noon): "04/03/2026 12:05", spanish.Time(noon.AddDate(1, 0, 0)): "04/03/2027 12:05",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, file := range []string{
		`"a" "b"`, `"a" = `, `"a" = "b" # why`, `a = b`, `"a`, `"a"="b"`, `"a" = ""`, `"" = "b"`,
		"\"b\" = \"x\"\n\"a\" = \"x\"", "\"a\" = \"x\"\n\"a\" = \"x\"",
	} {
		if entries, err := parse(file); err == nil {
			t.Errorf("%s is taken for %q", file, entries)
		}
	}
	if got, err := parse("\n# a comment\n\"a\\n\" = \"\\\"b\\\"\"\n"); err != nil || got["a\n"] != `"b"` {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestCataloguesAreRead(t *testing.T) {
	var all sync.WaitGroup
	for _, c := range catalogues {
		for range 8 {
			all.Go(func() { _ = Language{c}.Say("The API token is not valid.") })
		}
		if len(c.read()) == 0 {
			t.Errorf("the catalogue of %s is empty", c.tag)
		}
	}
	all.Wait()
}
