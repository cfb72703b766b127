package panel

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// fakeNotices are channels in memory, of accounts that own them.
type fakeNotices struct {
	app.Notices
	all        []app.Channel
	deliveries []app.Delivery
	fail       error    // of what changes something
	done       []string // what was changed
}

func (n *fakeNotices) Channels(_ context.Context, owner app.AccountID) ([]app.Channel, error) {
	return slices.DeleteFunc(slices.Clone(n.all), func(c app.Channel) bool { return c.Account != owner }), nil
}

func (n *fakeNotices) Channel(_ context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	for _, c := range n.all {
		if c.ID == id && c.Account == owner {
			return c, nil
		}
	}
	return app.Channel{}, app.Errorf(app.NotFound, "you have no channel %d", id)
}

func (n *fakeNotices) AddChannel(_ context.Context, c app.Channel) (app.Channel, error) {
	n.done = append(n.done, fmt.Sprintf("add %+v", c))
	c.ID = 90
	if c.Service == app.Webhook {
		c.Secrets = []string{"whsec_new"}
	}
	return c, n.fail
}

func (n *fakeNotices) SetChannel(_ context.Context, c app.Channel) (app.Channel, error) {
	n.done = append(n.done, fmt.Sprintf("set %+v", c))
	return c, n.fail
}

func (n *fakeNotices) act(owner app.AccountID, id int64, verb string) (app.Channel, error) {
	c, err := n.Channel(context.Background(), owner, id)
	if err == nil {
		n.done = append(n.done, fmt.Sprint(verb, " ", id))
		err = n.fail
	}
	return c, err
}

func (n *fakeNotices) RemoveChannel(_ context.Context, owner app.AccountID, id int64) error {
	return onlyError(n.act(owner, id, "remove"))
}

func (n *fakeNotices) TestChannel(_ context.Context, owner app.AccountID, id int64) error {
	return onlyError(n.act(owner, id, "test"))
}

func (n *fakeNotices) TurnSecret(_ context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	c, err := n.act(owner, id, "turn")
	c.Secrets = []string{"whsec_newer", "…"}
	return c, err
}

func (n *fakeNotices) EndSecret(_ context.Context, owner app.AccountID, id int64) error {
	return onlyError(n.act(owner, id, "end"))
}

func (n *fakeNotices) follow(verb, token string) (app.Channel, error) {
	if token != "good-token" {
		return app.Channel{}, app.Errorf(app.NotFound, "there is no such link")
	}
	n.done = append(n.done, verb)
	return app.Channel{ID: 3, Account: 1}, n.fail
}

func (n *fakeNotices) Confirm(_ context.Context, token string) (app.Channel, error) {
	return n.follow("confirm", token)
}

func (n *fakeNotices) Leave(_ context.Context, token string) (app.Channel, error) {
	return n.follow("leave", token)
}

func (n *fakeNotices) Deliveries(_ context.Context, owner app.AccountID, id int64) ([]app.Delivery, error) {
	_, err := n.Channel(context.Background(), owner, id)
	return slices.DeleteFunc(slices.Clone(n.deliveries), func(d app.Delivery) bool { return d.Channel != id }), err
}

func (n *fakeNotices) SendAgain(_ context.Context, owner app.AccountID, id int64) error {
	for _, d := range n.deliveries {
		if d.ID == id && d.Account == owner {
			n.done = append(n.done, fmt.Sprint("again ", id))
			return n.fail
		}
	}
	return app.Errorf(app.NotFound, "you have no delivery %d", id)
}

// withChannels gives ana a channel of each kind and state, and bob one.
func withChannels(w *world) {
	now := time.Now()
	w.notices.all = []app.Channel{
		{ID: 1, Account: w.ana.ID, Name: "team <b>", Service: app.Discord, Target: "https://discord.com/…/<ab>", Lang: "en-US", On: true},
		{
			ID: 2, Account: w.ana.ID, Name: "hook", Service: app.Webhook, Target: "https://example.org/…", Secrets: []string{"…1", "…2"}, Lang: "pt-BR", On: true,
			Apps: []app.ID{"shop", "gone"}, Kinds: []app.NoticeKind{app.NoticeCrashed, "of-later"}, Least: app.Failure, Stopped: "the receiver answered 410",
		},
		{ID: 3, Account: w.ana.ID, Name: "me", Service: app.Email, Target: "a…@example.org", Lang: "en-US", On: true},
		{ID: 4, Account: w.ana.ID, Name: "phone", Service: app.Ntfy, Target: "https://ntfy.sh/…", Secrets: []string{"…"}, Lang: "en-US", Least: app.Warning},
		{ID: 5, Account: w.ana.ID, Name: "chat", Service: app.Telegram, Target: "123…", Recipient: "@team", Lang: "en-US", On: true},
		{ID: 6, Account: w.ana.ID, Name: "work", Service: app.Slack, Target: "https://hooks.slack.com/…", Lang: "en-US", On: true},
		{ID: 9, Account: w.bob.ID, Name: "theirs", Service: app.Webhook, Target: "https://bob.example/…", Secrets: []string{"…"}, Lang: "en-US", On: true},
	}
	message := app.Message{ID: "msg_1", At: now.Add(-time.Hour), Kind: app.NoticeCrashed, Severity: app.Failure, App: "shop", Title: "shop <i>crashed", Lines: []string{"It ended with code <1>"}, Excerpt: "not shown", Count: 3}
	w.notices.deliveries = []app.Delivery{
		{ID: 30, Channel: 2, Account: w.ana.ID, Message: message, State: app.DeliveryWaiting, Tries: 2, NextAt: now.Add(time.Hour), Status: 503, Why: "the receiver answered <503>", UpdatedAt: now},
		{ID: 31, Channel: 2, Account: w.ana.ID, Message: message, State: app.DeliveryFailed, Tries: 9, Status: 410, Why: "the receiver answered 410", UpdatedAt: now},
		{ID: 32, Channel: 2, Account: w.ana.ID, Message: message, State: app.DeliverySent, Tries: 1, Status: 204, UpdatedAt: now},
		{ID: 33, Channel: 9, Account: w.bob.ID, Message: message, State: app.DeliverySent, Tries: 1, Status: 204, UpdatedAt: now},
	}
}

// Each page of channels says everything in every language, shows hostile words as words, and
// nothing that is masked, nor what a program printed.
func TestChannelPages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	withChannels(w)
	for _, locale := range app.Locales {
		must(t, w.config.Accounts.SetLocale(t.Context(), w.ana.ID, locale))
		b := w.as("ana")
		paths := []string{"/account/channels", "/account/channels?service=nothing"}
		for _, s := range app.ChannelServices {
			paths = append(paths, "/account/channels?service="+string(s))
		}
		for id := 1; id <= 6; id++ {
			paths = append(paths, fmt.Sprint("/account/channels/", id))
		}
		for _, path := range paths {
			p := b.get(path)
			p.want(t, path, http.StatusOK)
			asPageShouldBe(t, path, locale, p)
			for _, never := range []string{"<i>", "<ab>", "<503>", "<1>", "not shown", "theirs", "bob.example", "ZgotmplZ"} {
				if strings.Contains(p.body, never) {
					t.Errorf("%s shows %s", path, never)
				}
			}
		}
	}
	p := w.as("bob").get("/account/channels") // who is in the team of ana's shop
	p.want(t, "bob's", http.StatusOK, "theirs")
	if strings.Contains(p.body, "a…@example.org") || strings.Contains(p.body, "/account/channels/2") {
		t.Error("a member sees the owner's channels")
	}
}

func TestChannelList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	b := w.as("ana")
	b.get("/account").want(t, "the account", http.StatusOK, `href="/account/channels"`)
	b.get("/account/channels").want(t, "without one", http.StatusOK, "None yet. Without a channel", `<option value="discord">Discord</option>`)
	withChannels(w)
	b.get("/account/channels").want(t, "the list", http.StatusOK, "team &lt;b&gt;", "Sending stopped", "The receiver answered 410.", "To be confirmed",
		"Send the link again", "only The shop, gone", "it crashed, of-later", "warnings and failures", `<span>Off</span>`, `<span>On</span>`)
	for name, offered := range map[string]bool{"ana": true, "bob": false} {
		if p := w.as(name).get("/account/channels?service=slack"); strings.Contains(p.body, `value="host_disk"`) != offered {
			t.Errorf("%s is offered what is for administrators: %v", name, !offered)
		}
	}
	for service, fields := range map[string][]string{
		"discord":  {`name="target" type="url"`, "Copy Webhook URL"},
		"slack":    {`name="target" type="url"`, "Incoming Webhooks"},
		"telegram": {`name="target" value=""`, `name="recipient"`, "@BotFather"},
		"ntfy":     {`name="target" type="url"`, `name="token" type="password"`},
		"email":    {`name="target" type="email"`, "nothing else before"},
		"webhook":  {`name="target" type="url"`, "Standard Webhooks"},
	} {
		p := b.get("/account/channels?service=" + service)
		p.want(t, service, http.StatusOK, append(fields, `<input type="hidden" name="service" value="`+service+`">`, `name="app" value="shop"`, `name="kind" value="deployed"`)...)
		if strings.Contains(p.body, `name="token"`) != (service == "ntfy") || strings.Contains(p.body, `name="recipient"`) != (service == "telegram") {
			t.Errorf("%s has fields of another", service)
		}
	}
}

func TestOneChannel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	withChannels(w)
	b := w.as("ana")
	p := b.get("/account/channels/2")
	p.want(t, "one", http.StatusOK, "shop &lt;i&gt;crashed", "It ended with code &lt;1&gt;", "The receiver answered &lt;503&gt;.", "next try in", "answered 410", "9 tries", "3 in one",
		"Create a new secret", "End the old secret", `name="app" value="shop" checked`, `name="kind" value="crashed" checked`, `<option value="failure" selected>`, `<option value="pt-BR" selected>`)
	if n := strings.Count(p.body, "/again\""); n != 2 {
		t.Errorf("%d messages can be sent again, while one waits", n)
	}
	if p := b.get("/account/channels/1"); strings.Contains(p.body, "secret\"") {
		t.Error("what has no secret shows one")
	}
	for _, path := range []string{"/account/channels/9", "/account/channels/x", "/account/channels/-1"} {
		b.get(path).want(t, path, http.StatusNotFound)
	}
}

// What is typed is what is made or changed, and the rest stays.
func TestChannelForms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	withChannels(w)
	b := w.as("ana")
	for _, c := range []struct {
		path    string
		form    []string
		to      string
		want    app.Channel // or else
		did     string
		says    string
		recorde string
	}{
		{
			path: "/account/channels", form: []string{"service", "ntfy", "name", " phone ", "target", " https://ntfy.sh/x ", "token", "tk_secret", "least", "warning", "lang", "pt-BR", "app", "shop", "app", "bot", "kind", "crashed"},
			to: "/account/channels", says: "The channel was created. Test it now.", recorde: `service="ntfy" name="phone" channel=90`,
			want: app.Channel{
				Account: w.ana.ID, Owner: true, Service: app.Ntfy, Name: "phone", Target: "https://ntfy.sh/x", Secrets: []string{"tk_secret"}, Least: app.Warning, Lang: "pt-BR", On: true,
				Apps: []app.ID{"shop", "bot"}, Kinds: []app.NoticeKind{app.NoticeCrashed},
			},
		},
		{
			path: "/account/channels", form: []string{"service", "webhook", "name", "hook", "target", "https://secret.example", "token", "x", "least", "info", "lang", "en-US"},
			to: "/account/channels", says: "whsec_new", recorde: `service="webhook" name="hook" channel=90`,
			want: app.Channel{Account: w.ana.ID, Owner: true, Service: app.Webhook, Name: "hook", Target: "https://secret.example", Lang: "en-US", On: true},
		},
		{
			path: "/account/channels", form: []string{"service", "email", "name", "me", "target", "secret@example.org", "lang", "en-US"},
			to: "/account/channels", says: "nothing else before somebody follows it", recorde: `service="email" name="me" channel=90`,
			want: app.Channel{Account: w.ana.ID, Owner: true, Service: app.Email, Name: "me", Target: "secret@example.org", Lang: "en-US", On: true},
		},
		{
			path: "/account/channels/2", form: []string{"name", "hook", "target", "", "least", "info", "lang", "en-US"}, to: "/account/channels/2", says: "The channel was changed.",
			recorde: `channel=2 name="hook" on=true target=false`,
			want:    app.Channel{ID: 2, Account: w.ana.ID, Service: app.Webhook, Name: "hook", Lang: "en-US", On: true, Stopped: "the receiver answered 410"},
		},
		{
			path: "/account/channels/4/switch", form: []string{"on", "true", "back", "/account/channels/4"}, to: "/account/channels/4", says: "The channel was switched on.",
			recorde: `channel=4 name="phone" on=true target=false`,
			want:    app.Channel{ID: 4, Account: w.ana.ID, Service: app.Ntfy, Name: "phone", Lang: "en-US", Least: app.Warning, On: true},
		},
		{
			path: "/account/channels/1/switch", form: []string{"on", "false", "back", "//evil.example"}, to: "/account/channels", says: "The channel was switched off.",
			recorde: `channel=1 name="team <b>" on=false target=false`,
			want:    app.Channel{ID: 1, Account: w.ana.ID, Service: app.Discord, Name: "team <b>", Lang: "en-US"},
		},
		{path: "/account/channels/1/test", form: []string{"back", "/account/channels/1"}, to: "/account/channels/1", says: "The message has arrived.", did: "test 1", recorde: "channel=1"},
		{path: "/account/channels/3/test", to: "/account/channels", says: "The link was sent to the address again.", did: "test 3", recorde: "channel=3"},
		{path: "/account/channels/1/remove", to: "/account/channels", says: "The channel was removed.", did: "remove 1", recorde: "channel=1"},
		{path: "/account/channels/2/secret", to: "/account/channels/2", says: "whsec_newer", did: "turn 2", recorde: "channel=2"},
		{path: "/account/channels/2/secret/end", to: "/account/channels/2", says: "The old secret was ended.", did: "end 2", recorde: "channel=2"},
		{path: "/account/channels/2/deliveries/31/again", to: "/account/channels/2", says: "berth sends the message again.", did: "again 31", recorde: "delivery=31"},
	} {
		w.notices.done = nil
		b.get(b.post(c.path, c.form...).leads(t, c.path, c.to)).want(t, c.path, http.StatusOK, c.says)
		if c.did == "" {
			c.did = fmt.Sprintf("%s %+v", map[bool]string{true: "add", false: "set"}[c.want.ID == 0], c.want)
		}
		if got := strings.Join(w.notices.done, "|"); got != c.did {
			t.Errorf("%s did\n%s, want\n%s", c.path, got, c.did)
		}
		if act := w.acts.last(); act.Detail != c.recorde || act.Actor != w.ana.ID || act.Refusal != "" || strings.Contains(act.Detail, "secret.example") {
			t.Errorf("%s: the audit log has %+v", c.path, act)
		}
	}
	if p := b.get("/account/channels"); strings.Contains(p.body, "whsec_") {
		t.Error("a secret is shown a second time")
	}
}

// A refusal stands on the page of its form, with what was typed.
func TestChannelsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	seed(w)
	withChannels(w)
	b := w.as("ana")
	form := []string{"service", "telegram", "name", `x"<`, "target", "123:abc", "recipient", "@x", "lang", "pt-BR", "least", "failure", "app", "shop", "kind", "deployed"}
	for _, c := range []struct {
		path string
		form []string
		fail error
		code int
		says []string
	}{
		{"/account/channels", form, app.Errorf(app.Conflict, "there is a channel of that name"), 409, []string{
			"There is a channel of that name.", "Chat", `value="x&#34;&lt;"`, `value="123:abc"`, `value="@x"`, `name="app" value="shop" checked`, `name="kind" value="deployed" checked`, `<option value="failure" selected>`,
		}},
		{"/account/channels", form, app.Errorf(app.Exhausted, "the account has 20 channels"), 422, []string{"The account has 20 channels."}},
		{"/account/channels", form, app.Errorf(app.Unusable, "this host sends no mail"), 422, []string{"This host sends no mail."}},
		{"/account/channels/5", form, app.Errorf(app.Invalid, "this is no chat"), 400, []string{"This is no chat.", `value="123:abc"`, "Messages"}},
		{"/account/channels/1/test", nil, app.Errorf(app.Unusable, "the receiver answered 404"), 422, []string{"The receiver answered 404.", "Create a channel at"}},
		{"/account/channels/1/test", []string{"back", "/account/channels/1"}, app.Errorf(app.Exhausted, "5 tests an hour"), 422, []string{"5 tests an hour.", "Messages"}},
		{"/account/channels/2/secret/end", nil, app.Errorf(app.Already, "the channel has one secret"), 409, []string{"The channel has one secret."}},
		{"/account/channels/2/deliveries/30/again", nil, app.Errorf(app.Already, "the message waits for its next try"), 409, []string{"The message waits for its next try.", "Messages"}},
	} {
		w.notices.fail = c.fail
		b.post(c.path, c.form...).want(t, c.path, c.code, c.says...)
	}
	w.notices.fail, w.notices.done = nil, nil
	for _, path := range []string{
		"/account/channels/9", "/account/channels/9/test", "/account/channels/9/switch", "/account/channels/9/remove", "/account/channels/9/secret",
		"/account/channels/9/secret/end", "/account/channels/2/deliveries/33/again", "/account/channels/x/test",
	} {
		p := b.post(path, "name", "x", "target", "https://x.example")
		if p.want(t, path, http.StatusNotFound); strings.Contains(p.body, "theirs") {
			t.Errorf("%s tells of another account's channel", path)
		}
	}
	if len(w.notices.done) > 0 {
		t.Errorf("done was %v", w.notices.done)
	}
}

// The links of mail change nothing when they are opened, and need no session; a program for mail
// sends the form from nowhere (RFC 8058).
func TestLinksOfMail(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, locale := range app.Locales {
		for path, did := range map[string]string{app.ConfirmPath: "confirm", app.LeavePath: "leave"} {
			stranger := w.browser()
			stranger.header["Accept-Language"] = locale
			w.notices.done = nil
			for _, method := range []string{http.MethodGet, http.MethodHead} {
				if p := stranger.ask(method, path+"good-token", nil); p.StatusCode != http.StatusOK || len(w.notices.done) > 0 {
					t.Errorf("%s %s: %d, did %v", method, path, p.StatusCode, w.notices.done)
				}
			}
			p := stranger.get(path + "good-token")
			p.want(t, path, http.StatusOK, `<form class="fields" method="post">`, `<html lang="`+locale)
			if strings.Contains(p.body, "good-token") {
				t.Errorf("%s has its token in the page", path)
			}
			p = stranger.post(path + "good-token")
			p.want(t, path, http.StatusOK)
			if got := strings.Join(w.notices.done, "|"); got != did || strings.Contains(p.body, `<form class="fields"`) {
				t.Errorf("%s did %q", path, got)
			}
			if act := w.acts.last(); act.Operation != "channel."+did || act.Detail != "channel=3" || act.Actor != app.Stranger || !act.Counted {
				t.Errorf("%s: the audit log has %+v", path, act)
			}
			stranger.post(path+"bad").want(t, path, http.StatusNotFound)
			stranger.header["Sec-Fetch-Site"] = "cross-site"
			w.notices.done = nil
			stranger.post(path+"good-token").want(t, path, http.StatusForbidden)
			if len(w.notices.done) > 0 {
				t.Errorf("another site did %v", w.notices.done)
			}
			program := w.browser()
			program.header["Sec-Fetch-Site"] = ""
			if p := program.ask(http.MethodPost, path+"good-token", url.Values{"List-Unsubscribe": {"One-Click"}}); p.StatusCode != http.StatusOK || len(w.notices.done) != 1 {
				t.Errorf("one click at %s: %d, did %v", path, p.StatusCode, w.notices.done)
			}
		}
	}
}
