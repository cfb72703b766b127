package watch

import (
	"context"
	"errors"
	"math"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

// sampling runs a sampler in virtual time, from 20 s after a full minute.
func sampling(t *testing.T, f func(t *testing.T, w *world)) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.sampler.Run(ctx)
		}()
		time.Sleep(20 * time.Second)
		f(t, w)
		cancel()
		<-done
	})
}

// With nothing running nothing is done, and with programs that nobody watches
// they are looked at once a minute, all together.
func TestNobodyWatches(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		time.Sleep(24 * time.Hour)
		if n := w.looks(); n != 0 {
			t.Errorf("%d looks at nothing", n)
		}
		w.starts("shop", 1)
		w.starts("blog", 1)
		time.Sleep(time.Hour)
		if n := w.looks(); n < 59 || n > 62 {
			t.Errorf("%d looks in an hour", n)
		}
		w.taken()
		time.Sleep(time.Hour)
		points := w.taken()
		if n := w.looks(); n != 60 || len(points) != 120 {
			t.Errorf("%d looks in the next hour, %d points", n, len(points))
		}
		for _, p := range points {
			if p.Ran != time.Minute || p.Memory != 1000 || p.Limit != 5000 || math.Abs(p.CPU-10) > 0.01 || p.NetOut != 60 || p.Marks != (app.Marks{}) || p.At.Second() != 0 {
				t.Fatalf("a point is %+v", p)
			}
		}
		w.ends("shop", app.Exit{})
		w.ends("blog", app.Exit{})
		time.Sleep(3 * time.Minute)
		w.looks()
		time.Sleep(24 * time.Hour)
		if n := w.looks(); n != 0 {
			t.Errorf("%d looks after the end", n)
		}
		if n := len(w.sampler.apps); n != 0 {
			t.Errorf("%d applications are remembered", n)
		}
	})
}

// What happens between two looks is in the history: starts, ends, kills with
// their peak, deploys.
func TestMarks(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		w.starts("shop", 1)
		time.Sleep(5 * time.Second)
		w.ends("shop", app.Exit{Code: 137, OOM: true, PeakBytes: 4999})
		w.starts("shop", 2)
		w.state("shop", app.Starting, true) // starting counts once for each start
		w.state("shop", app.Starting, true)
		w.hub.Publish(app.Event{Kind: app.DeployEvent, App: "shop", Owner: ana, Deploy: &app.DeployStep{Phase: app.DeployBegun}})
		w.hub.Publish(app.Event{Kind: app.DeployEvent, App: "shop", Owner: ana, Deploy: &app.DeployStep{Phase: app.DeployDone}})
		time.Sleep(time.Minute)
		points := w.taken()
		if len(points) != 1 || points[0].Marks != (app.Marks{Starts: 3, Exits: 1, OOMs: 1, Deploys: 1}) || points[0].MemoryMax != 4999 || points[0].Memory != 1000 {
			t.Fatalf("got %+v", points)
		}
		w.ends("shop", app.Exit{Code: 1})
		time.Sleep(2 * time.Minute)
		if points := w.taken(); len(points) == 0 || points[len(points)-1].Exits != 1 {
			t.Errorf("the last end: %+v", points)
		}
	})
}

// Of those whose figures nobody chose nothing is told, and nothing is measured for it.
func TestFiguresOfSome(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.apps["site"] = ana
		w.mu.Unlock()
		w.starts("shop", 1)
		w.starts("site", 1)
		time.Sleep(time.Minute)
		s := w.watch(app.Watch{Account: ana, App: app.All, Kinds: app.MetricEvent | app.ExitEvent, Figures: func(id app.ID) bool { return id == "site" }})
		defer s.Close()
		if f := w.hub.watched(); f(ana, "shop") || !f(ana, "site") {
			t.Error("what is measured is not what somebody watches")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 149500*time.Millisecond) // over two full minutes, at which all are measured; and between two looks
		defer cancel()
		seen := 0
		for {
			events, err := s.Next(ctx)
			if err != nil {
				break
			}
			for _, e := range events {
				if seen++; e.App != "site" {
					t.Fatalf("told %+v", e)
				}
			}
		}
		if seen < 70 {
			t.Errorf("told %d times", seen)
		}
		w.hub.Publish(app.Event{Kind: app.ExitEvent, App: "shop", Owner: ana, Exit: &app.Exit{Code: 1}})
		if got := describe(told(t, s)); got != "exit" {
			t.Errorf("told %q", got)
		}
	})
}

// Who watches is told every two seconds, of what concerns them alone, and the
// minutes are what they were.
func TestSomebodyWatches(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		w.starts("shop", 1)
		w.starts("blog", 1)
		time.Sleep(time.Minute)
		w.taken()
		s := w.watch(app.Watch{Account: ana, App: app.All, Kinds: app.MetricEvent})
		var seen []time.Time
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
		defer cancel()
		for n := 0; ; n++ {
			events, err := s.Next(ctx)
			if err != nil {
				break
			}
			for _, e := range events {
				if e.App != "shop" || e.ID != 0 || math.Abs(e.Usage.CPUPercent-10) > 0.01 || e.Usage.LimitBytes != 5000 {
					t.Fatalf("told %+v of %+v", e, e.Usage)
				}
				seen = append(seen, e.At)
			}
			if n == 20 {
				w.uses("shop", 4000)
			}
			if n == 21 {
				w.uses("shop", 1000)
			}
		}
		if n := len(seen); n < 48 || n > 55 {
			t.Errorf("told %d times in 100 seconds", n)
		}
		s.Close()
		time.Sleep(time.Minute)
		peaks := 0
		for _, p := range w.taken() {
			if p.Ran < 59*time.Second || p.Ran > 61*time.Second || p.NetOut < 59 || p.NetOut > 61 || math.Abs(p.CPU-10) > 0.1 {
				t.Errorf("a point is %+v", p)
			}
			if p.MemoryMax == 4000 {
				peaks++
			}
		}
		if peaks != 1 {
			t.Errorf("%d peaks", peaks)
		}
		time.Sleep(time.Minute + 5*time.Second) // not at a full minute
		w.looks()
		time.Sleep(10 * time.Minute)
		if n := w.looks(); n != 10 {
			t.Errorf("%d looks in ten minutes after the last has gone", n)
		}
	})
}

// A program that an earlier daemon started is measured from now on: what it used
// before is of no minute.
func TestAdopted(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		w.mu.Lock()
		w.runs["shop"] = &app.Measured{App: "shop", Owner: ana, Run: 7, StartedAt: time.Now().Add(-48 * time.Hour), Counts: app.Counts{MemoryBytes: 1000}}
		w.mu.Unlock()
		w.state("shop", app.Online, true)
		time.Sleep(time.Minute)
		points := w.taken()
		if len(points) != 1 || points[0].Starts != 0 || math.Abs(points[0].CPU-10) > 0.01 || points[0].NetOut > 40 || points[0].Ran < 38*time.Second || points[0].Ran > 40*time.Second {
			t.Errorf("got %+v", points)
		}
	})
}

// The minute that has begun is stored when the daemon ends; a disk that takes
// nothing stops nothing; and what is removed leaves no point.
func TestTheEndOfTheSampler(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.sampler.Run(ctx)
		}()
		w.fails = errors.New("disk full")
		w.starts("shop", 1)
		w.starts("blog", 1)
		time.Sleep(90 * time.Second)
		w.taken()
		w.hub.Publish(app.Event{Kind: app.RemovedEvent, App: "blog", Owner: bob})
		w.hub.Publish(app.Event{Kind: app.DeployEvent, App: "shop", Owner: ana, Deploy: &app.DeployStep{Phase: app.DeployDone}})
		synctest.Wait()
		cancel()
		<-done
		if points := w.taken(); len(points) != 1 || points[0].App != "shop" || points[0].Deploys != 1 {
			t.Errorf("got %+v", points)
		}
	})
}

// What sites answer is in the history of the minute, also of a site that has no program; nothing is
// looked at while nobody visits.
func TestAnswers(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		for range 5 {
			w.visit("shop", 1, 0)
		}
		w.visit("shop", 4, 11)
		time.Sleep(2 * time.Minute)
		points := w.taken()
		want := app.Answers{Classes: [5]uint64{1: 5, 4: 1}, Took: [12]uint64{0: 5, 11: 1}}
		if len(points) != 1 || points[0].App != "shop" || points[0].Answers != want || points[0].Ran != 0 {
			t.Fatalf("a minute of visits: %+v", points)
		}
		w.starts("shop", 1)
		w.visit("shop", 1, 1)
		time.Sleep(10 * time.Minute)
		var all app.Point
		for _, p := range w.taken() {
			all = all.With(p.Point)
		}
		if want := (app.Answers{Classes: [5]uint64{1: 1}, Took: [12]uint64{1: 1}}); all.Answers != want {
			t.Errorf("ten minutes with one visit: %+v", all)
		}
		w.ends("shop", app.Exit{})
		time.Sleep(3 * time.Minute)
		w.taken()
		before := len(w.stored)
		time.Sleep(24 * time.Hour)
		if n := len(w.stored) - before; n != 0 {
			t.Errorf("points are stored %d times while nobody visits", n)
		}
	})
}

// The host has a history while anything runs, and a gap where nothing did.
func TestHostHistory(t *testing.T) {
	sampling(t, func(t *testing.T, w *world) {
		w.hosts = true
		w.starts("shop", 1)
		time.Sleep(10 * time.Minute)
		var all []app.PointOf
		for _, p := range w.taken() {
			if p.App == app.HostHistory {
				all = append(all, p)
			}
		}
		if len(all) < 8 || len(all) > 11 {
			t.Fatalf("%d points of the host", len(all))
		}
		p := all[4]
		if math.Abs(p.CPU-25) > 0.01 || p.Memory != 7000 || p.Limit != 9000 || p.Disk != 8000 || p.NetIn != 120 || p.Ran != time.Minute {
			t.Errorf("the host used %+v", p)
		}
		w.ends("shop", app.Exit{})
		time.Sleep(time.Hour)
		w.taken()
		w.starts("shop", 2)
		time.Sleep(3 * time.Minute)
		for _, p := range w.taken() {
			if p.App == app.HostHistory && (p.Ran > time.Minute || p.NetIn > 200) {
				t.Errorf("after an hour: %+v", p)
			}
		}
	})
}

// BenchmarkSample is one look at 200 programs that nobody watches.
func BenchmarkSample(b *testing.B) {
	w := newWorld(b)
	for i := range 200 {
		id := app.ID("bot" + strconv.Itoa(i))
		w.apps[id] = ana
		w.starts(id, 1)
	}
	now := time.Now()
	for b.Loop() {
		now = now.Add(every)
		w.sampler.tick(b.Context(), now)
		w.points, w.stored, w.measured = w.points[:0], w.stored[:0], w.measured[:0]
	}
}
