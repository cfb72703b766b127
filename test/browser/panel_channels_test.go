package browser

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"berth/app"
	"berth/test/harness"
)

// receiver is a webhook of somebody's own: it keeps the ids of what it gets.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	status int
	ids    []string
}

func receive(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ids = append(r.ids, req.Header.Get("webhook-id"))
		w.WriteHeader(r.status)
		_, _ = io.WriteString(w, "what nobody is to see")
	}))
	t.Cleanup(r.Close)
	return r
}

// got returns the ids of what has come so far.
func (r *receiver) got() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ids)
}

func (r *receiver) answer(status int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = status
}

// channels gives the account one that is off, so that nothing is sent.
func (d *daemon) channels() {
	d.t.Helper()
	body := `{"service":"telegram","name":"our <team>, with a name of 50 characters at most","target":"123456789:AAEhBOweik6ad9r_QXMENQjcrGbqCr4K-bc","recipient":"-1001234567890","kinds":["crashed","out_of_memory","deployed"],"least":"warning"}`
	status, text := d.ask(http.MethodPost, "/channel", "application/json", strings.NewReader(body))
	var made struct{ Channel struct{ ID int } }
	if err := json.Unmarshal([]byte(text), &made); err != nil || status != http.StatusOK {
		d.t.Fatalf("the channel: %d %s", status, text)
	}
	d.put(fmt.Sprintf("/channel/%d", made.Channel.ID), `{"on":false}`)
}

// A channel is made, tested, used, changed and removed by forms alone, and its pages say what
// became of each message.
func TestPanelChannels(t *testing.T) {
	t.Parallel()
	r := receive(t)
	d := launch(t, "--notify-allow", strings.TrimPrefix(r.URL, "http://"))
	axe := axe(t)
	d.lookAfter()
	d.ticker(t, "Greeter")
	p := d.visitor()
	p.open(d.Base+"/account", 200)
	p.follow(func() { p.press("section[aria-labelledby=notifications] a", "Channels") })
	p.looked(axe, "channels-none")
	for _, s := range app.ChannelServices {
		p.choose("#service", string(s))
		p.follow(func() { p.press("#new button", "Continue") })
		p.until(fmt.Sprintf(`document.querySelector("form.channel input[name=service]").value == %q`, s))
		if s == app.Telegram || s == app.Webhook {
			p.press("details.bounds summary", "Only some kinds")
			p.looked(axe, "channel-form-"+string(s))
		}
		p.accessible(axe)
	}
	p.fill("#name", "my <b>hook")
	p.fill("#target", "https://10.0.0.1/in")
	p.follow(func() { p.press("form.channel button", "Create the channel") })
	p.until(`document.querySelector("[role=alert]") && document.querySelector("#target").value == "https://10.0.0.1/in"`)
	p.looked(axe, "channel-refused")
	p.fill("#target", r.URL+"/in")
	p.choose("#least", "info")
	p.follow(func() { p.press("form.channel button", "Create the channel") })
	p.until(`document.querySelector("#secret")?.value.startsWith("whsec_")`)
	p.looked(axe, "channel-made")
	p.reload()
	if strings.Contains(eval[string](p, "document.documentElement.outerHTML"), "whsec_") {
		t.Error("the secret is shown a second time")
	}
	p.follow(func() { p.press(".channels button", "Test") })
	p.says("The message has arrived.")
	if n := len(r.got()); n != 1 {
		t.Errorf("%d messages came", n)
	}

	// Something happens, and the receiver has trouble, then ends the channel.
	r.answer(http.StatusGone)
	if status, text := d.ask(http.MethodPost, "/token", "application/json", strings.NewReader(`{"label":"ci"}`)); status != http.StatusOK {
		t.Fatalf("a token: %d %s", status, text)
	}
	p.follow(func() { p.press(".channels a", "hook") })
	harness.Eventually(t, "the channel is stopped", func() bool {
		p.reload()
		return strings.Contains(p.text(), "Sending stopped") && strings.Contains(p.text(), "Failed")
	})
	if strings.Contains(p.text(), "what nobody") {
		t.Error("the page has what the receiver answered")
	}
	p.looked(axe, "channel-stopped")
	r.answer(http.StatusNoContent)
	p.follow(func() { p.press("main button", "Switch on") })
	p.says("The channel was switched on.")
	p.follow(func() { p.press("main button", "Send again") })
	harness.Eventually(t, "the message is sent", func() bool {
		p.reload()
		return eval[bool](p, `document.querySelector("section[aria-labelledby=deliveries] .good") != null`)
	})
	if ids := r.got(); len(ids) < 3 || ids[0] == ids[1] || !slices.Contains(ids[2:], ids[1]) {
		t.Errorf("the ids are %q", ids)
	}
	p.follow(func() { p.press("main button", "Create a new secret") })
	p.until(`document.querySelector("#secret")?.value.startsWith("whsec_")`)
	p.looked(axe, "channel")
	p.follow(func() { p.press("main button", "End the old secret") })
	p.says("The old secret was ended.")
	p.fill("form.channel #name", "renamed")
	p.follow(func() { p.press("form.channel button", "Save") })
	p.says("The channel was changed.")
	d.manyChannels(p, axe)
	p.follow(func() { p.press(".channels button", "Remove renamed") })
	p.says("The channel was removed.")
	p.sound()
}

// manyChannels looks at a list of channels in each state, in each language, at every width.
func (d *daemon) manyChannels(p *tab, axe string) {
	d.t.Helper()
	d.channels()
	for _, l := range []struct{ locale, name, save string }{{"pt-BR", "-pt", "Save"}, {"es", "-es", "Salvar"}, {"en-US", "", "Guardar"}} {
		d.speaks(p, l.locale, l.save)
		p.open(d.Base+"/account/channels", 200)
		p.looked(axe, "channels"+l.name)
		for width := int64(320); width <= 1280; width += 160 {
			for _, path := range []string{"/account/channels", "/account/channels/1", "/account/channels/2", "/account/channels?service=ntfy"} {
				p.size(width, 800, false)
				p.open(d.Base+path, 200)
				p.sound()
			}
		}
		p.size(1280, 800, false)
	}
	p.open(d.Base+"/account/channels", 200)
}

// Without JavaScript the same forms do; the links of mail need no session.
func TestPanelChannelsWithoutScripts(t *testing.T) {
	t.Parallel()
	r := receive(t)
	d := launch(t, "--notify-allow", strings.TrimPrefix(r.URL, "http://"))
	axe := axe(t)
	d.lookAfter()
	stranger := chromium(t, "").tab()
	stranger.watch()
	for path, button := range map[string]string{app.ConfirmPath: "Yes, write to me", app.LeavePath: "Stop the e-mails"} {
		stranger.open(d.Base+path+"1.nothing", 200)
		stranger.looked(axe, "mail"+strings.ReplaceAll(strings.TrimSuffix(path, "/"), "/", "-"))
		stranger.follow(func() { stranger.press("main button", button) })
		stranger.says("This link no longer works.")
		stranger.clean()
	}
	p := stranger.another()
	p.scripts(false)
	d.person(p, "ana")
	p.open(d.Base+"/account/channels", 200)
	p.choose("#service", "webhook")
	p.follow(func() { p.press("#new button", "Continue") })
	p.fill("#name", "hook")
	p.fill("#target", r.URL+"/in")
	p.follow(func() { p.press("form.channel button", "Create the channel") })
	p.says("Copy it now")
	p.follow(func() { p.press(".channels button", "Test") })
	p.says("The message has arrived.")
	p.follow(func() { p.press(".channels button", "Switch off hook") })
	p.says("The channel was switched off.")
	p.sound()
}
