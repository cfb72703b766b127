package browser

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// secret is the password of everybody.
const secret = "correct horse battery"

// watchful runs before the scripts of each page: it counts how often the page says
// that its stream of events is open, and notes what its policy forbids.
const watchful = `window.streams = 0; window.forbidden = [];
addEventListener("live:begun", () => streams++, true);
addEventListener("securitypolicyviolation", (e) => forbidden.push(e.violatedDirective + " " + e.blockedURI), true);`

// lookAfter makes ana look after the host, as who has its shell can.
func (d *daemon) lookAfter() {
	d.t.Helper()
	d.run("setup-url", "--listen", strings.TrimPrefix(d.Base, "http://"))
}

// person makes an account and opens its first page of the panel in p. The first
// one is ana's, whom launch has made already.
func (d *daemon) person(p *tab, name string) {
	d.t.Helper()
	if name != "ana" {
		d.run("account", "create", name, "--ram", "1024")
	}
	d.runWith(secret+"\n", "account", "password", name)
	d.signIn(p, name)
}

// signIn opens the panel in p as somebody with a password.
func (d *daemon) signIn(p *tab, name string) {
	d.t.Helper()
	p.watch()
	p.open(d.Base+"/", 200)
	p.fill("#name", name)
	p.fill("#password", secret)
	p.follow(func() { p.press("main button", "Sign in") })
	if at := p.address(); at != d.Base+"/" {
		d.t.Fatalf("%s is at %s after the sign-in, which says %q", name, at, p.text())
	}
}

// visitor opens a browser with a page of the panel, as ana.
func (d *daemon) visitor() *tab {
	d.t.Helper()
	p := chromium(d.t, "").tab()
	d.person(p, "ana")
	return p
}

// ticker makes an application of a program that prints lines, and returns its ID.
func (d *daemon) ticker(t *testing.T, name string, lines ...string) string {
	t.Helper()
	files := load(t, "ticker")
	files["discloud.config"] = bot(name, 100, lines...)
	return d.upload(files)
}

// bot is a discloud.config for index.js, a program without a site.
func bot(name string, ram int, lines ...string) string {
	about := []string{"NAME=" + name, "TYPE=bot", "MAIN=index.js", "RAM=" + strconv.Itoa(ram), "AUTORESTART=false"}
	return strings.Join(append(about, lines...), "\n") + "\n"
}

// watch has each page that is opened from here on looked at by watchful.
func (p *tab) watch() {
	p.t.Helper()
	p.do(page.Enable(), chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(watchful).Do(ctx)
		return err
	}))
}

// scripts lets pages run theirs, or not.
func (p *tab) scripts(on bool) {
	p.t.Helper()
	p.do(emulation.SetScriptExecutionDisabled(!on))
}

// fill types a text into a field, in place of what is there.
func (p *tab) fill(selector, text string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
	eval[bool](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.focus(); e.select(); return true })()`, selector))
	if text == "" {
		text = kb.Delete
	}
	p.do(chromedp.KeyEvent(text))
}

// choose takes one of the values of a selection.
func (p *tab) choose(selector, value string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.querySelector(%q)?.checkVisibility()`, selector))
	if !eval[bool](p, fmt.Sprintf(`(() => { const e = document.querySelector(%q); e.value = %q; e.dispatchEvent(new Event("change", {bubbles: true})); return e.value == %q })()`, selector, value, value)) {
		p.t.Fatalf("%s has no choice %q", selector, value)
	}
}

// press clicks, with the mouse, the first thing that matches a selector, has these
// words, and is not covered. It waits until two looks find that in the same place: what
// arrives in a page moves it away from the mouse.
func (p *tab) press(selector, words string) {
	p.t.Helper()
	place := fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll(%q)].find((e) => e.checkVisibility() && (e.innerText.includes(%q) || e.ariaLabel?.includes(%q)));
		if (!e) return [];
		e.scrollIntoView({block: "center", behavior: "instant"});
		const r = e.getBoundingClientRect(), x = r.x + r.width / 2, y = r.y + r.height / 2, top = document.elementFromPoint(x, y);
		return top && (e.contains(top) || top.contains(e)) ? [x, y] : [];
	})()`, selector, words, words)
	var before []float64
	at := wait(p, place, func(at []float64) bool {
		still := len(at) == 2 && slices.Equal(at, before)
		before = at
		return still
	})
	p.do(chromedp.MouseClickXY(at[0], at[1]))
}

// follow does what leads to another page, and waits until that is there.
func (p *tab) follow(act func()) {
	p.t.Helper()
	eval[bool](p, "window.left = true")
	act()
	p.until(`!window.left && document.readyState == "complete"`)
}

// reload loads the page again.
func (p *tab) reload() {
	p.t.Helper()
	p.follow(func() { p.do(page.Reload()) })
}

// says waits until the page has a text.
func (p *tab) says(words string) {
	p.t.Helper()
	p.until(fmt.Sprintf(`document.body.innerText.includes(%q)`, words))
}

// streaming waits until the page says that its stream is open.
func (p *tab) streaming() {
	p.t.Helper()
	p.until(`window.streams > 0`)
}

// sound fails the test if anything went wrong in the pages, or is wider than the
// window in this one.
func (p *tab) sound() {
	p.t.Helper()
	p.clean()
	at := p.address()
	if wide := eval[string](p, `document.documentElement.scrollWidth > innerWidth ? [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1).slice(0, 3).map((e) => e.outerHTML.slice(0, 120)).join(" ") || "?" : ""`); wide != "" {
		p.t.Errorf("%s is wider than the window: %s", at, wide)
	}
	if what := eval[[]string](p, `window.forbidden ?? []`); len(what) > 0 {
		p.t.Errorf("the policy of %s forbids %q", at, what)
	}
}
