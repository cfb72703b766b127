package app

import "errors"

// Kind classifies an error for machines; the HTTP status is derived from it
// in exactly one place (web.StatusOf).
type Kind int

// The kinds. Anything that is not an *Error is Internal.
const (
	Internal     Kind = iota // not the user's doing; the cause goes to the log only
	Invalid                  // the request itself is malformed
	Unauthorized             // no token, or one that is not valid
	Forbidden                // a valid token that may not do this (disabled account, missing permission)
	NotFound                 // no such thing, or not this account's
	Already                  // the application is in the asked-for state already
	Conflict                 // another operation is under way, or a name is taken
	TooLarge                 // the body or what it unpacks to exceeds a limit
	Unusable                 // well formed, but berth cannot run it (bad config, unsafe ZIP, missing runtime)
	Exhausted                // a limit of the account or the host's memory does not allow it
	NoSpace                  // the host's disk is full, or its quota used up
	Limited                  // too many requests
	Unavailable              // berth is shutting down or cannot serve this now
)

// What a disk answers instead of taking more, and what to do, as it follows
// "cannot X: ". A full disk and a quota are NoSpace, a disk that takes no writes
// at all is Unavailable.
const (
	DiskFull     = "the host's disk is full; its owner must make room"
	DiskQuota    = "the disk quota of the host is used up; its owner must make room or raise it"
	DiskOwn      = "the application's disk space is used up; remove some of its files, or ask the owner of this host to raise apps.disk"
	DiskReadOnly = "the host's disk is read-only; its owner must repair it"
	DiskFailed   = "the host's disk reports errors; its owner must check it"
	DiskSilent   = "the host's disk does not answer; its owner must check it"

	DatabaseDamaged = "the host's database is damaged; its owner must restore it from a backup"
	DatabaseGone    = "the host's database cannot be opened; its owner must check it"
	DatabaseMoved   = "the host's database was removed or replaced; its owner must put it back and start berth again"

	KeyUnread = "the key that seals the secrets of this host cannot be read; berth doctor tells the host's owner what helps"
)

// Error is an error a person may read. Message is for the user and MUST NOT
// hold paths of the host or secrets, nor have them as arguments; Err is the cause, for the log alone.
type Error struct {
	Kind    Kind
	Message Text
	Logs    string // what the program or its build printed last, if that explains the error
	Err     error
}

// Error returns the message and, when there is one, the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message.String() + ": " + e.Err.Error()
	}
	return e.Message.String()
}

// Phrase returns what Error says, to be said in another language.
func (e *Error) Phrase() (format string, args []any) {
	if e.Err != nil {
		return "%v: %v", []any{e.Message, e.Err}
	}
	return e.Message.Phrase()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an error that the user should read, as Textf makes its sentence. An
// error among the arguments becomes part of the message and no cause.
func Errorf(kind Kind, format string, args ...any) error {
	return &Error{Kind: kind, Message: Textf(format, args...)}
}

// KindOf returns the kind of err: Internal unless an *Error is in its chain.
func KindOf(err error) Kind {
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return Internal
}
