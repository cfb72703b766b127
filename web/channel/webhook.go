package channel

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"strconv"
	"strings"
	"time"

	"berth/app"
)

const (
	secretPrefix = "whsec_"
	// These, in bytes, keep a body below the 20 KB that the standard recommends, also where JSON doubles them.
	webhookTitle   = 500
	webhookLines   = 2 << 10
	webhookExcerpt = 6 << 10
)

// webhookEvent is the body of a delivery: the type of the event, when it happened, and what it is.
type webhookEvent struct {
	Type      string      `json:"type"`
	Timestamp string      `json:"timestamp"`
	Data      webhookData `json:"data"`
}

type webhookData struct {
	App      *webhookApp `json:"app,omitempty"`
	Severity string      `json:"severity"`
	Title    string      `json:"title"`
	Lines    []string    `json:"lines"`
	Excerpt  string      `json:"excerpt,omitempty"`
	Link     string      `json:"link,omitempty"`
	Count    int         `json:"count"`
}

type webhookApp struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

func checkWebhook(s *Sender, c app.Channel) error {
	_, _, err := s.address(c)
	return err
}

func writeWebhook(_ *Sender, c app.Channel, m app.Message) (post, error) {
	facts := head(lines(m), webhookLines, bytesOf)
	event := webhookEvent{Type: string(m.Kind), Timestamp: m.At.UTC().Format(time.RFC3339Nano), Data: webhookData{
		Severity: m.Severity.String(), Title: head(line(m.Title), webhookTitle, bytesOf),
		Lines:   append([]string{}, strings.FieldsFunc(facts, func(r rune) bool { return r == '\n' })...), // [] for none
		Excerpt: tail(clean(m.Excerpt), webhookExcerpt, bytesOf), Link: m.Link, Count: m.Count,
	}}
	if m.App != "" {
		event.Data.App = &webhookApp{string(m.App), head(line(m.AppName), webhookTitle, bytesOf)}
	}
	p := post{to: c.Target, body: encoded(event)}
	now := strconv.FormatInt(time.Now().Unix(), 10)
	if len(c.Secrets) == 0 {
		return post{}, errors.New("the channel has no secret")
	}
	signatures := make([]string, len(c.Secrets))
	for i, secret := range c.Secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, secretPrefix))
		if err != nil {
			return post{}, err
		}
		signatures[i] = signature(key, m.ID, now, p.body)
	}
	p.header = map[string]string{"webhook-id": m.ID, "webhook-timestamp": now, "webhook-signature": strings.Join(signatures, " ")}
	return p, nil
}

// signature is that of Standard Webhooks, "Signature scheme".
func signature(key []byte, id, timestamp string, body []byte) string {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write([]byte(id + "." + timestamp + "."))
	_, _ = h.Write(body) // a hash takes everything
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}
