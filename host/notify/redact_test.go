package notify

import (
	"encoding/base64"
	"net/url"
	"strings"
	"testing"
	"time"

	"berth/app"
)

// No form of a variable's value is in what is sent, nor a token of a service.
func TestSecretsAreHidden(t *testing.T) {
	const secret, other = "p@ss/w+rd?ünd&more", "p@ss/w+rd?ünd&more-and-longer"
	hide := secretsOf([]app.Variable{{Name: "A", Value: secret}, {Name: "B", Value: other}, {Name: "SHORT", Value: "true"}})
	discord := strings.Repeat("M", 24) + ".Gabcde." + strings.Repeat("x", 27)
	for what, text := range map[string]string{
		"plain": secret, "the longer one": other, "in a query": url.QueryEscape(secret), "in a path": url.PathEscape(secret),
		"in small escapes": "p%40ss%2fw%2brd%3f%c3%bcnd%26more",
		"in base64":        base64.StdEncoding.EncodeToString([]byte(secret)), "for addresses": base64.URLEncoding.EncodeToString([]byte(secret)),
		"in base64 behind one": base64.StdEncoding.EncodeToString([]byte("a" + secret + "tail")),
		"in base64 behind two": base64.RawURLEncoding.EncodeToString([]byte("user:" + secret + ":tail")),
		"of a bot of Discord":  discord, "of a bot of Telegram": "bot 123456789:" + strings.Repeat("A", 35) + "/send",
		"of GitHub": "ghp_" + strings.Repeat("a", 36), "of GitHub, of today": "github_pat_" + strings.Repeat("a", 82),
		"a webhook of Discord": "https://discord.com/api/webhooks/123456789/" + strings.Repeat("a", 68),
	} {
		got := hide.without("before " + text + " after")
		if !strings.Contains(got, hidden) || !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: %q", what, got)
		}
		for _, leak := range []string{secret, "more-and", discord, strings.Repeat("A", 30), strings.Repeat("a", 30), url.QueryEscape("ss/w+rd"), "c3N3K3Jk"} {
			if strings.Contains(got, leak) {
				t.Errorf("%s leaks: %q", what, got)
			}
		}
	}
	if got := hide.without("it is true: 1.5 of 3"); got != "it is true: 1.5 of 3" {
		t.Errorf("%q", got)
	}
	if got := (secrets{}).without(discord); got != hidden {
		t.Errorf("%q", got)
	}
}

// The end of a log is of the run that ended, and has nothing that cannot be seen.
func TestExcerpt(t *testing.T) {
	at := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	stamped := func(after time.Duration, line string) string {
		return at.Add(after).Format("2006-01-02T15:04:05.000Z ") + line + "\n"
	}
	var log strings.Builder
	for range 20 {
		log.WriteString(stamped(0, "an old line"))
	}
	log.WriteString(stamped(0, "a to\x1b[1mken-in-\x1b[0mcolours\r\a"))
	log.WriteString(stamped(0, strings.Repeat("ü", 400)))
	log.WriteString(stamped(0, "\x1b]0;title\x07\x1b(Bmoved \u202eback"))
	log.WriteString(stamped(time.Second, "of the next run"))
	got := excerpt(log.String(), at.Add(lateLines), secretsOf([]app.Variable{{Value: "token-in-colours"}}))
	want := strings.Repeat("an old line\n", 12) + "a [hidden]\n" + strings.Repeat("ü", 300) + "…\nmoved back"
	if got != want {
		t.Errorf("%q", got)
	}
	if got := excerpt("", at, secrets{}); got != "" {
		t.Errorf("%q", got)
	}
}
