package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"

	"berth/app"
)

// worldNotices are the channels of a world: channel 4 of the account, and 5 of another.
type worldNotices struct{ w *world }

func (n worldNotices) Channels(_ context.Context, owner app.AccountID) ([]app.Channel, error) {
	all := slices.DeleteFunc(slices.Clone(n.w.channels), func(c app.Channel) bool { return c.Account != owner })
	return all, n.w.call("Channels")
}

func (n worldNotices) Channel(_ context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	if err := n.w.call("Channel", id); err != nil {
		return app.Channel{}, err
	}
	for _, c := range n.w.channels {
		if c.ID == id && c.Account == owner {
			return c, nil
		}
	}
	return app.Channel{}, app.Errorf(app.NotFound, "you have no channel %d", id)
}

func (n worldNotices) AddChannel(_ context.Context, c app.Channel) (app.Channel, error) {
	n.w.sent = append(n.w.sent, c)
	if err := n.w.call("AddChannel"); err != nil {
		return app.Channel{}, err
	}
	c.ID, c.CreatedAt, c.Target, c.Secrets = 6, testNow, "masked", nil
	if c.Service == app.Webhook {
		c.Secrets = []string{"whsec_new"}
	}
	return c, nil
}

func (n worldNotices) SetChannel(_ context.Context, c app.Channel) (app.Channel, error) {
	n.w.sent = append(n.w.sent, c)
	c.Target, c.Secrets = "masked", []string{"whsec_…"}
	return c, n.w.call("SetChannel")
}

func (n worldNotices) RemoveChannel(ctx context.Context, owner app.AccountID, id int64) error {
	return n.of(ctx, owner, id, "RemoveChannel")
}

func (n worldNotices) of(ctx context.Context, owner app.AccountID, id int64, method string) error {
	if _, err := n.Channel(ctx, owner, id); err != nil {
		return err
	}
	return n.w.call(method, id)
}

func (n worldNotices) TurnSecret(ctx context.Context, owner app.AccountID, id int64) (app.Channel, error) {
	c, err := n.Channel(ctx, owner, id)
	if err == nil {
		err = n.w.call("TurnSecret", id)
	}
	c.Secrets = []string{"whsec_newer", "whsec_…"}
	return c, err
}

func (n worldNotices) EndSecret(ctx context.Context, owner app.AccountID, id int64) error {
	return n.of(ctx, owner, id, "EndSecret")
}

func (n worldNotices) TestChannel(ctx context.Context, owner app.AccountID, id int64) error {
	return n.of(ctx, owner, id, "TestChannel")
}

func (worldNotices) Confirm(context.Context, string) (app.Channel, error) {
	panic("the API has no route for this")
}

func (worldNotices) Leave(context.Context, string) (app.Channel, error) {
	panic("the API has no route for this")
}

func (n worldNotices) Deliveries(ctx context.Context, owner app.AccountID, id int64) ([]app.Delivery, error) {
	return n.w.deliveries, n.of(ctx, owner, id, "Deliveries")
}

func (n worldNotices) SendAgain(_ context.Context, owner app.AccountID, id int64) error {
	if id != 9 || owner != 7 {
		return app.Errorf(app.NotFound, "you have no delivery %d", id)
	}
	return n.w.call("SendAgain", id)
}

func testChannels(w *world) {
	w.channels = []app.Channel{
		{ID: 3, Account: 7, Name: "team", Service: app.Discord, Target: "https://discord.com/…/ab12", Lang: "en-US", On: true, CreatedAt: testNow},
		{
			ID: 4, Account: 7, Name: "<b>hook", Service: app.Webhook, Target: "https://example.org/…", Secrets: []string{"…", "…"}, Lang: "pt-BR",
			Apps: []app.ID{"bot-one"}, Kinds: []app.NoticeKind{app.NoticeCrashed}, Least: app.Failure, Stopped: "the receiver answered 410", CreatedAt: testNow,
		},
		{ID: 5, Account: 8, Name: "theirs", Service: app.Webhook, Target: "https://example.com/…", Lang: "en-US", On: true, CreatedAt: testNow},
		{ID: 7, Account: 7, Name: "me", Service: app.Email, Target: "a…@example.org", Lang: "en-US", On: true, CreatedAt: testNow},
	}
	w.deliveries = []app.Delivery{
		{
			ID: 9, Channel: 4, Account: 7, State: app.DeliveryWaiting, Tries: 2, NextAt: testNow, Status: 503, Why: "the receiver answered 503", UpdatedAt: testNow,
			Message: app.Message{ID: "msg_2", At: testNow, Kind: app.NoticeCrashed, Severity: app.Failure, App: "bot-one", Title: "bot crashed", Lines: []string{"It ended with code 1"}, Excerpt: "secret of the program", Count: 2},
		},
		{ID: 8, Channel: 4, Account: 7, State: app.DeliverySent, Tries: 1, Status: 204, UpdatedAt: testNow, Message: app.Message{ID: "msg_1", At: testNow, Kind: app.NoticeTest, Title: "A test", Count: 1}},
	}
}

func channelScenes() []scene {
	const all, one, test, secret = "/v2/channel", "/v2/channel/{channelID}", "/v2/channel/{channelID}/test", "/v2/channel/{channelID}/secret"
	const deliveries, again = "/v2/channel/{channelID}/deliveries", "/v2/delivery/{deliveryID}/again"
	hook := `{"service":"webhook","name":"hook","target":"https://example.org/in","apps":["bot-one"],"kinds":["crashed"],"least":"warning","lang":"pt-BR"}`
	large := `{"service":"` + strings.Repeat("x", maxFields) + `"}`
	fails := func(method string, kind app.Kind, message string) func(*world) {
		return func(w *world) {
			testChannels(w)
			failing(method, kind, message)(w)
		}
	}
	taken := fails("AddChannel", app.Conflict, "there is a channel of that name")
	return []scene{
		{name: "channel_ok", method: "GET", path: all, arrange: testChannels},
		{name: "channel_ok_empty", method: "GET", path: all},
		{name: "channel_post_ok_webhook", method: "POST", path: all, body: hook},
		{name: "channel_post_ok_mail", method: "POST", path: all, body: `{"service":"email","name":"me","target":"ana@example.org","lang":"pt-BR"}`},
		{name: "channel_post_ok_ntfy", method: "POST", path: all, body: `{"service":"ntfy","name":"phone","target":"https://ntfy.sh/x","token":"tk_secret","apps":null,"kinds":[],"lang":"en-US"}`},
		{name: "channel_post_invalid", method: "POST", path: all, body: `{"name":"x"}`},
		{name: "channel_post_invalid_least", method: "POST", path: all, body: `{"service":"slack","least":"loud"}`},
		{name: "channel_post_invalid_token", method: "POST", path: all, body: `{"service":"slack","token":"x"}`},
		{name: "channel_one_put_invalid_on", method: "PUT", path: "/v2/channel/4", op: one, body: `{"on":"yes"}`, arrange: testChannels},
		{name: "channel_post_invalid_kinds", method: "POST", path: all, body: `{"service":"slack","kinds":"all"}`},
		{name: "channel_post_not_found", method: "POST", path: all, body: `{"service":"slack","apps":["../x"]}`},
		{name: "channel_post_conflict", method: "POST", path: all, body: hook, arrange: taken},
		{name: "channel_post_exhausted", method: "POST", path: all, body: hook, arrange: fails("AddChannel", app.Exhausted, "the account has 20 channels")},
		{name: "channel_post_too_large", method: "POST", path: all, body: large},

		{name: "channel_one_ok", method: "GET", path: "/v2/channel/4", op: one, arrange: testChannels},
		{name: "channel_one_not_found", method: "GET", path: "/v2/channel/5", op: one, arrange: testChannels},
		{name: "channel_one_not_found_word", method: "GET", path: "/v2/channel/four", op: one, arrange: testChannels},
		{name: "channel_one_put_ok", method: "PUT", path: "/v2/channel/4", op: one, body: `{"on":true,"least":"info","apps":null}`, arrange: testChannels},
		{name: "channel_one_put_invalid", method: "PUT", path: "/v2/channel/4", op: one, body: `{"name":7}`, arrange: testChannels},
		{name: "channel_one_put_no_body", method: "PUT", path: "/v2/channel/4", op: one, arrange: testChannels},
		{name: "channel_one_put_not_found", method: "PUT", path: "/v2/channel/5", op: one, body: `{"on":false}`, arrange: testChannels},
		{name: "channel_one_put_conflict", method: "PUT", path: "/v2/channel/4", op: one, body: `{"name":"team"}`, arrange: fails("SetChannel", app.Conflict, "there is a channel of that name")},
		{name: "channel_one_put_too_large", method: "PUT", path: "/v2/channel/4", op: one, body: large, arrange: testChannels},
		{name: "channel_one_delete_ok", method: "DELETE", path: "/v2/channel/4", op: one, arrange: testChannels},
		{name: "channel_one_delete_not_found", method: "DELETE", path: "/v2/channel/5", op: one, arrange: testChannels},

		{name: "channel_test_ok", method: "POST", path: "/v2/channel/4/test", op: test, arrange: testChannels},
		{name: "channel_test_ok_mail", method: "POST", path: "/v2/channel/7/test", op: test, arrange: testChannels},
		{name: "channel_test_not_found", method: "POST", path: "/v2/channel/5/test", op: test, arrange: testChannels},
		{name: "channel_test_unusable", method: "POST", path: "/v2/channel/4/test", op: test, arrange: fails("TestChannel", app.Unusable, "the receiver answered 404")},

		{name: "channel_secret_ok", method: "POST", path: "/v2/channel/4/secret", op: secret, arrange: testChannels},
		{name: "channel_secret_not_found", method: "POST", path: "/v2/channel/5/secret", op: secret, arrange: testChannels},
		{name: "channel_secret_invalid", method: "POST", path: "/v2/channel/3/secret", op: secret, arrange: fails("TurnSecret", app.Invalid, "only a webhook has a secret")},
		{name: "channel_secret_delete_ok", method: "DELETE", path: "/v2/channel/4/secret", op: secret, arrange: testChannels},
		{name: "channel_secret_delete_already", method: "DELETE", path: "/v2/channel/4/secret", op: secret, arrange: fails("EndSecret", app.Already, "the channel has one secret")},
		{name: "channel_secret_delete_not_found", method: "DELETE", path: "/v2/channel/5/secret", op: secret, arrange: testChannels},
		{name: "channel_secret_delete_invalid", method: "DELETE", path: "/v2/channel/3/secret", op: secret, arrange: fails("EndSecret", app.Invalid, "only a webhook has a secret")},

		{name: "channel_deliveries_ok", method: "GET", path: "/v2/channel/4/deliveries", op: deliveries, arrange: testChannels},
		{name: "channel_deliveries_not_found", method: "GET", path: "/v2/channel/5/deliveries", op: deliveries, arrange: testChannels},
		{name: "delivery_again_ok", method: "POST", path: "/v2/delivery/9/again", op: again, arrange: testChannels},
		{name: "delivery_again_already", method: "POST", path: "/v2/delivery/9/again", op: again, arrange: fails("SendAgain", app.Already, "the message waits for its next try")},
		{name: "delivery_again_not_found", method: "POST", path: "/v2/delivery/10/again", op: again, arrange: testChannels},
	}
}

// A change leaves what it does not name: the target and the secrets too, which the API never
// had, and so must not send back.
func TestSetChannelLeavesTheRest(t *testing.T) {
	w := newWorld(t)
	testChannels(w)
	hook := w.channels[1]
	for body, change := range map[string]func(c *app.Channel){
		`{}`:                                 func(*app.Channel) {},
		`{"service":"email"}`:                func(*app.Channel) {}, // which no channel changes
		`{"on":true,"name":null}`:            func(c *app.Channel) { c.On = true },
		`{"target":"https://example.org/b"}`: func(c *app.Channel) { c.Target = "https://example.org/b" },
		`{"apps":[],"kinds":null,"least":"info","lang":"en-US","recipient":"x"}`: func(c *app.Channel) {
			c.Apps, c.Kinds, c.Least, c.Lang, c.Recipient = nil, nil, app.Info, "en-US", "x"
		},
		`{"apps":["shop","bot-one"],"kinds":["deployed"]}`: func(c *app.Channel) {
			c.Apps, c.Kinds = []app.ID{"shop", "bot-one"}, []app.NoticeKind{app.NoticeDeployed}
		},
	} {
		want := hook
		want.Target, want.Secrets = "", nil
		change(&want)
		w.sent = nil
		if rec := do(t, w.handler(), newRequest(http.MethodPut, "/v2/channel/4", body)); rec.Code != 200 || len(w.sent) != 1 || !reflect.DeepEqual(w.sent[0], want) {
			t.Errorf("%s: %d, sent %+v, want %+v", body, rec.Code, w.sent, want)
		}
	}
	w.channels = append(w.channels, app.Channel{ID: 10, Account: 7, Service: app.Ntfy, Secrets: []string{"…"}})
	for body, want := range map[string][]string{`{"name":"x"}`: nil, `{"token":""}`: nil, `{"token":"tk_new"}`: {"tk_new"}} {
		w.sent = nil
		do(t, w.handler(), newRequest(http.MethodPut, "/v2/channel/10", body))
		if len(w.sent) != 1 || !slices.Equal(w.sent[0].Secrets, want) {
			t.Errorf("%s: sent %+v", body, w.sent)
		}
	}
}

// What notify.allow names is for the host's owners alone, so a channel says whose it is.
func TestAddChannelSaysWhose(t *testing.T) {
	for _, admin := range []bool{false, true} {
		w := newWorld(t)
		w.account.Admin = admin
		do(t, w.handler(), newRequest(http.MethodPost, "/v2/channel", `{"service":"slack","name":"x","target":"https://x.example","owner":true}`))
		want := app.Channel{Account: 7, Owner: admin, Service: app.Slack, Name: "x", Target: "https://x.example", Lang: "en-US", On: true}
		if len(w.sent) != 1 || !reflect.DeepEqual(w.sent[0], want) {
			t.Errorf("sent %+v", w.sent)
		}
	}
}

// A secret is in the answers that make it, and in no other; nor is what a program printed.
func TestChannelsKeepTheirSecrets(t *testing.T) {
	for _, s := range channelScenes() {
		answer := string(play(t, s).Body)
		makes := s.name == "channel_post_ok_webhook" || s.name == "channel_secret_ok"
		if strings.Contains(answer, `"secret":`) != makes || strings.Contains(answer, "tk_secret") || strings.Contains(answer, "secret of the program") {
			t.Errorf("%s: %s", s.name, answer)
		}
	}
}
