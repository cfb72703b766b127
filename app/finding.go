package app

import (
	"slices"
	"strings"
	"time"
)

// Runtime is a runtime that the owner of the host installed beside the distribution's.
type Runtime struct {
	Title   string // "Node.js"
	Version string
	At      time.Time // of the installation
}

// Finding is one row of the examination of the host (berth doctor).
type Finding struct {
	Name    string `json:"name"`
	Verdict string `json:"verdict"` // Good, Absent, Dubious or Bad
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"` // the command or setting that mends it
}

// The verdicts of findings.
const (
	Good    = "ok"
	Absent  = "none" // and only missed by those who want it
	Dubious = "warn"
	Bad     = "FAIL"
)

// Verdict is a line about all findings: "ready, 2 warnings", or "not ready: limit, data; 1
// warning".
func Verdict(list []Finding) Text {
	var failed []string
	warnings := 0
	for _, f := range list {
		switch f.Verdict {
		case Bad:
			if !slices.Contains(failed, f.Name) {
				failed = append(failed, f.Name)
			}
		case Dubious:
			warnings++
		}
	}
	names := strings.Join(failed, ", ")
	switch {
	case names == "" && warnings == 0:
		return Textf("ready")
	case names == "" && warnings == 1:
		return Textf("ready, 1 warning")
	case names == "":
		return Textf("ready, %d warnings", warnings)
	case warnings == 0:
		return Textf("not ready: %s", names)
	case warnings == 1:
		return Textf("not ready: %s; 1 warning", names)
	}
	return Textf("not ready: %s; %d warnings", names, warnings)
}
