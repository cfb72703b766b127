package channel

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth/app"
	"berth/web/egress"
)

// Options are what a Sender is made of.
type Options struct {
	Client *egress.Client
	Mail   Mail // the zero value: this host sends no mail

	telegram string // "" is the real one
}

// Sender brings messages to channels. It is safe for concurrent use.
type Sender struct{ o Options }

// New returns a sender.
func New(o Options) *Sender {
	if o.telegram == "" {
		o.telegram = "https://api.telegram.org"
	}
	return &Sender{o}
}

// service is what there is to know of one.
type service struct {
	check func(*Sender, app.Channel) error
	mask  func(app.Channel) string
	write func(*Sender, app.Channel, app.Message) (post, error) // nil for Email, which has no request
	ended []int                                                 // statuses that end a channel of it, beside ended
}

var senders = map[app.ChannelService]service{
	app.Discord:  {check: checkDiscord, mask: maskDiscord, write: writeDiscord},
	app.Slack:    {check: checkSlack, mask: maskSlack, write: writeSlack, ended: []int{http.StatusForbidden}},
	app.Telegram: {check: checkTelegram, mask: maskTelegram, write: writeTelegram, ended: []int{http.StatusForbidden}},
	app.Ntfy:     {check: checkNtfy, mask: maskURL, write: writeNtfy},
	app.Email:    {check: checkEmail, mask: maskEmail},
	app.Webhook:  {check: checkWebhook, mask: maskURL, write: writeWebhook},
}

// post is a request to a service.
type post struct {
	to     string
	body   []byte
	header map[string]string
}

// Check reports with an *app.Error why no message can be sent to a channel: Invalid for an address that is none of
// its service's, or one that berth does not connect to, and Unusable for mail of a host that sends
// none. It asks nobody: a name may still lead nowhere. The secrets of a Webhook are berth's own and not checked.
func (s *Sender) Check(c app.Channel) error {
	of, known := senders[c.Service]
	if !known {
		return app.Errorf(app.Invalid, "there is no service %.40q to which notifications are sent", string(c.Service))
	}
	return of.check(s, c)
}

// Mask returns what of a channel's address may be shown to those who may see the channel.
func (s *Sender) Mask(c app.Channel) string {
	of, known := senders[c.Service]
	if !known {
		return hidden
	}
	return of.mask(c)
}

// Send tries once to bring a message to a channel, and blocks for 15 seconds at most.
func (s *Sender) Send(ctx context.Context, c app.Channel, m app.Message) app.Receipt {
	if err := s.Check(c); err != nil {
		return app.Receipt{Why: err}
	}
	if c.Service == app.Email {
		return s.mail(ctx, c, m)
	}
	of := senders[c.Service]
	p, err := of.write(s, c, m)
	if err != nil {
		return failed(err)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, p.to, bytes.NewReader(p.body))
	if err != nil {
		return failed(err)
	}
	request.Header.Set("Content-Type", "application/json")
	for name, value := range p.header {
		request.Header.Set(name, value)
	}
	response, err := s.o.Client.For(c.Owner).Do(request)
	if err != nil {
		return failed(err)
	}
	defer response.Body.Close()
	return receipt(of, response)
}

// failed is the receipt of a try that nobody answered.
func failed(err error) app.Receipt {
	return app.Receipt{Why: &app.Error{Kind: app.Unusable, Message: egress.Explain(err)}}
}

// ended are the statuses that end a channel, whatever its service.
var ended = []int{http.StatusUnauthorized, http.StatusNotFound, http.StatusGone}

// refusal is what of an answer says more than its status: what Discord and Telegram say of how long to
// wait, and whether a chat of Telegram has become another or is none.
type refusal struct {
	RetryAfter float64 `json:"retry_after"` // Discord, seconds
	Parameters struct {
		RetryAfter float64 `json:"retry_after"`
		MovedTo    int64   `json:"migrate_to_chat_id"`
	}
	Description string
}

// receipt says what an answer means.
func receipt(of service, response *http.Response) app.Receipt {
	r := app.Receipt{Status: response.StatusCode}
	if r.Status >= 200 && r.Status < 300 {
		return r
	}
	var told refusal
	_ = json.NewDecoder(response.Body).Decode(&told) // most say nothing more
	r.RetryAfter = patience(response.Header.Get("Retry-After"), max(told.RetryAfter, told.Parameters.RetryAfter))
	switch {
	case r.Status >= 300 && r.Status < 400:
		r.Why = app.Errorf(app.Unusable, "it redirects elsewhere (status %d), which berth does not follow; set the address that it leads to", r.Status)
	case told.Parameters.MovedTo != 0:
		r.Gone, r.Why = true, app.Errorf(app.Unusable, "the group has another number since it became a supergroup; set that")
	case r.Status == http.StatusBadRequest && strings.HasSuffix(told.Description, "chat not found"):
		r.Gone, r.Why = true, app.Errorf(app.Unusable, "the bot knows no such chat: write to it there first, or add it to the group")
	case slices.Contains(ended, r.Status) || slices.Contains(of.ended, r.Status):
		r.Gone, r.Why = true, app.Errorf(app.Unusable, "it takes no more messages from this channel (status %d): the address, the token or the permission is gone", r.Status)
	case r.Status == http.StatusTooManyRequests || r.RetryAfter > 0:
		r.Why = app.Errorf(app.Unusable, "it asked berth to wait (status %d)", r.Status)
	default:
		r.Why = app.Errorf(app.Unusable, "it refused the message (status %d)", r.Status)
	}
	return r
}

// maxPatience is the longest that berth waits for a service because that asks for it.
const maxPatience = 24 * time.Hour

// patience is how long a service asks to wait, by Retry-After (RFC 9110, 10.2.3: seconds or a date) or, with
// precedence, by what its body says.
func patience(header string, seconds float64) time.Duration {
	if at, err := http.ParseTime(header); seconds <= 0 && err == nil {
		seconds = time.Until(at).Seconds()
	} else if seconds <= 0 {
		seconds, _ = strconv.ParseFloat(header, 64) // what is no number asks for nothing
	}
	switch {
	case !(seconds > 0): // nor does NaN
		return 0
	case seconds >= maxPatience.Seconds():
		return maxPatience
	}
	return time.Duration(math.Ceil(seconds*1000)) * time.Millisecond // not sooner
}

// encoded is a body as JSON, with every character as it is: escapes count against limits.
func encoded(body any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(body) // to memory, of strings and numbers
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
