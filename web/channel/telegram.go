package channel

import (
	"regexp"
	"strings"

	"berth/app"
)

// Limits of a message's text, in characters of UTF-16, without its markup (Telegram, sendMessage).
const (
	telegramText  = 4096
	telegramTitle = 300
	telegramLines = 1500
)

var (
	telegramToken = regexp.MustCompile(`^(\d{1,20}):[\w-]{20,100}$`)
	telegramChat  = regexp.MustCompile(`^(-?\d{1,20}|@[A-Za-z]\w{3,31})$`)
	// telegramPlain takes the meaning from what begins markup (Telegram, "HTML style"), and ends an attribute.
	telegramPlain = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;")
)

// telegramMessage is the body of sendMessage.
type telegramMessage struct {
	Chat    string          `json:"chat_id"`
	Text    string          `json:"text"`
	Mode    string          `json:"parse_mode"`
	Preview telegramPreview `json:"link_preview_options"`
	Silent  bool            `json:"disable_notification"`
}

type telegramPreview struct {
	Disabled bool `json:"is_disabled"`
}

func checkTelegram(_ *Sender, c app.Channel) error {
	switch {
	case !telegramToken.MatchString(c.Target):
		return app.Errorf(app.Invalid, "the token of a bot looks like 123456789:AAE…, as @BotFather of Telegram gives it")
	case !telegramChat.MatchString(c.Recipient):
		return app.Errorf(app.Invalid, "the chat is its number, such as 123456789 or -1001234567890, or the @name of a channel")
	}
	return nil
}

// maskTelegram shows the bot's number, which is no secret, and the chat.
func maskTelegram(c app.Channel) string {
	if parts := telegramToken.FindStringSubmatch(c.Target); parts != nil {
		return parts[1] + ":" + hidden + " → " + c.Recipient
	}
	return hidden
}

func writeTelegram(s *Sender, c app.Channel, m app.Message) (post, error) {
	title := head(quiet(line(m.Title)), telegramTitle, units)
	facts := head(quiet(lines(m)), telegramLines, units)
	left := telegramText - size(marks[m.Severity]+title+"\n"+facts+"\n", units)
	title = "<b>" + telegramPlain.Replace(title) + "</b>"
	if m.Link != "" {
		title = `<a href="` + telegramPlain.Replace(m.Link) + `">` + title + "</a>"
	}
	text := marks[m.Severity] + title + "\n" + telegramPlain.Replace(facts)
	if excerpt := clean(m.Excerpt); excerpt != "" {
		text += "\n<pre>" + telegramPlain.Replace(tail(excerpt, left, units)) + "</pre>"
	}
	return post{to: s.o.telegram + "/bot" + c.Target + "/sendMessage", body: encoded(telegramMessage{
		Chat: c.Recipient, Text: text, Mode: "HTML", Preview: telegramPreview{Disabled: true}, Silent: m.Severity == app.Info,
	})}, nil
}
