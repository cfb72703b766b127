package account

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"

	"berth/app"
)

// maxToken bounds the text of a token, in bytes; berth's own have less than 200.
const maxToken = 1 << 10

// tokenHeader is {"alg":"HS256","typ":"JWT"}.
const tokenHeader = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9"

// newToken makes the text of a token. It has the shape of a JWT only because
// clients decode it on their side and want "id" and "key" in it. The server
// believes none of it: the 256 random bits at the end are the secret, and the
// hash of the whole is what it looks up.
func newToken(id app.AccountID) string {
	payload := fmt.Sprintf(`{"id":"%d","key":"%s"}`, id, random())
	return tokenHeader + "." + base64.RawURLEncoding.EncodeToString([]byte(payload)) + "." + random()
}

// random returns 256 random bits in 43 url-safe characters.
func random() string {
	var b [32]byte
	_, _ = rand.Read(b[:]) // never fails, see crypto/rand
	return base64.RawURLEncoding.EncodeToString(b[:])
}
