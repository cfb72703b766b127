package app

import (
	"strings"
	"time"
)

// Actors that are no account, in the place of an AccountID.
const (
	Owner    = 0  // of the host, at its command line or local socket
	Stranger = -1 // somebody without a valid token
)

// AuditRecord is one record of the audit log: who asked for what, from where, and what
// came of it. It holds no token, no value of a variable and no command. Its texts
// may be a stranger's, so that whoever prints them escapes them.
type AuditRecord struct {
	Seq       int64 // grows from record to record; set when it is stored
	At        time.Time
	Actor     AccountID
	Name      string    // of the actor, as it was then; "" for no account
	Token     int64     // that was used; 0 for none
	Label     string    // of the token
	Account   AccountID // whose application or account was meant; 0 when unknown
	From      string    // address of the client; "" for the owner of the host
	Operation string    // such as "app.start"
	App       ID        // "" for none
	AppName   string    // "" when unknown
	Detail    string    // the parameters that matter
	Status    int       // of the HTTP answer; 0 at the command line
	Refusal   string    // the sentence of it; "" when it was done
	Request   string    // the X-Request-Id of the answer
	Times     int       // how often, at least 1
	// Counted records are one record for each minute, client and operation: many
	// of them say no more than their number does.
	Counted bool
}

// Bounds of the texts of a record, in bytes: what is longer is cut.
const (
	MaxRecordName   = 128
	MaxRecordDetail = 400
)

// Bounded returns the record with its texts cut to what is stored, Times at least
// 1, and the time of a counted record at the begin of its minute.
func (a AuditRecord) Bounded() AuditRecord {
	for _, text := range []*string{&a.Name, &a.Label, &a.From, &a.AppName, &a.Request, &a.Operation} {
		*text = cut(*text, MaxRecordName)
	}
	a.App = ID(cut(string(a.App), MaxRecordName))
	a.Detail, a.Refusal = cut(a.Detail, MaxRecordDetail), cut(a.Refusal, MaxRecordDetail)
	a.Times = max(1, a.Times)
	if a.Counted {
		a.At = a.At.Truncate(time.Minute)
	}
	return a
}

// cut returns the whole characters of the first n bytes of s, valid as UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		for n > 0 && s[n]&0xC0 == 0x80 {
			n--
		}
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// AuditQuery chooses records of the audit log; zero fields choose all.
type AuditQuery struct {
	Account AccountID // that acted, or was meant
	App     ID
	// Operation is one of them, such as "app.start".
	Operation string
	Since     time.Time
	Before    int64 // the Seq of the oldest record that is known already
	Limit     int   // MUST be positive
}
