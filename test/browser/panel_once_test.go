package browser

import (
	"context"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"berth/test/harness"
)

// held keeps pages from being asked for with GET: forms are sent, but where they lead to
// is not followed. The first function that it returns waits until the browser is about
// to, the second until the page that is being left has fetched something then, and the
// third lets the browser follow. Meanwhile Chromium evaluates nothing.
func (p *tab) held() (led, fetched, follow func()) {
	p.t.Helper()
	paused, answered := make(chan fetch.RequestID, 8), make(chan struct{}, 64)
	on, off := context.WithCancel(p.ctx)
	chromedp.ListenTarget(on, func(event any) {
		switch e := event.(type) {
		case *network.EventResponseReceived:
			if e.Type == network.ResourceTypeFetch {
				answered <- struct{}{}
			}
		case *fetch.EventRequestPaused:
			if e.Request.Method == "GET" {
				paused <- e.RequestID
				return
			}
			go p.goOn(e.RequestID) // a listener must not wait for the browser
		}
	})
	p.do(fetch.Enable().WithPatterns([]*fetch.RequestPattern{{URLPattern: "*", ResourceType: network.ResourceTypeDocument}}))
	var next fetch.RequestID
	led = func() {
		p.t.Helper()
		select {
		case next = <-paused:
		case <-time.After(harness.Patience):
			p.t.Fatal("the form leads nowhere")
		}
		for range len(answered) { // before the form was answered
			<-answered
		}
	}
	fetched = func() {
		p.t.Helper()
		select {
		case <-answered:
		case <-time.After(harness.Patience):
			p.t.Fatal("the page that is being left fetches nothing")
		}
	}
	return led, fetched, func() {
		p.t.Helper()
		off()
		p.goOn(next)
		p.do(fetch.Disable())
	}
}

// goOn lets a request through that was held.
func (p *tab) goOn(id fetch.RequestID) {
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	if err := fetch.ContinueRequest(id).Do(cdp.WithExecutor(ctx, chromedp.FromContext(p.ctx).Target)); err != nil {
		p.t.Errorf("cannot let a request through: %v", err)
	}
}

// What a form has to say is on the page that it leads to, though the page that is being
// left, which follows what happens, and another tab are fetched before that.
func TestPanelSaysOnce(t *testing.T) {
	t.Parallel()
	d := launch(t)
	id := d.ticker(t, "Greeter")
	p := d.visitor()
	other := p.beside()
	other.watch()
	for _, path := range []string{"/apps/" + id, "/"} {
		p.open(d.Base+path, 200)
		p.streaming()
		led, fetched, follow := p.held()
		p.follow(func() {
			p.press("main button", "Restart")
			led()
			d.put("/app/"+id+"/restart", "") // which the page is told
			fetched()
			other.open(d.Base+"/", 200)
			other.open(d.Base+"/apps/"+id, 200)
			follow()
		})
		p.says("was restarted")
		if at := p.address(); at != d.Base+path {
			t.Errorf("the address is %s", at)
		}
		p.streaming()
		p.reload()
		if eval[bool](p, `document.body.innerText.includes("was restarted")`) {
			t.Error("it is said twice")
		}
	}

	p.open(d.Base+"/account", 200)
	led, _, follow := p.held()
	p.follow(func() {
		p.fill("#label", "laptop")
		p.press("section[aria-labelledby=tokens] button", "Create a token")
		led()
		other.open(d.Base+"/account", 200)
		follow()
	})
	p.until(`document.querySelector("#secret")?.value.startsWith("eyJ")`)
	p.sound()
	other.sound()
}
