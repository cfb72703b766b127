package app

import (
	"strconv"
	"time"
)

// AccountID is numeric because clients parse it as a number.
type AccountID int64

// String returns the decimal digits.
func (id AccountID) String() string { return strconv.FormatInt(int64(id), 10) }

// Account owns applications and a share of the host's memory.
type Account struct {
	ID        AccountID
	Name      string
	TotalRAM  MB
	Plan      string
	Locale    string
	Disabled  bool
	Admin     bool // may administer the host in the panel
	CreatedAt time.Time
}

// Locales are the locales an account can have; the first is the default.
var Locales = []string{"en-US", "pt-BR"}

// Token is an API token as it is remembered: never its text.
type Token struct {
	ID        int64
	Account   AccountID
	Label     string
	CreatedAt time.Time
	LastUsed  time.Time // zero when never; at most a minute old
	Expires   time.Time // zero when never
}

// Expired reports whether the token is none any more.
func (t Token) Expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// Session is a browser that is signed in to the panel: never what its cookie
// holds.
type Session struct {
	ID        int64
	Account   AccountID
	CreatedAt time.Time
	LastSeen  time.Time // at most a minute old
	Agent     string    // what the browser calls itself, shortened; a stranger's text
	Address   string    // it was last seen from
}

// Invitation is a one-time link to a new password.
type Invitation struct {
	Account Account // the zero Account: the link makes the first of all
	Expires time.Time
}

// Link is a download that needs no token: whoever has the address may read it
// until it expires.
type Link struct {
	Kind    LinkKind
	Object  string // the application of a log, the file of a backup
	Version int64  // differs when the object was replaced by another of the same name
	Expires time.Time
}

// LinkKind is what a Link opens.
type LinkKind byte

// The kinds of link.
const (
	LinkLog    LinkKind = 'l'
	LinkBackup LinkKind = 'b'
)

// Visitor is where a request comes from, as far as berth knows.
type Visitor struct {
	Address string // of the client
	Key     string // what slows it down: the address, a whole network of IPv6
	Agent   string // what the client calls itself
	Known   string // what the browser was given when its owner signed in before; "" for nothing
}
