package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"berth/test/harness"
)

// edits types a text into the editor of a file, in place of what is there.
func (p *tab) edits(text string) {
	p.t.Helper()
	p.until(`!!document.querySelector(".codemirror")?.shadowRoot.querySelector(".cm-content")`)
	eval[bool](p, `(() => { document.querySelector(".codemirror").shadowRoot.querySelector(".cm-content").focus(); return true })()`)
	p.control("a")
	p.do(chromedp.KeyEvent(kb.Delete))
	for n, line := range strings.Split(text, "\n") {
		if n > 0 {
			p.types("") // Enter
		}
		p.do(chromedp.KeyEvent(line)) // text that is inserted would pass the keys by
	}
}

// stays does what leads to another page, and fails unless the page asks first. The answer is to stay.
func (p *tab) stays(act func()) {
	p.t.Helper()
	asks := make(chan bool, 8)
	on, off := context.WithCancel(p.ctx)
	defer off()
	chromedp.ListenTarget(on, func(event any) {
		switch e := event.(type) {
		case *page.EventJavascriptDialogOpening:
			asks <- e.Type == page.DialogTypeBeforeunload
			go func() { // a listener must not wait for the browser
				ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
				defer cancel()
				if err := page.HandleJavaScriptDialog(false).Do(cdp.WithExecutor(ctx, chromedp.FromContext(p.ctx).Target)); err != nil {
					p.t.Errorf("cannot answer the page: %v", err)
				}
			}()
		case *page.EventFrameNavigated:
			asks <- false
		}
	})
	act()
	select {
	case is := <-asks:
		if !is {
			p.t.Fatal("the page is left without a question")
		}
	case <-time.After(harness.Patience):
		p.t.Fatal("the page is not left")
	}
}

// What somebody types does not go over what the program writes meanwhile; by keyboard, Tab does not trap.
func TestPanelEditorWarns(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	file := filepath.Join(d.data, "apps", id, "notes.js")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want string) {
		t.Helper()
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Fatalf("the file holds %q, %v; want %q", got, err, want)
		}
	}
	p := d.visitor()
	p.open(fmt.Sprintf("%s/apps/%s/files", d.Base, id), 200)
	p.fill("#name", "notes.js")
	p.follow(func() { p.press("button", "New file") })
	p.tabTo("div", "")
	p.do(chromedp.KeyEvent("let a = 1;"))
	p.do(chromedp.KeyEvent(kb.Tab)) // indents
	p.until(`document.activeElement.localName == "div"`)
	p.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent(kb.Tab))
	p.until(`document.activeElement.innerText == "Save"`)
	p.sound()
	p.edits("typed(); // is it? a/b\n")
	write("of the program\n")
	p.follow(func() { p.control("s") })
	p.forgive()
	p.says("has written this file since you opened it")
	holds("of the program\n")
	p.stays(func() { p.press("a", "Logs") }) // the text is as the page came, and is nowhere else
	p.follow(func() { p.press("button", "Save anyway") })
	p.says("The file was saved.")
	holds("typed(); // is it? a/b\n")
	p.edits("more();\n")
	p.follow(func() { p.press("button", "Save and restart") })
	p.says("The file was saved, and Greeter was restarted.")
	holds("more();\n")
	p.sound()
}

// A folder comes with all that is in it, nothing is replaced without being asked, and a ZIP is unpacked.
func TestPanelUploadsFolders(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	tree := filepath.Join(d.data, "apps", id)
	folder := filepath.Join(t.TempDir(), "site")
	for name, text := range map[string]string{"index.html": "1", "css/deep/a.css": "2"} {
		file := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(name, want string) {
		t.Helper()
		if got, err := os.ReadFile(filepath.Join(tree, name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v; want %q", name, got, err, want)
		}
	}
	p := d.visitor()
	at := fmt.Sprintf("%s/apps/%s/files", d.Base, id)
	for _, scripts := range []bool{true, false} {
		p.scripts(scripts)
		p.open(at, 200)
		p.attach("#folder", folder)
		p.press("form[data-many] button", "Upload")
		if scripts {
			p.says("2 files were uploaded.")
			p.sound()
		} else {
			p.says("2 files were not stored")
		}
		holds("site/index.html", "1")
		holds("site/css/deep/a.css", "2")
	}
	p.forgive()
	p.scripts(true)
	p.open(at, 200)
	p.attach("#folder", folder)
	p.press("form[data-many] button", "Upload")
	p.says("2 files were not stored")
	p.forgive()
	p.press("[data-again]", "Upload again")
	p.says("2 files were uploaded.")
	zip := filepath.Join(t.TempDir(), "in.zip")
	if err := os.WriteFile(zip, harness.Zip(map[string]string{"site/index.html": "3", "new.txt": "4"}), 0o600); err != nil {
		t.Fatal(err)
	}
	p.attach("#zip", zip)
	p.press("form[data-send] button", "Upload and unzip")
	p.says("Nothing was unpacked: 1 of the files are here already")
	p.forgive()
	holds("site/index.html", "1")
	p.attach("#file", zip)
	p.press("form[data-many] button", "Upload")
	p.says("1 file was uploaded.")
	p.follow(func() { p.press("button", "Unzip in.zip") })
	p.says("Replace 1 file?")
	p.sound()
	p.follow(func() { p.press("button", "Unzip, and replace them") })
	p.says("2 files were unpacked.")
	holds("site/index.html", "3")
	holds("new.txt", "4")
	p.sound()
}
