package app

import "time"

// Device is a program that asks for a token of the account whose owner types its code
// (RFC 8628). Client, Machine and Agent are what a stranger says of itself.
type Device struct {
	Code    string // as people read it: XXXX-XXXX
	Client  string // the name of the program
	Machine string // that it runs on; "" if it did not say
	From    Visitor
	Asked   time.Time
	Expires time.Time     // when the code ends
	Lasts   time.Duration // how long the token works
}

// Label is that of the token.
func (d Device) Label() string {
	if d.Machine != "" {
		return d.Machine
	}
	return d.Client
}

// DeviceState is what a device that asks for its token learns.
type DeviceState int

// The states of a device.
const (
	DevicePending DeviceState = iota // nobody has decided yet
	DeviceHasty                      // as DevicePending, but it asks too often
	DeviceDenied
	DeviceEnded   // its code has expired, its token was fetched, or it never was a device
	DeviceOther   // the secret is that of another client
	DeviceAllowed // the token is there, this once
)

// DeviceGrant is the answer to a device. Token, Account and Known are set if it is
// DeviceAllowed.
type DeviceGrant struct {
	State    DeviceState
	Interval time.Duration // between two questions from now on
	Token    string        // its text, which nobody can read again
	Account  Account
	Known    Token
}
