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
}

// Link is a download that needs no token: whoever has the address may read it
// until it expires.
type Link struct {
	Kind    LinkKind
	Object  string // the application of a log, the file of a backup
	Version int64  // differs when the object was replaced by another of the same name
	Expires time.Time
}

// LinkKind tells what a Link opens.
type LinkKind byte

// The kinds of link.
const (
	LinkLog    LinkKind = 'l'
	LinkBackup LinkKind = 'b'
)
