package sizing

import (
	"slices"
	"time"

	"berth/app"
)

const (
	day = 24 * time.Hour
	// Span is how far back advice looks: as far as points are kept.
	Span = 30 * day
	// enough is how many days of measurement advice of less RAM, and of more to sell, needs.
	enough = 7
	// recently is how many days of kills are told, if there were any in them.
	recently = 7
)

// heaps are the languages whose collector lets the heap grow with the limit.
var heaps = []string{"javascript", "typescript", "bun", "deno", "java"}

// fit is the smallest size that leaves a program of a language enough spare RAM above need.
func fit(need app.MB, lang string) app.MB {
	want := need * 13 / 10
	if slices.Contains(heaps, lang) {
		want = need * 16 / 10
	}
	size := app.MB(1)
	for ; size < want; size *= 2 {
		if size >= 2 && size/2*3 >= want {
			return size / 2 * 3
		}
	}
	return size
}

// megabytes is bytes in whole MB, rounded up.
func megabytes(bytes float64) app.MB { return app.MB((int64(bytes) + 1<<20 - 1) >> 20) }

// Right returns which RAM fits an application. points are those of the last 30 days, oldest
// first, of any step up to an hour; events are what happened to it, in any order. least is
// the smallest RAM that an application may have.
func Right(now time.Time, a app.App, least app.MB, points []app.Point, events []app.HistoryEvent) app.RightSize {
	s := app.RightSize{RAM: a.RAM, Fit: a.RAM}
	if a.Code.Static() {
		s.Verdict, s.Why = app.SizeNone, app.Textf("A site of files has no program, so it needs no RAM.")
		return s
	}
	// What it used with more RAM than it has now says nothing of how it does with this.
	for i, p := range slices.Backward(points) {
		if megabytes(p.MemoryMax) > a.RAM {
			points = points[i+1:]
			break
		}
	}
	use := daily(now, points)
	s.Days = len(use)
	for _, p := range points {
		s.Peak = max(s.Peak, int64(p.MemoryMax))
	}
	peak := megabytes(float64(s.Peak))
	kills := killsOf(now, events)
	need := max(peak, kills.most())
	s.Kills, s.KillDays = kills.with(a.RAM)
	low, high := rise(use)
	switch {
	case s.Kills > 0 && kills.climbing(a.RAM, points):
		s.Verdict = app.SizeGrows
		s.Why = app.Textf("What it uses climbs until it is killed, with %d MB and with less before: more RAM would put the next kill off. Look for what it keeps.", a.RAM)
	case s.Kills > 0:
		s.Verdict, s.Fit = app.SizeMore, max(fit(need, a.Code.Lang), least)
		s.Why = killed(s, kills.most())
	case s.Days < enough:
		s.Verdict, s.Why = app.SizeUnknown, young(s, peak)
	case high > 0:
		s.Verdict = app.SizeGrows
		s.Why = app.Textf("What it uses still rises, from %d to %d MB in %d days: keep its %d MB, and look for what it keeps.", low, high, s.Days, a.RAM)
	default:
		s.Verdict = app.SizeRight
		s.Why = app.Textf("It peaked at %d of %d MB in %d days: that is the right size.", peak, a.RAM, s.Days)
		if size := max(fit(need, a.Code.Lang), least); size < a.RAM {
			s.Verdict, s.Fit = app.SizeLess, size
			s.Why = app.Textf("It peaked at %d of %d MB in %d days: %d MB are enough.", peak, a.RAM, s.Days, size)
		}
	}
	return s
}

// killed is why s is app.SizeMore.
func killed(s app.RightSize, limit app.MB) app.Text {
	if s.Kills == 1 {
		return app.Textf("It ran out of its RAM once in %d days and needed more than %d MB: give it %d MB.", s.KillDays, limit, s.Fit)
	}
	return app.Textf("It ran out of its RAM %d times in %d days and needed more than %d MB: give it %d MB.", s.Kills, s.KillDays, limit, s.Fit)
}

// young is why s is app.SizeUnknown.
func young(s app.RightSize, peak app.MB) app.Text {
	switch s.Days {
	case 0:
		return app.Textf("It was not measured with its %d MB yet: berth can say which RAM fits after %d days.", s.RAM, enough)
	case 1:
		return app.Textf("It was measured on one day, and peaked at %d of %d MB: berth can say which RAM fits after %d days.", peak, s.RAM, enough)
	}
	return app.Textf("It was measured on %d days, and peaked at %d of %d MB: berth can say which RAM fits after %d days.", s.Days, peak, s.RAM, enough)
}

// daily is the highest mean of a stretch on each day with a measurement, in bytes, the oldest
// first. A day ends at the time of day of now. Means, for a spike is no rise.
func daily(now time.Time, points []app.Point) []float64 {
	var use []float64
	last := -1
	for _, p := range points {
		ago := int((now.Sub(p.At) - 1) / day)
		if p.Ran <= 0 || ago >= int(Span/day) {
			continue
		}
		if ago != last {
			use, last = append(use, 0), ago
		}
		use[len(use)-1] = max(use[len(use)-1], p.Memory)
	}
	return use
}

// rise returns the use of the first and of the last third of days, in MB, if it rose by a
// seventh and still does in the last days; else 0. A deploy that needs more, or a day of
// much to do, is none.
func rise(use []float64) (low, high app.MB) {
	third := len(use) / 3
	if len(use) < enough {
		return 0, 0
	}
	first, middle, last := median(use[:third]), median(use[third:2*third]), median(use[2*third:])
	end := use[2*third:]
	before, after := median(end[:len(end)/2]), median(end[len(end)/2:])
	rose := last - first
	if rose < first/7 || middle < first || last-middle < rose/4 || after-before < rose/10 {
		return 0, 0
	}
	return megabytes(first), megabytes(last)
}

func median(of []float64) float64 {
	sorted := slices.Sorted(slices.Values(of))
	return sorted[len(sorted)/2]
}

// kills are the ends of a program for its RAM that say how much it needs: those of the last
// 30 days, and older ones of the same code.
type kills struct {
	now time.Time
	all []app.Exit
}

func killsOf(now time.Time, events []app.HistoryEvent) kills {
	k := kills{now: now}
	var deployed time.Time
	for _, e := range events {
		if e.Kind == app.HistoryDeploy && e.At.After(deployed) {
			deployed = e.At
		}
	}
	for _, e := range events {
		if e.Exit != nil && (e.Exit.OOM || e.Exit.HeapFull != app.NoHeap) && (now.Sub(e.At) <= Span || e.At.After(deployed)) {
			k.all = append(k.all, *e.Exit)
		}
	}
	return k
}

// most is the largest limit at which it was killed, 0 for none.
func (k kills) most() (limit app.MB) {
	for _, e := range k.all {
		limit = max(limit, e.LimitMB)
	}
	return limit
}

// with returns how many there were with ram or more, and in how many days.
func (k kills) with(ram app.MB) (times, days int) {
	long := 0
	for _, e := range k.all {
		ago := k.now.Sub(e.At)
		if e.LimitMB < ram || ago > Span { // it has more since
			continue
		}
		long++
		if ago <= recently*day {
			times++
		}
	}
	switch {
	case times > 0:
		return times, recently
	case long > 0:
		return long, int(Span / day)
	}
	return 0, 0
}

// climbing reports whether what it used climbed until it was killed with ram, after it was
// killed with at most three quarters of that, and not as soon as it started.
func (k kills) climbing(ram app.MB, points []app.Point) bool {
	now, before := false, false
	for _, e := range k.all {
		now = now || e.LimitMB >= ram && climbed(e, points)
		before = before || e.LimitMB*4 <= ram*3 && e.Ran >= time.Hour
	}
	return now && before
}

// climbed reports whether a run used more and more, quarter by quarter, until its end. A run
// of few points does not say.
func climbed(e app.Exit, points []app.Point) bool {
	began := e.At.Add(-e.Ran)
	var run []float64
	for _, p := range points {
		if p.Ran > 0 && !p.At.Before(began) && p.At.Before(e.At) {
			run = append(run, p.Memory)
		}
	}
	const quarters = 4
	n := len(run) / quarters
	if n < 2 {
		return false
	}
	var means [quarters]float64
	for i := range means {
		for _, v := range run[i*n : (i+1)*n] {
			means[i] += v / float64(n)
		}
	}
	return slices.IsSorted(means[:]) && means[0]*1.3 < means[quarters-1]
}
