package browser

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// An application gets a picture with the mouse, which its pages and the list show, and loses it by the keyboard alone. What is
// no picture is refused with a sentence.
func TestPanelIcon(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	id := d.ticker(t, "Greeter")
	file := func(name string, content []byte) string {
		t.Helper()
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 300, 200))); err != nil {
		t.Fatal(err)
	}
	shown := `[...document.querySelectorAll("img.tile")].some((e) => e.complete && e.naturalWidth == 128 && e.naturalHeight == 128)`
	p := d.visitor()
	p.open(d.Base+"/apps/"+id+"/settings", 200)
	p.until(`!document.querySelector("img.tile")`)
	p.attach("#picture", file("icon.png", []byte("<svg xmlns='http://www.w3.org/2000/svg'/>")))
	p.follow(func() { p.press("section[aria-labelledby=icon] button", "Upload") })
	p.forgive()
	p.says("PNG, JPEG or WebP")
	p.attach("#picture", file("icon.png", picture.Bytes()))
	p.follow(func() { p.press("section[aria-labelledby=icon] button", "Upload") })
	p.until(shown)
	p.accessible(axe)
	p.open(d.Base+"/", 200)
	p.until(shown)
	p.sound()

	p.open(d.Base+"/apps/"+id+"/settings", 200)
	p.tabTo("button", "Remove the icon")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.until(`location.pathname.endsWith("/settings") && !document.querySelector("img.tile")`)
	p.sound()
}
