package main

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCounted: a mode passes with its number of tests alone, or when it said
// that it cannot be had.
func TestCounted(t *testing.T) {
	file := filepath.Join(t.TempDir(), "counts")
	if err := os.WriteFile(file, []byte("unified 2\nrare 1\nnone 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	passed := func(pkg, test string) event { return event{Action: "pass", Package: pkg, Test: test} }
	for name, tt := range map[string]struct {
		events []event
		mode   string
		want   bool
	}{
		"as many":                 {[]event{passed("unified/a", "A"), passed("unified/b", "B"), passed("unified/b", "")}, "unified", true},
		"one is lost":             {[]event{passed("unified/a", "A")}, "unified", false},
		"one more":                {[]event{passed("unified/a", "A"), passed("unified/b", "B"), passed("unified/b", "C")}, "unified", false},
		"nothing was printed":     {nil, "unified", false},
		"of another mode":         {[]event{passed("rare/a", "A"), passed("rare/a", "B")}, "unified", false},
		"one was skipped":         {[]event{passed("unified/a", "A"), {Action: "skip", Package: "unified/a", Test: "B"}}, "unified", false},
		"not to be had":           {[]event{{Action: "skip", Package: "rare"}}, "rare", true},
		"not to be had, yet ran":  {[]event{{Action: "skip", Package: "unified"}, passed("unified/a", "A")}, "unified", false},
		"a package without tests": {[]event{{Action: "skip", Package: "rare/a"}}, "rare", false},
		"a mode without a number": {nil, "other", false},
	} {
		tally := newTally()
		for _, e := range tt.events {
			tally.add(e)
		}
		if got := tally.counted(file, []string{tt.mode}); got != tt.want {
			t.Errorf("%s: %t", name, got)
		}
	}
	if tally := newTally(); tally.counted(file+".missing", nil) {
		t.Error("no file of counts, and right")
	}
}
