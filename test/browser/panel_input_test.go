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
	// Lines that are typed quickly go one after the other, and a refused one is not lost.
	eval[bool](p, `(() => {
		const real = window.fetch;
		window.calls = [];
		window.fetch = (to, o) => String(to).endsWith("/input") ? new Promise((done) => calls.push({line: o.body.get("line"), answer: done})) : real(to, o);
		window.restore = () => { window.fetch = real; return true };
		return true
	})()`)
	p.tabTo("input", "line")
	p.do(chromedp.KeyEvent("first"), chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent("second"), chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent("thi"))
	p.until(`calls.length > 0`)
	if got := eval[string](p, `calls.map((c) => c.line).join()`); got != "first" {
		t.Errorf("before an answer the page has sent %q", got)
	}
	refusal := `new Response('<main><div class="notice" role="alert"><p>No.</p></div></main>', {status: 409})`
	eval[bool](p, `(calls[0].answer(`+refusal+`), true)`)
	p.until(`calls[1]?.line == "second" && document.querySelector("#input-problem").innerText == "No. first" && document.querySelector("#line").value == "thi"`)
	p.do(chromedp.KeyEvent("rd"), chromedp.KeyEvent(kb.Enter))
	eval[bool](p, `(calls[1].answer(new Response(null, {status: 204})), true)`)
	p.until(`calls[2]?.line == "third" && document.querySelector("#input-problem").innerText.includes("first")`)
	eval[bool](p, `(calls[2].answer(`+refusal+`), true)`)
	p.until(`document.querySelector("#line").value == "third" && document.querySelector("#input-problem").innerText == "No. first"`)
	p.fill("#line", "first")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(`calls[3]?.line == "first" && document.querySelector("#input-problem").hidden`)
	eval[bool](p, `(calls[3].answer(new Response(null, {status: 204})), restore())`)
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
