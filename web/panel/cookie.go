package panel

import (
	"net/http"
	"time"
)

// The cookies of a session: the first name is taken by browsers only from this
// host, over HTTPS or on this machine, and for every path (RFC 6265bis, 4.1.3.2).
const (
	safeCookie  = "__Host-berth"
	plainCookie = "berth"
	themeCookie = "berth-theme"
	// knownSuffix makes the name of what a browser is known by after a sign-in.
	knownSuffix = "-known"
)

// knownTime is how long a browser keeps that. For how long it is of use is not the
// browser's to say.
const knownTime = 30 * 24 * time.Hour

func (c *call) cookieName() string {
	if c.safe {
		return safeCookie
	}
	return plainCookie
}

// cookie holds a session; "" ends it.
func (s *server) cookie(c *call, key string) *http.Cookie {
	age := int(s.TTL / time.Second)
	if key == "" {
		age = -1
	}
	return &http.Cookie{
		Name: c.cookieName(), Value: key, Path: "/", MaxAge: age,
		Secure: c.safe, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// knownCookie holds what the browser is known by. It is kept when a session ends.
func knownCookie(c *call, text string) *http.Cookie {
	return &http.Cookie{
		Name: c.cookieName() + knownSuffix, Value: text, Path: "/", MaxAge: int(knownTime / time.Second),
		Secure: c.safe, HttpOnly: true, SameSite: http.SameSiteLaxMode,
	}
}

// themes are what a person can choose; the first follows the system.
var themes = []string{"auto", "light", "dark"}

// themeOf is what the browser chose.
func themeOf(r *http.Request) string {
	if cookie, err := r.Cookie(themeCookie); err == nil {
		for _, t := range themes[1:] {
			if cookie.Value == t {
				return t
			}
		}
	}
	return themes[0]
}
