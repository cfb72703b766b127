package browser

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"berth/app"
	"berth/test/harness"
)

// furnish is a daemon with something on each page of the panel, and a browser in
// which ana, who looks after the host, is signed in. It returns also the application
// that has everything.
func furnish(t *testing.T) (*daemon, *tab, string) {
	t.Helper()
	d := launch(t)
	d.lookAfter()
	id := d.ticker(t, "Greeter")
	hog := load(t, "hog")
	hog["discloud.config"] = bot("Hog", 256)
	d.killed(d.upload(hog))
	d.channels()
	p := d.visitor()
	return d, p, id
}

// killed waits until an application was ended for its RAM.
func (d *daemon) killed(id string) {
	d.t.Helper()
	harness.Eventually(d.t, "the program is killed for its RAM", func() bool {
		_, text := d.ask("GET", "/app/"+id, "", nil)
		return strings.Contains(text, `"ramKilled":true`)
	})
}

var numbered = regexp.MustCompile(`[0-9A-Z]{8,}|[0-9]+`)

// documented is a page of the documentation, of which one stands for all.
var documented = regexp.MustCompile(`^/docs/[a-z]+$`)

// pages finds all pages that links lead to from the first one. Of those that differ
// only in a number it finds one, and of each in another manner (its query) also one,
// but for those of the application id, which are all there.
func (d *daemon) pages(p *tab, id string) []string {
	d.t.Helper()
	found, shapes := []string{"/"}, map[string]bool{"/": true}
	for n := 0; n < len(found); n++ {
		p.open(d.Base+found[n], 200)
		links := eval[[]string](p, `[...document.querySelectorAll("a[href]:not([download])")].map((a) => new URL(a.href)).filter((u) => u.origin == location.origin).map((u) => u.pathname + u.search)`)
		slices.Sort(links)
		for _, l := range links {
			path, _, _ := strings.Cut(l, "?")
			shape := documented.ReplaceAllString(numbered.ReplaceAllString(strings.Replace(path, "/"+id, "/ID", 1), "N"), "/docs/PAGE")
			if !shapes[shape] {
				shapes[shape] = true
				found = append(found, l)
			}
		}
	}
	for _, must := range []string{"/", "/account", "/account/channels", "/account/channels/1", "/apps/" + id, "/apps/" + id + "/logs", "/apps/" + id + "/deploys", "/docs", "/docs/panel", "/first-steps", "/host/settings"} {
		if !slices.Contains(found, must) {
			d.t.Fatalf("no link leads to %s, only to %q", must, found)
		}
	}
	return found
}

// public are the pages for who is not signed in, with their status.
func (d *daemon) public() map[string]int64 {
	link := d.run("setup-url", "ana", "--listen", strings.TrimPrefix(d.Base, "http://"))
	invitation := d.run("invite", "create", "--ram", "16", "--listen", strings.TrimPrefix(d.Base, "http://"))
	return map[string]int64{"/login": 200, strings.TrimPrefix(link, d.Base): 200, strings.TrimPrefix(invitation, d.Base): 200, "/nothing": 404, app.ConfirmPath + "x": 200, app.LeavePath + "x": 200}
}

// reasons are the words of a page that stand in one piece: texts, and what is said
// of things that have none. What says that it is in another language, as the documentation does, is left out.
const reasons = `(() => {
	const all = [], walk = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
	while (walk.nextNode()) if (!walk.currentNode.parentElement.closest("script, style, .log, pre, code, textarea, main [lang]")) all.push(walk.currentNode.data);
	for (const e of document.querySelectorAll("[aria-label], [placeholder], [title], [data-done], [data-broken]")) all.push(e.ariaLabel, e.placeholder, e.title, e.dataset.done, e.dataset.broken);
	return [...new Set(all.filter(Boolean).map((s) => s.trim().replace(/\s+/g, " ")).filter(Boolean))];
})()`

// Each page is in the language of who reads it: no sentence of the catalogue is left in
// English. The words of the others are longer, and fit on a phone too.
func TestPanelInLanguages(t *testing.T) {
	t.Parallel()
	d, p, id := furnish(t)
	english := catalogue(t, app.Locales[1])
	check := func(locale, path string) {
		t.Helper()
		if lang := eval[string](p, "document.documentElement.lang"); lang != locale {
			t.Errorf("the language of %s is %q, not %s", path, lang, locale)
		}
		for _, words := range eval[[]string](p, reasons) {
			for _, e := range english {
				if e.MatchString(words) {
					t.Errorf("%s says %q in %s", path, words, locale)
				}
			}
		}
	}
	p.open(d.Base+"/account", 200)
	found := 0
	for _, words := range eval[[]string](p, reasons) {
		if slices.ContainsFunc(english, func(e *regexp.Regexp) bool { return e.MatchString(words) }) {
			found++
		}
	}
	if found < 20 {
		t.Fatalf("only %d sentences of an English page are in the catalogue", found)
	}
	pages, save := d.pages(p, id), "Save"
	for _, locale := range app.Locales[1:] {
		english = catalogue(t, locale)
		d.speaks(p, locale, save)
		for _, e := range entries(t, locale) {
			if e.english == "Save" {
				save = e.other
			}
		}
		for _, path := range pages {
			p.open(d.Base+path, 200)
			check(locale, path)
			p.size(390, 844, false)
			p.sound()
			p.size(1280, 800, false)
		}
	}
}

// The audit log is in the reader's time zone, and names it; without scripts it is in UTC.
func TestPanelAuditZone(t *testing.T) {
	t.Parallel()
	d, p, _ := furnish(t)
	const first = `document.querySelector(".acts time").textContent`
	for zone, says := range map[string]string{"America/Sao_Paulo": "GMT-3", "Asia/Kolkata": "GMT+5:30", "UTC": "UTC"} {
		p.do(emulation.SetTimezoneOverride(zone))
		p.open(d.Base+"/host/audit", 200)
		if text := eval[string](p, first); !strings.HasSuffix(text, " "+says) {
			t.Errorf("in %s the first record is of %q", zone, text)
		}
	}
	p.scripts(false)
	p.reload()
	if text := eval[string](p, first); !strings.HasSuffix(text, " UTC") {
		t.Errorf("without scripts the first record is of %q", text)
	}
}

// catalogue are the English sentences that are written otherwise in a language, as
// patterns of what they become.
func catalogue(t *testing.T, locale string) []*regexp.Regexp {
	t.Helper()
	var all []*regexp.Regexp
	verb := regexp.MustCompile(`%[-+# 0-9.\[\]]*[a-z]`)
	for _, e := range entries(t, locale) {
		bare := verb.ReplaceAllString(e.english, "")
		if e.english == e.other || len(regexp.MustCompile(`\pL`).FindAllString(bare, -1)) < 4 {
			continue
		}
		parts := verb.Split(strings.ReplaceAll(e.english, "%%", "%"), -1)
		for i := range parts {
			parts[i] = regexp.QuoteMeta(parts[i])
		}
		all = append(all, regexp.MustCompile(fmt.Sprintf(`^%s$`, strings.TrimSpace(strings.Join(parts, `\S+`)))))
	}
	if len(all) < 200 {
		t.Fatalf("the catalogue has %d sentences", len(all))
	}
	return all
}
