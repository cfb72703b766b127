package sizing

import (
	"slices"
	"strconv"
	"time"

	"berth/app"
)

// Step is how long the stretches are whose use is added up: the finest for 30 days.
const Step = 10 * time.Minute

// Busiest finds the ten minutes in which applications together used the most. The zero value
// is ready; it is for one goroutine.
type Busiest struct {
	at   map[int64]*app.RAMMoment // by seconds since 1970
	days map[int64]bool           // with a measurement, by days since 1970
}

// Add adds the points of one application, in steps of Step.
func (b *Busiest) Add(points []app.Point) {
	if b.at == nil {
		b.at, b.days = map[int64]*app.RAMMoment{}, map[int64]bool{}
	}
	for _, p := range points {
		if p.Ran <= 0 && p.MemoryMax <= 0 {
			continue // nothing of it ran
		}
		m := b.at[p.At.Unix()]
		if m == nil {
			m = &app.RAMMoment{At: p.At}
			b.at[p.At.Unix()] = m
		}
		m.Used += int64(p.MemoryMax)
		m.Had += megabytes(max(p.Limit, p.MemoryMax)) // of a run between two samples only its peak is known
		m.Apps++
		b.days[p.At.Unix()/int64(day/time.Second)] = true
	}
}

// Moment returns those ten minutes, the latest of several, and on how many of the last 30
// days anything was measured.
func (b *Busiest) Moment() (worst app.RAMMoment, days int) {
	for _, m := range b.at {
		if m.Used > worst.Used || m.Used == worst.Used && m.At.After(worst.At) {
			worst = *m
		}
	}
	return worst, min(len(b.days), int(Span/day))
}

// factors are those that a plan shows, beside that of the host.
var factors = []float64{1, 1.25, 1.5, 2, 3}

// full is how many percent of the RAM for applications may be used at the worst moment, so
// that the host has some to spare for what samples do not see.
const full = 80

// Plan completes a plan that has its figures: what each host.overcommit would allow, and what
// follows from that.
func Plan(p app.RAMPlan) app.RAMPlan {
	list := append([]float64{p.Overcommit}, factors...)
	slices.Sort(list)
	best := 0.0
	p.Offers = nil
	for _, factor := range slices.Compact(list) {
		o := offer(p, factor)
		if o.Verdict == app.RAMFits {
			best = factor
		}
		p.Offers = append(p.Offers, o)
	}
	now := offer(p, p.Overcommit)
	switch {
	case p.Worst.Had == 0:
		p.Why = app.Textf("Nothing was measured yet: after %d days berth can say what more you can sell.", enough)
	case p.Days < enough:
		p.Why = app.Textf("Programs were measured on %d of the last 30 days: after %d days berth can say what more you can sell.", p.Days, enough)
	case now.Verdict == app.RAMShort:
		p.Why = app.Textf("At the worst moment, programs used %d %% of their RAM. If all of them ran and did so, the host would lack RAM: lower host.overcommit.", share(p.Worst))
	case now.Verdict == app.RAMTight:
		p.Why = app.Textf("At the worst moment, programs used %d %% of their RAM. If all of them ran and did so, little RAM would be left: sell no more.", share(p.Worst))
	case best > p.Overcommit:
		p.Why = app.Textf("At the worst moment, programs used %d %% of their RAM: with host.overcommit %s that would still fit.", share(p.Worst), Factor(best))
	default:
		p.Why = app.Textf("At the worst moment, programs used %d %% of their RAM: host.overcommit %s fits.", share(p.Worst), Factor(p.Overcommit))
	}
	return p
}

// Factor is a host.overcommit as people write it.
func Factor(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

func offer(p app.RAMPlan, factor float64) app.RAMOffer {
	o := app.RAMOffer{Overcommit: factor, Verdict: app.RAMUnknown, Capacity: app.Capacity(p.Host, p.Reserve, factor)}
	o.More = o.Capacity - p.Given
	if p.Worst.Had == 0 {
		return o
	}
	o.Worst = int(float64(share(p.Worst))*factor + 0.5)
	switch {
	case p.Days < enough:
	case o.Worst <= full:
		o.Verdict = app.RAMFits
	case o.Worst <= 100:
		o.Verdict = app.RAMTight
	default:
		o.Verdict = app.RAMShort
	}
	return o
}

// share is how many percent of what they had programs used, rounded up.
func share(m app.RAMMoment) int { return int((100*m.Used + m.Had.Bytes() - 1) / m.Had.Bytes()) }
