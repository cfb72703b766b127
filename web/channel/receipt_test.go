package channel

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"berth/app"
	"berth/test/dns"
	"berth/test/services"
	"berth/web/egress"
)

// secret is a new one of Standard Webhooks.
func secret() string {
	return "whsec_" + base64.StdEncoding.EncodeToString([]byte(rand.Text() + rand.Text())[:32])
}

// secretBody is what no receipt may hold.
const secretBody = "the inside of a service"

func TestReceipts(t *testing.T) {
	stub := services.New(t)
	var status int
	var header, body string
	stub.Fail = func(_ int, w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Retry-After", header)
		w.Header().Set("Location", stub.URL+"/elsewhere")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return true
	}
	s := sending(t, stub, Mail{})
	all := channels(stub)
	discord, slack, telegram, ntfy, webhook := all[0], all[1], all[2], all[3], all[4]
	const refused, gone, wait, moved = "it refused the message", "it takes no more messages", "it asked berth to wait", "it redirects elsewhere"
	for _, c := range []struct {
		to     app.Channel
		status int
		header string
		body   string
		after  time.Duration
		gone   bool
		why    string
	}{
		{discord, 200, "", "", 0, false, ""},
		{discord, 204, "", "", 0, false, ""},
		{webhook, 299, "", "", 0, false, ""},
		{webhook, 202, "60", secretBody, 0, false, ""},
		{webhook, 301, "", "", 0, false, moved},
		{webhook, 302, "", "", 0, false, moved},
		{slack, 307, "", "", 0, false, moved},
		{ntfy, 308, "", "", 0, false, moved},
		{webhook, 304, "", "", 0, false, moved},
		{webhook, 400, "", secretBody, 0, false, refused},
		{webhook, 403, "", "", 0, false, refused},
		{ntfy, 403, "", "", 0, false, refused},
		{discord, 403, "", "", 0, false, refused},
		{webhook, 500, "", secretBody, 0, false, refused},
		{webhook, 502, "", "", 0, false, refused},
		{webhook, 504, "", "", 0, false, refused},
		{discord, 401, "", secretBody, 0, true, gone},
		{discord, 404, "", `{"message":"Unknown Webhook","code":10015}`, 0, true, gone},
		{slack, 404, "", "no_service", 0, true, gone},
		{slack, 410, "", "channel_is_archived", 0, true, gone},
		{slack, 403, "", "action_prohibited", 0, true, gone},
		{webhook, 410, "", "", 0, true, gone},
		{ntfy, 401, "", "", 0, true, gone},
		{telegram, 401, "", `{"ok":false,"error_code":401,"description":"Unauthorized"}`, 0, true, gone},
		{telegram, 403, "", `{"ok":false,"error_code":403,"description":"Forbidden: bot was kicked from the group chat"}`, 0, true, gone},
		{telegram, 400, "", `{"ok":false,"error_code":400,"description":"Bad Request: chat not found"}`, 0, true, "the bot knows no such chat"},
		{telegram, 400, "", `{"ok":false,"error_code":400,"description":"Bad Request: can't parse entities"}`, 0, false, refused},
		{telegram, 400, "", `{"ok":false,"description":"` + secretBody + `","parameters":{"migrate_to_chat_id":-100500}}`, 0, true, "the group has another number"},
		{discord, 429, "65", `{"message":"` + secretBody + `","retry_after":64.57,"global":false}`, 64570 * time.Millisecond, false, wait},
		{discord, 429, "3", "<html>", 3 * time.Second, false, wait},
		{telegram, 429, "", `{"ok":false,"error_code":429,"parameters":{"retry_after":35}}`, 35 * time.Second, false, wait},
		{slack, 429, "30", "rate_limited", 30 * time.Second, false, wait},
		{webhook, 503, "120", "", 2 * time.Minute, false, wait},
		{webhook, 503, "", "", 0, false, refused},
		{webhook, 429, "99999999999999999999", "", maxPatience, false, wait},
		{webhook, 429, "1e300", "", maxPatience, false, wait},
		{webhook, 429, "-5", "", 0, false, wait},
		{webhook, 429, "NaN", "", 0, false, wait},
		{webhook, 429, "Inf", "", maxPatience, false, wait},
		{webhook, 429, "soon", "", 0, false, wait},
		{discord, 429, "", `{"retry_after":1e99}`, maxPatience, false, wait},
		{discord, 429, "", `{"retry_after":"` + secretBody + `"}`, 0, false, wait},
		{webhook, 503, "Fri, 01 Jan 2100 00:00:00 GMT", "", maxPatience, false, wait},
		{webhook, 503, "Fri, 01 Jan 1999 00:00:00 GMT", "", 0, false, refused},
		{webhook, 404, "", strings.Repeat(secretBody, 10000), 0, true, gone},
	} {
		status, header, body = c.status, c.header, c.body
		r := s.Send(t.Context(), c.to, message())
		why := ""
		if r.Why != nil {
			why = r.Why.Error()
		}
		if r.Status != c.status || r.Gone != c.gone || r.RetryAfter != c.after || c.why == "" != (why == "") || !strings.HasPrefix(why, c.why) || strings.Contains(why, "inside") {
			t.Errorf("%s %d %q %.80q: %+v", c.to.Service, c.status, c.header, c.body, r)
		}
		if r.Why != nil && app.KindOf(r.Why) != app.Unusable {
			t.Errorf("%d is %v, which is of the wrong kind", c.status, r.Why)
		}
	}
	status, header = 503, time.Now().Add(10*time.Minute).UTC().Format(http.TimeFormat)
	if r := s.Send(t.Context(), webhook, message()); r.RetryAfter < 9*time.Minute || r.RetryAfter > 10*time.Minute {
		t.Errorf("until %s are %s", header, r.RetryAfter)
	}
}

// What the services themselves refuse: a token, a topic, a chat and a signature that are not those.
func TestRefusals(t *testing.T) {
	stub := services.New(t)
	s := sending(t, stub, Mail{})
	all := channels(stub)
	for i, spoil := range []func(c *app.Channel){
		func(c *app.Channel) { c.Target += "x" },
		func(c *app.Channel) { c.Target += "x" },
		func(c *app.Channel) { c.Target += "x" },
		func(c *app.Channel) { c.Secrets = []string{"tk_wrong"} },
		func(c *app.Channel) { c.Secrets = []string{secret()} },
	} {
		c := all[i]
		spoil(&c)
		if r := s.Send(t.Context(), c, message()); !r.Gone || r.Why == nil {
			t.Errorf("%s: %+v", c.Service, r)
		}
	}
	for chat, why := range map[string]string{"403": "it takes no more messages", "-400": "the group has another number", "77": "the bot knows no such chat"} {
		c := all[2]
		c.Recipient = chat
		if r := s.Send(t.Context(), c, message()); !r.Gone || r.Why == nil || !strings.HasPrefix(r.Why.Error(), why) {
			t.Errorf("the chat %s: %+v", chat, r)
		}
	}
	if got := stub.Messages(); len(got) != 0 {
		t.Errorf("%d messages arrived", len(got))
	}
}

// Who sends faster than a service takes hears when to come again, where the service says it.
func TestRateLimits(t *testing.T) {
	stub := services.NewPlain(t)
	now := time.Now()
	stub.Limits = func() time.Time { return now }
	s := sending(t, stub, Mail{})
	for _, c := range channels(stub)[:4] {
		var r app.Receipt
		for range 200 {
			if r = s.Send(t.Context(), c, message()); r.Why != nil {
				break
			}
		}
		if r.Status != 429 || r.Gone || (r.RetryAfter > 0) != (c.Service != app.Ntfy) || r.RetryAfter > 5*time.Second {
			t.Errorf("%s: %+v", c.Service, r)
		}
	}
}

// Who has one of two secrets takes the message; the library judges.
func TestWebhookSignatures(t *testing.T) {
	older, newer := secret(), secret()
	if older == newer {
		t.Fatal("two secrets are the same")
	}
	c := app.Channel{Service: app.Webhook, Target: "https://example.org", Secrets: []string{newer, older}}
	m := message()
	p, err := writeWebhook(nil, c, m)
	if err != nil {
		t.Fatal(err)
	}
	header := http.Header{}
	for name, value := range p.header {
		header.Set(name, value)
	}
	for key, fits := range map[string]bool{older: true, newer: true, secret(): false} {
		judge, err := standardwebhooks.NewWebhook(key)
		if err != nil {
			t.Fatalf("%s is no secret: %v", key, err)
		}
		if err := judge.Verify(p.body, header); (err == nil) != fits {
			t.Errorf("verify: %v, want %t", err, fits)
		}
		if err := judge.Verify(append(p.body, ' '), header); err == nil {
			t.Error("another body has the same signature")
		}
	}
	if n := len(strings.Fields(header.Get("webhook-signature"))); n != 2 {
		t.Errorf("%d signatures", n)
	}
	// The same message at the next try has the same body and id.
	again, err := writeWebhook(nil, c, m)
	if err != nil || string(again.body) != string(p.body) || again.header["webhook-id"] != m.ID {
		t.Errorf("the next try differs: %s", again.body)
	}
	if at, err := strconv.ParseInt(header.Get("webhook-timestamp"), 10, 64); err != nil || time.Since(time.Unix(at, 0)) > time.Minute {
		t.Errorf("the time of the try is %s", header.Get("webhook-timestamp"))
	}
	for _, secrets := range [][]string{nil, {"whsec_???"}} {
		c.Secrets = secrets
		if r := New(Options{Client: egress.New(egress.Options{})}).Send(t.Context(), c, m); r.Why == nil {
			t.Errorf("sent with the secrets %q", secrets)
		}
	}
}

// Another account's channel does not get inside, whatever it is called, and none follows where it is led. What is
// said of it is the same whether somebody listens there or not.
func TestNoScanner(t *testing.T) {
	var asked atomic.Int32
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(inside.Close)
	_, port, _ := strings.Cut(inside.Listener.Addr().String(), ":")
	names := dns.Start(t)
	names.SetHost("inside.example.org", netip.MustParseAddr("127.0.0.1"))
	s := New(Options{Client: egress.New(egress.Options{Resolver: &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, names.Addr())
	}}})})
	said := map[string]bool{}
	for _, target := range []string{
		"https://127.0.0.1", "https://127.0.0.1:" + port, "https://localhost", "https://inside.example.org", "https://[::1]", "https://169.254.169.254/latest/meta-data", "https://2130706433", "https://0x7f.1",
		"https://127.0.0.1.", "https://10.0.0.1", "https://[fd00:ec2::254]", "https://[64:ff9b::10.0.0.1]",
	} {
		c := app.Channel{Service: app.Webhook, Target: target, Secrets: []string{secret()}}
		r := s.Send(t.Context(), c, message())
		if r.Why == nil || r.Status != 0 || r.Gone {
			t.Errorf("%s: %+v", target, r)
			continue
		}
		said[r.Why.Error()] = true
	}
	for why := range said {
		if !strings.HasPrefix(why, "berth does not connect to it") && why != "the DNS does not know its name" && why != "the DNS does not answer for its name" {
			t.Errorf("it says %q", why)
		}
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("%d requests got inside", n)
	}
}

// A secret that an address holds is in no error.
func TestErrorsHoldNoSecrets(t *testing.T) {
	stub := services.New(t)
	s := sending(t, stub, Mail{})
	all := channels(stub)
	stub.Close()
	for _, c := range all {
		r := s.Send(t.Context(), c, message())
		if r.Why == nil || r.Status != 0 || r.Gone {
			t.Fatalf("%s: %+v", c.Service, r)
		}
		for _, text := range []string{r.Why.Error(), fmt.Sprintf("%+v %#v", r, r.Why)} {
			for _, secret := range []string{services.TelegramToken, "discord-token_1", "slackToken", "berth_alerts", stub.URL} {
				if strings.Contains(text, secret) {
					t.Errorf("%s: %s", c.Service, text)
				}
			}
		}
	}
}
