package account

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"time"

	"berth/app"
)

// KnownTime is how long a browser is known after a sign-in.
const KnownTime = 30 * 24 * time.Hour

// The text of a known browser is base64url of
//
//	nonce (16 bytes) | expires (8, unix seconds) | HMAC-SHA256 of all that, the account and what is remembered of its password (32)
//
// So it is of use for one account, as long as that has this password, and nothing
// has to be remembered of it.
const (
	knownNonce = 16
	knownHead  = knownNonce + 8
)

// knownMark keeps its key apart from those of other uses.
const knownMark = "berth: a known browser"

// knownKey is the key of known browsers that comes of the one of links, nil of
// none.
func knownKey(key []byte) []byte {
	if len(key) == 0 {
		return nil
	}
	return mac(key, []byte(knownMark))
}

func (s *SignIns) knownMAC(head []byte, a app.AccountID, password string) []byte {
	return mac(s.key, head, binary.BigEndian.AppendUint64(nil, uint64(a)), []byte(password))
}

// Remember returns the text by which a browser, in which somebody has just signed
// in, is known for KnownTime: app.Visitor.Known. Whoever guesses the account's
// password elsewhere makes it wait for nothing. It is "" where there is no key.
func (s *SignIns) Remember(ctx context.Context, a app.Account) (string, error) {
	_, password, err := s.store.PasswordByName(ctx, a.Name)
	if err != nil || s.key == nil {
		return "", err
	}
	head := make([]byte, knownNonce, knownHead)
	_, _ = rand.Read(head) // never fails, see crypto/rand
	head = binary.BigEndian.AppendUint64(head, uint64(time.Now().Add(KnownTime).Unix()))
	return linkText.EncodeToString(append(head, s.knownMAC(head, a.ID, password)...)), nil
}

// browser returns what a known browser is slowed down under, "" for one that is
// not known to the account of that name.
func (s *SignIns) browser(ctx context.Context, name, text string) (string, error) {
	if s.key == nil || len(text) != linkText.EncodedLen(knownHead+sha256.Size) {
		return "", nil
	}
	b, err := linkText.DecodeString(text)
	if err != nil || len(b) != knownHead+sha256.Size {
		return "", nil
	}
	head, sum := b[:knownHead], b[knownHead:]
	if time.Now().Unix() >= int64(binary.BigEndian.Uint64(head[knownNonce:])) {
		return "", nil
	}
	a, password, err := s.store.PasswordByName(ctx, name)
	if app.KindOf(err) == app.NotFound || err == nil && password == "" {
		return "", nil
	}
	if err != nil || !hmac.Equal(sum, s.knownMAC(head, a.ID, password)) {
		return "", err
	}
	return string(head[:knownNonce]), nil
}
