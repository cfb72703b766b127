package host

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

func text(s string) *string { return &s }

func TestChangeVariables(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change map[string]*string
		want   map[string]string
	}{
		{"adds and replaces", map[string]*string{"A": text("2"), "C": text("")}, map[string]string{"A": "2", "B": "b", "C": ""}},
		{"removes", map[string]*string{"A": nil}, map[string]string{"B": "b"}},
		{"removes what is not there", map[string]*string{"Z": nil}, map[string]string{"A": "1", "B": "b"}},
		{"takes any text", map[string]*string{"A": text("a=b\n\t\"$x\" \U0001F511\x01")}, map[string]string{"A": "a=b\n\t\"$x\" \U0001F511\x01", "B": "b"}},
		{
			"takes what berth sets for convenience, and what the linker reads",
			map[string]*string{"PATH": text("/x"), "LANG": text("C"), "NODE_ENV": text("test"), "PYTHONUNBUFFERED": text(""), "LD_PRELOAD": text("x.so"), "home": text("1"), "_": text("")},
			map[string]string{"A": "1", "B": "b", "PATH": "/x", "LANG": "C", "NODE_ENV": "test", "PYTHONUNBUFFERED": "", "LD_PRELOAD": "x.so", "home": "1", "_": ""},
		},
		{
			"takes the longest",
			map[string]*string{strings.Repeat("n", 64): text(strings.Repeat("v", 16<<10))},
			map[string]string{"A": "1", "B": "b", strings.Repeat("n", 64): strings.Repeat("v", 16<<10)},
		},
	} {
		set := map[string]string{"A": "1", "B": "b"}
		if err := ChangeVariables(set, tt.change); err != nil || !maps.Equal(set, tt.want) {
			t.Errorf("%s: %v; got %.300q, want %.300q", tt.name, err, set, tt.want)
		}
	}
}

func TestRefusedVariables(t *testing.T) {
	const secret = "hunter2"
	many, much := map[string]*string{}, map[string]*string{}
	for i := range 127 {
		many[fmt.Sprintf("N%d", i)] = text(secret)
	}
	for i := range 4 {
		much[fmt.Sprintf("N%d", i)] = text(strings.Repeat(secret, 2340))
	}
	badName := ` cannot be the name of a variable: letters, digits and _, no digit at its beginning, at most 64 characters`
	for _, tt := range []struct {
		change map[string]*string
		kind   app.Kind
		says   string
	}{
		{nil, app.Invalid, "name at least one variable"},
		{map[string]*string{"": text(secret)}, app.Invalid, `""` + badName},
		{map[string]*string{"MY-KEY": text(secret)}, app.Invalid, `"MY-KEY"` + badName},
		{map[string]*string{"1A": text(secret)}, app.Invalid, `"1A"` + badName},
		{map[string]*string{"É": text(secret)}, app.Invalid, `"É"` + badName},
		{map[string]*string{"A B": nil}, app.Invalid, `"A B"` + badName},
		{map[string]*string{"KEY=" + secret: text("")}, app.Invalid, `"KEY"` + badName},
		{map[string]*string{"A\n\xff": text(secret)}, app.Invalid, `"A\n\xff"` + badName},
		{map[string]*string{strings.Repeat("n", 65): text(secret)}, app.Invalid, `"` + strings.Repeat("n", 64) + `..."` + badName},
		{map[string]*string{"PORT": text(secret)}, app.Invalid, "PORT is set by berth, to what is true for the program: it cannot be changed"},
		{map[string]*string{"HOME": text(secret)}, app.Invalid, "HOME is set by berth, to what is true for the program: it cannot be changed"},
		{map[string]*string{"TMPDIR": nil}, app.Invalid, "TMPDIR is set by berth, to what is true for the program: it cannot be changed"},
		{map[string]*string{"BERTH_APP_ID": text(secret)}, app.Invalid, "BERTH_APP_ID cannot be changed: names that begin with BERTH_ are berth's own"},
		{map[string]*string{"BERTH_X": text(secret)}, app.Invalid, "BERTH_X cannot be changed: names that begin with BERTH_ are berth's own"},
		{map[string]*string{"K": text(secret + "\x00")}, app.Invalid, "the value of K is not text: it must be UTF-8 without NUL"},
		{map[string]*string{"K": text(secret + "\xff")}, app.Invalid, "the value of K is not text: it must be UTF-8 without NUL"},
		{map[string]*string{"K": text(strings.Repeat(secret, 2341))}, app.Invalid, "the value of K is longer than 16 KB"},
		{many, app.Exhausted, "an application may have 128 variables, and this one would have 129"},
		{much, app.Exhausted, "the variables of an application may take 64 KB together, and these would take 8 bytes more"},
	} {
		err := ChangeVariables(map[string]string{"A": "1", "B": "b"}, tt.change)
		if app.KindOf(err) != tt.kind || err.Error() != tt.says || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60q: got %v, want %s", slices.Sorted(maps.Keys(tt.change)), err, tt.says)
		}
	}
}

// The bounds are exact, and those who are beyond them may still remove.
func TestBoundsOfVariables(t *testing.T) {
	set := map[string]string{"A": strings.Repeat("x", 16<<10-3), "B": strings.Repeat("x", 16<<10-3), "C": strings.Repeat("x", 16<<10-3)}
	if err := ChangeVariables(maps.Clone(set), map[string]*string{"D": text(strings.Repeat("x", 16<<10-3))}); err != nil {
		t.Errorf("64 KB to the byte: %v", err)
	}
	err := ChangeVariables(maps.Clone(set), map[string]*string{"D": text(strings.Repeat("x", 16<<10-2))})
	if app.KindOf(err) != app.Exhausted || !strings.HasSuffix(err.Error(), "these would take 1 bytes more") {
		t.Errorf("one byte more: %v", err)
	}
	full := map[string]string{}
	for i := range 200 {
		full[fmt.Sprintf("N%d", i)] = ""
	}
	if err := ChangeVariables(full, map[string]*string{"N0": nil}); err != nil || len(full) != 199 {
		t.Errorf("one less of too many: %v, %d are left", err, len(full))
	}
}

func TestRemoveVariables(t *testing.T) {
	set := map[string]string{"A": "1", "B": "2", "C": "3"}
	if err := RemoveVariables(set, "A", "C"); err != nil || !maps.Equal(set, map[string]string{"B": "2"}) {
		t.Errorf("%v; left %v", err, set)
	}
	err := RemoveVariables(set, "A")
	wantKind(t, err, app.NotFound)
	wantKind(t, RemoveVariables(set, "B", "B"), app.NotFound)
}
