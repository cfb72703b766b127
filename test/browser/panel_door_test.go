package browser

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// looked fails the test for each barrier in the page, and takes its pictures if
// BERTH_SCREENSHOTS says where they stay.
func (p *tab) looked(axe, name string) {
	p.t.Helper()
	p.accessible(axe)
	for _, l := range looks {
		if os.Getenv("BERTH_SCREENSHOTS") == "" {
			break
		}
		p.size(l.width, l.height, false)
		p.prefer("prefers-color-scheme", l.scheme, "prefers-reduced-motion", "reduce")
		p.picture(fmt.Sprintf("%s-%s-%d", name, l.scheme, l.width))
	}
	p.size(1280, 800, false)
}

// speaks changes the language of the account.
func (d *daemon) speaks(p *tab, locale, save string) {
	d.t.Helper()
	p.open(d.Base+"/account", 200)
	p.choose("#locale", locale)
	p.follow(func() { p.press("section[aria-labelledby=language] button", save) })
}

// A token for one application with two permissions is made by the keyboard alone. What the
// form refuses keeps what was chosen.
func TestPanelTokenWithBounds(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	id := d.ticker(t, "Greeter")
	d.ticker(t, "Another, whose name is as long")
	p := d.visitor()
	p.open(d.Base+"/account", 200)
	p.tabTo("input", "label")
	p.do(chromedp.KeyEvent("ci"))
	p.tabTo("summary", "Only for some")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`document.querySelector("details.bounds").open`)
	p.looked(axe, "token-form")
	p.tabTo("input", "app")
	for !eval[bool](p, `document.activeElement.value == "`+id+`"`) {
		p.do(chromedp.KeyEvent(kb.Tab))
	}
	p.do(chromedp.KeyEvent(" "))
	p.tabTo("button", "Create a token")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("permission") // which it lacks
	if !eval[bool](p, `document.querySelector("details.bounds").open && document.querySelector("input[value='`+id+`']").checked && document.querySelector("#label").value == "ci"`) {
		t.Error("what was chosen is forgotten")
	}
	p.looked(axe, "token-refused")
	for _, may := range []string{"commit_app", "logs_app"} {
		eval[bool](p, `document.querySelector("details.bounds input[value=`+may+`]").focus(), true`)
		p.do(chromedp.KeyEvent(" "))
	}
	p.tabTo("button", "Create a token")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.until(`document.querySelector("#secret")?.value`)
	p.looked(axe, "token-made")
	token := p.made()
	row := eval[string](p, `[...document.querySelectorAll("section[aria-labelledby=tokens] li")].at(-1).innerText`)
	if !strings.Contains(row, "only Greeter") || strings.Contains(row, "Another") {
		t.Errorf("the token is described as %q", row)
	}
	own := d.token
	d.token = token
	for path, want := range map[string]int{"/app/" + id + "/logs": 200, "/app/" + id + "/env": 403, "/token": 403} {
		if status, text := d.ask("GET", path, "", nil); status != want {
			t.Errorf("%s with the token: %d %s", path, status, text)
		}
	}
	d.token = own
	d.speaks(p, "pt-BR", "Save")
	p.press("details.bounds summary", "Só para")
	p.looked(axe, "token-form-pt")
}

// What the page of codes refuses is a sentence on the page, in the person's language.
func TestPanelDeviceRefuses(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	p := d.visitor()
	for _, l := range []struct{ name, wrong, many string }{
		{"", "No program waits with this code", "Too many"},
		{"-pt", "Nenhum programa espera com este código", "demais"},
	} {
		if l.name != "" {
			d.speaks(p, "pt-BR", "Save")
		}
		asked := d.asked("authorize", "machine", "ana's laptop with a rather long name, 64 characters are allowed")
		type1 := func(code string) {
			p.fill("#code", code)
			p.follow(func() { p.press("main button", "Continu") })
		}
		p.open(d.Base+"/device", 200)
		p.looked(axe, "device-code"+l.name)
		type1("BBBB-BBBB")
		p.says(l.wrong)
		p.looked(axe, "device-wrong"+l.name)
		type1(asked.Code)
		p.says(asked.Code)
		p.looked(axe, "device-ask"+l.name)
		p.follow(func() { p.press("main form[action='/device/deny'] button", "") })
		p.looked(axe, "device-denied"+l.name)
	}
	for range 5 {
		p.open(d.Base+"/device", 200)
		p.fill("#code", "CCCC-CCCC")
		p.follow(func() { p.press("main button", "Continu") })
	}
	p.looked(axe, "device-many-pt")
	p.sound()
}

// An exact deploy is a choice on the page, and the list of deploys says which were.
func TestPanelDeploysExactly(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	files := load(t, "ticker")
	files["discloud.config"], files["old.txt"] = bot("Greeter", 100), "old"
	id := d.upload(files)
	p := d.visitor()
	p.open(d.Base+"/apps/"+id+"/commit", 200)
	p.looked(axe, "exact-choice")
	delete(files, "old.txt")
	p.attach("#file", zipped(t, files))
	eval[bool](p, `document.querySelector("input[name=exact]").focus(), true`)
	p.do(chromedp.KeyEvent(" "))
	p.until(`document.querySelector("input[name=exact]").checked`)
	p.looked(axe, "exact-chosen")
	p.follow(func() { p.press("form[data-upload] button", "Deploy it") })
	p.says("Greeter is online")
	p.looked(axe, "exact-done")
	p.open(d.Base+"/apps/"+id+"/files", 200)
	if strings.Contains(p.text(), "old.txt") {
		t.Error("old.txt is there still")
	}
	p.open(d.Base+"/apps/"+id+"/deploys", 200)
	p.says("exact")
	p.looked(axe, "exact-deploys")
	d.speaks(p, "pt-BR", "Save")
	p.open(d.Base+"/apps/"+id+"/commit", 200)
	p.looked(axe, "exact-choice-pt")
	p.open(d.Base+"/apps/"+id+"/deploys", 200)
	p.looked(axe, "exact-deploys-pt")
	p.sound()
}
