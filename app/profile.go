package app

import (
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of a profile, which every edge holds to.
const (
	MaxName      = 30  // characters
	MaxAvatarURL = 512 // bytes
)

// ValidName reports whether s can be the name of an application: 1 to MaxName
// characters and no control characters.
func ValidName(s string) bool {
	n := utf8.RuneCountInString(s)
	return n >= 1 && n <= MaxName && !strings.ContainsFunc(s, unicode.IsControl)
}

// ValidAvatar reports whether s can be the address of an avatar: http or https, at
// most MaxAvatarURL bytes, or empty.
func ValidAvatar(s string) bool {
	if s == "" {
		return true
	}
	if len(s) > MaxAvatarURL || strings.ContainsFunc(s, unicode.IsSpace) {
		return false
	}
	u, err := url.Parse(s)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Hostname() != ""
}
