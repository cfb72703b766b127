package httpapi

import (
	"net/http"

	"berth/app"
	"berth/app/text"
)

// language is that of the account that asks; before it is known, and where no
// token is asked for, what the client accepts.
func (c *call) language() text.Language {
	if c.locale != "" {
		return text.In(c.locale)
	}
	return inLanguageOf(c.Request)
}

func inLanguageOf(r *http.Request) text.Language { return text.Accept(r.Header.Get("Accept-Language")) }

// say writes a message for the client.
func (c *call) say(format string, args ...any) string { return c.language().Say(format, args...) }

// tell is say for a sentence that was made before.
func (c *call) tell(t app.Text) string { return c.language().SayPhrase(t) }
