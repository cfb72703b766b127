package app

import "time"

// SizeVerdict is how the RAM of an application fits it; it crosses the wire.
type SizeVerdict string

// The verdicts.
const (
	SizeRight   SizeVerdict = "right"
	SizeLess    SizeVerdict = "less"    // less RAM is enough
	SizeMore    SizeVerdict = "more"    // it was killed for its RAM
	SizeGrows   SizeVerdict = "grows"   // what it uses rises and rises, so no size can be named
	SizeUnknown SizeVerdict = "unknown" // it was not measured for long enough
	SizeNone    SizeVerdict = "none"    // no program of it runs
)

// RightSize is which RAM fits an application, and what that rests on.
type RightSize struct {
	Verdict SizeVerdict
	RAM     MB    // that it has
	Fit     MB    // that it should have: RAM, unless Verdict is SizeLess or SizeMore
	Days    int   // of the last 30, on which it was measured
	Peak    int64 // bytes, the most that was measured; 0 for nothing
	Kills   int   // for its RAM in the last KillDays days, with no more RAM than now
	// KillDays is 7, or 30 where there was no kill in the last 7 days; 0 without Kills.
	KillDays int
	Why      Text // the same in words
}

// Changes reports whether other RAM is advised.
func (s RightSize) Changes() bool { return s.Fit != s.RAM }

// RAMMoment is what programs used together during the same ten minutes.
type RAMMoment struct {
	At   time.Time // where the ten minutes begin; zero for none
	Used int64     // bytes: the highest sample of each, added up
	Had  MB        // the RAM of those programs
	Apps int       // how many they were
}

// RAMOffer is what a host.overcommit would allow.
type RAMOffer struct {
	Overcommit float64
	Capacity   MB  // that running applications may have together
	More       MB  // that can still be given to applications; below 0 for what is given beyond it
	Worst      int // percent of the RAM for applications that would be used, if all of Capacity were used as at the worst moment
	Verdict    RAMVerdict
}

// Lacks is how much more is given to applications than may run, 0 for nothing.
func (o RAMOffer) Lacks() MB { return max(-o.More, 0) }

// RAMVerdict is whether the RAM of the host would be enough; it crosses the wire.
type RAMVerdict string

// The verdicts.
const (
	RAMFits    RAMVerdict = "fits"
	RAMTight   RAMVerdict = "tight" // by less than a fifth
	RAMShort   RAMVerdict = "short"
	RAMUnknown RAMVerdict = "unknown" // there are fewer than 7 days of measurement
)

// RAMPlan is how much of a host's RAM is sold, and how much of that is used.
type RAMPlan struct {
	Host       MB // what the host has
	Reserve    MB // host.reserve
	Overcommit float64
	Capacity   MB // that running applications may have together
	Promised   MB // to accounts
	Given      MB // by accounts to their applications
	Apps       int
	Running    MB    // of Given, what the running ones have
	Used       int64 // bytes that those use now
	Worst      RAMMoment
	Days       int // of the last 30, on which anything was measured
	Offers     []RAMOffer
	Why        Text // what follows from it
}

// Capacity is what programs may have in all: the memory of the host less the reserve,
// times the overcommit.
func Capacity(host, reserve MB, overcommit float64) MB {
	return MB(float64(max(host-reserve, 0)) * overcommit)
}
