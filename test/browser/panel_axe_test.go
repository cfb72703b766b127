package browser

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"berth/test/harness"
)

// entry is a sentence of a catalogue.
type entry struct{ english, other string }

// entries reads the catalogue of a language.
func entries(t *testing.T, locale string) []entry {
	t.Helper()
	f, err := os.Open("../../app/text/" + locale + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []entry
	for lines := bufio.NewScanner(f); lines.Scan(); {
		english, err := strconv.QuotedPrefix(lines.Text())
		if err != nil {
			continue // nothing, or a remark
		}
		other := strings.TrimPrefix(lines.Text()[len(english):], " = ")
		e := entry{}
		if e.english, err = strconv.Unquote(english); err == nil {
			e.other, err = strconv.Unquote(other)
		}
		if err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		all = append(all, e)
	}
	return all
}

// axe is the text of axe-core. The test is skipped where it is not and cannot be
// fetched.
func axe(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("../../test/scripts/axe").Output()
	if err != nil {
		harness.Ready(t, "needs axe-core, which test/scripts/axe fetches from npm: "+err.Error())
	}
	text, err := os.ReadFile(strings.TrimSpace(string(out)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// barriers are what axe-core finds in the page against WCAG 2.2, levels A and AA.
func (p *tab) barriers(axe string) []string {
	p.t.Helper()
	if !eval[bool](p, `"axe" in window`) {
		eval[bool](p, axe+"\n;true")
	}
	return eval[[]string](p, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"], resultTypes: ["violations"]})
		.then((r) => r.violations.map((v) => v.id + ": " + v.nodes.slice(0, 3).map((n) => n.target + " " + n.failureSummary).join(" | ")))`)
}

// looks says in which ways a page is looked at.
var looks = []struct {
	scheme        string
	width, height int64
}{{"light", 1280, 800}, {"dark", 1280, 800}, {"dark", 360, 740}, {"light", 360, 740}}

// accessible fails the test for each barrier in the page, light and dark, on a desk
// and on a phone.
func (p *tab) accessible(axe string) {
	p.t.Helper()
	for _, l := range looks {
		p.prefer("prefers-color-scheme", l.scheme, "prefers-reduced-motion", "reduce")
		p.size(l.width, l.height, false) // a phone would zoom out of what is too wide
		p.until(fmt.Sprintf(`innerWidth == %d && matchMedia("(prefers-color-scheme: %s)").matches`, l.width, l.scheme))
		for _, what := range p.barriers(axe) {
			p.t.Errorf("%s, %s, %d px: %s", p.address(), l.scheme, l.width, what)
		}
		p.sound()
	}
}

// All pages can be used by everybody, in each theme and on each screen, and none does
// anything that its policy forbids.
func TestPanelIsAccessible(t *testing.T) {
	t.Parallel()
	harness.Ready(t, unready)
	axe := axe(t)
	d, p, id := furnish(t)
	for _, path := range d.pages(p, id) {
		p.open(d.Base+path, 200)
		p.accessible(axe)
	}
	stranger := p.another()
	stranger.watch()
	for path, status := range d.public() {
		stranger.open(d.Base+path, status)
		stranger.accessible(axe)
	}
}

// What looks for barriers finds them.
func TestAxeFindsBarriers(t *testing.T) {
	t.Parallel()
	harness.Ready(t, unready)
	axe := axe(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprint(w, `<!doctype html><html lang="en"><link rel=icon href=data:,><title>x</title><main><h1>x</h1><img src="data:,"><p style="color: #bbb">pale</p></main>`)
	}))
	defer s.Close()
	p := chromium(t, "").tab()
	p.open(s.URL, 200)
	got := strings.Join(p.barriers(axe), "\n")
	for _, want := range []string{"image-alt", "color-contrast"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not found: %s", want, got)
		}
	}
}
