package panel

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"berth/docs"
)

// The documentation of this version is for who is signed in, in pages, and can be searched.
func TestDocumentation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	b := w.as("ana")
	b.get("/").want(t, "every page leads there", http.StatusOK, `href="/docs"`, `href="/docs/panel#pages"`)
	b.get("/docs").want(t, "the index", http.StatusOK, `<a href="/docs/setup">`, `<a href="/docs/api">`)
	b.get("/docs?q=Restore+yesterday").want(t, "a search", http.StatusOK, `href="/docs/operations#restore-yesterday"`, "<mark>")
	b.get("/docs?q=%3Cscript%3E+nothing").want(t, "nothing found", http.StatusOK, "No section has all of these words.", `value="&lt;script&gt; nothing"`)
	b.get("/docs?q="+strings.Repeat("a", 201)).want(t, "too long", http.StatusBadRequest, "Search for at most 200 bytes")
	b.get("/docs/operations").want(t, "a page", http.StatusOK, `<h3 id="restore-yesterday">`, `<h2 id="`, `<li><a href="#`, `lang="en"`)
	for _, none := range []string{"testing", "nothing", "..%2FREADME"} {
		b.get("/docs/"+none).want(t, none, http.StatusNotFound, "There is no such page")
	}
	w.browser().get("/docs/operations").leads(t, "a visitor", "/login?next=%2Fdocs%2Foperations")
	for _, p := range []string{"/docs", "/docs?q=berth"} {
		if n := len(b.get(p).body); n > 60<<10 {
			t.Errorf("%s has %d bytes", p, n)
		}
	}
}

// What a page says of itself in the documentation is there.
func TestHelps(t *testing.T) {
	t.Parallel()
	names := templates["en-US"]()
	for page, at := range helps {
		name, anchor, _ := strings.Cut(at, "#")
		p, ok := docs.Find(name)
		if !ok || anchor != "" && !slices.ContainsFunc(p.Sections, func(s docs.Section) bool { return s.ID == anchor }) {
			t.Errorf("%s: the documentation has no %s", page, at)
		}
		if names[page] == nil {
			t.Errorf("there is no page %s", page)
		}
	}
}
