package bundle

import (
	"archive/zip"
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

func TestVariablesThereAndBack(t *testing.T) {
	t.Parallel()
	all := []app.Variable{
		{Name: "A", Value: ""},
		{Name: "B", Value: `plain "text" with $HOME, \n, # and = of its own `},
		{Name: "C", Value: "it's\r\nthree\\nlines\n"},
		{Name: "D", Value: `'"\`},
		{Name: "_e1", Value: "é\x01\t"},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	if err := w.AddVariables(all, time.Now()); err != nil {
		t.Fatal(err)
	}
	// Their place is theirs, whatever the program has there.
	for _, name := range []string{app.VariablesFile, ".berth"} {
		if err := w.AddFile(name, false, time.Now(), 1, strings.NewReader("x")); app.KindOf(err) != app.Unusable {
			t.Errorf("%s is added beside: %v", name, err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	zr, err := zip.NewReader(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil || len(zr.File) != 1 || zr.File[0].Name != ".berth/env" || zr.File[0].Mode() != 0o600 {
		t.Fatalf("%v, %v", zr.File, err)
	}
	r, err := zr.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := ParseVariables(r)
	if err != nil || !slices.Equal(got, all) {
		t.Errorf("got %v, %v", got, err)
	}
}

// The form is what files of today have: another berth may have to read them.
func TestFormOfVariables(t *testing.T) {
	t.Parallel()
	got := string(formatVariables([]app.Variable{{Name: "A", Value: `$a"\`}, {Name: "B", Value: "it's\n"}}))
	if want := variablesHead + "A='$a\"\\'\nB=\"it's\\n\"\n"; got != want {
		t.Errorf("got %s want %s", got, want)
	}
	all, err := ParseVariables(strings.NewReader("\r\n# by hand\r\n  A=\"x\\\\n\"  \r\n\n_='y'"))
	if want := []app.Variable{{Name: "A", Value: `x\n`}, {Name: "_", Value: "y"}}; err != nil || !slices.Equal(all, want) {
		t.Errorf("got %v, %v", all, err)
	}
}

func TestRefusedVariables(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"A='1'\nSECRET":         "line 2 of .berth/env is not NAME='value'",
		"SECRET=1":              "line 1 of .berth/env is not",
		"1='SECRET'":            "is not",
		"A B='SECRET'":          "is not",
		"='SECRET'":             "is not",
		"A='SECRET":             "is not",
		"A='SECRET' # x":        "is not",
		`A="SECRET`:             "is not",
		`A="\SECRET"`:           "is not",
		`A="SECRET\"`:           "is not",
		"A='1'\n\nA='SECRET'":   "line 3 of .berth/env sets a variable for the second time",
		"#" + pad(maxVariables): ".berth/env is larger than 256 KB",
	} {
		all, err := ParseVariables(strings.NewReader(content))
		if app.KindOf(err) != app.Unusable || !strings.Contains(text(err), want) || strings.Contains(text(err), "SECRET") || all != nil {
			t.Errorf("%.20q: got %v, %v, want %q", content, all, err, want)
		}
	}
}

func pad(n int) string { return strings.Repeat("x", n) }

// FuzzParseVariables: what can be read is read again from what is written of
// it, and any value survives.
func FuzzParseVariables(f *testing.F) {
	for _, text := range []string{"A='1'", `A="\\\"\n"`, "A='1'\nB=\"'\"", "#", "A='\r'", "it's", "\\"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		lists := [][]app.Variable{{{Name: "V", Value: text}}}
		if all, err := ParseVariables(strings.NewReader(text)); err == nil {
			lists = append(lists, all)
		}
		for _, all := range lists {
			written := formatVariables(all)
			got, err := ParseVariables(bytes.NewReader(written))
			if len(written) <= maxVariables && (err != nil || !slices.Equal(got, all)) {
				t.Errorf("%q was written as %q and read as %q, %v", all, written, got, err)
			}
		}
	})
}
