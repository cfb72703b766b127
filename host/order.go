package host

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"berth/app"
)

const (
	// scoreUsual is the oom_score_adj (proc_pid_oom_score_adj(5)) that makes the kernel
	// take a program which uses what it uses usually for one of so many thousandths of
	// the host's memory. It leaves room for programs that use more or less.
	scoreUsual = 800
	scoreLeast = 1 // what is not berth's has 0 or less
	scoreMost  = 1000

	// ScoreStart is that of a program which has just started, as if it used nothing usually.
	ScoreStart = scoreUsual
	// ScoreBuild is that of a build, which a later one can repeat.
	ScoreBuild = scoreMost

	// usualPoints is of how many stretches of the history a usual use is made.
	usualPoints = 6
	// usualFor is how long a usual use is taken for true, and unknownFor how long that
	// it is not known.
	usualFor   = time.Hour
	unknownFor = 10 * time.Minute
)

// usualOf is what a program uses usually: the median of what it used while it ran. It is
// not known while there are few points.
func usualOf(points []app.Point) (bytes int64, known bool) {
	var used []float64
	for _, p := range points {
		if p.Ran > 0 {
			used = append(used, p.Memory)
		}
	}
	if len(used) < usualPoints {
		return 0, false
	}
	slices.Sort(used)
	return int64(used[len(used)/2]), true
}

// ranked is a program in the order of kills.
type ranked struct {
	app.Measured
	usual int64
	known bool // usual is its own; else what is expected of a new program
}

func (r ranked) above() int64 { return r.MemoryBytes - r.usual }

// expect says what new programs use usually, of which nothing is known: such a part of
// their RAM as the others use of theirs. Where all are new, it is their share of memory,
// all there is on the host.
func expect(all []ranked, memory int64) {
	var usual, limits, sold int64
	for _, r := range all {
		sold += r.LimitBytes
		if r.known {
			usual += r.usual
			limits += r.LimitBytes
		}
	}
	if limits == 0 {
		usual, limits = memory, sold
	}
	if limits == 0 {
		return
	}
	part := min(float64(usual)/float64(limits), 1)
	for i, r := range all {
		if !r.known {
			all[i].usual = int64(part * float64(r.LimitBytes))
		}
	}
}

// inOrder sorts programs as the kernel is to end them: first what is furthest above its
// usual use, for that is what the others lack.
func inOrder(all []ranked) {
	slices.SortFunc(all, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(b.above(), a.above()), cmp.Compare(a.App, b.App))
	})
}

// score is the oom_score_adj of a program's processes, the largest of which has so many
// bytes in memory, on a host with so much memory, swap included.
//
// The kernel ends the process with the most points: its pages, and oom_score_adj
// thousandths of all pages (oom_badness in mm/oom_kill.c). So what is set here is by how
// much the largest process is smaller than the program is above its usual use: the sum of
// the kernel is that excess. While the process grows, both grow alike, and the order is
// true at the moment of the kill. What is left is the kernel's unit, a thousandth.
func (r ranked) score(largest, memory int64) int {
	if memory <= 0 {
		return scoreUsual
	}
	return int(min(max(scoreUsual+1000*(r.above()-largest)/memory, scoreLeast), scoreMost))
}

// habits is what programs use usually. It is safe for concurrent use.
type habits struct {
	history func(id app.ID) ([]app.Point, error) // of the last day; may be nil

	mu    sync.Mutex
	known map[app.ID]habit
}

// habit is what is known of one program since a moment.
type habit struct {
	at    time.Time
	bytes int64
	known bool
}

// of ranks the programs that run, and forgets the others. It may read their history.
func (h *habits) of(all []app.Measured, memory int64, now time.Time) []ranked {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := h.known
	h.known = make(map[app.ID]habit, len(all))
	list := make([]ranked, len(all))
	for i, m := range all {
		one, found := before[m.App]
		lasts := unknownFor
		if one.known {
			lasts = usualFor
		}
		if !found || now.Sub(one.at) >= lasts {
			one = habit{at: now}
			if h.history != nil {
				points, _ := h.history(m.App) // unreadable is unknown
				one.bytes, one.known = usualOf(points)
			}
		}
		h.known[m.App] = one
		list[i] = ranked{m, one.bytes, one.known}
	}
	expect(list, memory)
	inOrder(list)
	return list
}
