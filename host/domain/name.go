package domain

import (
	"net/netip"
	"slices"
	"strings"

	"berth/app"
)

// reserved are the subdomains that nobody gets. The first stand for something
// else in paths of the API; by the others people and programs look for the host
// itself, so whoever had one could pose as it: mail clients, for instance, take
// their settings from autoconfig and autodiscover, browsers their proxy from
// wpad.
var reserved = []string{
	"all", "create",
	"admin", "api", "autoconfig", "autodiscover", "berth", "ftp", "imap", "localhost", "mail", "mx", "ns", "ns1", "ns2",
	"panel", "pop", "root", "smtp", "webmail", "wpad", "www",
}

const maxSubdomain = 20 // characters; clients refuse longer ones

// CheckSubdomain fails with app.Invalid unless name can be a subdomain: 2 to 20
// characters of a-z, 0-9 and '-', with a letter (digits alone are the ids of
// bots), neither starting nor ending with '-', without "--" in third place,
// which marks names in other alphabets, and not reserved.
func CheckSubdomain(name string) error {
	switch {
	case len(name) < 2 || len(name) > maxSubdomain || !isLabel(name) || strings.Trim(name, "0123456789-") == "":
		return app.Errorf(app.Invalid,
			"%q cannot be a subdomain: 2 to %d of a-z, 0-9 and -, with a letter, not starting or ending with -", name, maxSubdomain)
	case len(name) > 3 && name[2:4] == "--":
		return app.Errorf(app.Invalid, "%q cannot be a subdomain: -- in third place marks names in other alphabets, which could look like another site's", name)
	case slices.Contains(reserved, name):
		return app.Errorf(app.Invalid, "%q cannot be a subdomain: it is reserved, because people take it for the host's own", name)
	}
	return nil
}

const (
	prefix    = "_berth."          // of the name of the TXT record
	maxDomain = 253 - len(prefix)  // the longest name of the DNS has 253
	maxLabel  = 63                 // RFC 1035
	example   = "shop.example.org" // in sentences
)

// CheckDomain returns a domain as it is kept: lower case, without a dot at the
// end. It fails with app.Invalid unless it can be one: labels of a-z, 0-9 and
// '-', at least two, no IP address, and none of own nor below one of own.
func CheckDomain(text string, own []string) (string, error) {
	name := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(text), "."))
	wrong := func(format string, args ...any) (string, error) {
		return "", app.Errorf(app.Invalid, "%q cannot be a domain: %s", shorten(text), app.Textf(format, args...))
	}
	if name == "" {
		return "", app.Errorf(app.Invalid, "name the domain, such as %s", example)
	}
	if strings.ContainsFunc(name, func(r rune) bool { return r > '~' }) {
		return wrong("write it in its ASCII form, where each label in another alphabet begins with xn--")
	}
	if len(name) > maxDomain {
		return wrong("it is longer than a name of the DNS can be")
	}
	if _, err := netip.ParseAddr(strings.Trim(name, "[]")); err == nil {
		return wrong("it is an IP address")
	}
	labels := strings.Split(name, ".")
	for _, label := range labels {
		if !isLabel(label) {
			return wrong("between its dots are 1 to 63 of a-z, 0-9 and -, not starting or ending with -, as in %s", example)
		}
	}
	if len(labels) < 2 {
		return wrong("it needs a dot, as in %s", example)
	}
	if strings.Trim(labels[len(labels)-1], "0123456789") == "" { // RFC 3696, and what browsers take for an address
		return wrong("its last part must not be a number")
	}
	for _, mine := range own {
		if name == mine || strings.HasSuffix(name, "."+mine) {
			return wrong("it is the host's own; use a subdomain")
		}
	}
	return name, nil
}

// isLabel reports whether s can stand between two dots.
func isLabel(s string) bool {
	if s == "" || len(s) > maxLabel || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' {
			return false
		}
	}
	return true
}

// shorten keeps what a stranger sent from filling a sentence.
func shorten(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
