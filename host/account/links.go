package account

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"berth/app"
)

// The text of a link is base64url of
//
//	kind (1 byte) | expires (8, unix seconds) | version (8) | object | HMAC-SHA256 of all that (32)
const (
	linkHead  = 1 + 8 + 8
	maxObject = 255
)

// linkText is strict: each link has one spelling, so that a log or a cache can
// compare texts.
var linkText = base64.RawURLEncoding.Strict()

// Links signs and checks links without remembering any. It is safe for
// concurrent use.
type Links struct {
	key []byte
	now func() time.Time
}

// NewLinks returns the links of one key, 32 random bytes that MUST stay the
// same for links to survive a restart.
func NewLinks(key []byte, now func() time.Time) *Links { return &Links{key, now} }

// Sign returns the text of a link: url-safe, one path segment. Expires is cut
// to the second. An Object longer than 255 bytes makes a link that Verify
// refuses.
func (l *Links) Sign(link app.Link) string {
	b := make([]byte, 0, linkHead+len(link.Object)+sha256.Size)
	b = append(b, byte(link.Kind))
	b = binary.BigEndian.AppendUint64(b, uint64(link.Expires.Unix()))
	b = binary.BigEndian.AppendUint64(b, uint64(link.Version))
	b = append(b, link.Object...)
	return linkText.EncodeToString(append(b, mac(l.key, b)...))
}

// Verify returns the link that Sign made text of, or app.NotFound when it was
// not made with this key or has expired; it does not say which.
func (l *Links) Verify(text string) (app.Link, error) {
	const longest = linkHead + maxObject + sha256.Size
	// The decoder skips line breaks, which would be a second spelling.
	if len(text) > linkText.EncodedLen(longest) || strings.ContainsAny(text, "\r\n") {
		return app.Link{}, errLink()
	}
	b, err := linkText.DecodeString(text)
	if err != nil || len(b) < linkHead+sha256.Size {
		return app.Link{}, errLink()
	}
	body, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	if !hmac.Equal(sum, mac(l.key, body)) {
		return app.Link{}, errLink()
	}
	link := app.Link{
		Kind:    app.LinkKind(body[0]),
		Expires: time.Unix(int64(binary.BigEndian.Uint64(body[1:])), 0).UTC(),
		Version: int64(binary.BigEndian.Uint64(body[9:])),
		Object:  string(body[linkHead:]),
	}
	if !l.now().Before(link.Expires) {
		return app.Link{}, errLink()
	}
	return link, nil
}

// mac is the HMAC-SHA256 of some parts, one after the other.
func mac(key []byte, parts ...[]byte) []byte {
	h := hmac.New(sha256.New, key)
	for _, part := range parts {
		h.Write(part)
	}
	return h.Sum(nil)
}

func errLink() error { return app.Errorf(app.NotFound, "there is no such link, or it has expired") }
