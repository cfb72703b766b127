package account

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // RFC 6238: what every app for codes can; HMAC needs no collisions to be hard
	"crypto/subtle"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"time"
)

// The codes of apps (RFC 6238), with the values that every app knows.
const (
	totpSeed   = 20 // bytes, as long as the hash (RFC 4226, 4)
	totpDigits = 6
	totpStep   = 30 * time.Second
	totpDrift  = 1 // steps that a clock may be early or late
)

// seedText is how a seed is typed into an app.
var seedText = base32.StdEncoding.WithPadding(base32.NoPadding)

func newSeed() []byte {
	seed := make([]byte, totpSeed)
	_, _ = rand.Read(seed) // never fails, see crypto/rand
	return seed
}

// totpCode is the code of a step (RFC 4226, 5.3).
func totpCode(seed []byte, step int64) string {
	h := hmac.New(sha1.New, seed)
	_ = binary.Write(h, binary.BigEndian, step) // a hash takes everything
	sum := h.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%0*d", totpDigits, binary.BigEndian.Uint32(sum[at:])&0x7fffffff%1e6)
}

// totpMatch returns the step whose code this is, 0 for none. It takes as long for every code.
func totpMatch(seed []byte, code string, now time.Time) (step int64) {
	current := now.Unix() / int64(totpStep/time.Second)
	for s := current - totpDrift; s <= current+totpDrift; s++ {
		if subtle.ConstantTimeCompare([]byte(totpCode(seed, s)), []byte(code)) == 1 {
			step = s
		}
	}
	return step
}

// totpURI is what an app reads from a QR code. issuer is the host of the panel.
func totpURI(issuer, account string, seed []byte) string {
	query := url.Values{"secret": {seedText.EncodeToString(seed)}, "issuer": {issuer}}
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(account) + "?" + query.Encode()
}
