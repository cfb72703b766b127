package app

import "time"

// Identity is somebody as a provider of sign-ins knows them. Issuer and Subject together name one
// person for ever; Name is for people to read, and may be another's tomorrow.
type Identity struct {
	ID              int64
	Account         AccountID // that it signs in to
	Issuer, Subject string
	Name            string // may be empty
	CreatedAt       time.Time
	LastUsed        time.Time
}
