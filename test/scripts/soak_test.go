package scripts_test

import (
	"cmp"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"testing"

	"berth/test/checkout"
)

// Every package with a TestSoak is in a part.
func TestEverySoakTestHasAPart(t *testing.T) {
	script, err := os.ReadFile("soak")
	if err != nil {
		t.Fatal(err)
	}
	_, parts, _ := strings.Cut(string(script), "\nrun() {")
	words := strings.Fields(parts)
	other := map[string]string{"test/browser": "test/browser", "test/cluster": "test-cluster"} // how a part names it
	list, err := checkout.Files("../..", "_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, name := range list {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "\nfunc TestSoak") {
			continue
		}
		found++
		dir := path.Dir(name)
		if word := cmp.Or(other[dir], "./"+dir); !slices.Contains(words, word) {
			t.Errorf("no part of test/scripts/soak runs %s", name)
		}
	}
	if found == 0 {
		t.Error("no test is of soak alone")
	}
}

func TestUnknownPartOfSoak(t *testing.T) {
	out, err := exec.Command("./soak", "nfs").CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "soak: there is no part nfs; the parts are: fresh packages ") {
		t.Errorf("%v: %s", err, out)
	}
}
