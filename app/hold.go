package app

import "time"

// HoldReason is why a host holds its programs.
type HoldReason string

// The reasons. They are stored.
const (
	HoldRestored HoldReason = "restored" // from a backup: the programs may run on the host that it is of
	HoldMoved    HoldReason = "moved"    // the programs are on another host
	HoldEngine   HoldReason = "engine"   // the programs are on their way from this machine to a cluster, or back
)

// Hold makes a host start no program until its owner says so. Two hosts, or two engines, never run the same
// ones. The zero value is none.
type Hold struct {
	Why  HoldReason
	Peer string // the other host, or the engine
	At   time.Time
}

// Text says why nothing starts, and what to do. The zero value has none.
func (h Hold) Text() Text {
	switch h.Why {
	case HoldRestored:
		return Textf("this host was restored from a backup of %s and holds its programs: once those of %s are stopped, run berth resume as its administrator", h.Peer, h.Peer)
	case HoldMoved:
		return Textf("the programs of this host moved to %s on %s: berth resume --force starts them here again, also if they run there",
			h.Peer, h.At.UTC().Format("2006-01-02"))
	case HoldEngine:
		return Textf("the programs of this host are moving: berth engine move %s finishes it", h.Peer)
	}
	return Text{}
}

// Refusal is the error of a start, and of a deployment, on a host with this hold: nil for none.
func (h Hold) Refusal() error {
	if h.Why == "" {
		return nil
	}
	return &Error{Kind: Conflict, Message: h.Text()}
}
