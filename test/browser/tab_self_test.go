package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"berth/test/harness"
)

// A page that does everything wrong: each is found, so that a test that finds
// nothing has looked.
func TestTabFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	harness.Ready(t, unready)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Security-Policy", "img-src 'none'")
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, `<!doctype html><link rel=icon href=data:,><title>x</title><body>hello<img src=/forbidden.png><script src=/missing.js></script>
				<script>console.error("mistake", 7); console.warn("hm"); console.log("fine"); fetch("/cut").catch(() => {}); setTimeout(() => { throw new Error("thrown") })</script>`)
		case "/cut":
			panic(http.ErrAbortHandler)
		default:
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	p := chromium(t, "").tab()
	p.open(s.URL+"/", 200)
	want := []string{"console.error: \"mistake\" 7", "console.warning: \"hm\"", "exception: ", "thrown", "request: GET " + s.URL + "/missing.js: 404", "policy: img-src", "/cut: net::ERR_"}
	harness.Eventually(t, "all is found", func() bool {
		all := strings.Join(p.found(), "\n")
		for _, part := range want {
			if !strings.Contains(all, part) {
				return false
			}
		}
		return true
	})
	if all := strings.Join(p.found(), "\n"); strings.Contains(all, "fine") {
		t.Errorf("found too much: %s", all)
	}
	p.prefer("prefers-color-scheme", "dark")
	p.size(390, 700, true)
	if !eval[bool](p, "matchMedia('(prefers-color-scheme: dark)').matches && innerWidth >= 390 && innerWidth < 1000") {
		t.Error("the page is neither dark nor narrow")
	}
	if png := p.picture("self"); !strings.HasPrefix(string(png), "\x89PNG") {
		t.Errorf("no picture: %.20q", png)
	}
}
