package browser

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// reading is a program that prints each line that it reads.
const reading = `require("readline").createInterface({input: process.stdin}).on("line", (l) => console.log("got", l)); console.log("up")`

// Somebody types lines to a program below its log, one after the other; and, without JavaScript, by a form.
func TestPanelInput(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.upload(map[string]string{"index.js": reading, "discloud.config": bot("Reader", 100, "STDIN=true")})
	other := d.ticker(t, "Greeter")
	p := d.visitor()
	p.open(d.Base+"/apps/"+other+"/logs", 200)
	if eval[bool](p, `document.querySelector("#input") != null`) {
		t.Error("an application that reads nothing has a field for it")
	}
	p.open(d.Base+"/apps/"+id+"/logs", 200)
	p.streaming()
	eval[bool](p, "window.same = true")
	p.tabTo("input", "line")
	for n := range 3 {
		line := fmt.Sprintf("line %d <b>", n)
		p.do(chromedp.KeyEvent(line), chromedp.KeyEvent(kb.Enter))
		p.until(fmt.Sprintf(`document.querySelector("#log").textContent.includes("got %s")`, line))
		p.until(`document.activeElement.id == "line" && document.activeElement.value == ""`)
	}
	if !eval[bool](p, "window.same") {
		t.Error("the page was left to send a line")
	}
	p.sound()
	d.put("/app/"+id+"/stop", "")
	p.until(`document.querySelector("[data-part=state]").innerText.includes("Stopped")`)
	p.press("#input button", "Send")
	p.says("The application is offline, so nothing reads this line; start it first.")
	p.found() // the refusal is a request that failed
	d.put("/app/"+id+"/start", "")

	plain := p.beside()
	plain.scripts(false)
	plain.open(d.Base+"/apps/"+id+"/logs", 200)
	plain.fill("#line", "by a form")
	plain.follow(func() { plain.do(chromedp.KeyEvent(kb.Enter)) })
	if !strings.HasSuffix(plain.address(), "/logs?of=program#line") {
		t.Errorf("the form leads to %s", plain.address())
	}
	p.says("got by a form")
}
