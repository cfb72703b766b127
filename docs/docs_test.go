package docs

import (
	"io/fs"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each page is in one group; pages for developers are in no group.
func TestGroups(t *testing.T) {
	names, err := fs.Glob(files, "*.md")
	if err != nil {
		t.Fatal(err)
	}
	seen := []string{"asvs.md", "testing.md"}
	for _, g := range Groups {
		for _, name := range g.Names {
			seen = append(seen, name+ext)
		}
	}
	slices.Sort(seen)
	if !slices.Equal(seen, names) {
		t.Errorf("the groups have %q, and the directory %q", seen, names)
	}
	for _, name := range []string{"testing", "nothing", "../README", "adr/0065-backups-by-restic", ""} {
		if _, ok := Find(name); ok {
			t.Errorf("there is a page %q", name)
		}
	}
}

var (
	hrefs = regexp.MustCompile(`href="([^"]*)"`)
	idsOf = regexp.MustCompile(` id="([^"]*)"`)
)

// Each link leads to a page, and to a heading that this has. Nothing of a page needs a picture, a style or a script.
func TestLinks(t *testing.T) {
	html, ids := map[string]string{}, map[string]bool{}
	for _, g := range Groups {
		for _, name := range g.Names {
			p, _ := Find(name)
			if p.Title == "" || p.Sections[0].Level != 1 {
				t.Errorf("%s has no title: %+v", name, p.Sections[0])
			}
			text := string(p.HTML("/docs/"))
			html[name], ids["/docs/"+name] = text, true
			for _, m := range idsOf.FindAllStringSubmatch(text, -1) {
				ids["/docs/"+name+"#"+m[1]] = true
			}
			for _, s := range p.Sections[1:] {
				if !ids["/docs/"+name+"#"+s.ID] {
					t.Errorf("%s has no heading %q", name, s.ID)
				}
			}
			for _, no := range []string{"<img", "<script", "style=", "raw HTML", "<h1"} {
				if strings.Contains(text, no) {
					t.Errorf("%s has %s", name, no)
				}
			}
		}
	}
	for name, text := range html {
		for _, m := range hrefs.FindAllStringSubmatch(text, -1) {
			to := m[1]
			if strings.HasPrefix(to, "#") {
				to = "/docs/" + name + to
			}
			if !strings.HasPrefix(to, "http") && !ids[to] {
				t.Errorf("%s links to %s, which is not there", name, m[1])
			}
		}
	}
}

func TestSearch(t *testing.T) {
	for q, want := range map[string]string{
		"memory.max":          "memory",
		"Restore YESTERDAY":   "operations#restore-yesterday",
		"backups.repository":  "backups",
		"berth backup run":    "commands#berth-backup-run",
		"  ":                  "",
		"no-such-word-at-all": "",
	} {
		hits := Search(q, 30)
		if want == "" {
			if len(hits) != 0 {
				t.Errorf("%q: %+v", q, hits)
			}
			continue
		}
		var found bool
		for _, h := range hits {
			at := h.Page + "#" + h.ID
			found = found || at == want || h.Page == want
			if h.Found != "" && !strings.Contains(strings.ToLower(q), strings.ToLower(h.Found)) {
				t.Errorf("%q found %q", q, h.Found)
			}
			if len(h.Before) > around+4 || len(h.After) > 2*around+4 {
				t.Errorf("%q shows %d and %d bytes", q, len(h.Before), len(h.After))
			}
		}
		if !found || len(hits) > 30 {
			t.Errorf("%q: %d hits, and not %s", q, len(hits), want)
		}
	}
	if hits := Search("restore yesterday", 30); hits[0].ID != "restore-yesterday" {
		t.Errorf("the first is %+v", hits[0])
	}
	if hits := Search("the", 5); len(hits) != 5 {
		t.Errorf("%d hits of 5", len(hits))
	}
}

func TestAnchors(t *testing.T) {
	a := &anchors{}
	for heading, want := range map[string]string{
		"`berth backup run`": "berth-backup-run", "Words, and (more)": "words-and-more", " 200 % of it_all ": "200--of-it_all",
	} {
		if got := string(a.Generate([]byte(heading), 0)); got != want {
			t.Errorf("%q is %q, and not %q", heading, got, want)
		}
	}
	if got := string(a.Generate([]byte("berth backup run"), 0)); got != "berth-backup-run-1" {
		t.Errorf("a second one is %q", got)
	}
}

func BenchmarkSearch(b *testing.B) {
	for b.Loop() {
		Search("memory limit", 30)
	}
}

func BenchmarkPage(b *testing.B) {
	for b.Loop() {
		p, _ := Find("commands")
		p.HTML("/docs/")
	}
}
