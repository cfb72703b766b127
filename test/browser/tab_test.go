package browser

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"

	"berth/test/harness"
)

// tab is a page in a browser. What goes wrong in it is collected: errors and
// warnings of the console, exceptions, violations of its policy, and requests
// that failed or got a status of 400 or more, but for the page itself.
type tab struct {
	t   *testing.T
	ctx context.Context

	mu       sync.Mutex
	problems []string
	asked    map[network.RequestID]string // method and address
}

// tab opens an empty page. It ends with the test, which fails when a call takes
// longer than harness.Patience.
func (b *browser) tab() *tab {
	b.t.Helper()
	return newTab(b.ctx, b.t, chromedp.WithErrorf(func(string, ...any) {})) // of events that are newer than the library
}

// another is a tab of another person in the same browser: it shares no cookies with p.
func (p *tab) another() *tab {
	p.t.Helper()
	var own cdp.BrowserContextID
	p.ofAll("make another person", func(ctx context.Context) (err error) {
		own, err = target.CreateBrowserContext().Do(ctx)
		return err
	})
	return p.window(target.CreateTarget("about:blank").WithBrowserContextID(own))
}

// beside is a tab of the same person that is seen at the same time.
func (p *tab) beside() *tab {
	p.t.Helper()
	return p.window(target.CreateTarget("about:blank"))
}

// window is a tab in a window of its own, so that it hides no other.
func (p *tab) window(how *target.CreateTargetParams) *tab {
	p.t.Helper()
	var id target.ID
	p.ofAll("open a window", func(ctx context.Context) (err error) {
		id, err = how.WithNewWindow(true).Do(ctx)
		return err
	})
	return newTab(p.ctx, p.t, chromedp.WithTargetID(id))
}

// over is a tab of the same person in the same window: it hides p.
func (p *tab) over() *tab {
	p.t.Helper()
	return newTab(p.ctx, p.t)
}

// ofAll asks something of the browser.
func (p *tab) ofAll(what string, ask func(context.Context) error) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	if err := ask(cdp.WithExecutor(ctx, chromedp.FromContext(p.ctx).Browser)); err != nil {
		p.t.Fatalf("cannot %s: %v", what, err)
	}
}

func newTab(parent context.Context, t *testing.T, how ...chromedp.ContextOption) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(parent, how...)
	t.Cleanup(end)
	p := &tab{t: t, ctx: ctx, asked: map[network.RequestID]string{}}
	chromedp.ListenTarget(ctx, p.hear)
	// The first call makes the page: one with a deadline would end it then.
	if err := chromedp.Run(ctx, network.Enable(), log.Enable(), runtime.Enable(), audits.Enable()); err != nil {
		t.Fatalf("cannot open a page: %v", err)
	}
	return p
}

// do runs actions, which must succeed.
func (p *tab) do(actions ...chromedp.Action) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		p.t.Fatalf("the page: %v; it found: %q", err, p.found())
	}
}

// hear notes what goes wrong. It must not block.
func (p *tab) hear(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	say := func(format string, args ...any) { p.problems = append(p.problems, fmt.Sprintf(format, args...)) }
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		if e.Type != network.ResourceTypeDocument { // open looks at that
			p.asked[e.RequestID] = e.Request.Method + " " + e.Request.URL
		}
	case *network.EventResponseReceived:
		if what := p.asked[e.RequestID]; what != "" && e.Response.Status >= 400 {
			say("request: %s: %d", what, e.Response.Status)
		}
	case *network.EventLoadingFailed:
		ended := e.Canceled && e.BlockedReason == "" // by the page itself
		if what := p.asked[e.RequestID]; what != "" && !ended {
			say("request: %s: %s %s", what, e.ErrorText, e.BlockedReason)
		}
	case *log.EventEntryAdded: // those of the network are the requests above
		if e.Entry.Source != log.SourceNetwork && (e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning) {
			say("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL)
		}
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning || e.Type == runtime.APITypeAssert {
			var words []string
			for _, a := range e.Args {
				words = append(words, string(a.Value)+a.Description)
			}
			say("console.%s: %s", e.Type, strings.Join(words, " "))
		}
	case *runtime.EventExceptionThrown:
		say("exception: %s", e.ExceptionDetails.Error())
	case *audits.EventIssueAdded:
		if d := e.Issue.Details.ContentSecurityPolicyIssueDetails; d != nil {
			say("policy: %s forbids %s", d.ViolatedDirective, d.BlockedURL)
		}
	}
}

// found is what went wrong so far.
func (p *tab) found() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.problems)
}

// clean fails the test if anything went wrong, and forgets it.
func (p *tab) clean() {
	p.t.Helper()
	for _, what := range p.found() {
		p.t.Errorf("in the page: %s", what)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.problems = nil
}

// open goes to an address, which must answer with this status.
func (p *tab) open(address string, status int64) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, harness.Patience)
	defer cancel()
	resp, err := chromedp.RunResponse(ctx, chromedp.Navigate(address))
	if err != nil {
		p.t.Fatalf("%s: %v", address, err)
	}
	if resp.Status != status {
		p.t.Fatalf("%s answers %d, want %d", address, resp.Status, status)
	}
}

// eval is the value of an expression, a promise's result included.
func eval[T any](p *tab, expression string) T {
	p.t.Helper()
	var value T
	p.do(chromedp.Evaluate(expression, &value, awaited))
	return value
}

func awaited(e *runtime.EvaluateParams) *runtime.EvaluateParams { return e.WithAwaitPromise(true) }

// until waits for an expression to be true. While the page changes into another one
// it is not.
func (p *tab) until(expression string) {
	p.t.Helper()
	wait(p, "!!("+expression+")", func(ok bool) bool { return ok })
}

// wait evaluates an expression until wanted accepts its value, and returns that. If the value is a promise, wait uses
// its result. An expression that fails is evaluated again, because the page may be changing into another one.
func wait[T any](p *tab, expression string, wanted func(T) bool) T {
	p.t.Helper()
	for deadline := time.Now().Add(harness.Patience); ; time.Sleep(harness.Pause) {
		ctx, cancel := context.WithDeadline(p.ctx, deadline)
		var value T
		err := chromedp.Run(ctx, chromedp.Evaluate(expression, &value, awaited))
		cancel()
		if err == nil && wanted(value) {
			return value
		}
		if time.Now().After(deadline) {
			p.t.Fatalf("waited too long for %s (%v); the page %s says %q and found %q", expression, err, p.address(), p.text(), p.found())
		}
	}
}

// address is where the page is.
func (p *tab) address() string {
	p.t.Helper()
	return eval[string](p, "location.href")
}

// text is what is to be read in the page.
func (p *tab) text() string {
	p.t.Helper()
	return eval[string](p, "document.body.innerText")
}

// size makes the window that wide and high, in CSS pixels; mobile as on a phone.
func (p *tab) size(width, height int64, mobile bool) {
	p.t.Helper()
	p.do(emulation.SetDeviceMetricsOverride(width, height, 1, mobile))
}

// prefer sets preferences of the visitor, in place of those there were:
// "prefers-color-scheme" to "dark" or "light", "prefers-reduced-motion" to "reduce".
func (p *tab) prefer(pairs ...string) {
	p.t.Helper()
	var all []*emulation.MediaFeature
	for pair := range slices.Chunk(pairs, 2) {
		all = append(all, &emulation.MediaFeature{Name: pair[0], Value: pair[1]})
	}
	p.do(emulation.SetEmulatedMedia().WithFeatures(all))
}

// picture takes a PNG of the whole page. With BERTH_SCREENSHOTS=DIR it is also
// kept there, as NAME.png.
func (p *tab) picture(name string) []byte {
	p.t.Helper()
	var png []byte
	p.do(chromedp.ActionFunc(func(ctx context.Context) (err error) {
		png, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).Do(ctx)
		return err
	}))
	if dir := os.Getenv("BERTH_SCREENSHOTS"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
			p.t.Fatal(err)
		}
	}
	return png
}
