package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// load reads the files of a directory of testdata, "" for none, and more files
// beside it.
func load(t *testing.T, dir string, more ...string) map[string]string {
	t.Helper()
	all := map[string]string{}
	add := func(name, path string) {
		text, err := os.ReadFile(path) //nolint:gosec // of testdata
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(text)
	}
	if dir != "" {
		list, err := os.ReadDir(filepath.Join("testdata", dir))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range list {
			add(e.Name(), filepath.Join("testdata", dir, e.Name()))
		}
	}
	for _, name := range more {
		add(name, filepath.Join("testdata", name))
	}
	return all
}

// compiled is a program in Go for every Linux of this processor.
func compiled(t *testing.T, dir string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "site")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Dir = dir // a module of its own
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(file) //nolint:gosec // made above
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// at is the address of a site.
func at(id string) string { return "http://" + id + "." + domain + "/" }

// Three programs listen on 8080 at once, and each page gets its own: an answer, a
// WebSocket, a stream of events, and an upload.
func TestSitesOfPrograms(t *testing.T) {
	t.Parallel()
	d := launchSites(t)
	sites := []struct{ dir, main string }{{"node", "index.js"}, {"python", "main.py"}, {"go", "site"}}
	for _, s := range sites {
		files := load(t, s.dir, "page.html", "page.js")
		if s.dir == "go" { // berth's own builds are another test's business, and take a minute
			files = load(t, "", "page.html", "page.js")
			files["site"] = compiled(t, "testdata/go")
		}
		files["discloud.config"] = config("site-"+s.dir, s.main, 128)
		d.upload(files)
	}
	b := chromium(t, d.sites())
	for _, s := range sites {
		t.Run(s.dir, func(t *testing.T) {
			p := b.tab()
			p.open(at("site-"+s.dir), 200)
			p.until(`result.who && result.closed && result.events.length >= 3 && result.length`)
			if got, want := p.text(), s.dir+" for site-"+s.dir+"."+domain; got != want {
				t.Errorf("the page says %q, want %q", got, want)
			}
			if got, want := eval[string](p, `JSON.stringify([result.socket, result.closed, result.events.slice(0, 3), result.length])`), `["over the wire",1000,["0","1","2"],"3000000"]`; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			p.clean()
		})
	}
}

// A site of files: its parts come with the types that browsers insist on, an
// address that only its script knows too, and again from the browser's memory.
func TestSiteOfFiles(t *testing.T) {
	t.Parallel()
	d := launchSites(t)
	files := load(t, "static")
	files["discloud.config"] = config("pages", "index.html", 32)
	d.upload(files)
	p := chromium(t, d.sites()).tab()
	for _, path := range []string{"", "deep/address", ""} {
		p.open(at("pages")+path, 200)
		p.until(`document.querySelector("p").textContent != "..."`)
		if got, want := p.text(), "static at /"+path; got != want {
			t.Errorf("the page says %q, want %q", got, want)
		}
		if !eval[bool](p, `getComputedStyle(document.querySelector("p")).color == "rgb(1, 2, 3)" && document.images[0].naturalWidth == 10`) {
			t.Error("the page lacks its style or its picture")
		}
	}
	if n := eval[float64](p, `performance.getEntriesByName(location.origin + "/app-0123abcd.js")[0].transferSize`); n != 0 {
		t.Errorf("a script with a digest in its name is fetched again: %v bytes", n)
	}
	p.clean()
}

// What visitors read in place of a site: light and dark, on a desk and on a phone.
func TestPagesInPlaceOfSites(t *testing.T) {
	t.Parallel()
	d := launchSites(t)
	b := chromium(t, d.sites())
	for _, id := range []string{"stopped", "crashed", "full"} {
		files := load(t, "node", "page.html", "page.js")
		files["discloud.config"] = config(id, "index.js", 64)
		d.upload(files)
	}
	d.put("/app/stopped/stop", "")
	for id, path := range map[string]string{"crashed": "end", "full": "fill"} {
		p := b.tab()
		p.open(at(id)+path, 502)
	}
	for _, tt := range []struct {
		id     string
		status int64
		says   string
	}{
		{"stopped", 503, "Stopped\n\nThis site was stopped by its owner."},
		{"crashed", 502, "Crashed\n\nThe program of this site has ended with an error."},
		{"full", 502, "Out of memory\n\nThe program of this site was ended because it needed more RAM than it has."},
		{"nobody", 404, "No such site\n\nThere is no site at this address."},
	} {
		t.Run(tt.id, func(t *testing.T) {
			p := b.tab()
			for _, scheme := range []string{"light", "dark"} {
				p.prefer("prefers-color-scheme", scheme)
				p.size(map[string]int64{"light": 1280, "dark": 390}[scheme], 700, scheme == "dark")
				p.open(at(tt.id), tt.status)
				p.until("document.title == " + `"` + strings.Split(tt.says, "\n")[0] + `"`)
				if got := strings.TrimSpace(p.text()); got != tt.says {
					t.Errorf("%s: %q, want %q", scheme, got, tt.says)
				}
				if got, want := eval[string](p, "getComputedStyle(document.body).backgroundColor"), map[string]string{"light": "rgb(255, 255, 255)", "dark": "rgb(24, 24, 24)"}[scheme]; got != want {
					t.Errorf("%s: the background is %s, want %s", scheme, got, want)
				}
				if !eval[bool](p, "document.documentElement.scrollWidth <= innerWidth") {
					t.Errorf("%s: the page is wider than the window", scheme)
				}
				p.picture("page-" + tt.id + "-" + scheme)
			}
			p.clean()
		})
	}
}

// The panel says where a site is visited, and a site that nobody can visit is no good sight:
// light and dark, on a desk and on a phone.
func TestSitesInThePanel(t *testing.T) {
	t.Parallel()
	d := launchSites(t)
	d.lookAfter()
	node := func(id, code string) {
		d.upload(map[string]string{"discloud.config": config(id, "index.js", 64), "index.js": code})
	}
	node("early-then-quiet", "setInterval(() => {}, 1000)")
	node("elsewhere", "require('http').createServer((_, r) => r.end('hello')).listen(3000)")
	node("inspected", "require('net').createServer(() => {}).listen(9229, '127.0.0.1')")
	files := load(t, "static")
	files["discloud.config"] = config("pages", "index.html", 512)
	d.upload(files)
	b := chromium(t, d.sites())
	p := b.tab()
	d.person(p, "ana")
	look := func(name, path string, says ...string) {
		t.Helper()
		p.open(d.Base+path, 200)
		for _, text := range says {
			p.says(text)
		}
		for _, scheme := range []string{"light", "dark"} {
			for _, width := range []int64{1280, 390} {
				p.prefer("prefers-color-scheme", scheme)
				p.size(width, 900, width < 400)
				p.picture(fmt.Sprintf("%s-%s-%d", name, scheme, width))
				if !eval[bool](p, "document.documentElement.scrollWidth <= innerWidth") {
					t.Errorf("%s, %s at %d: the page is wider than the window", name, scheme, width)
				}
			}
		}
	}
	look("early", "/apps/early-then-quiet", "Starting", "It runs, and has opened no port for visitors yet.", "http://early-then-quiet."+domain)
	p.open(at("elsewhere"), 200) // after two seconds
	look("elsewhere", "/apps/elsewhere", "Online", "Port\n3000", "http://elsewhere."+domain)
	look("files", "/apps/pages/settings", "berth charges no RAM for a site of files")
	p.open(d.Base+"/apps/early-then-quiet", 200)
	p.until(`document.querySelector("[data-part=state]").textContent.includes("Not listening")`) // by itself
	look("quiet", "/apps/early-then-quiet", "Not listening", "Its program has opened no port: listen on process.env.PORT, or on 8080, at all addresses (0.0.0.0).")
	look("inspected", "/apps/inspected", "Not listening", "Its program listens on 9229 at one address alone, such as 127.0.0.1, which stays private")
	look("list", "/", "Not listening", "192 MB of 4 GB assigned", "http://pages."+domain)
	p.clean()
}
