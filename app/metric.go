package app

import "time"

// Counts is what the processes of a running program have used up to now. Unlike
// Usage it needs no second measurement.
type Counts struct {
	MemoryBytes int64         // now, less inactive file cache
	LimitBytes  int64         // in force now
	CPU         time.Duration // processor time since the start
	NetIn       int64         // bytes since the start
	NetOut      int64
}

// Measured is a program at one moment.
type Measured struct {
	App       ID
	Owner     AccountID
	Run       int
	StartedAt time.Time
	Counts
}

// Point is what an application used during a stretch of time.
type Point struct {
	At        time.Time     // where the stretch begins, UTC
	Step      time.Duration // how long it is
	Ran       time.Duration // for how much of it the program ran and was measured
	Memory    float64       // bytes, the mean of the time it ran
	MemoryMax float64       // the most that was seen
	Limit     float64       // the last that was seen
	CPU       float64       // percent of one core, the mean of the time it ran
	CPUMax    float64       // the highest mean of a shorter stretch in it
	NetIn     float64       // bytes during it
	NetOut    float64
	Marks
}

// Marks count what happened during a stretch of time, up to 255 of each.
type Marks struct {
	Starts, Exits, OOMs, Deploys uint8
}

// With returns the marks of both.
func (m Marks) With(o Marks) Marks {
	add := func(a, b uint8) uint8 { return uint8(min(int(a)+int(b), 255)) }
	return Marks{add(m.Starts, o.Starts), add(m.Exits, o.Exits), add(m.OOMs, o.OOMs), add(m.Deploys, o.Deploys)}
}

// With returns what both stretches are together: the later one is o. At and
// Step stay those of p. No peak is lost.
func (p Point) With(o Point) Point {
	if ran := p.Ran + o.Ran; ran > 0 {
		mean := func(a, b float64) float64 {
			return (a*p.Ran.Seconds() + b*o.Ran.Seconds()) / ran.Seconds()
		}
		p.Memory, p.CPU, p.Ran = mean(p.Memory, o.Memory), mean(p.CPU, o.CPU), ran
	}
	p.MemoryMax, p.CPUMax = max(p.MemoryMax, o.MemoryMax), max(p.CPUMax, o.CPUMax)
	if o.Limit > 0 {
		p.Limit = o.Limit
	}
	p.NetIn += o.NetIn
	p.NetOut += o.NetOut
	p.Marks = p.Marks.With(o.Marks)
	return p
}

// PointOf is a point of one application.
type PointOf struct {
	App ID
	Point
}
