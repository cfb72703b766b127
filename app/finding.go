package app

import "time"

// Runtime is a runtime that the owner of the host installed beside the distribution's.
type Runtime struct {
	Title   string // "Node.js"
	Version string
	At      time.Time // of the installation
}

// Finding is one row of the examination of the host (berth doctor).
type Finding struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // ok, none, warn or FAIL
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"` // the command or setting that mends it
}
