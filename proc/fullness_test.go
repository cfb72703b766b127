package proc

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth/app"
	"berth/cgroup"
)

// shape is what a program uses at a time after its start, in parts of its RAM: memory of
// its own, and cache of files, which has what is left at most.
type shape func(at time.Duration) (own, cache float64)

// ram is that of the programs whose shapes are looked at.
const ram = 512 << 20

var shapesBegin = time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)

// fillAt is what a look finds.
func (s shape) fillAt(at time.Duration) cgroup.Fill {
	own, cache := s(at)
	used := min(own+cache, 1)
	f := cgroup.Fill{At: shapesBegin.Add(at), Held: int64(used * ram), Used: int64(used * ram), Limit: ram}
	if used >= 0.5 {
		f.Held = int64(own * ram)
	}
	return f
}

// signals are what v1 has the kernel wake for: the rung below the usage, and, at the
// limit, how often something had to be reclaimed.
func (s shape) signals(at time.Duration) (state int) {
	own, cache := s(at)
	for _, rung := range []float64{0.5, 0.65, 0.8, 0.85, 0.9, 0.95} {
		if own+cache >= rung {
			state++
		}
	}
	if own+cache >= 1 {
		state += int(own * 32)
	}
	return state
}

// watched shows a program to f as cgroup.OnFill would, until it needs all its RAM or the
// time has passed. It returns the warnings, the looks, and when the program was killed.
func (s shape) watched(f *fullness, v1 bool, span time.Duration) (warnings []app.MemoryWarning, signals, looks int, killed time.Duration) {
	const tick = 50 * time.Millisecond
	state := s.signals(0)
	for at := time.Duration(0); at < span; {
		seen := f.look(s.fillAt(at))
		looks++
		if seen.warning != nil {
			warnings = append(warnings, *seen.warning)
		}
		if seen.signal {
			signals++
		}
		pause := seen.pause
		if !v1 && !seen.growing {
			pause = max(pause, 10*time.Second)
		}
		for _, grid := range []time.Duration{10 * time.Second, time.Second} {
			if pause >= grid {
				pause = (at + pause).Truncate(grid) - at
				break
			}
		}
		rung := v1 && !seen.growing
		top := (at + pause + 10*time.Second).Truncate(10 * time.Second)
		for next := at + pause; at < next || rung; {
			if at += tick; at >= span {
				return warnings, signals, looks, 0
			}
			if own, _ := s(at); own >= 1 {
				return warnings, signals, looks, at
			}
			if now := s.signals(at); now != state || at >= top && now >= 6 {
				state, rung = now, false
			}
		}
	}
	return warnings, signals, looks, 0
}

// leaks are the kinds of programs that need ever more, each by its growth: parts of the RAM
// in a second.
var leaks = map[string]func(base, rate float64, r *rand.Rand) func(s float64) float64{
	"linear": func(base, rate float64, _ *rand.Rand) func(float64) float64 {
		return func(s float64) float64 { return base + rate*s }
	},
	"steps": func(base, rate float64, r *rand.Rand) func(float64) float64 {
		every := (0.01 + 0.09*r.Float64()) / rate
		return func(s float64) float64 { return base + rate*every*math.Floor(s/every) }
	},
	"exponential": func(base, rate float64, _ *rand.Rand) func(float64) float64 {
		return func(s float64) float64 { return base * math.Exp(rate*s) }
	},
	"slow": func(base, rate float64, _ *rand.Rand) func(float64) float64 {
		return func(s float64) float64 { return base + rate/60*s }
	},
	"sawtooth": func(base, rate float64, r *rand.Rand) func(float64) float64 {
		high := 0.02 + 0.1*r.Float64()
		period := high / (1.0/30 - rate*0.9) * (1 + 5*r.Float64()) // its rise is no faster than the fastest leak
		return func(s float64) float64 { return base + rate*s + high*math.Mod(s, period)/period }
	},
}

// At least 95 of 100 programs that leak, in five kinds and at most a 30th of their RAM a
// second, are warned of before they are killed; with either way to watch.
func TestLeaksAreReportedBeforeTheKill(t *testing.T) {
	for _, v1 := range []bool{true, false} {
		t.Run(map[bool]string{true: "v1", false: "v2"}[v1], func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			all, told, rated := 0, 0, 0
			for _, kind := range slices.Sorted(maps.Keys(leaks)) {
				leak := leaks[kind]
				for range 20 {
					base, cache := 0.1+0.5*r.Float64(), 0.5*r.Float64()
					rate := math.Exp(math.Log(1.0/1800) + r.Float64()*math.Log(60)) // from a 1800th to a 30th
					quiet := 120 * r.Float64()                                      // before it begins
					grows := leak(base, rate, r)
					s := shape(func(at time.Duration) (float64, float64) {
						noise := 0.002 * math.Sin(at.Seconds()*1.7)
						return grows(max(at.Seconds()-quiet, 0)) + noise, cache
					})
					warnings, _, _, killed := s.watched(&fullness{}, v1, 72*time.Hour)
					if killed == 0 {
						t.Fatalf("%s at %.5f is never killed", kind, rate)
					}
					all++
					if len(warnings) == 0 {
						t.Logf("%s: base %.2f, cache %.2f, %.5f a second: not warned of", kind, base, cache, rate)
						continue
					}
					told++
					last := warnings[len(warnings)-1]
					if last.FullIn > 0 {
						rated++
						if kind == "linear" {
							left := shapesBegin.Add(killed).Sub(last.At)
							if off := last.FullIn - left; off.Abs() > left/2+3*time.Second {
								t.Errorf("%s at %.5f: full in %s, and it was in %s", kind, rate, last.FullIn, left)
							}
						}
					}
				}
			}
			t.Logf("%d of %d were warned of, %d with the time that is left", told, all, rated)
			if told*100 < all*95 {
				t.Errorf("only %d of %d were warned of", told, all)
			}
		})
	}
}

// Where the kernel tells, leaks that need all of the RAM within four seconds are warned of too.
func TestFastLeaksOnV1(t *testing.T) {
	for _, quiet := range []time.Duration{0, time.Second, 5 * time.Second, time.Minute, time.Hour} {
		s := shape(func(at time.Duration) (float64, float64) { return 0.1 + max(at-quiet, 0).Seconds()/4, 0.1 })
		if warnings, _, _, killed := s.watched(&fullness{}, true, 2*time.Hour); len(warnings) == 0 || killed == 0 {
			t.Errorf("after %s: %d warnings, killed %s", quiet, len(warnings), killed)
		}
	}
}

// A day of programs that live with what they have: nobody is warned of what is not so, nor
// of the same again.
func TestNobodyIsWarnedForNothing(t *testing.T) {
	t.Parallel()
	saw := func(low, high float64, period time.Duration) shape {
		return func(at time.Duration) (float64, float64) {
			return low + (high-low)*float64(at%period)/float64(period), 0.05
		}
	}
	day := func(at time.Duration) float64 { return math.Sin(2 * math.Pi * at.Hours() / 24) }
	for name, tt := range map[string]struct {
		shape
		want string
	}{
		"page cache to the brim": {func(at time.Duration) (float64, float64) { return 0.4 + 0.02*math.Sin(at.Seconds()/7), 1 }, ""},
		"cache that is dropped and read again": {func(at time.Duration) (float64, float64) {
			return 0.3, float64(at%(10*time.Minute)) / float64(10*time.Minute)
		}, ""},
		"collects its garbage at 75 %": {saw(0.3, 0.75, 90*time.Second), ""},
		"visitors by day":              {func(at time.Duration) (float64, float64) { return 0.45 + 0.3*day(at), 0.1 + 0.1*day(at) }, ""},
		"settles at 79 %":              {func(at time.Duration) (float64, float64) { return 0.79 - 0.5*math.Exp(-at.Hours()), 0.1 }, ""},
		"a burst of a second each minute": {func(at time.Duration) (float64, float64) {
			return 0.3 + 0.45*math.Floor(math.Mod(at.Seconds(), 60)/59), 0
		}, ""},
		"sits at 85 % all day":         {func(at time.Duration) (float64, float64) { return 0.85 + 0.01*math.Sin(at.Seconds()/11), 0.05 }, "80"},
		"garbage to 85 % every minute": {saw(0.55, 0.85, time.Minute), "80"},
		"garbage to 96 % every minute": {saw(0.4, 0.96, time.Minute), "80 90 95"},
		"about 80 %":                   {func(at time.Duration) (float64, float64) { return 0.8 + 0.05*math.Sin(at.Seconds()/300), 0 }, "80"},
		"a backup of a quarter of an hour every six hours": {func(at time.Duration) (float64, float64) {
			if at%(6*time.Hour) > 345*time.Minute {
				return 0.87, 0
			}
			return 0.4, 0.2
		}, "80 80 80 80"},
	} {
		for _, v1 := range []bool{true, false} {
			warnings, _, looks, killed := tt.watched(&fullness{}, v1, 24*time.Hour)
			got := ""
			for _, w := range warnings {
				if got != "" {
					got += " "
				}
				got += fmt.Sprint(w.Level)
			}
			if got != tt.want || killed != 0 {
				t.Errorf("%s (v1: %v): warned %q, want %q; killed %s", name, v1, got, tt.want, killed)
			}
			t.Logf("%s (v1: %v): %d looks, %.1f a minute", name, v1, looks, float64(looks)/24/60)
		}
	}
}

// The signal comes each time that a program reaches its level, once it has fallen well
// below; also to one whose warnings an earlier daemon gave.
func TestSignalComesAgain(t *testing.T) {
	s := shape(func(at time.Duration) (float64, float64) {
		return 0.5 + 0.42*float64(at%(2*time.Minute))/float64(2*time.Minute), 0
	})
	warnings, signals, _, _ := s.watched(&fullness{}, false, 20*time.Minute)
	if len(warnings) != 2 || signals < 8 || signals > 10 {
		t.Errorf("%d warnings, %d signals in ten rises", len(warnings), signals)
	}
	adopted := fullness{told: 90, quiet: true}
	at92 := shape(func(time.Duration) (float64, float64) { return 0.92, 0 })
	if warnings, signals, _, _ := at92.watched(&adopted, false, time.Hour); len(warnings)+signals != 0 {
		t.Errorf("adopted at what was reported: %d warnings, %d signals", len(warnings), signals)
	}
	at96 := shape(func(time.Duration) (float64, float64) { return 0.96, 0 })
	if warnings, _, _, _ := at96.watched(&adopted, false, time.Hour); len(warnings) != 1 || warnings[0].Level != 95 {
		t.Errorf("adopted, and grown: %+v", warnings)
	}
	more := fullness{told: 95, quiet: true, limit: ram}
	for i, tt := range []struct{ held, limit, level int64 }{{ram, 2 * ram, 0}, {2 * ram * 84 / 100, 2 * ram, 80}, {2 * ram * 84 / 100, ram * 21 / 10, 0}, {ram * 21 / 10, ram * 21 / 10, 95}} {
		s := more.look(cgroup.Fill{At: shapesBegin.Add(time.Duration(i) * time.Minute), Held: tt.held, Limit: tt.limit})
		if (s.warning == nil) != (tt.level == 0) || s.warning != nil && s.warning.Level != int(tt.level) {
			t.Errorf("%d of %d: %+v, want a warning at %d", tt.held, tt.limit, s.warning, tt.level)
		}
	}
	if s := (&fullness{}).look(cgroup.Fill{At: shapesBegin, Held: 1 << 40}); s.warning != nil || s.signal || s.growing {
		t.Errorf("without a limit: %+v", s)
	}
}
