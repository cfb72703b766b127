package sizing

import (
	"fmt"
	"testing"
	"time"

	"berth/app"
)

// The worst moment is one of all applications, not the sum of each one's own.
func TestBusiest(t *testing.T) {
	at := func(n int) time.Time { return now.Add(time.Duration(n)*Step - 2*day).Truncate(Step) }
	point := func(n int, use, limit float64) app.Point {
		return app.Point{At: at(n), Step: Step, Ran: Step, Memory: use / 2 * mb, MemoryMax: use * mb, Limit: limit * mb}
	}
	var b Busiest
	if worst, days := b.Moment(); worst != (app.RAMMoment{}) || days != 0 {
		t.Errorf("of nothing: %+v, %d days", worst, days)
	}
	b.Add([]app.Point{point(0, 90, 100), point(1, 10, 100), point(2, 60, 100)})
	b.Add([]app.Point{point(1, 200, 512), point(2, 170, 512), {At: at(3), Step: Step, Marks: app.Marks{Deploys: 1}}})
	b.Add(nil)
	b.Add([]app.Point{{At: at(2), Step: Step, MemoryMax: 32 * mb, Marks: app.Marks{OOMs: 1}}, point(200, 5, 64)})
	want := app.RAMMoment{At: at(2), Used: (60 + 170 + 32) * mb, Had: 100 + 512 + 32, Apps: 3}
	if worst, days := b.Moment(); worst != want || days != 2 {
		t.Errorf("got %+v, %d days, want %+v and 2", worst, days, want)
	}
	b.Add([]app.Point{point(3, 262, 512)})
	if worst, _ := b.Moment(); !worst.At.Equal(at(3)) {
		t.Errorf("of two equal ones it is that at %s", worst.At)
	}
}

func TestPlan(t *testing.T) {
	plan := func(change func(*app.RAMPlan)) app.RAMPlan {
		p := app.RAMPlan{Host: 4352, Reserve: 256, Overcommit: 1, Given: 4000, Days: 30, Worst: app.RAMMoment{At: now, Used: 1200 * mb, Had: 3000, Apps: 20}}
		change(&p)
		p.Capacity = app.Capacity(p.Host, p.Reserve, p.Overcommit)
		return Plan(p)
	}
	for name, tt := range map[string]struct {
		change func(*app.RAMPlan)
		offers string
		why    string
	}{
		"much is not used": {
			func(*app.RAMPlan) {},
			"[{1 4096 96 40 fits} {1.25 5120 1120 50 fits} {1.5 6144 2144 60 fits} {2 8192 4192 80 fits} {3 12288 8288 120 short}]",
			"At the worst moment, programs used 40 % of their RAM: with host.overcommit 2 that would still fit.",
		},
		"as it should be": {
			func(p *app.RAMPlan) { p.Overcommit = 2 }, "", "At the worst moment, programs used 40 % of their RAM: host.overcommit 2 fits.",
		},
		"a factor of its own": {
			func(p *app.RAMPlan) { p.Overcommit, p.Worst.Used = 1.1, 2000*mb },
			"[{1 4096 96 67 fits} {1.1 4505 505 74 fits} {1.25 5120 1120 84 tight} {1.5 6144 2144 101 short} {2 8192 4192 134 short} {3 12288 8288 201 short}]",
			"At the worst moment, programs used 67 % of their RAM: host.overcommit 1.1 fits.",
		},
		"little is left": {
			func(p *app.RAMPlan) { p.Overcommit = 2.25 }, "",
			"At the worst moment, programs used 40 % of their RAM. If all of them ran and did so, little RAM would be left: sell no more.",
		},
		"too much is sold": {
			func(p *app.RAMPlan) { p.Overcommit, p.Given = 4, 20000 },
			"[{1 4096 -15904 40 fits} {1.25 5120 -14880 50 fits} {1.5 6144 -13856 60 fits} {2 8192 -11808 80 fits} {3 12288 -7712 120 short} {4 16384 -3616 160 short}]",
			"At the worst moment, programs used 40 % of their RAM. If all of them ran and did so, the host would lack RAM: lower host.overcommit.",
		},
		"programs that use all that they have": {
			func(p *app.RAMPlan) { p.Worst.Used = 2990 * mb }, "",
			"At the worst moment, programs used 100 % of their RAM. If all of them ran and did so, little RAM would be left: sell no more.",
		},
		"six days": {
			func(p *app.RAMPlan) { p.Days = 6 },
			"[{1 4096 96 40 unknown} {1.25 5120 1120 50 unknown} {1.5 6144 2144 60 unknown} {2 8192 4192 80 unknown} {3 12288 8288 120 unknown}]",
			"Programs were measured on 6 of the last 30 days: after 7 days berth can say what more you can sell.",
		},
		"nothing measured": {
			func(p *app.RAMPlan) { p.Days, p.Worst = 0, app.RAMMoment{} },
			"[{1 4096 96 0 unknown} {1.25 5120 1120 0 unknown} {1.5 6144 2144 0 unknown} {2 8192 4192 0 unknown} {3 12288 8288 0 unknown}]",
			"Nothing was measured yet: after 7 days berth can say what more you can sell.",
		},
	} {
		p := plan(tt.change)
		if tt.offers != "" && fmt.Sprint(p.Offers) != tt.offers || p.Why.String() != tt.why {
			t.Errorf("%s: got %v: %s", name, p.Offers, p.Why)
		}
	}
}
