package proc

import (
	"time"

	"berth/app"
	"berth/cgroup"
)

// warnLevels are the percentages of its RAM at which a program's owner is warned, by what
// the kernel cannot take back.
var warnLevels = [...]int64{80, 90, 95}

const (
	// signalLevel is where a program that asks for a signal gets it: most of what it can
	// drop is there by then, and time is left for it.
	signalLevel = 90
	// wellBelow is how far, in points, use must have fallen below a level before it is
	// reported again, and calm for how long: a program that collects its garbage in great
	// steps is reported once, and not at each.
	wellBelow = 15
	calm      = time.Hour
	// fastest is the growth that looks reckon with: all of the RAM within this time.
	fastest = 30 * time.Second
	// shortest and longest bound the pause between two looks.
	shortest, longest = 500 * time.Millisecond, 30 * time.Second
	// steady is the pause where nothing is left to report but that use has fallen.
	steady = 5 * time.Second
	// growth is how long after it grew a program counts as growing.
	growth = 10 * time.Second
	// grain is the change, as a part of the RAM, that counts as one.
	grain = 100
	// remembered is how many changes tell how fast the memory grows.
	remembered = 16
	// farthest is how far ahead a growth is believed.
	farthest = 24 * time.Hour
)

// fullness judges how full the memory of a program becomes. It is pure: the times are
// those of what it is shown. The zero value is a program that nobody was warned of.
type fullness struct {
	told  int64                      // the highest level that was reported; 0 for none
	below [len(warnLevels)]time.Time // since when use is well below a level; zero when it is not
	quiet bool                       // the signal was sent, and use has not been well below its level since
	last  held                       // at the last look; zero before the first
	next  time.Time                  // when the next look was due
	limit int64                      // at the last look
	grew  time.Time                  // when use was last seen to have grown by a grain
	grown []held                     // changes of a grain or more since the last fall, oldest first
}

// held is what a program held at a moment.
type held struct {
	at    time.Time
	bytes int64
}

// sight is what follows from a look at a program's memory.
type sight struct {
	warning *app.MemoryWarning // nil for none
	signal  bool               // its signal is due
	pause   time.Duration      // nothing can happen before
	growing bool
}

// look takes what a group holds now. Without a limit nothing follows.
func (f *fullness) look(now cgroup.Fill) sight {
	if now.Limit <= 0 {
		return sight{pause: longest}
	}
	if f.limit > 0 && now.Limit > f.limit { // somebody gave it more
		f.told, f.grown = min(f.told, reached(now)), nil
	}
	f.limit = now.Limit
	step := max(now.Limit/grain, 1)
	last := f.last
	f.follow(now, step)
	s := sight{growing: now.Held >= now.Limit/2 && now.At.Sub(f.grew) < growth}
	f.settle(now)
	if level := reached(now); level > f.told {
		f.told = level
		s.warning = &app.MemoryWarning{
			At: now.At, Level: int(level), HeldBytes: now.Held, LimitBytes: now.Limit, FullIn: f.fullIn(now), Squeezed: now.Squeezed,
		}
	}
	if s.signal = !f.quiet && atLeast(now, signalLevel); s.signal {
		f.quiet = true
	}
	s.pause = f.pause(now, last)
	f.next = now.At.Add(s.pause)
	return s
}

// reached is the highest level that a group has reached, 0 for none.
func reached(now cgroup.Fill) (level int64) {
	for _, l := range warnLevels {
		if atLeast(now, l) {
			level = l
		}
	}
	return level
}

func atLeast(now cgroup.Fill, percent int64) bool { return now.Held*100 >= now.Limit*percent }

// settle forgets that levels were reported which use has been well below for long. On v1
// nobody looks at what stays below: then it is known at the next look.
func (f *fullness) settle(now cgroup.Fill) {
	var told int64
	for i, level := range warnLevels {
		under := !atLeast(now, level-wellBelow)
		if since := f.below[i]; f.told >= level && (since.IsZero() || now.At.Sub(since) < calm) {
			told = level
		}
		switch {
		case !under:
			f.below[i] = time.Time{}
		case f.below[i].IsZero():
			f.below[i] = now.At
		}
	}
	f.told = told
	f.quiet = f.quiet && atLeast(now, signalLevel-wellBelow)
}

// follow remembers changes, as long as use grows.
func (f *fullness) follow(now cgroup.Fill, step int64) {
	if !f.last.at.IsZero() && now.Held >= f.last.bytes+step {
		f.grew = now.At
	}
	f.last = held{now.At, now.Held}
	if n := len(f.grown); n > 0 {
		if last := f.grown[n-1].bytes; now.Held < last-step || now.Held < now.Limit/2 {
			f.grown = nil
		} else if now.Held < last+step {
			return
		} else {
			f.grew = now.At
		}
	}
	if now.Held < now.Limit/2 { // then it is only a bound
		return
	}
	if len(f.grown) == remembered {
		f.grown = append(f.grown[:0], f.grown[1:]...)
	}
	f.grown = append(f.grown, held{now.At, now.Held})
}

// fullIn is how long it takes until all is held, if that grows on as it did; 0 when the
// growth was not steady: that is, not as fast in the earlier half of it as in the later,
// within a factor of two.
func (f *fullness) fullIn(now cgroup.Fill) time.Duration {
	n := len(f.grown)
	if n < 3 {
		return 0
	}
	first, mid, last := f.grown[0], f.grown[n/2], held{now.At, now.Held}
	early, late := speed(first, mid), speed(mid, last)
	if early <= 0 || late <= 0 || early > 2*late || late > 2*early {
		return 0
	}
	d := float64(now.Limit-now.Held) / late
	if d > farthest.Seconds() {
		return 0
	}
	return max(time.Duration(d*float64(time.Second)), time.Second)
}

// speed is in bytes a second.
func speed(from, to held) float64 {
	if d := to.at.Sub(from.at).Seconds(); d > 0 {
		return float64(to.bytes-from.bytes) / d
	}
	return 0
}

// pause is the time until the next level that was not reported can be reached, at the speed
// since the last look if that was more than what is reckoned with. After a rest that the kernel
// has ended, the next look follows soon: it tells how fast that is.
func (f *fullness) pause(now cgroup.Fill, last held) time.Duration {
	if now.At.After(f.next.Add(time.Second)) {
		return shortest
	}
	most := max(float64(now.Limit)/fastest.Seconds(), speed(last, held{now.At, now.Held}))
	for _, level := range warnLevels {
		if level > f.told {
			free := float64(now.Limit*level/100 - now.Held)
			return min(max(time.Duration(free/most*float64(time.Second)), shortest), longest)
		}
	}
	return steady
}
