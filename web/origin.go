package web

import (
	"net/url"
	"strings"
)

// SameOrigin reports whether an Origin header, if there is one, names the host
// that was asked for, or the one that links lead to.
func SameOrigin(origin, host, base string) bool {
	if origin == "" {
		return true
	}
	o, err := url.Parse(origin)
	if err != nil || o.Host == "" {
		return false
	}
	b, err := url.Parse(base)
	return strings.EqualFold(o.Host, host) || err == nil && strings.EqualFold(o.Host, b.Host)
}
