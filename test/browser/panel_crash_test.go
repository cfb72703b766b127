package browser

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// An owner finds in the panel why a program crashed, mends it in the editor, and starts it.
func TestPanelMendsACrash(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.upload(map[string]string{
		"discloud.config": bot("Greeter", 64), "config.json": `{"name": "hello"}`,
		"index.js": "const config = require('./Config.json');\nconsole.log('I say', config.name);\nsetInterval(() => {}, 1000);\n",
	})
	p := d.visitor()
	p.open(d.Base+"/", 200)
	p.says("Cannot find module './Config.json'")
	p.sound()
	p.follow(func() { p.press("#apps h2 a", "Greeter") })
	p.says("Capital and small letters differ here")
	p.until(`document.querySelector(".log .likely").innerText.includes("Cannot find module")`)
	p.sound()
	p.follow(func() { p.press(".crash a.main", "Edit index.js") })
	p.edits("const config = require('./config.json');\nconsole.log('I say', config.name);\nsetInterval(() => {}, 1000);\n")
	p.follow(func() { p.press("form button.main", "Save") })
	p.says("The file was saved.")
	p.follow(func() { p.press("[data-part=buttons] button", "Start") })
	p.says("Greeter was started.")
	p.until(`document.querySelector("[data-part=state]").innerText.includes("Online") && !document.querySelector(".crash")`)
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.says("I say hello")
	p.sound()
}

// Files are made, moved and deleted by keyboard alone.
func TestPanelFilesByKeyboard(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	at := fmt.Sprintf("%s/apps/%s/files", d.Base, id)
	press := func(key string) { p.follow(func() { p.do(chromedp.KeyEvent(key)) }) }
	p.open(at, 200)
	p.sound()
	p.tabTo("input", "name")
	p.do(chromedp.KeyEvent("notes"))
	p.tabTo("button", "New directory")
	press(kb.Enter)
	p.says("The directory was created.")
	p.open(at, 200)
	p.tabTo("input", "name")
	p.do(chromedp.KeyEvent("a.txt"))
	press(kb.Enter) // the first button makes a file
	p.says("The file was created.")
	p.open(at, 200)
	p.tabTo("input", "a.txt")
	p.do(chromedp.KeyEvent(" "))
	p.tabTo("input", "to")
	p.do(chromedp.KeyEvent("notes/b.txt"))
	p.tabTo("button", "Move")
	press(kb.Enter)
	p.says("1 file was moved.")
	p.open(at+"?path=notes", 200)
	p.says("b.txt")
	p.open(at, 200)
	p.tabTo("input", "notes")
	p.do(chromedp.KeyEvent(" "))
	p.tabTo("button", "Delete")
	press(kb.Enter)
	p.says("Delete 1 file for good?")
	p.sound()
	p.tabTo("button", "Delete")
	press(kb.Enter)
	p.says("1 file was deleted.")
	p.open(at+"?path=notes", 404)
}
