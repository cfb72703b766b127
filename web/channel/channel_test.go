package channel

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"berth/app"
	"berth/test/services"
	"berth/web/egress"
)

// sending is a sender that the stubs' certificate convinces, and which may reach them for the owner.
func sending(t *testing.T, s *services.Server, mail Mail) *Sender {
	t.Helper()
	allow := []netip.AddrPort{netip.MustParseAddrPort(s.Listener.Addr().String())}
	return New(Options{Client: egress.New(egress.Options{Version: "1.2.3", Allow: allow, Roots: s.Roots}), Mail: mail, telegram: s.URL})
}

// channels are one of each service at the stubs, but for mail.
func channels(s *services.Server) []app.Channel {
	return []app.Channel{
		{Owner: true, Service: app.Discord, Target: s.Discord},
		{Owner: true, Service: app.Slack, Target: s.Slack},
		{Owner: true, Service: app.Telegram, Target: services.TelegramToken, Recipient: services.TelegramChat},
		{Owner: true, Service: app.Ntfy, Target: s.Ntfy, Secrets: []string{services.NtfyToken}},
		{Owner: true, Service: app.Webhook, Target: s.Webhook, Secrets: []string{services.WebhookSecret}},
	}
}

// message is an ordinary one.
func message() app.Message {
	return app.Message{
		ID: "msg_2KWPBgLlAfxdpx2AI54pPJ85f4W", At: time.Date(2026, 11, 3, 20, 26, 10, 0, time.UTC), Kind: app.NoticeOutOfMemory, Severity: app.Failure,
		App: "1699", AppName: "shop", Title: "shop was killed: it needed more than 64 MB of RAM", Lines: []string{"Peak: 64 MB of 64 MB.", "berth starts it again in 5 s."},
		Excerpt: "loading\nTypeError: x is undefined\n    at main.js:3", Link: "https://panel.example.org/apps/1699?a=1&b=2", Count: 1,
	}
}

func TestSend(t *testing.T) {
	stub := services.New(t)
	s := sending(t, stub, Mail{})
	m := message()
	// Discord answers 204 before it knows whether it has the message, unless it is asked to wait.
	statuses := map[app.ChannelService]int{app.Discord: 200, app.Slack: 200, app.Telegram: 200, app.Ntfy: 200, app.Email: 0, app.Webhook: 204}
	for _, c := range channels(stub) {
		if r := s.Send(t.Context(), c, m); r.Why != nil || r.Gone || r.RetryAfter != 0 || r.Status != statuses[c.Service] {
			t.Errorf("%s: %+v", c.Service, r)
		}
	}
	got := stub.Messages()
	if len(got) != 5 {
		t.Fatalf("%d messages arrived; refused were %q", len(got), stub.Refused())
	}
	if d := got[0]; !strings.Contains(string(d.Body), `"allowed_mentions":{"parse":[]}`) {
		t.Errorf("Discord may mention: %s", d.Body)
	}
	for _, g := range got {
		if g.Link != m.Link && g.Link != strings.ReplaceAll(m.Link, "&", "&amp;") || !strings.Contains(g.Title, "64 MB of RAM") ||
			!strings.Contains(g.Text, "TypeError: x is undefined") || g.Header.Get("User-Agent") != "berth/1.2.3" {
			t.Errorf("%s has %q, %q, %q from %q", g.Service, g.Title, g.Text, g.Link, g.Header.Get("User-Agent"))
		}
	}
	if n := got[3]; n.Loud != 5 || n.Header.Get("Authorization") != "Bearer "+services.NtfyToken {
		t.Errorf("ntfy: %+v", n)
	}
	if w := got[4]; w.ID != m.ID {
		t.Errorf("the id of the webhook is %q", w.ID)
	}
}

// The same for an event of an account, which has neither program nor link, and is no emergency.
func TestSendLittle(t *testing.T) {
	stub := services.New(t)
	s := sending(t, stub, Mail{})
	m := app.Message{ID: "a", At: time.Now(), Kind: app.NoticeToken, Severity: app.Info, Title: "New token", Lines: []string{"It is named ci."}, Count: 1}
	for _, c := range channels(stub) {
		if r := s.Send(t.Context(), c, m); r.Why != nil {
			t.Errorf("%s: %+v", c.Service, r)
		}
	}
	for _, g := range stub.Messages() {
		if g.Link != "" || g.Service == "telegram" && g.Loud != 0 || g.Service == "ntfy" && g.Loud != 3 {
			t.Errorf("%+v", g)
		}
	}
	if b := stub.Messages()[4].Body; strings.Contains(string(b), "app") || strings.Contains(string(b), "excerpt") {
		t.Errorf("the webhook has what is not there: %s", b)
	}
	m.ID, m.Lines = "b", nil
	if r := s.Send(t.Context(), channels(stub)[4], m); r.Why != nil {
		t.Errorf("%+v", r)
	}
	if all := stub.Messages(); !strings.Contains(string(all[len(all)-1].Body), `"lines":[],`) {
		t.Errorf("no lines are %s", all[len(all)-1].Body)
	}
}

// hostile are texts of programs that want to be more than text.
var hostile = []string{
	"@everyone @here <@123456789> <@!123456789> <@&123> <!channel> <!here|here> @channel @durov",
	"```\n@everyone **out** of the fence\n```", "````", "`````", "``` ``` ```", "``\u200b`", "`", "``", "a``b```c````d`````e``````f",
	`</pre><a href="tg://user?id=1">x</a><b>`, "&lt;/pre&gt;", `"><script>`, "&amp;&", "<", ">", "<a|b>", "<https://evil.example.org|click>",
	"\x1b[31mred\x1b[0m\x00\x07\r\b", "\u202Egnp.exe\u2066\u2069\u200f", "\xff\xfe broken \xc3", "line\r\nSubject: injected\r\n\r\nbody", "a\u2028b\u2029c\u0085d",
	"\\", "\\\\", "*_~|[](x)#>-", "\n\n\n", " ", "é🔴界", "{\"json\":\"\\u0000\"}",
}

// Whatever a program prints, a message arrives, in one piece, rings at nobody's and ends where it should.
func TestHostileText(t *testing.T) {
	stub := services.NewPlain(t)
	s := sending(t, stub, Mail{})
	all := strings.Join(hostile, "\n")
	big := []string{
		strings.Repeat("a", 70<<10), strings.Repeat("🔴", 20<<10), strings.Repeat("`", 9000), strings.Repeat("<&>", 9000), strings.Repeat("\n", 9000),
		strings.Repeat(`"\`, 9000), strings.Repeat("@everyone ", 2000), strings.Repeat("界", 9000), strings.Repeat("a``", 3000),
	}
	for i, text := range slices.Concat(hostile, []string{all}, big) {
		m := message()
		m.Title, m.Lines, m.Excerpt, m.AppName = "x"+text, []string{text, "y" + text, text}, text+"\nTHE END", text
		for _, c := range channels(stub) {
			if r := s.Send(t.Context(), c, m); r.Why != nil {
				t.Errorf("%s, %d: %v; %q", c.Service, i, r.Why, stub.Refused())
			}
		}
	}
	got := stub.Messages()
	if want := 5 * (len(hostile) + 1 + len(big)); len(got) != want {
		t.Errorf("%d of %d messages arrived", len(got), want)
	}
	for _, g := range got {
		if g.Rings != 0 || !utf8.Valid(g.Body) {
			t.Errorf("%s: rings %d times: %s", g.Service, g.Rings, g.Text)
		}
		if !strings.Contains(g.Text, "THE END") {
			t.Errorf("%s lost the end: %.200q", g.Service, g.Text)
		}
		if g.Service == "discord" || g.Service == "slack" {
			if n := strings.Count(g.Text, "```"); n != 2 || !strings.HasSuffix(g.Text, "THE END\n```") {
				t.Errorf("%s has %d fences: %.300q", g.Service, n, g.Text)
			}
		}
		for _, r := range g.Title + g.Text {
			if r != '\n' && (r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\u2028') {
				t.Errorf("%s has the control character %U", g.Service, r)
			}
		}
	}
}

// FuzzExcerpt sends whatever the fuzzer finds to the stubs' rules.
func FuzzExcerpt(f *testing.F) {
	for _, text := range hostile {
		f.Add(text, text)
	}
	f.Fuzz(func(t *testing.T, title, excerpt string) {
		m := message()
		m.Title, m.Lines, m.Excerpt = title, []string{excerpt, title}, excerpt
		for _, of := range []struct {
			service app.ChannelService
			limit   int
		}{{app.Discord, 4096}, {app.Slack, 4000}} {
			service, limit := of.service, of.limit
			c := app.Channel{Service: service, Target: "https://discord.com/api/webhooks/1/x"}
			p, err := senders[service].write(New(Options{}), c, m)
			if err != nil {
				t.Fatal(err)
			}
			var b struct {
				Text   string
				Embeds []struct{ Title, Description string }
			}
			if err := json.Unmarshal(p.body, &b); err != nil {
				t.Fatalf("%s: %v in %s", service, err, p.body)
			}
			text := b.Text
			if len(b.Embeds) > 0 {
				text = b.Embeds[0].Description
			}
			if n := size(text, units); n > limit {
				t.Errorf("%s: %d characters", service, n)
			}
			if n := strings.Count(text, "```"); n != 0 && n != 2 {
				t.Errorf("%s: %d fences in %q", service, n, text)
			}
		}
	})
}

func TestHeadAndTail(t *testing.T) {
	for _, c := range []struct {
		text, head, tail string
		limit            int
		cost             func(rune) int
	}{
		{"abcdef", "abcdef", "abcdef", 6, units},
		{"abcdefg", "abcde…", "…cdefg", 6, units},
		{"🔴🔴🔴🔴", "🔴🔴…", "…🔴🔴", 6, units},
		{"ééééé", "é…", "…é", 6, bytesOf},
		{"<<<", "…", "…", 4, slackUnits},
		{"<<<", "<…", "…<", 5, slackUnits},
	} {
		if got := head(c.text, c.limit, c.cost); got != c.head || size(got, c.cost) > c.limit {
			t.Errorf("head of %q at %d: %q", c.text, c.limit, got)
		}
		if got := tail(c.text, c.limit, c.cost); got != c.tail || size(got, c.cost) > c.limit {
			t.Errorf("tail of %q at %d: %q", c.text, c.limit, got)
		}
	}
}

// What a channel shows of its target is no way to write there.
func TestMask(t *testing.T) {
	for _, c := range []struct {
		channel app.Channel
		want    string
	}{
		{app.Channel{Service: app.Discord, Target: "https://discord.com/api/webhooks/123456/secret-token"}, "https://discord.com/api/webhooks/123456/…"},
		{app.Channel{Service: app.Discord, Target: "https://discord.com/secret"}, "https://discord.com/…"},
		{app.Channel{Service: app.Slack, Target: "https://hooks.slack.com/services/T1/B1/secret"}, "https://hooks.slack.com/services/T1/…"},
		{app.Channel{Service: app.Slack, Target: "https://chat.example.org/hooks/secret"}, "https://chat.example.org/…"},
		{app.Channel{Service: app.Telegram, Target: "123456:AAE-secret-secret-secret", Recipient: "@ana"}, "123456:… → @ana"},
		{app.Channel{Service: app.Ntfy, Target: "https://ntfy.sh/secret"}, "https://ntfy.sh/…"},
		{app.Channel{Service: app.Email, Target: "secret@example.org"}, "s…@example.org"},
		{app.Channel{Service: app.Webhook, Target: "https://example.org:8443/secret?key=secret"}, "https://example.org:8443/…"},
		{app.Channel{Service: app.Webhook, Target: "%secret"}, "…"},
		{app.Channel{Service: app.Telegram, Target: "secret"}, "…"},
		{app.Channel{Service: app.Email, Target: "secret"}, "…"},
		{app.Channel{Service: "pager", Target: "secret"}, "…"},
	} {
		if got := New(Options{}).Mask(c.channel); got != c.want || strings.Contains(got, "secret") {
			t.Errorf("%s: %q, want %q", c.channel.Service, got, c.want)
		}
	}
}

func TestCheck(t *testing.T) {
	const allowed = "10.0.0.5:8080"
	s := New(Options{Client: egress.New(egress.Options{Allow: []netip.AddrPort{netip.MustParseAddrPort(allowed)}}), Mail: Mail{Server: "mail.example.org:587"}})
	for service, targets := range map[app.ChannelService][]string{
		app.Telegram: nil, // see below
		app.Discord:  {"https://discord.com/api/webhooks/1234567890123456789/aB_-1", "https://discordapp.com/api/v10/webhooks/1/a", "https://ptb.discord.com/api/webhooks/1/a?thread_id=5"},
		app.Slack:    {"https://hooks.slack.com/services/T01234567/B01234567/XXXXXXXXXXXXXXXXXXXXXXXX"},
		app.Ntfy:     {"https://ntfy.sh/mytopic", "https://ntfy.example.org/a-b_C9", "https://ntfy.example.org:443/a"},
		app.Email:    {"ana@example.org", "a.b+c@mail.example.co.uk", "o'hara@example.org"},
		app.Webhook:  {"https://example.org/hook?x=1", "https://example.org", "https://example.org:80/", "https://8.8.8.8/", "https://[2606:4700:4700::1111]/", "HTTPS://EXAMPLE.ORG/"},
	} {
		for _, target := range targets {
			if err := s.Check(app.Channel{Service: service, Target: target}); err != nil {
				t.Errorf("%s %s: %v", service, target, err)
			}
		}
	}
	for service, targets := range map[app.ChannelService][]string{
		app.Telegram: nil, // see below
		app.Discord: {
			"", "https://discord.com/api/webhooks/x/a", "https://discord.com/api/webhooks/1", "https://discord.com.evil.org/api/webhooks/1/a", "https://evil.org/api/webhooks/1/a",
			"https://discord.com:444/api/webhooks/1/a", "http://discord.com/api/webhooks/1/a", "https://discord.com/api/webhooks/1/a/slack", "https://discord.com@evil.org/api/webhooks/1/a",
		},
		app.Slack: {"https://hooks.slack.com/", "https://hooks.slack.com/workflows/T/A/1/x", "https://slack.com/services/T/B/X", "https://evil.org/services/T/B/X"},
		app.Ntfy:  {"https://ntfy.sh/", "https://ntfy.sh/a/b", "https://ntfy.sh/a?b=c", "https://ntfy.sh/" + strings.Repeat("a", 65), "https://ntfy.sh/a%2fb", "https://ntfy.sh/ü"},
		app.Email: {
			"", "ana", "ana@", "@example.org", "ana@example", "ana@localhost", "Ana <ana@example.org>", "ana@example.org, bob@example.org", "ana@example.org\r\nBcc: bob@example.org",
			"ana@example.org\n", "a b@example.org", `"a b"@example.org`, "ana@[127.0.0.1]", "ana@127.0.0.1", ".ana@example.org", "ana..b@example.org", "ana@-example.org", "ana@example.org.",
			"anä@example.org", strings.Repeat("a", 65) + "@example.org", "ana@" + strings.Repeat("a.", 130) + "org", "ana@example.org>", "<ana@example.org>", "ana@example.org?x", "mailto:ana@example.org",
		},
		app.Webhook: {
			"", "example.org", "ftp://example.org/", "https://", "https:///x", "https://a:b@example.org/", "https://example.org/#x", "http://example.org/", "https://example.org:8443/",
			"https://example.org:22/", "https://127.0.0.1/", "https://[::1]/", "https://10.0.0.5:8080/", "http://10.0.0.5:8080/", "https://169.254.169.254/", "https://[::ffff:10.0.0.1]/",
			"https://example.org/\r\nX: y", "https://" + strings.Repeat("a", 2048), "https://example.org:99999999/", "javascript:alert(1)", "file:///etc/passwd", "unix:///run/x",
		},
		"pager": {"https://example.org"},
	} {
		for _, target := range targets {
			if err := s.Check(app.Channel{Service: service, Target: target}); app.KindOf(err) != app.Invalid {
				t.Errorf("%s %q: %v", service, target, err)
			} else if len(target) > 30 && service != app.Email && strings.Contains(err.Error(), target) {
				t.Errorf("%s says the address: %v", service, err)
			}
		}
	}
	// What notify.allow names is for the host's owner.
	for _, c := range []app.Channel{
		{Service: app.Webhook, Target: "http://" + allowed + "/x"},
		{Service: app.Discord, Target: "http://" + allowed + "/api/webhooks/1/a"},
		{Service: app.Slack, Target: "http://[::ffff:10.0.0.5]:8080/hooks/x"},
		{Service: app.Ntfy, Target: "http://" + allowed + "/topic"},
		{Service: app.Webhook, Target: "https://nas.example.org:8443/"},
	} {
		if err := s.Check(c); app.KindOf(err) != app.Invalid {
			t.Errorf("%s at %s: %v", c.Service, c.Target, err)
		}
		if c.Owner = true; s.Check(c) != nil {
			t.Errorf("%s of the owner at %s: %v", c.Service, c.Target, s.Check(c))
		}
	}
	for _, target := range []string{"http://10.0.0.5/", "http://10.0.0.6:8080/", "http://127.0.0.1/", "http://example.org:8080/"} {
		if err := s.Check(app.Channel{Service: app.Webhook, Owner: true, Target: target}); app.KindOf(err) != app.Invalid {
			t.Errorf("the owner may use %s: %v", target, err)
		}
	}
	const token = "123456789:AAExampleExampleExampleExample_-1"
	for _, c := range []struct {
		target, recipient string
		fine              bool
	}{
		{token, "123456789", true},
		{token, "-1001234567890", true},
		{token, "@alerts_1", true},
		{token, "", false},
		{token, "alerts", false},
		{token, "@a", false},
		{token, "12 34", false},
		{"123456789", "1", false},
		{"123456789:short", "1", false},
		{token + "/../x", "1", false},
		{token + "\n", "1", false},
		{"", "1", false},
	} {
		if err := s.Check(app.Channel{Service: app.Telegram, Target: c.target, Recipient: c.recipient}); (err == nil) != c.fine {
			t.Errorf("telegram %q to %q: %v", c.target, c.recipient, err)
		}
	}
	for secret, fine := range map[string]bool{"tk_abc": true, "tk abc": false, "tk\r\nX: y": false, "": true, "tkü": false} {
		if err := s.Check(app.Channel{Service: app.Ntfy, Target: "https://ntfy.sh/a", Secrets: []string{secret}}); (err == nil) != fine {
			t.Errorf("ntfy with the token %q: %v", secret, err)
		}
	}
	if err := New(Options{}).Check(app.Channel{Service: app.Email, Target: "ana@example.org"}); app.KindOf(err) != app.Unusable {
		t.Errorf("mail of a host without a mail server: %v", err)
	}
	for _, of := range app.ChannelServices {
		if _, known := senders[of]; !known {
			t.Errorf("nobody writes at %s", of)
		}
	}
}
