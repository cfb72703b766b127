package channel

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// Limits of an embed, in characters (Discord, "Embed Limits"). All of an embed together may have 6,000, which
// these cannot reach.
const (
	discordTitle = 256
	discordText  = 4096
	discordLines = 1500 // of discordText, so that an excerpt has room
)

var (
	discordHosts = []string{"discord.com", "discordapp.com", "ptb.discord.com", "canary.discord.com"}
	discordPath  = regexp.MustCompile(`^/api(?:/v\d{1,2})?/webhooks/(\d{1,20})/[\w-]{1,100}$`)
	discordColor = []int{app.Info: 0x3B82F6, app.Warning: 0xF59E0B, app.Failure: 0xDC2626}
	// discordPlain takes the meaning from what Discord reads as markup.
	discordPlain = strings.NewReplacer(`\`, `\\`, `*`, `\*`, `_`, `\_`, `~`, `\~`, "`", "\\`", `|`, `\|`, `#`, `\#`, `<`, `\<`, `>`, `\>`, `[`, `\[`, `]`, `\]`)
)

// discordMessage is the body of "Execute Webhook".
type discordMessage struct {
	Embeds   []discordEmbed  `json:"embeds"`
	Mentions discordMentions `json:"allowed_mentions"`
}

type discordEmbed struct {
	Title       string `json:"title"`
	URL         string `json:"url,omitempty"`
	Description string `json:"description"`
	Color       int    `json:"color"`
	Timestamp   string `json:"timestamp"`
}

// discordMentions with an empty list ring at nobody's.
type discordMentions struct {
	Parse []string `json:"parse"`
}

func checkDiscord(s *Sender, c app.Channel) error {
	u, own, err := s.address(c)
	if err != nil {
		return err
	}
	if !discordPath.MatchString(u.Path) || !own && !slices.Contains(discordHosts, u.Host) {
		return app.Errorf(app.Invalid, "the address of a Discord webhook looks like https://discord.com/api/webhooks/NUMBER/TOKEN")
	}
	return nil
}

// maskDiscord shows the number, which is no secret.
func maskDiscord(c app.Channel) string {
	u, err := url.Parse(c.Target)
	if err != nil {
		return hidden
	}
	if parts := discordPath.FindStringSubmatch(u.Path); parts != nil {
		return u.Scheme + "://" + u.Host + "/api/webhooks/" + parts[1] + "/" + hidden
	}
	return maskURL(c)
}

func writeDiscord(_ *Sender, c app.Channel, m app.Message) (post, error) {
	u, err := url.Parse(c.Target)
	if err != nil {
		return post{}, err
	}
	query := u.Query()
	query.Set("wait", "true") // or Discord answers before it knows whether it has the message
	u.RawQuery = query.Encode()
	text := head(quiet(discordPlain.Replace(lines(m))), discordLines, units)
	if excerpt := clean(m.Excerpt); excerpt != "" {
		const open, end = "\n```\n", "\n```"
		text += open + tail(fenceless(excerpt), discordText-size(text, units)-len(open+end), units) + end
	}
	return post{to: u.String(), body: encoded(discordMessage{
		Embeds: []discordEmbed{{
			Title: head(quiet(discordPlain.Replace(line(m.Title))), discordTitle, units), URL: m.Link, Description: text,
			Color: discordColor[m.Severity], Timestamp: m.At.UTC().Format(time.RFC3339Nano),
		}},
		Mentions: discordMentions{Parse: []string{}},
	})}, nil
}
