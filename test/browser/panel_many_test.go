package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// control presses a letter with Ctrl.
func (p *tab) control(letter string) {
	p.t.Helper()
	p.do(chromedp.KeyEvent(letter, chromedp.KeyModifiers(input.ModifierCtrl)))
}

// stroke is the press of a key that writes, as a keyboard has it: what the page
// prevents writes nothing. chromedp.KeyEvent sends the letter as an event of its
// own, which Chromium gives to whatever has the focus by then.
func stroke(letter rune) chromedp.Tasks {
	k := kb.Keys[letter]
	down := input.DispatchKeyEvent(input.KeyDown).WithKey(k.Key).WithCode(k.Code).WithWindowsVirtualKeyCode(k.Windows).
		WithText(k.Text).WithUnmodifiedText(k.Unmodified)
	if k.Shift {
		down = down.WithModifiers(input.ModifierShift)
	}
	up := *down
	up.Type, up.Text, up.UnmodifiedText = input.KeyUp, "", ""
	return chromedp.Tasks{down, &up}
}

// selected is what the palette has chosen, as readers of the screen are told.
const selected = `document.getElementById(document.querySelector("#palette input").getAttribute("aria-activedescendant") ?? "")?.innerText ?? ""`

// Several applications are chosen in a table and stopped, by mouse, and what is chosen stays so while the list updates itself.
func TestPanelActsOnSeveral(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	hostile := `<b>"Bot"</b>`
	first := d.ticker(t, "Greeter")
	d.ticker(t, "Another")
	d.ticker(t, hostile)
	p := d.visitor()
	p.streaming()
	p.follow(func() { p.press(".views button", "Table") })
	p.says(hostile)
	p.streaming()
	p.until(`document.querySelector(".deeds button").disabled`)
	p.looked(axe, "many-table")
	eval[bool](p, fmt.Sprintf(`(() => { document.querySelector('#apps input[value=%q]').click(); return true })()`, first))
	p.until(`document.querySelector("#how-many").innerText == "1 chosen"`)
	d.put("/app/"+first+"/stop", "")
	p.until(`document.querySelector("#apps").innerText.includes("Stopped")`)
	p.until(`document.querySelector("#apps input:checked")?.value == "` + first + `"`)
	p.press(".every", "All on this page")
	p.until(`document.querySelector("#how-many").innerText == "3 chosen"`)
	p.follow(func() { p.press(".deeds button", "Stop") })
	p.says("Stop 2 applications?")
	p.says("1 application that was chosen is left out:")
	p.says(hostile)
	p.looked(axe, "many-confirm")
	p.follow(func() { p.press("main button", "Stop") })
	p.says("2 applications were stopped")
	p.looked(axe, "many-result")
	p.follow(func() { p.press("main a.button", "To the applications") })
	p.until(`[...document.querySelectorAll("#apps .state")].every((e) => e.innerText.trim() == "Stopped")`)
	p.follow(func() { p.press("th a", "Name") })
	if got := eval[string](p, `[...document.querySelectorAll("#apps tbody th a")].map((a) => a.innerText).join()`); got != hostile+",Another,Greeter" {
		t.Errorf("by name: %s", got)
	}
	p.follow(func() { p.press("th a", "Name") })
	if got := eval[string](p, `[...document.querySelectorAll("#apps tbody th a")].map((a) => a.innerText).join()`); got != "Greeter,Another,"+hostile {
		t.Errorf("turned around: %s", got)
	}
	for _, width := range []int64{360, 1280} {
		p.size(width, 800, false)
		p.sound()
	}
}

// The same by keyboard alone.
func TestPanelActsOnSeveralByKeyboard(t *testing.T) {
	t.Parallel()
	d := launch(t)
	d.ticker(t, "Greeter")
	d.ticker(t, "Another")
	p := d.visitor()
	press := func(key string) { p.follow(func() { p.do(chromedp.KeyEvent(key)) }) }
	p.tabTo("button", "Table")
	press(kb.Enter)
	p.tabTo("input", "Choose Another")
	p.do(chromedp.KeyEvent(" "))
	p.open(d.Base+"/", 200)
	p.tabTo("input", "Choose Greeter")
	p.do(chromedp.KeyEvent(" "))
	p.until(`document.querySelector("#how-many").innerText == "1 chosen"`)
	for range 40 { // back to the buttons above the list
		p.do(chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(input.ModifierShift)))
		if eval[bool](p, `document.activeElement.value == "restart"`) {
			break
		}
	}
	press(kb.Enter)
	p.says("Restart 1 application?")
	p.tabTo("button", "Restart")
	press(kb.Enter)
	p.says("1 application was restarted")
	p.sound()
}

// Without scripts the table, the boxes, the question and the result work too.
func TestPanelActsOnSeveralWithoutScripts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	d.ticker(t, "Greeter")
	d.ticker(t, "Another")
	p := chromium(t, "").tab()
	p.scripts(false)
	d.person(p, "ana")
	p.follow(func() { p.press(".views button", "Table") })
	p.follow(func() { p.press(".deeds button", "Stop") })
	p.says("Choose the applications first.")
	p.press("#apps input[type=checkbox]", "Choose Another")
	p.follow(func() { p.press(".deeds button", "Stop") })
	p.says("Stop 1 application?")
	p.follow(func() { p.press("main button", "Stop") })
	p.says("1 application was stopped")
	if eval[bool](p, `document.querySelector("#find").checkVisibility()`) {
		t.Error("there is a button that does nothing")
	}
	p.open(d.Base+"/?q=greet", 200)
	if got := eval[int](p, `document.querySelectorAll("#apps tbody tr").length`); got != 1 {
		t.Errorf("the search finds %d", got)
	}
}

// The palette finds applications, pages and actions; keys that somebody types are left alone.
func TestPanelPalette(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	id := d.ticker(t, "Greeter")
	d.ticker(t, `<img src=x onerror=evil=1>`)
	p := d.visitor()
	p.do(stroke('/'))
	p.until(`document.querySelector("#palette").open && document.querySelectorAll("#found li").length > 5`)
	p.says(`<img src=x onerror=evil=1>`)
	p.looked(axe, "palette")
	p.do(chromedp.KeyEvent("logs greet"))
	p.until(selected + `.includes("Logs")`)
	p.do(chromedp.KeyEvent(" /?")) // are typed
	p.until(`document.querySelector("#palette input").value == "logs greet /?" && document.querySelectorAll("#found li").length == 0`)
	p.says("Nothing was found.")
	p.do(chromedp.KeyEvent(kb.Escape))
	p.until(`!document.querySelector("#palette").open && document.activeElement == document.body`)

	p.control("k")
	p.until(`document.querySelectorAll("#found li").length > 5`)
	first := eval[string](p, selected)
	p.do(chromedp.KeyEvent(kb.ArrowDown))
	if second := eval[string](p, selected); second == first || second == "" {
		t.Errorf("the arrow leads from %q to %q", first, second)
	}
	p.do(chromedp.KeyEvent(kb.ArrowUp), chromedp.KeyEvent(kb.ArrowUp))
	p.until(selected + `.includes("Sign out")`)
	p.do(chromedp.KeyEvent("restart greeter"))
	p.until(selected + `.includes("Restart")`)
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("Greeter was restarted.")

	p.press("#find", "Find")
	p.until(`document.querySelectorAll("#found li").length > 5`)
	p.do(chromedp.KeyEvent("greeter"))
	p.until(selected + `.includes("Greeter")`)
	p.follow(func() { p.press("#found li", "Greeter") })
	p.until(`location.pathname == "/apps/` + id + `"`)

	p.open(d.Base+"/", 200)
	p.fill("#q", "")
	p.do(stroke('/'), stroke('?'))
	if got := eval[string](p, `document.querySelector("#q").value + document.querySelectorAll("dialog[open]").length`); got != "/?0" {
		t.Errorf("while typing: %q", got)
	}
	p.open(d.Base+"/account", 200)
	p.do(stroke('?'))
	p.until(`document.querySelector("#keys").open`)
	p.looked(axe, "keys")
	p.follow(func() { p.press("#keys button", "Switch / and ? off") })
	p.do(stroke('?'), stroke('/'))
	if eval[bool](p, `document.querySelector("dialog[open]") != null`) {
		t.Error("keys that are switched off do something")
	}
	p.control("k")
	p.until(`document.querySelector("#palette").open`)
	p.do(chromedp.KeyEvent(kb.Escape))
	if what := eval[string](p, `String(window.evil)`); what != "undefined" || strings.Contains(p.text(), "onerror") {
		t.Errorf("a name ran, or is on a page that does not show it: %s", what)
	}
	p.sound()
}
