package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"berth/app"
)

// cost is what a hash of argon2id takes.
type cost struct {
	memory, passes uint32 // KiB, and times over it
	lanes          uint8
}

// today is the smallest cost that OWASP's list of password storage has (19 MiB, two
// passes, one lane), for a host may have 512 MB in all. A password has the cost of the day
// on which it was set, and no more than most.
var (
	today = cost{19 << 10, 2, 1}
	most  = cost{64 << 10, 8, 4}
)

const (
	hashBytes = 32
	saltBytes = 16
)

// The bounds of a password: in characters, and in bytes.
const (
	minPassword = 10
	maxPassword = 1024
)

// maxHashing is how many may wait for their hash; each holds a request. Beside
// them, so may some who are known: strangers cannot take their places.
const (
	maxHashing      = 16
	maxHashingKnown = 4
)

// passwordText is how hash and salt are written.
var passwordText = base64.RawStdEncoding.Strict()

// CheckPassword fails with app.Invalid unless password can be the one of an
// account called name.
func CheckPassword(name, password string) error {
	switch {
	case len(password) > maxPassword:
		return app.Errorf(app.Invalid, "a password may have at most %d bytes", maxPassword)
	case !utf8.ValidString(password):
		return app.Errorf(app.Invalid, "the password is not text")
	case utf8.RuneCountInString(password) < minPassword:
		return app.Errorf(app.Invalid, "a password must have at least %d characters", minPassword)
	case strength(name, password) < minStrength:
		return app.Errorf(app.Invalid, "the password is easy to guess; take several words that have nothing to do with each other, or let a password manager make it")
	}
	return nil
}

// hasher makes and compares hashes of passwords, one at a time: each needs 19 MiB
// and some 30 ms of a processor. It is safe for concurrent use.
type hasher struct {
	turn    chan struct{} // holds one while a hash is made
	waiting chan struct{} // holds one for each that wants to be, or is
	known   chan struct{} // the same of those that are known
	nobody  string        // what is compared when there is nothing to compare with
}

func newHasher() *hasher {
	// The zero salt and hash: there is no password of it.
	return &hasher{
		turn: make(chan struct{}, 1), waiting: make(chan struct{}, maxHashing), known: make(chan struct{}, maxHashingKnown),
		nobody: written(today, make([]byte, saltBytes), make([]byte, hashBytes)),
	}
}

// enter waits for the turn; the caller MUST call leave. It fails with
// app.Unavailable when many wait already.
func (h *hasher) enter(ctx context.Context, known bool) (leave func(), err error) {
	waiting := h.waiting
	if known {
		waiting = h.known
	}
	select {
	case waiting <- struct{}{}:
	default:
		return nil, app.Errorf(app.Unavailable, "too many people sign in at this moment; try again in a few seconds")
	}
	select {
	case h.turn <- struct{}{}:
		return func() { <-h.turn; <-waiting }, nil
	case <-ctx.Done():
		<-waiting
		return nil, ctx.Err()
	}
}

// hash returns what is to be remembered of a password, for somebody who may set it.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	leave, err := h.enter(ctx, true)
	if err != nil {
		return "", err
	}
	defer leave()
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails, see crypto/rand
	return written(today, salt, derive(password, today, salt)), nil
}

// matches compares a password with what is remembered of one. With "" it takes
// as long, and is false. known is set for somebody who is known.
func (h *hasher) matches(ctx context.Context, password, remembered string, known bool) (bool, error) {
	leave, err := h.enter(ctx, known)
	if err != nil {
		return false, err
	}
	defer leave()
	there := remembered != ""
	if !there {
		remembered = h.nobody
	}
	c, salt, want, err := read(remembered)
	if err != nil {
		return false, err
	}
	return subtle.ConstantTimeCompare(derive(password, c, salt), want) == 1 && there, nil
}

func derive(password string, c cost, salt []byte) []byte {
	return argon2.IDKey([]byte(password), salt, c.passes, c.memory, c.lanes, hashBytes)
}

// written is the usual text of an argon2 hash, with what it was made with.
func written(c cost, salt, hash []byte) string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, c.memory, c.passes, c.lanes,
		passwordText.EncodeToString(salt), passwordText.EncodeToString(hash))
}

// read is the inverse of written. A cost of nothing, or beyond most, is an error.
func read(text string) (c cost, salt, hash []byte, err error) {
	var first, second string
	parts := strings.Split(text, "$")
	if len(parts) == 6 {
		_, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &c.memory, &c.passes, &c.lanes)
		first, second = parts[4], parts[5]
	}
	if err == nil {
		salt, err = passwordText.DecodeString(first)
	}
	if err == nil {
		hash, err = passwordText.DecodeString(second)
	}
	switch {
	case err != nil || len(salt) != saltBytes || len(hash) != hashBytes || written(c, salt, hash) != text:
		return c, nil, nil, errors.New("cannot read the hash of a password: it is broken, or not one of berth's")
	case min(c.memory, c.passes, uint32(c.lanes)) == 0 || c.memory > most.memory || c.passes > most.passes || c.lanes > most.lanes:
		return c, nil, nil, errors.New("cannot read the hash of a password: berth makes none of this cost")
	}
	return c, salt, hash, nil
}
