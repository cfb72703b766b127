package channel

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

// Limits of the text of a message, in characters: Slack shows longer ones as several messages, which would
// leave the code fence open.
const (
	slackText  = 4000
	slackTitle = 300
	slackLines = 1500
)

var (
	slackHosts = []string{"hooks.slack.com", "hooks.slack-gov.com"}
	slackPath  = regexp.MustCompile(`^/services/(\w{1,30})/\w{1,30}/\w{1,60}$`)
	// slackPlain takes the meaning from the three characters that have one (Slack, "Escaping text").
	slackPlain = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
)

// slackMessage is the body of an incoming webhook. Services that are compatible know these fields too.
type slackMessage struct {
	Text        string `json:"text"`
	UnfurlLinks bool   `json:"unfurl_links"`
	UnfurlMedia bool   `json:"unfurl_media"`
}

func checkSlack(s *Sender, c app.Channel) error {
	u, own, err := s.address(c)
	if err != nil {
		return err
	}
	if !own && (!slices.Contains(slackHosts, u.Host) || !slackPath.MatchString(u.Path)) {
		return app.Errorf(app.Invalid, "the address of an incoming webhook of Slack looks like https://hooks.slack.com/services/T…/B…/…")
	}
	return nil
}

// maskSlack shows the number of the workspace, which is no secret.
func maskSlack(c app.Channel) string {
	u, err := url.Parse(c.Target)
	if err != nil {
		return hidden
	}
	if parts := slackPath.FindStringSubmatch(u.Path); parts != nil {
		return u.Scheme + "://" + u.Host + "/services/" + parts[1] + "/" + hidden
	}
	return maskURL(c)
}

// slackUnits is how much of a limit a character takes once it is written.
func slackUnits(r rune) int {
	switch r {
	case '&':
		return len("&amp;")
	case '<', '>':
		return len("&lt;")
	}
	return units(r)
}

func writeSlack(_ *Sender, c app.Channel, m app.Message) (post, error) {
	title := slackPlain.Replace(head(fenceless(quiet(line(m.Title))), slackTitle, slackUnits))
	if m.Link != "" {
		title = "<" + slackPlain.Replace(m.Link) + "|" + strings.ReplaceAll(title, "|", "/") + ">"
	}
	text := marks[m.Severity] + "*" + title + "*\n" + slackPlain.Replace(head(fenceless(quiet(lines(m))), slackLines, slackUnits))
	if excerpt := clean(m.Excerpt); excerpt != "" {
		const open, end = "\n```\n", "\n```"
		text += open + slackPlain.Replace(tail(fenceless(excerpt), slackText-size(text, units)-len(open+end), slackUnits)) + end
	}
	return post{to: c.Target, body: encoded(slackMessage{Text: text})}, nil
}
