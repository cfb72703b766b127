package host

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth/app"
)

const gib = 1 << 30

// pointsOf are stretches in which a program used so many MB; -1 is one in which it did
// not run.
func pointsOf(used ...int) (all []app.Point) {
	for _, mb := range used {
		p := app.Point{Step: 10 * time.Minute}
		if mb >= 0 {
			p.Ran, p.Memory = p.Step, float64(mb<<20)
		}
		all = append(all, p)
	}
	return all
}

func TestUsual(t *testing.T) {
	for _, tt := range []struct {
		points []app.Point
		mb     int64
		known  bool
	}{
		{nil, 0, false},
		{pointsOf(60, 60, 60, 60, 60), 0, false},
		{pointsOf(60, 60, -1, 60, 60, 60, -1), 0, false},
		{pointsOf(60, 61, 59, 60, 62, 58), 60, true},
		{pointsOf(50, 100, 150, 200, 250, 300, 350), 200, true}, // a leak
		{pointsOf(400, 60, 60, 400, 60, 60, 60), 60, true},      // peaks
		{pointsOf(0, 0, 0, 0, 0, 0), 0, true},
	} {
		if got, known := usualOf(tt.points); got != tt.mb<<20 || known != tt.known {
			t.Errorf("%v: %d MB, %v, want %d MB, %v", tt.points, got>>20, known, tt.mb, tt.known)
		}
	}
}

// using is a program with so many MB of RAM that uses some of them.
func using(id app.ID, ram, used app.MB) app.Measured {
	return app.Measured{App: id, Run: 1, Counts: app.Counts{MemoryBytes: used.Bytes(), LimitBytes: ram.Bytes()}}
}

func describeOrder(list []ranked) (text string) {
	for _, r := range list {
		text += fmt.Sprintf("%s %+d; ", r.App, r.above()>>20)
	}
	return text
}

func TestOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		all     []app.Measured
		history map[app.ID][]app.Point
		want    string
	}{
		"none": {},
		"what grew, not what is large": {
			[]app.Measured{using("large", 800, 500), using("leak", 200, 120)},
			map[app.ID][]app.Point{"large": pointsOf(500, 500, 500, 500, 500, 500), "leak": pointsOf(40, 40, 40, 40, 40, 40)},
			"leak +80; large +0; ",
		},
		"new ones are expected to use what others do of theirs": {
			[]app.Measured{using("old", 200, 100), using("new", 400, 150), using("newer", 100, 90)},
			map[app.ID][]app.Point{"old": pointsOf(100, 100, 100, 100, 100, 100)},
			"newer +40; old +0; new -50; ",
		},
		"all new: each has its share of the host": { // 1024 MB for 2048
			[]app.Measured{using("a", 1024, 500), using("b", 512, 300), using("c", 512, 200)},
			nil,
			"b +44; a -12; c -56; ",
		},
		"all new, and there is enough for all": {
			[]app.Measured{using("a", 100, 50), using("b", 200, 50)},
			nil,
			"a -50; b -150; ",
		},
		"as many MB above are in the order of their names": {
			[]app.Measured{using("b", 100, 50), using("a", 100, 50)},
			nil,
			"a -50; b -50; ",
		},
	} {
		h := habits{history: func(id app.ID) ([]app.Point, error) { return tt.history[id], nil }}
		if got := describeOrder(h.of(tt.all, gib, time.Now())); got != tt.want {
			t.Errorf("%s: %s, want %s", name, got, tt.want)
		}
	}
}

// points is what the kernel makes of a process (oom_badness in mm/oom_kill.c).
func kernelPoints(resident int64, score int, memory int64) int64 {
	const page = 4096
	return resident/page + int64(score)*(memory/page/1000)
}

// The kernel's order is berth's, whatever the programs are, and also after they have grown
// since the order was set; but for what is nearer than the kernel can tell apart.
func TestKernelTakesTheOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		memory := int64(1+random.IntN(64)) * gib
		most := int(min(memory/8, 2*gib))
		list := make([]ranked, 2+random.IntN(20))
		largest, scores := make([]int64, len(list)), make([]int, len(list))
		for i := range list {
			list[i].App = app.ID(fmt.Sprint(i))
			list[i].MemoryBytes = int64(1 + random.IntN(most))
			list[i].usual = int64(random.IntN(most))
			largest[i] = list[i].MemoryBytes / int64(1+random.IntN(3)) // it has several processes
			scores[i] = list[i].score(largest[i], memory)
			grown := int64(random.IntN(most))
			list[i].MemoryBytes += grown
			largest[i] += grown
		}
		unit := 3*memory/1000 + 4096
		for i := range list {
			for j := range list {
				berths := list[i].above() - list[j].above()
				kernels := kernelPoints(largest[i], scores[i], memory) - kernelPoints(largest[j], scores[j], memory)
				if berths > unit && kernels <= 0 {
					t.Fatalf("%s is %d MB further above its usual use than %s, and has %d points fewer: %+v", list[i].App, berths>>20, list[j].App, -kernels, list)
				}
			}
		}
	}
}

func TestScoreBounds(t *testing.T) {
	for _, tt := range []struct {
		used, usual, largest, memory int64
		want                         int
	}{
		{100 << 20, 100 << 20, 100 << 20, gib, 703},
		{100 << 20, 0, 100 << 20, gib, ScoreStart},
		{gib, gib, gib, gib, scoreLeast}, // above what is not berth's, whatever it uses
		{800 << 20, 100 << 20, 100 << 20, gib, scoreMost},
		{1, 1, 1, 0, ScoreStart}, // nothing is known of the host
	} {
		r := ranked{Measured: app.Measured{Counts: app.Counts{MemoryBytes: tt.used}}, usual: tt.usual}
		if got := r.score(tt.largest, tt.memory); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// The history of a program is read seldom, that of a new one more often, and that of one
// which has ended is forgotten.
func TestHabitsAreReadSeldom(t *testing.T) {
	var read []app.ID
	fails := error(nil)
	h := habits{history: func(id app.ID) ([]app.Point, error) {
		read = append(read, id)
		if id == "old" {
			return pointsOf(10, 10, 10, 10, 10, 10), fails
		}
		return pointsOf(10), fails
	}}
	at := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	both := []app.Measured{using("old", 100, 10), using("new", 100, 10)}
	for range 60 {
		h.of(both, gib, at)
		at = at.Add(time.Minute)
	}
	slices.Sort(read)
	if want := []app.ID{"new", "new", "new", "new", "new", "new", "old"}; !slices.Equal(read, want) {
		t.Errorf("read %v, want %v", read, want)
	}
	read = nil
	h.of(both[1:], gib, at)
	h.of(both, gib, at)
	if !slices.Contains(read, "old") {
		t.Error("what had ended is remembered")
	}
	fails = errors.New("torn")
	at = at.Add(time.Hour)
	h.of(both, gib, at)
}
