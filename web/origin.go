package web

import (
	"net/url"
	"strings"
)

// SameOrigin reports whether an Origin header, if there is one, names the host
// that was asked for, or the one that links lead to. A call that came encrypted is not made by a page of the same host
// that did not: anybody on its way could have written it.
func SameOrigin(origin, host, base string, encrypted bool) bool {
	if origin == "" {
		return true
	}
	o, err := url.Parse(origin)
	if err != nil || o.Host == "" || encrypted && o.Scheme != "https" {
		return false
	}
	b, err := url.Parse(base)
	return strings.EqualFold(o.Host, host) || err == nil && strings.EqualFold(o.Host, b.Host)
}
