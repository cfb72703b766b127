package browser

import (
	"testing"
)

// Without JavaScript people can do everything: forms are enough.
func TestPanelWithoutScripts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	d.lookAfter()
	d.channels()
	id := d.ticker(t, "Greeter")
	p := chromium(t, "").tab()
	p.scripts(false)
	d.person(p, "ana")
	for _, path := range d.pages(p, id) {
		p.open(d.Base+path, 200)
		if eval[bool](p, `document.querySelector("[data-script]:not([hidden])")`+" != null") {
			t.Errorf("%s has run its scripts", path)
		}
		p.sound()
	}
	p.open(d.Base+"/apps/"+id, 200)
	p.follow(func() { p.press("[data-part=buttons] button", "Stop") })
	p.says("was stopped")
	p.follow(func() { p.press("[data-part=buttons] button", "Start") })
	p.says("was started")
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.says("version 1")
	p.open(d.Base+"/?q=nothing", 200)
	p.says("None of your applications")

	p.open(d.Base+"/account", 200)
	p.follow(func() { p.press("section[aria-labelledby=tokens] button", "Create a token") })
	if got := d.curl(p.made()); got != "200" {
		t.Errorf("the API answers a new token with %s", got)
	}
	p.open(d.Base+"/apps/"+id+"/env", 200)
	p.fill("#name", "COLOUR")
	p.fill("#new", "blue")
	p.follow(func() { p.press("section[aria-labelledby=variables] button", "Set") })
	p.follow(func() { p.press("section[aria-labelledby=variables] button", "Show COLOUR") })
	if got := eval[string](p, `document.querySelector("#value").value`); got != "blue" {
		t.Errorf("the variable is %q", got)
	}
	p.sound()

	files := load(t, "ticker")
	files["discloud.config"] = bot("Second", 100, "BUILD=node build.js")
	p.open(d.Base+"/upload", 200)
	p.attach("#file", zipped(t, files))
	p.follow(func() { p.press("form[data-drop] button", "Upload") })
	p.until(`location.pathname.startsWith("/uploads/")`)
	p.says("Second is online") // the page comes again by itself
	p.sound()
}
