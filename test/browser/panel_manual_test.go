package browser

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// Somebody new is led to what is left to do, leaves that, reads the documentation and finds the first steps again: with the mouse, then
// by the keyboard alone.
func TestPanelFirstStepsAndDocumentation(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	p := d.visitor()
	p.open(d.Base+"/", 200)
	p.follow(func() { p.press("main a", "First steps") })
	p.says("0 of 2 done")
	p.accessible(axe)
	p.follow(func() { p.press("main a", "Add a channel") })
	p.until(`location.pathname == "/account/channels"`)
	p.open(d.Base+"/first-steps", 200)
	p.follow(func() { p.press("main button", "Leave the first steps") })
	p.until(`location.pathname == "/" && !document.querySelector("a[href='/first-steps']")`)
	p.follow(func() { p.press("main a", "The documentation of this page") })
	p.until(`location.pathname == "/docs/panel"`)
	p.accessible(axe)
	p.follow(func() { p.press("header a", "Docs") })
	p.fill("#q", "restore yesterday")
	p.follow(func() { p.press("main button", "Search") })
	p.accessible(axe)
	p.follow(func() { p.press("main a", "Restore yesterday") })
	p.until(`location.pathname == "/docs/operations" && document.querySelector(":target").textContent == "Restore yesterday"`)
	p.sound()

	p.open(d.Base+"/docs", 200)
	p.tabTo("input", "q")
	p.do(chromedp.KeyEvent("webhook secret"))
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("sections have these words")
	p.tabTo("a", "First steps")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.tabTo("button", "Show them among the applications again")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.open(d.Base+"/", 200)
	p.says("First steps")
	p.sound()
}

// An administrator changes a setting with the mouse, another one by the keyboard, and is told of a bad value.
func TestPanelHostSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "berth.toml") // what is changed is written beside it
	if err := os.WriteFile(file, []byte("[apps]\npids_max = 100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := launch(t, "--config", file)
	axe := axe(t)
	d.lookAfter()
	p := d.visitor()
	p.open(d.Base+"/host", 200)
	p.follow(func() { p.press("main a", "Settings of the host") })
	p.accessible(axe)
	p.fill(`[name="apps.disk"]`, "4GB")
	p.says("decided by " + file + " line 2")
	p.follow(func() { p.press("main button", "Save") })
	p.says("The settings are stored")
	p.says("sudo systemctl reload berth")
	p.fill(`[name="apps.disk"]`, "much")
	p.follow(func() { p.press("main button", "Save") })
	p.says("expected a size")
	p.until(`document.querySelector('[name="apps.disk"]').value == "much"`)
	p.accessible(axe)
	p.open(d.Base+"/host/settings", 200)
	p.do(chromedp.Focus(`[name="build.queue"]`), chromedp.KeyEvent(kb.End), chromedp.KeyEvent("\b\b9"))
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("The settings are stored")
	p.until(`document.querySelector('[name="build.queue"]').value == "9"`)
	p.sound()
}
