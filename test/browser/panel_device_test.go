package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// device is a program that waits for a token.
type device struct {
	Secret string `json:"device_code"`
	Code   string `json:"user_code"`
	Page   string `json:"verification_uri"`
	Token  string `json:"access_token"`
	Word   string `json:"error"`
}

// asked sends a form of the device flow, as a program would.
func (d *daemon) asked(path string, pairs ...string) (got device) {
	d.t.Helper()
	form := url.Values{"client_id": {"my-tool"}}
	for i := 0; i < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	resp, err := http.DefaultClient.PostForm(d.Base+"/v2/device/"+path, form)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		d.t.Fatal(err)
	}
	return got
}

// fetched is what the program of a code gets.
func (d *daemon) fetched(of device) device {
	d.t.Helper()
	return d.asked("token", "grant_type", "urn:ietf:params:oauth:grant-type:device_code", "device_code", of.Secret)
}

// A person types the code that a program shows, with the mouse or by the keyboard alone,
// with scripts and without, and the program gets a token, or none.
func TestPanelDevice(t *testing.T) {
	t.Parallel()
	d := launch(t)
	axe := axe(t)
	p := d.visitor()
	first := d.asked("authorize", "machine", "laptop")
	if first.Page != d.Base+"/device" {
		t.Fatalf("got %+v", first)
	}
	p.open(d.Base+"/account", 200)
	p.follow(func() { p.press("main a", "by its code") })
	p.until(`location.pathname == "/device" && document.activeElement.id == "code"`)
	p.fill("#code", "BBBB-BBBB")
	p.follow(func() { p.press("main button", "Continue") })
	p.says("No program waits with this code")
	p.fill("#code", strings.ToLower(strings.ReplaceAll(first.Code, "-", " ")))
	p.follow(func() { p.press("main button", "Continue") })
	for _, words := range []string{"my-tool", "laptop", "127.0.0.1", first.Code, "90 d"} {
		p.says(words)
	}
	p.accessible(axe)
	for _, l := range looks { // BERTH_SCREENSHOTS keeps them
		p.size(l.width, l.height, false)
		p.prefer("prefers-color-scheme", l.scheme)
		p.picture(fmt.Sprintf("device-%s-%d", l.scheme, l.width))
	}
	p.size(1280, 800, false)
	p.follow(func() { p.press("main button", "Allow") })
	p.says("You allowed it")
	made := d.fetched(first)
	if got := d.curl(made.Token); got != "200" {
		t.Errorf("the API answers the token with %s", got)
	}
	p.open(d.Base+"/account", 200)
	p.says("laptop")
	p.sound()

	// By the keyboard alone.
	second := d.asked("authorize", "machine", "desk")
	p.open(d.Base+"/device", 200)
	p.until(`document.activeElement.id == "code"`)
	p.do(chromedp.KeyEvent(second.Code))
	p.until(fmt.Sprintf(`document.activeElement.value == %q`, second.Code))
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("desk")
	p.tabTo("button", "Deny")
	p.follow(func() { p.do(chromedp.KeyEvent(kb.Enter)) })
	p.says("You denied it")
	if got := d.fetched(second); got.Word != "access_denied" {
		t.Errorf("after it was denied, the program hears %+v", got)
	}
	p.sound()

	// Without scripts.
	plain := chromium(t, "").tab()
	plain.scripts(false)
	d.person(plain, "ana")
	third := d.asked("authorize", "machine", "attic")
	plain.open(d.Base+"/device?code="+third.Code, 200)
	if got := eval[string](plain, `document.querySelector("#code").value`); got != "" {
		t.Errorf("a link has filled in %q", got)
	}
	plain.fill("#code", third.Code)
	plain.follow(func() { plain.press("main button", "Continue") })
	plain.follow(func() { plain.press("main button", "Allow") })
	plain.says("You allowed it")
	if got := d.curl(d.fetched(third).Token); got != "200" {
		t.Errorf("the API answers the token with %s", got)
	}
	plain.sound()
}
