package services

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

var (
	topicForm = regexp.MustCompile(`^[-_A-Za-z0-9]{1,64}$`)
	typeForm  = regexp.MustCompile(`^[a-zA-Z0-9_]+(\.[a-zA-Z0-9_]+)*$`)
)

// ntfy is publishing as JSON at a server whose topic asks for a token.
func ntfy(r *http.Request, m *Message) answer {
	refused := func(status, code int, message string) answer {
		return answer{status, map[string]any{"code": code, "http": status, "error": message}, message}
	}
	var b struct {
		Topic, Title, Message, Click string
		Priority                     int
		Tags                         []string
	}
	switch err := decode(m.Body, &b); {
	case len(m.Body) > 2*4096:
		return refused(413, 41303, "JSON body too large")
	case err != nil:
		return refused(400, 40024, err.Error())
	case !topicForm.MatchString(b.Topic):
		return refused(400, 40009, "invalid request: topic invalid")
	case r.Header.Get("Authorization") == "":
		return refused(403, 40301, "forbidden")
	case r.Header.Get("Authorization") != "Bearer "+NtfyToken:
		return refused(401, 40101, "unauthorized")
	case b.Topic != ntfyTopic:
		return refused(403, 40301, "forbidden")
	case b.Priority < 0 || b.Priority > 5:
		return refused(400, 40007, "invalid priority parameter")
	case len(b.Message) > 4096 || b.Message == "": // that would be an attachment, and "triggered"
		return refused(413, 41301, "attachment too large, or bandwidth limit reached")
	}
	if link, err := url.Parse(b.Click); err != nil || b.Click != "" && link.Scheme == "" {
		return refused(400, 40000, "invalid request")
	}
	m.Title, m.Text, m.Link, m.Loud = b.Title, b.Message, b.Click, b.Priority
	return answer{status: 200, body: map[string]any{"id": "1", "event": "message", "topic": b.Topic}}
}

// webhook receives by Standard Webhooks: it verifies the signature before it reads.
func webhook(r *http.Request, m *Message) answer {
	refused := func(status int, why string) answer { return answer{status, why, why} }
	judge, err := standardwebhooks.NewWebhook(WebhookSecret)
	if err != nil {
		return refused(500, err.Error())
	}
	if err := judge.Verify(m.Body, r.Header); err != nil {
		return refused(401, err.Error())
	}
	var b struct {
		Type, Timestamp string
		Data            json.RawMessage
	}
	if err := decode(m.Body, &b); err != nil {
		return refused(400, err.Error())
	}
	var data struct{ Title, Excerpt, Link string }
	_, badTime := time.Parse(time.RFC3339Nano, b.Timestamp)
	switch {
	case len(m.Body) > 20<<10:
		return refused(413, "more than 20 KB")
	case !typeForm.MatchString(b.Type) || badTime != nil || json.Unmarshal(b.Data, &data) != nil:
		return refused(400, "no event: "+string(m.Body))
	}
	m.ID, m.Title, m.Text, m.Link = r.Header.Get("webhook-id"), data.Title, data.Excerpt, data.Link
	return answer{status: 204}
}
