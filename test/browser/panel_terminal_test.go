package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// screen is what the terminal of a page shows.
const screen = `[...document.querySelectorAll(".xterm-rows > div")].map((e) => e.textContent.trimEnd()).join("\n")`

// types types a line into what has the focus. Letters come as from a keyboard.
func (p *tab) types(line string) {
	p.t.Helper()
	for _, letter := range line + "\r" {
		text, key := string(letter), string(letter)
		if letter == '\r' {
			key = "Enter"
		}
		// A character that is sent apart from its key is typed twice: the terminal takes keys.
		p.do(input.DispatchKeyEvent(input.KeyDown).WithText(text).WithKey(key).WithWindowsVirtualKeyCode(virtual(letter)), input.DispatchKeyEvent(input.KeyUp).WithKey(key))
	}
}

// virtual is the number of the key of a letter, where a program asks for it.
func virtual(letter rune) int64 {
	if letter == '\r' {
		return 13
	}
	return 0
}

// Somebody opens a shell in an application, types and reads, and makes the window smaller; with the
// keyboard alone they go in and out, end the session and begin another one.
func TestPanelTerminal(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	p.open(d.Base+"/apps/"+id, 200)
	p.tabTo("a", "Terminal")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	open := `document.querySelector("#terminal-state").textContent == "The session is open."`
	p.until(open + ` && document.activeElement.classList.contains("xterm-helper-textarea")`)
	p.types(`echo one""two; stty size; pwd`)
	p.until(`/\nonetwo\n\d+ \d+\n\//.test(` + screen + `)`)
	if !strings.Contains(eval[string](p, screen), "\n/") {
		t.Errorf("the shell is nowhere: %s", eval[string](p, screen))
	}
	size := eval[string](p, screen+`.match(/^\d+ \d+$/m)[0]`)
	p.size(700, 700, false)
	p.types("clear; stty size; echo do\"\"ne")
	p.until(`/\d+ \d+\ndone/.test(` + screen + `)`)
	if smaller := eval[string](p, screen+`.match(/^\d+ \d+$/m)[0]`); smaller == size {
		t.Errorf("in a smaller window it still has the size %s", size)
	}
	p.types(`sh -c 'echo be""gun; exec sleep 1000'`)
	p.until(screen + `.includes("begun")`)
	p.do(chromedp.KeyEvent("c", chromedp.KeyModifiers(input.ModifierCtrl)))
	p.types("echo code $?")
	p.until(screen + `.includes("code 130")`)
	// On plain HTTP there is no clipboard for scripts: the browser copies what is selected.
	eval[bool](p, `(() => {
		Object.defineProperty(Navigator.prototype, "clipboard", {get() {}});
		document.querySelector("#terminal-copy").hidden = true;
		document.addEventListener("copy", (e) => { window.copied = e.clipboardData.getData("text/plain") });
		return true
	})()`)
	at := eval[[]float64](p, `(() => {
		const row = [...document.querySelectorAll(".xterm-rows > div")].find((e) => e.textContent.startsWith("code 130")), r = row.getBoundingClientRect();
		return [r.x + 12, r.y + r.height / 2]
	})()`)
	p.do(chromedp.MouseClickXY(at[0], at[1], chromedp.ClickCount(2)))
	p.do(input.DispatchKeyEvent(input.KeyDown).WithKey("c").WithCode("KeyC").WithWindowsVirtualKeyCode(67).WithModifiers(input.ModifierCtrl).WithCommands([]string{"copy"}))
	p.until(`window.copied == "code"`)
	p.do(chromedp.KeyEvent(kb.F6, chromedp.KeyModifiers(input.ModifierShift)))
	if !eval[bool](p, `!document.querySelector("#terminal-box").contains(document.activeElement)`) {
		t.Error("the keyboard does not leave the terminal")
	}
	p.sound()
	p.tabTo("textarea", "What you type")
	p.types("exit 7")
	p.until(`document.querySelector("#terminal-state").textContent == "The session has ended with the exit code 7." && document.activeElement.id == "terminal-again"`)
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(open)
	p.size(390, 800, true)
	p.types("echo three")
	p.until(screen + `.includes("\nthree")`)
	p.press("#terminal-keys button", "↑")
	p.do(chromedp.KeyEvent(kb.Enter))
	p.until(screen + `.match(/^three$/mg)?.length == 2`)
	p.sound()
	d.put("/app/"+id+"/stop", "")
	p.says("The session has ended with the exit code")
	if !strings.Contains(d.run("audit"), "app.exec.end") {
		t.Error("the audit log has no end of a session")
	}
	p.sound()
}

// Without JavaScript, the page says what opens a shell instead.
func TestPanelTerminalWithoutScripts(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	p.scripts(false)
	p.open(d.Base+"/apps/"+id+"/terminal", 200)
	p.says("berth exec " + id)
	p.sound()
}
