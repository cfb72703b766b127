package sizing

import (
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"berth/app"
)

const mb = 1 << 20

// step is that of points of 30 days, as the daemon asks for them.
const step = 30 * time.Minute

var now = time.Date(2026, 11, 20, 10, 30, 0, 0, time.UTC)

// program is a shape of use: what it would use, in MB, so long after its start and at a moment.
type program struct {
	lang   string
	ram    app.MB
	days   int
	most   func(ran time.Duration, at time.Time, ram app.MB) float64 // its peak in a step
	ends   func(at time.Time) bool                                   // it is restarted then
	absent func(at time.Time) bool                                   // it does not run
}

// memory is what berth remembers of a program, and since when it runs.
type memory struct {
	points []app.Point
	events []app.HistoryEvent
	start  time.Time
}

// record runs a program with an amount of RAM for some time: where it needs more, it is killed
// and starts again.
func (p program) record(m *memory, from, to time.Time, ram app.MB) {
	if m.start.IsZero() {
		m.start = from
	}
	for at := from; at.Before(to); at = at.Add(step) {
		if p.absent != nil && p.absent(at) {
			m.start = at.Add(step)
			continue
		}
		use := p.most(at.Sub(m.start), at, ram)
		point := app.Point{At: at, Step: step, Ran: step, Memory: 0.9 * use * mb, MemoryMax: use * mb, Limit: float64(ram.Bytes())}
		if p.ends != nil && p.ends(at) {
			m.start = at.Add(step)
			point.Exits, point.Starts = 1, 1
		}
		if use > float64(ram) {
			point.Memory, point.MemoryMax, point.OOMs = 0.8*float64(ram.Bytes()), float64(ram.Bytes()), 1
			e := app.Exit{At: at.Add(step / 2), OOM: true, LimitMB: ram, PeakBytes: ram.Bytes(), Code: 137, Ran: at.Add(step / 2).Sub(m.start)}
			m.events = append(m.events, app.HistoryEvent{At: e.At, Kind: app.HistoryExit, Exit: &e})
			m.start = at.Add(step)
		}
		m.points = append(m.points, point)
	}
	m.points = slices.DeleteFunc(m.points, func(p app.Point) bool { return to.Sub(p.At) > Span })
	m.events = m.events[max(0, len(m.events)-50):] // as the database keeps them
}

func (p program) app(ram app.MB) app.App {
	return app.App{ID: "shop", RAM: ram, Code: app.Code{Lang: p.lang, Main: "main"}}
}

func flat(use float64) func(time.Duration, time.Time, app.MB) float64 {
	return func(time.Duration, time.Time, app.MB) float64 { return use }
}

// shapes are what programs do.
var shapes = map[string]struct {
	program
	want app.SizeVerdict
	fit  app.MB
	why  string
	then string // what comes of following the advice for 60 days
}{
	"flat, far below": {
		program{"python", 512, 30, flat(61), nil, nil},
		app.SizeLess, 96,
		"It peaked at 61 of 512 MB in 30 days: 96 MB are enough.", "512, day 0: less, 96; then right",
	},
	"flat, as it should be": {
		program{"python", 96, 30, flat(61), nil, nil}, app.SizeRight, 96, "It peaked at 61 of 96 MB in 30 days: that is the right size.", "96; then right",
	},
	"flat, close to the limit, and never killed": {
		program{"python", 64, 30, flat(62), nil, nil}, app.SizeRight, 64, "It peaked at 62 of 64 MB in 30 days: that is the right size.", "64; then right",
	},
	"an odd size just above what fits": {
		program{"go", 100, 30, flat(61), nil, nil}, app.SizeLess, 96, "It peaked at 61 of 100 MB in 30 days: 96 MB are enough.", "100, day 0: less, 96; then right",
	},
	"less than the least": {
		program{"go", 128, 30, flat(4), nil, nil}, app.SizeLess, 32, "It peaked at 4 of 128 MB in 30 days: 32 MB are enough.", "128, day 0: less, 32; then right",
	},
	"six days": {
		program{"python", 512, 6, flat(61), nil, nil},
		app.SizeUnknown, 512,
		"It was measured on 6 days, and peaked at 61 of 512 MB: berth can say which RAM fits after 7 days.", "512, day 1: less, 96; then right",
	},
	"one day": {
		program{"python", 512, 1, flat(61), nil, nil},
		app.SizeUnknown, 512,
		"It was measured on one day, and peaked at 61 of 512 MB: berth can say which RAM fits after 7 days.", "512, day 6: less, 96; then right",
	},
	"never measured": {
		program{"python", 512, 0, flat(61), nil, nil},
		app.SizeUnknown, 512,
		"It was not measured with its 512 MB yet: berth can say which RAM fits after 7 days.", "512, day 7: less, 96; then right",
	},
	"seven days": {
		program{"python", 512, 7, flat(61), nil, nil}, app.SizeLess, 96, "It peaked at 61 of 512 MB in 7 days: 96 MB are enough.", "512, day 0: less, 96; then right",
	},
	"growing for 30 days": {
		program{"python", 512, 30, func(ran time.Duration, _ time.Time, _ app.MB) float64 { return 40 + ran.Hours()/24*3 }, nil, nil},
		app.SizeGrows, 512,
		"What it uses still rises, from 53 to 107 MB in 30 days: keep its 512 MB, and look for what it keeps.", "512; then grows",
	},
	"growing for 7 days": {
		program{"python", 512, 7, func(ran time.Duration, _ time.Time, _ app.MB) float64 { return 40 + ran.Hours() }, nil, nil},
		app.SizeGrows, 512,
		"What it uses still rises, from 79 to 166 MB in 7 days: keep its 512 MB, and look for what it keeps.", "512, day 13: more, 768; then grows",
	},
	"grown, and at its plateau": {
		program{"python", 512, 30, func(ran time.Duration, _ time.Time, _ app.MB) float64 { return 40 + 60*min(ran.Hours()/24/5, 1) }, nil, nil},
		app.SizeLess, 192,
		"It peaked at 100 of 512 MB in 30 days: 192 MB are enough.", "512, day 0: less, 192; then right",
	},
	"a deploy that needs more": {
		program{"python", 512, 30, func(_ time.Duration, at time.Time, _ app.MB) float64 {
			if now.Sub(at) < 8*day {
				return 110
			}
			return 60
		}, nil, nil}, app.SizeLess, 192, "It peaked at 110 of 512 MB in 30 days: 192 MB are enough.", "512, day 0: less, 192; then right",
	},
	"a wave each day": {
		program{"python", 512, 30, func(_ time.Duration, at time.Time, _ app.MB) float64 {
			return 90 + 50*math.Sin(2*math.Pi*float64(at.Hour())/24)
		}, nil, nil}, app.SizeLess, 192, "It peaked at 140 of 512 MB in 30 days: 192 MB are enough.", "512, day 0: less, 192; then right",
	},
	"a spike in four weeks": {
		program{"python", 512, 30, func(_ time.Duration, at time.Time, _ app.MB) float64 {
			if at.Equal(now.Add(-3 * day)) {
				return 230
			}
			return 60
		}, nil, nil}, app.SizeLess, 384, "It peaked at 230 of 512 MB in 30 days: 384 MB are enough.", "512, day 0: less, 384, day 28: less, 96; then right",
	},
	"one restart": {
		program{"python", 512, 30, func(ran time.Duration, _ time.Time, _ app.MB) float64 { return 50 + min(ran.Hours(), 20) }, func(at time.Time) bool {
			return at.Equal(now.Add(-10 * day))
		}, nil}, app.SizeLess, 96, "It peaked at 70 of 512 MB in 30 days: 96 MB are enough.", "512, day 0: less, 96; then right",
	},
	"it runs one hour each night, and not on some nights": {
		program{"python", 512, 30, flat(61), nil, func(at time.Time) bool { return at.Hour() != 3 || at.YearDay()%3 == 0 }},
		app.SizeLess, 96,
		"It peaked at 61 of 512 MB in 20 days: 96 MB are enough.", "512, day 0: less, 96; then right",
	},
	"killed in a spike each day, with a limit that is too low": {
		program{"python", 100, 30, func(_ time.Duration, at time.Time, _ app.MB) float64 {
			if at.Hour() == 12 && at.Minute() == 0 {
				return 120
			}
			return 60
		}, nil, nil}, app.SizeMore, 192, "It ran out of its RAM 7 times in 7 days and needed more than 100 MB: give it 192 MB.", "100, day 0: more, 192; then right",
	},
	"killed once, two weeks ago": {
		program{"python", 128, 30, func(_ time.Duration, at time.Time, _ app.MB) float64 {
			if at.Equal(now.Add(-14 * day)) {
				return 150
			}
			return 60
		}, nil, nil}, app.SizeMore, 192, "It ran out of its RAM once in 30 days and needed more than 128 MB: give it 192 MB.", "128, day 0: more, 192; then right",
	},
	"killed on its second day": {
		program{"python", 64, 2, func(_ time.Duration, at time.Time, _ app.MB) float64 {
			if at.Hour() == 12 && at.Minute() == 0 {
				return 80
			}
			return 30
		}, nil, nil}, app.SizeMore, 96, "It ran out of its RAM 2 times in 7 days and needed more than 64 MB: give it 96 MB.", "64, day 0: more, 96; then right",
	},
	"it needs far more, and is killed at each start": {
		program{"python", 100, 30, flat(700), nil, nil}, app.SizeMore, 192, "It ran out of its RAM 50 times in 7 days and needed more than 100 MB: give it 192 MB.", "100, day 0: more, 192, day 1: more, 256, day 2: more, 384, day 3: more, 512, day 4: more, 768; then right",
	},
	"a leak that a kill ends each day": {
		program{"python", 128, 30, func(ran time.Duration, _ time.Time, _ app.MB) float64 { return 30 + ran.Hours()*5 }, nil, nil},
		app.SizeMore, 192,
		"It ran out of its RAM 9 times in 7 days and needed more than 128 MB: give it 192 MB.", "128, day 0: more, 192; then grows",
	},
	"a heap that grows to half of the limit, whatever is alive": {
		program{"javascript", 512, 30, func(_ time.Duration, _ time.Time, ram app.MB) float64 { return float64(ram) / 2 }, nil, nil},
		app.SizeRight, 512,
		"It peaked at 256 of 512 MB in 30 days: that is the right size.", "512; then right",
	},
	"a heap with a cap of 65 %": {
		program{"java", 500, 30, func(_ time.Duration, _ time.Time, ram app.MB) float64 { return 0.65 * float64(ram) }, nil, nil},
		app.SizeRight, 500,
		"It peaked at 325 of 500 MB in 30 days: that is the right size.", "500; then right",
	},
	"a heap far below its cap": {
		program{"javascript", 512, 30, flat(61), nil, nil}, app.SizeLess, 128, "It peaked at 61 of 512 MB in 30 days: 128 MB are enough.", "512, day 0: less, 128; then right",
	},
}

// Each shape gets its advice. Who follows it, while the program goes on as it did, is never
// advised the other direction, and no more once the size is right: for the 60 days after it.
func TestRight(t *testing.T) {
	for name, tt := range shapes {
		t.Run(name, func(t *testing.T) {
			var m memory
			tt.record(&m, now.Add(-time.Duration(tt.days)*day), now, tt.ram)
			got := Right(now, tt.app(tt.ram), 32, m.points, m.events)
			if got.Verdict != tt.want || got.Fit != tt.fit || got.Why.String() != tt.why || got.RAM != tt.ram || got.Changes() != (tt.fit != tt.ram) {
				t.Errorf("got %s, %d MB: %s\nwant %s, %d MB: %s", got.Verdict, got.Fit, got.Why, tt.want, tt.fit, tt.why)
			}
			said := fmt.Sprintf("%d", tt.ram)
			less, more := false, false
			for today := now; today.Before(now.Add(60 * day)); today = today.Add(day) {
				if got.Changes() {
					less, more = less || got.Verdict == app.SizeLess, more || got.Verdict == app.SizeMore
					said += fmt.Sprintf(", day %d: %s, %d", today.Sub(now)/day, got.Verdict, got.Fit)
				}
				tt.record(&m, today, today.Add(day), got.Fit)
				got = Right(today.Add(day), tt.app(got.Fit), 32, m.points, m.events)
			}
			if said += fmt.Sprintf("; then %s", got.Verdict); said != tt.then {
				t.Errorf("who follows the advice: %s\nwant %s", said, tt.then)
			}
			if less && more || got.Changes() {
				t.Error("the advice goes up and down, or does not end")
			}
		})
	}
}

func measured(days int, use float64) (points []app.Point) {
	var m memory
	program{most: flat(use)}.record(&m, now.Add(-time.Duration(days)*day), now, 1<<20)
	return m.points
}

func killedAt(ago time.Duration, limit app.MB) app.HistoryEvent {
	e := app.Exit{At: now.Add(-ago), OOM: true, LimitMB: limit, PeakBytes: limit.Bytes(), Ran: time.Minute}
	return app.HistoryEvent{At: e.At, Kind: app.HistoryExit, Exit: &e}
}

func TestRightOfWhatIsSpecial(t *testing.T) {
	other := app.HistoryEvent{At: now.Add(-time.Hour), Kind: app.HistoryExit, Exit: &app.Exit{At: now.Add(-time.Hour), Code: 1, LimitMB: 512}}
	for name, tt := range map[string]struct {
		ram    app.MB
		code   app.Code
		points []app.Point
		events []app.HistoryEvent
		want   app.RightSize
		why    string
	}{
		"a site of files": {
			512,
			app.Code{Lang: app.StaticLang},
			nil, nil,
			app.RightSize{Verdict: app.SizeNone, RAM: 512, Fit: 512},
			"A site of files has no program, so it needs no RAM.",
		},
		"an exit that was no kill": {
			512,
			app.Code{Lang: "go"},
			measured(30, 300),
			[]app.HistoryEvent{other},
			app.RightSize{Verdict: app.SizeRight, RAM: 512, Fit: 512, Days: 30, Peak: 300 * mb},
			"It peaked at 300 of 512 MB in 30 days: that is the right size.",
		},
		"it got more after its kill": {
			512,
			app.Code{Lang: "go"},
			measured(30, 60),
			[]app.HistoryEvent{killedAt(10*day, 256)},
			app.RightSize{Verdict: app.SizeLess, RAM: 512, Fit: 384, Days: 30, Peak: 60 * mb},
			"It peaked at 60 of 512 MB in 30 days: 384 MB are enough.",
		},
		"an old kill of the same code": {
			512,
			app.Code{Lang: "go"},
			measured(30, 60),
			[]app.HistoryEvent{killedAt(90*day, 256), {At: now.Add(-91 * day), Kind: app.HistoryDeploy}},
			app.RightSize{Verdict: app.SizeLess, RAM: 512, Fit: 384, Days: 30, Peak: 60 * mb},
			"It peaked at 60 of 512 MB in 30 days: 384 MB are enough.",
		},
		"an old kill of older code": {
			512,
			app.Code{Lang: "go"},
			measured(30, 60),
			[]app.HistoryEvent{killedAt(90*day, 256), {At: now.Add(-89 * day), Kind: app.HistoryDeploy}},
			app.RightSize{Verdict: app.SizeLess, RAM: 512, Fit: 96, Days: 30, Peak: 60 * mb},
			"It peaked at 60 of 512 MB in 30 days: 96 MB are enough.",
		},
		"an old kill with the RAM that it has": {
			96,
			app.Code{Lang: "go"},
			measured(30, 60),
			[]app.HistoryEvent{killedAt(31*day, 96)},
			app.RightSize{Verdict: app.SizeRight, RAM: 96, Fit: 96, Days: 30, Peak: 60 * mb},
			"It peaked at 60 of 96 MB in 30 days: that is the right size.",
		},
		"kills in the last days hide older ones": {
			100,
			app.Code{Lang: "go"},
			measured(30, 60),
			[]app.HistoryEvent{killedAt(day, 100), killedAt(2*day, 100), killedAt(20*day, 100)},
			app.RightSize{Verdict: app.SizeMore, RAM: 100, Fit: 192, Days: 30, Peak: 60 * mb, Kills: 2, KillDays: 7},
			"It ran out of its RAM 2 times in 7 days and needed more than 100 MB: give it 192 MB.",
		},
		"it had more RAM, and used it, until a week ago": {
			100,
			app.Code{Lang: "go"},
			append(measured(30, 300)[:20*48], measured(8, 40)...), nil,
			app.RightSize{Verdict: app.SizeLess, RAM: 100, Fit: 64, Days: 8, Peak: 40 * mb},
			"It peaked at 40 of 100 MB in 8 days: 64 MB are enough.",
		},
		"it had more RAM, and used it, until today": {
			100,
			app.Code{Lang: "go"},
			measured(30, 300), nil,
			app.RightSize{Verdict: app.SizeUnknown, RAM: 100, Fit: 100},
			"It was not measured with its 100 MB yet: berth can say which RAM fits after 7 days.",
		},
		"only a run between two samples": {
			100,
			app.Code{Lang: "go"},
			[]app.Point{{At: now.Add(-day), Step: step, MemoryMax: 50 * mb}},
			nil,
			app.RightSize{Verdict: app.SizeUnknown, RAM: 100, Fit: 100, Peak: 50 * mb},
			"It was not measured with its 100 MB yet: berth can say which RAM fits after 7 days.",
		},
	} {
		got := Right(now, app.App{RAM: tt.ram, Code: tt.code}, 32, tt.points, tt.events)
		why := got.Why.String()
		got.Why = app.Text{}
		if !reflect.DeepEqual(got, tt.want) || why != tt.why {
			t.Errorf("%s: got %+v: %s\nwant %+v: %s", name, got, why, tt.want, tt.why)
		}
	}
}

// A size is enough with room to spare, at most twice what is needed, and the one that fits it
// is itself.
func TestFit(t *testing.T) {
	for _, lang := range []string{"go", "javascript"} {
		before := app.MB(0)
		for need := app.MB(0); need < 20000; need++ {
			size, factor := fit(need, lang), 13*1.0
			if lang == "javascript" {
				factor = 16
			}
			if float64(size) < math.Floor(float64(need)*factor/10) || need > 1 && float64(size) > float64(need)*factor/10*1.5 || size < before {
				t.Fatalf("%s: %d MB for %d, after %d", lang, size, need, before)
			}
			before = size
		}
	}
	for need, want := range map[app.MB]app.MB{61: 96, 100: 192, 49: 64, 50: 96, 73: 96, 74: 96, 98: 128, 99: 128, 0: 1} {
		if got := fit(need, "python"); got != want {
			t.Errorf("%d MB for %d, want %d", got, need, want)
		}
	}
}

// Whatever a program did, who follows the advice gets no other at once, and none for less than
// was ever needed.
func TestAdviceIsNotTakenBack(t *testing.T) {
	advised := 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 22))
		base, wave, spike, leak := r.Float64()*300, r.Float64()*200*float64(r.IntN(2)), r.Float64()*400, r.Float64()*5*float64(r.IntN(2))
		often := 1 + r.IntN(400)
		p := program{[]string{"go", "python", "javascript", "java"}[r.IntN(4)], app.MB(32 + r.IntN(800)), r.IntN(31), func(ran time.Duration, at time.Time, _ app.MB) float64 {
			use := base + wave*math.Sin(2*math.Pi*float64(at.Hour())/24) + leak*ran.Hours()
			if r.IntN(often) == 0 {
				use += spike
			}
			return max(use, 1)
		}, func(time.Time) bool { return r.IntN(500) == 0 }, func(time.Time) bool { return r.IntN(50) == 0 }}
		var m memory
		p.record(&m, now.Add(-time.Duration(p.days)*day), now, p.ram)
		s := Right(now, p.app(p.ram), 32, m.points, m.events)
		if s.Changes() {
			advised++
		}
		if again := Right(now, p.app(s.Fit), 32, m.points, m.events); again.Changes() {
			t.Errorf("seed %d: from %d to %d MB: %s\nthen to %d MB: %s", seed, s.RAM, s.Fit, s.Why, again.Fit, again.Why)
		}
		if s.Fit < 32 || s.Verdict == app.SizeLess && (s.Fit >= s.RAM || s.Fit < megabytes(float64(s.Peak))) || s.Verdict == app.SizeMore && s.Fit <= s.RAM {
			t.Errorf("seed %d: %+v", seed, s)
		}
	}
	if advised < 100 {
		t.Errorf("only %d of 400 programs got advice", advised)
	}
}
