package bundle

import (
	"encoding/json"
	"os"
	"slices"
	"testing"
)

// packingCase is what is sent of a directory. The panel's script packs folders too, and is held to
// the same cases (web/panel/pack_test.go).
type packingCase struct {
	Case    string
	Files   map[string]string
	Sent    []string // files, and empty directories
	Secrets []string
	Ignored int
}

func TestPackingCases(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/packing.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []packingCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		_, root := tree(t, c.Files)
		p, err := Scan(root, Choice{Env: EnvLeft})
		if err != nil {
			t.Errorf("%s: %v", c.Case, err)
			continue
		}
		if got := packedNames(p); !slices.Equal(got, c.Sent) {
			t.Errorf("%s: sent are %q, want %q", c.Case, got, c.Sent)
		}
		if slices.Sort(p.EnvFiles); !slices.Equal(p.EnvFiles, c.Secrets) || p.Ignored != c.Ignored {
			t.Errorf("%s: %d ignored, want %d; secrets %q, want %q", c.Case, p.Ignored, c.Ignored, p.EnvFiles, c.Secrets)
		}
	}
}
