package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// A page with a live stream can be loaded again and again: each time its stream
// opens, and none stays behind.
func TestPanelReloads(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	for _, path := range []string{"/apps/" + id + "/logs", "/apps/" + id, "/"} {
		p.open(d.Base+path, 200)
		for range 10 {
			p.streaming()
			p.reload()
		}
		p.streaming()
		p.sound()
	}
}

// A line that a program prints appears in a page that is open, as does what happens
// to the program.
func TestPanelLive(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.streaming()
	eval[bool](p, "window.same = true")
	last := eval[int](p, newest)
	p.until(fmt.Sprintf("%s > %d", newest, last+3))
	other := p.beside()
	other.watch()
	other.open(d.Base+"/", 200)
	other.streaming()
	eval[bool](other, "window.same = true")
	d.put("/app/"+id+"/stop", "")
	p.until(`document.querySelector("[data-part=state]").innerText.includes("Stopped")`)
	other.until(`document.querySelector("#apps").innerText.includes("Stopped")`)
	d.put("/app/"+id+"/start", "")
	p.until(`document.querySelector("[data-part=state]").innerText.includes("Online")`)
	other.until(`document.querySelector("#apps").innerText.includes("Online")`)
	p.until(`[...document.querySelectorAll("#log > *")].filter((e) => e.textContent.includes("version 1")).length == 2`) // the new run's lines come too
	if !eval[bool](p, "window.same") || !eval[bool](other, "window.same") {
		t.Error("a page was loaded again to show what is new")
	}
	p.sound()
	other.sound()
}

// A page that nobody sees has no stream; when it is seen again, it knows what has
// happened.
func TestPanelHidden(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	p.open(d.Base+"/apps/"+id, 200)
	p.streaming()
	other := p.over()
	other.open(d.Base+"/account", 200)
	p.until("document.hidden")
	d.put("/app/"+id+"/stop", "")
	p.do(page.BringToFront())
	// The second stream is a new one: the first has ended.
	p.until(`!document.hidden && window.streams >= 2 && document.querySelector("[data-part=state]").innerText.includes("Stopped")`)
	p.sound()
}

// newest is the number in the last line of a ticker's log.
const newest = `Number(document.querySelector("#log > :last-child")?.textContent.match(/tick (\d+)/)?.[1] ?? 0)`

// focused tells what has the focus, and whether one can see that.
const focused = `(() => {
	const e = document.activeElement, s = getComputedStyle(e);
	return [e.innerText || e.ariaLabel || e.name || "", s.outlineStyle != "none" && parseFloat(s.outlineWidth) >= 1 ? "seen" : "unseen", e.localName];
})()`

// tabTo presses Tab until what has these words has the focus.
func (p *tab) tabTo(tag, words string) {
	p.t.Helper()
	for range 80 {
		p.do(chromedp.KeyEvent(kb.Tab))
		at := eval[[]string](p, focused)
		if at[2] != "body" && at[1] != "seen" {
			p.t.Errorf("one cannot see the focus of %q in %s", at, p.address())
		}
		if eval[bool](p, fmt.Sprintf(`document.activeElement.localName == %q && (document.activeElement.innerText + document.activeElement.ariaLabel + document.activeElement.name).includes(%q)`, tag, words)) {
			return
		}
	}
	p.t.Fatalf("the keyboard does not lead to %s %q in %s", tag, words, p.address())
}

// Somebody without a mouse signs in, finds an application and restarts it.
func TestPanelByKeyboard(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	d.ticker(t, "Another")
	d.runWith(secret+"\n", "account", "password", "ana")
	p := chromium(t, "").tab()
	p.watch()
	p.open(d.Base+"/", 200)
	p.tabTo("a", "Skip")
	p.tabTo("input", "name")
	p.do(chromedp.KeyEvent("ana"))
	p.tabTo("input", "password")
	p.do(chromedp.KeyEvent(secret))
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.streaming()
	p.tabTo("input", "q")
	p.do(chromedp.KeyEvent("greet"))
	p.until(`[...document.querySelectorAll("#apps > li")].filter((e) => e.checkVisibility()).length == 1`)
	p.tabTo("a", "Greeter")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.until(`location.pathname == "/apps/` + id + `"`)
	p.tabTo("button", "Restart")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("was restarted")
	p.sound()
}
