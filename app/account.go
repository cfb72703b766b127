package app

import (
	"slices"
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
	Suspended Suspension
	Admin     bool // may administer the host in the panel
	Limits    Limits
	External  string // what a program of the host's owner calls it, which made it; "" for none
	CreatedAt time.Time
}

// Suspension is that the programs of an account do not run, and that nobody uses it, while
// everything of it is kept.
type Suspension struct {
	On  bool
	Why string // for the account's owner to read, "" when nobody said
}

// Closed returns why nobody may use an account, an app.Forbidden, and nil when it may be
// used. Disabled and suspended are apart: an account that was disabled for another reason
// stays so when it is not suspended any more.
func (a Account) Closed() error {
	switch {
	case a.Suspended.Why != "":
		return Errorf(Forbidden, "this account is suspended (%s); ask the owner of the server", a.Suspended.Why)
	case a.Suspended.On:
		return Errorf(Forbidden, "this account is suspended; ask the owner of the server")
	case a.Disabled:
		return Errorf(Forbidden, "this account is disabled; ask the owner of the server")
	}
	return nil
}

// Limits are what an account may have at most beside its RAM. What is 0 has no limit but
// the host's settings.
type Limits struct {
	Disk    MB  // of the files of its applications and of their backups, together
	Apps    int // applications
	CPU     int // percent of one processor, for all of its programs together
	Builds  int // that run at once; the others wait
	Backups int // of all its applications that are kept
}

// AccountChange is what is to change of an account; nil leaves it as it is.
type AccountChange struct {
	RAM, Disk                  *MB
	Apps, CPU, Builds, Backups *int
}

// DiskUse is what an account has on the disk.
type DiskUse struct {
	Files       map[ID]int64 // bytes of each application's
	Backups     int          // of all its applications
	BackupBytes int64
}

// Bytes is the sum.
func (d DiskUse) Bytes() int64 {
	sum := d.BackupBytes
	for _, bytes := range d.Files {
		sum += bytes
	}
	return sum
}

// Use is what the applications of an account have, those being deployed included.
type Use struct {
	RAM  MB
	Apps int
}

// Locales are the locales an account can have; the first is the default. Spanish has no
// region: one text is for readers of all countries.
var Locales = []string{"en-US", "pt-BR", "es"}

// ClientLocale returns the locale that clients of the API know an account of this locale by:
// some fail on any but the two of the service that the API comes from.
func ClientLocale(locale string) string {
	if slices.Contains(Locales[:2], locale) {
		return locale
	}
	return Locales[0]
}

// Token is an API token as it is remembered: never its text.
type Token struct {
	ID        int64
	Account   AccountID
	Label     string
	CreatedAt time.Time
	LastUsed  time.Time // zero when never; at most a minute old
	Expires   time.Time // zero when never
	Bounds    *Bounds   // nil: it may do everything that its account may
}

// HostToken is a token of the owner of the host, as it is remembered: never its text.
type HostToken struct {
	ID        int64
	Label     string
	CreatedAt time.Time
	LastUsed  time.Time // zero when never; at most a minute old
}

// Bounds are what a token may do at most: what each permission of teams allows, with some
// applications alone. Applications that are deleted are none of them any more.
type Bounds struct {
	Apps []ID
	May  Permissions
}

// Covers reports whether an application is within the bounds; within nil are all.
func (b *Bounds) Covers(id ID) bool { return b == nil || slices.Contains(b.Apps, id) }

// Allows reports whether the bounds allow what p names with an application; nil allows it.
func (b *Bounds) Allows(id ID, p Permission) bool { return b == nil || b.May.Has(p) && b.Covers(id) }

// unusedFor is after how long a token is shown as one that nobody needs.
const unusedFor = 90 * 24 * time.Hour

// Unused reports whether nobody has used the token for 90 days, or since it was made.
func (t Token) Unused(now time.Time) bool {
	last := t.LastUsed
	if last.IsZero() {
		last = t.CreatedAt
	}
	return now.Sub(last) >= unusedFor
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

	ProvedAt   time.Time // when its owner last proved who they are
	ProvedFrom string    // Visitor.Key of that moment
	Bare       bool      // its account must set up a second factor before anything else
	New        bool      // when it is made: in a browser that the account has not signed in with before
}

// NewSignIn is a sign-in in a browser that was not known, of which its account has to know.
type NewSignIn struct {
	ID      int64
	Session int64 // that it began, which may have ended
	At      time.Time
	Agent   string // see Session
	Address string
}

// provedFor is for how long a proof of who somebody is counts.
const provedFor = 10 * time.Minute

// Proved reports whether the owner of the session has lately proved who they are, from
// where the request comes: a session that was taken elsewhere opens nothing there.
func (s Session) Proved(from Visitor, now time.Time) bool {
	age := now.Sub(s.ProvedAt)
	return s.ProvedFrom == from.Key && age < provedFor && age > -provedFor
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
