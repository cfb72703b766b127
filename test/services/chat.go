package services

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// mention is what Discord and Telegram read as one.
var mention = regexp.MustCompile(`@everyone|@here|<@[!&]?\d+>|(?:^|\W)@[A-Za-z]\w{3,}`)

// discord is "Execute Webhook" with its embeds' limits.
func discord(r *http.Request, m *Message) answer {
	refused := func(status, code int, message string) answer {
		return answer{status, map[string]any{"message": message, "code": code}, message}
	}
	path, token, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/api/webhooks/"), "/")
	_, own, _ := strings.Cut(strings.TrimPrefix(discordPath, "/api/webhooks/"), "/")
	switch {
	case !strings.HasPrefix(discordPath, "/api/webhooks/"+path+"/"):
		return refused(404, 10015, "Unknown Webhook")
	case token != own:
		return refused(401, 50027, "Invalid Webhook Token")
	}
	var b struct {
		Content *string
		Embeds  []struct {
			Title, URL, Description, Timestamp string
			Color                              int
			Fields                             []struct{ Name, Value string }
		}
		Mentions *struct{ Parse []string } `json:"allowed_mentions"`
	}
	if err := decode(m.Body, &b); err != nil {
		return refused(400, 50109, err.Error())
	}
	if b.Content == nil && len(b.Embeds) == 0 {
		return refused(400, 50006, "Cannot send an empty message")
	}
	all := 0
	for _, e := range b.Embeds {
		title, text := strings.TrimSpace(e.Title), strings.TrimSpace(e.Description)
		all += length(title) + length(text)
		_, badTime := time.Parse(time.RFC3339Nano, e.Timestamp)
		link, badLink := url.Parse(e.URL)
		if title == "" || length(title) > 256 || length(text) > 4096 || len(e.Fields) > 25 || e.Color < 0 || e.Color > 0xFFFFFF ||
			e.Timestamp != "" && badTime != nil || e.URL != "" && (badLink != nil || link.Scheme != "https" && link.Scheme != "http") {
			return refused(400, 50035, "Invalid Form Body")
		}
		m.Title, m.Text, m.Link = e.Title, e.Description, e.URL
	}
	if len(b.Embeds) > 10 || all > 6000 || b.Content != nil && length(*b.Content) > 2000 {
		return refused(400, 50035, "Invalid Form Body")
	}
	if b.Mentions == nil || len(b.Mentions.Parse) > 0 {
		m.Rings = len(mention.FindAllString(m.Title+" "+outside(m.Text), -1))
	}
	if r.URL.Query().Get("wait") != "true" {
		return answer{status: http.StatusNoContent}
	}
	return answer{status: 200, body: map[string]any{"id": "1", "type": 0}}
}

// outside is text without its code blocks, as Discord and Slack see it: from a fence to the next.
func outside(text string) string {
	var b strings.Builder
	for i, part := range strings.Split(text, "```") {
		if i%2 == 0 {
			b.WriteString(part + " ")
		}
	}
	return b.String()
}

var slackControl = regexp.MustCompile(`<([^<>]*)>`)

// slack is an incoming webhook.
func slack(r *http.Request, m *Message) answer {
	if r.URL.Path != slackPath {
		return answer{404, "no_service", "no_service"}
	}
	var b struct {
		Text        *string
		UnfurlLinks *bool `json:"unfurl_links"`
		UnfurlMedia *bool `json:"unfurl_media"`
	}
	if err := decode(m.Body, &b); err != nil {
		return answer{400, "invalid_payload", err.Error()}
	}
	if b.Text == nil || *b.Text == "" {
		return answer{400, "no_text", "no_text"}
	}
	m.Text = *b.Text
	for _, c := range slackControl.FindAllStringSubmatch(m.Text, -1) {
		if strings.HasPrefix(c[1], "!") || strings.HasPrefix(c[1], "@") || strings.HasPrefix(c[1], "#") {
			m.Rings++
		} else if link, _, found := strings.Cut(c[1], "|"); found && m.Link == "" {
			m.Link = link
		}
	}
	m.Title, _, _ = strings.Cut(m.Text, "\n")
	rest := slackControl.ReplaceAllString(m.Text, "")
	switch {
	case length(m.Text) > 4000: // it would be cut into several
		return answer{400, "msg_too_long", fmt.Sprintf("%d characters", length(m.Text))}
	case strings.ContainsAny(rest, "<>") || strings.Contains(regexp.MustCompile(`&(amp|lt|gt);`).ReplaceAllString(rest, ""), "&"):
		return answer{400, "invalid_payload", "not escaped: " + rest}
	}
	return answer{status: 200, body: "ok"}
}

// telegram is sendMessage of the Bot API.
func telegram(r *http.Request, m *Message) answer {
	refused := func(status int, description string) answer {
		return answer{status, map[string]any{"ok": false, "error_code": status, "description": description}, description}
	}
	if r.URL.Path != telegramPath {
		return refused(401, "Unauthorized")
	}
	var b struct {
		Chat    string `json:"chat_id"`
		Text    string
		Mode    string `json:"parse_mode"`
		Preview struct {
			Disabled bool `json:"is_disabled"`
		} `json:"link_preview_options"`
		Silent bool `json:"disable_notification"`
	}
	if err := decode(m.Body, &b); err != nil {
		return refused(400, "Bad Request: "+err.Error())
	}
	switch b.Chat {
	case TelegramChat:
	case "403":
		return refused(403, "Forbidden: bot was blocked by the user")
	case "-400":
		return answer{400, map[string]any{
			"ok": false, "error_code": 400, "description": "Bad Request: group chat was upgraded to a supergroup chat",
			"parameters": map[string]any{"migrate_to_chat_id": -1009},
		}, "moved"}
	default:
		return refused(400, "Bad Request: chat not found")
	}
	text, err := b.Text, error(nil)
	if b.Mode == "HTML" {
		text, m.Link, m.Rings, err = telegramHTML(b.Text)
	}
	m.Text = b.Text
	m.Title, _, _ = strings.Cut(text, "\n")
	switch n := length(text); {
	case err != nil:
		return refused(400, "Bad Request: can't parse entities: "+err.Error())
	case strings.TrimSpace(text) == "":
		return refused(400, "Bad Request: message text is empty")
	case n > 4096:
		return refused(400, "Bad Request: message is too long")
	}
	if !b.Silent {
		m.Loud = 1
	}
	return answer{status: 200, body: map[string]any{"ok": true, "result": map[string]any{"message_id": 1}}}
}

// telegramHTML is the text without its markup, which has to be whole; where it links to, and how many it
// mentions outside code.
func telegramHTML(text string) (plain, link string, rings int, err error) {
	d := xml.NewDecoder(strings.NewReader("<x>" + text + "</x>"))
	d.Entity = map[string]string{"lt": "<", "gt": ">", "amp": "&", "quot": `"`}
	var b, loud strings.Builder
	code := 0
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return b.String(), link, len(mention.FindAllString(loud.String(), -1)), nil
		}
		if err != nil {
			return "", "", 0, err
		}
		switch token := token.(type) {
		case xml.StartElement:
			switch token.Name.Local {
			case "a":
				link = token.Attr[0].Value
			case "pre", "code":
				code++
			case "b", "i", "u", "s", "x":
			default:
				return "", "", 0, errors.New("unsupported start tag " + token.Name.Local)
			}
		case xml.EndElement:
			if token.Name.Local == "pre" || token.Name.Local == "code" {
				code--
			}
		case xml.CharData:
			b.Write(token)
			if code == 0 {
				loud.Write(token)
			}
		default:
			return "", "", 0, errors.New("unsupported markup")
		}
	}
}
