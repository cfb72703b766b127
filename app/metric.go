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
	DiskBytes   int64 // of its files when they were last measured, 0 where they were not
}

// HostHistory is the name of the host's own history among those of applications. No application
// has it. There CPU is percent of all processors, Limit the RAM of the host, and Disk what is used
// of the file system of the data directory.
const HostHistory ID = ".host"

// AnswerBounds are the bounds of how long the answers of sites took.
var AnswerBounds = [...]time.Duration{
	5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

// Answers count what was answered for a site.
type Answers struct {
	Classes [5]uint64                     // by the first digit of the status, less one
	Took    [len(AnswerBounds) + 1]uint64 // how many took up to each bound, and more than all; without WebSockets
}

// With returns the sum of both.
func (a Answers) With(o Answers) Answers {
	for i, n := range o.Classes {
		a.Classes[i] += n
	}
	for i, n := range o.Took {
		a.Took[i] += n
	}
	return a
}

// Since returns what has come since the count was o.
func (a Answers) Since(o Answers) Answers {
	for i, n := range o.Classes {
		a.Classes[i] -= min(n, a.Classes[i])
	}
	for i, n := range o.Took {
		a.Took[i] -= min(n, a.Took[i])
	}
	return a
}

// All is how many there are.
func (a Answers) All() (n uint64) {
	for _, of := range a.Classes {
		n += of
	}
	return n
}

// Within returns the time within which a share of the answers came, as far as the bounds tell: the
// answers of a class count as spread over it. What took longer than the last bound counts as that.
// It is false when there are none.
func (a Answers) Within(share float64) (time.Duration, bool) {
	var all uint64
	for _, n := range a.Took {
		all += n
	}
	if all == 0 {
		return 0, false
	}
	rank, before := share*float64(all), 0.0
	for i, bound := range AnswerBounds {
		n := float64(a.Took[i])
		if n > 0 && before+n >= rank {
			var from time.Duration
			if i > 0 {
				from = AnswerBounds[i-1]
			}
			// Some processors multiply and add in one step, and round otherwise.
			return (from + time.Duration(float64(bound-from)*(rank-before)/n)).Round(time.Microsecond), true
		}
		before += n
	}
	return AnswerBounds[len(AnswerBounds)-1], true
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
	Disk      float64 // bytes of its files, the last that was seen; 0 where it is not known
	Answers   Answers // of a site during it
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
	if o.Disk > 0 {
		p.Disk = o.Disk
	}
	p.Answers = p.Answers.With(o.Answers)
	p.Marks = p.Marks.With(o.Marks)
	return p
}

// PointOf is a point of one application.
type PointOf struct {
	App ID
	Point
}
