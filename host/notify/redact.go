package notify

import (
	"encoding/base64"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"berth/app"
)

const (
	// leastSecret is how many bytes a variable's value has at least that is taken out of what
	// is sent: shorter ones are in every text.
	leastSecret = 8
	hidden      = "[hidden]"
)

// tokenForms are tokens of services, by their form: of bots of Discord and Telegram, of GitHub,
// and the addresses of webhooks.
var tokenForms = regexp.MustCompile(strings.Join([]string{
	`[A-Za-z0-9_-]{23,28}\.[A-Za-z0-9_-]{6,7}\.[A-Za-z0-9_-]{27,}`,
	`mfa\.[A-Za-z0-9_-]{20,}`,
	`\b[0-9]{8,10}:[A-Za-z0-9_-]{35}`,
	`\bgh[pousr]_[A-Za-z0-9]{36,}`,
	`\bgithub_pat_[A-Za-z0-9_]{22,}`,
	`/api/webhooks/[0-9]+/[A-Za-z0-9_-]{20,}`,
	`hooks\.slack\.com/services/[A-Za-z0-9/]+`,
}, "|"))

// secrets takes out of texts what must not leave the host. The zero value does not know the
// variables.
type secrets struct{ values *strings.Replacer }

// secretsOf are the values of an application's variables, plain, and as they are in an address
// or in base64.
func secretsOf(variables []app.Variable) secrets {
	var forms []string
	for _, v := range variables {
		if len(v.Value) < leastSecret {
			continue
		}
		query, path := url.QueryEscape(v.Value), url.PathEscape(v.Value)
		forms = append(forms, v.Value, query, path, lowerEscapes(query), lowerEscapes(path))
		forms = append(forms, inBase64(v.Value)...)
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // a value may be in another one
	var pairs []string
	for _, form := range slices.Compact(forms) {
		pairs = append(pairs, form, hidden)
	}
	return secrets{strings.NewReplacer(pairs...)}
}

// without returns text without them.
func (s secrets) without(text string) string {
	if s.values != nil {
		text = s.values.Replace(text)
	}
	return tokenForms.ReplaceAllString(text, hidden)
}

var escape = regexp.MustCompile(`%[0-9A-F]{2}`)

// lowerEscapes writes the digits of escapes as some libraries do.
func lowerEscapes(s string) string { return escape.ReplaceAllStringFunc(s, strings.ToLower) }

// inBase64 are the texts that are in the base64 of anything that has value in it, at each of
// the three places where it can begin in a group: the characters which value alone decides.
func inBase64(value string) []string {
	var forms []string
	for before := range 3 {
		padded := strings.Repeat("\x00", before) + value
		from, to := (before*8+5)/6, len(padded)*8/6
		for _, alphabet := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
			forms = append(forms, alphabet.EncodeToString([]byte(padded))[from:to])
		}
	}
	return forms
}
