package app

import "time"

// Shortage is a stretch of time in which the host was short of memory: programs waited
// for memory that was not there.
type Shortage struct {
	Since     time.Time // zero: there was none since berth began
	Until     time.Time // zero while it lasts
	Available MB        // of the host's RAM when it began
	Total     MB
	// Order is the order in which the kernel would have ended the programs when it began,
	// the first few.
	Order []Grown
}

// Lasts reports whether the host is short of memory now.
func (s Shortage) Lasts() bool { return !s.Since.IsZero() && s.Until.IsZero() }

// Grown is a program and what it uses beside what it uses usually.
type Grown struct {
	App   ID
	Owner AccountID
	Name  string
	Used  int64 // bytes
	Usual int64
}

// Above is by how many bytes it uses more than usually; negative is less.
func (g Grown) Above() int64 { return g.Used - g.Usual }
