package channel

import (
	"net/url"
	"regexp"
	"strings"

	"berth/app"
)

// Limits of a message, in bytes. ntfy takes 4,096 of text, and twice as many of JSON, where a quote or the end of a
// line takes two.
const (
	ntfyText  = 3500
	ntfyTitle = 250
	ntfyLines = 1500
)

var (
	ntfyTopic = regexp.MustCompile(`^/[-_A-Za-z0-9]{1,64}$`)
	// ntfyToken is one token, or none.
	ntfyToken = regexp.MustCompile(`^[\x21-\x7e]{0,200}$`)
	// ntfyPriority is how loud a telephone is: as usual, with a long vibration, and above all else.
	ntfyPriority = []int{app.Info: 3, app.Warning: 4, app.Failure: 5}
	ntfyTag      = []string{app.Info: "information_source", app.Warning: "warning", app.Failure: "rotating_light"}
)

// ntfyMessage is what is published as JSON, which needs no encoding of headers.
type ntfyMessage struct {
	Topic    string   `json:"topic"`
	Title    string   `json:"title"`
	Message  string   `json:"message"`
	Priority int      `json:"priority"`
	Tags     []string `json:"tags"`
	Click    string   `json:"click,omitempty"`
}

func checkNtfy(s *Sender, c app.Channel) error {
	u, _, err := s.address(c)
	switch {
	case err != nil:
		return err
	case !ntfyTopic.MatchString(u.Path) || u.RawQuery != "":
		return app.Errorf(app.Invalid, "the address of a topic of ntfy looks like https://ntfy.sh/TOPIC")
	case !ntfyToken.MatchString(strings.Join(c.Secrets, " ")):
		return app.Errorf(app.Invalid, "the access token of ntfy looks like tk_…")
	}
	return nil
}

func writeNtfy(_ *Sender, c app.Channel, m app.Message) (post, error) {
	u, err := url.Parse(c.Target)
	if err != nil {
		return post{}, err
	}
	text := head(lines(m), ntfyLines, bytesOf)
	if excerpt := clean(m.Excerpt); excerpt != "" {
		text += "\n\n" + tail(excerpt, ntfyText-len(text)-2, bytesOf)
	}
	p := post{body: encoded(ntfyMessage{
		Topic: strings.TrimPrefix(u.Path, "/"), Title: head(line(m.Title), ntfyTitle, bytesOf), Message: text,
		Priority: ntfyPriority[m.Severity], Tags: []string{ntfyTag[m.Severity]}, Click: m.Link,
	})}
	if token := strings.Join(c.Secrets, " "); token != "" {
		p.header = map[string]string{"Authorization": "Bearer " + token}
	}
	u.Path = "/" // where JSON is published
	p.to = u.String()
	return p, nil
}
