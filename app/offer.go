package app

import (
	"strings"
	"time"
)

// Offer is what an invitation brings to somebody who accepts it by its link: a new account,
// memberships of teams, or both. Nobody becomes an administrator by one.
type Offer struct {
	ID      int64
	Inviter AccountID // 0 for the owner of the host
	By      string    // name of the inviter's account; "" for the owner of the host
	For     string    // name that is proposed for the new account; "" for none
	RAM     MB        // of the new account; 0: only an account that exists can accept
	Disk    MB        // Limits.Disk of the new account
	Apps    int       // Limits.Apps of the new account
	Grants  []Grant   // by application
	Expires time.Time
}

// Grant is what an account may do with an application of another one.
type Grant struct {
	App         ID
	Name        string // of the application
	Permissions Permissions
}

// String is how the audit log and commands write it.
func (g Grant) String() string { return string(g.App) + ":" + strings.Join(g.Permissions.Names(), ",") }

// Credential is what a new account signs in with, as berth remembers it: one of a password, a
// passkey and an identity.
type Credential struct {
	Password    string // its hash
	Passkey     *Passkey
	PasskeyUser []byte // by what its authenticator knows the account
	Identity    *Identity
}
