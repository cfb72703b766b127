package app

import (
	"net"
	"net/url"
	"strings"
	"time"
)

// Factors are what an account signs in with besides its password.
type Factors struct {
	TOTP     bool // codes of an app
	Passkeys int
	Recovery int // recovery codes that are left, each of use once
}

// Any reports whether there is a second factor. Recovery codes alone are none.
func (f Factors) Any() bool { return f.TOTP || f.Passkeys > 0 }

// SignedIn is what a step of a sign-in came to: a session, or a pending sign-in, which opens
// nothing and waits for its second step.
type SignedIn struct {
	Account Account
	Session string  // what the cookie of the session holds; "" while a second step is due
	Pending string  // what the cookie of the pending sign-in holds; "" without a second step
	Factors Factors // what the second step can be
	New     bool    // the session is in a browser in which the account has not signed in before
}

// Passkey is a key pair of which an authenticator of the account's owner keeps the secret half.
type Passkey struct {
	ID         int64
	Account    AccountID
	Credential []byte // the id that the authenticator gave it
	Record     []byte // the public key and more, as host/account reads it
	Count      uint32 // what the authenticator has counted; 0 where it does not
	Name       string
	RP         string // the domain at which it works
	CreatedAt  time.Time
	LastUsed   time.Time // zero when never
}

// Origin is an address at which browsers reach the panel, such as "https://panel.example.org",
// and the domain in it, "" where browsers make no passkeys.
type Origin struct{ URL, Domain string }

// OriginOf returns the origin of an address. An IP address has no domain for passkeys, nor has plain
// HTTP, but for localhost (Web Authentication 3, 5.1.3 and 13.4.9).
func OriginOf(address string) Origin {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return Origin{}
	}
	s := Origin{URL: u.Scheme + "://" + u.Host}
	name := strings.ToLower(u.Hostname())
	local := name == "localhost" || strings.HasSuffix(name, ".localhost")
	if net.ParseIP(name) == nil && (u.Scheme == "https" && strings.Contains(name, ".") || local) {
		s.Domain = name
	}
	return s
}
