package host

import (
	"context"
	"sync"
	"time"

	"berth/app"
)

const (
	// scarcePart is which part of the host's RAM must be available: with less, and
	// programs that wait for memory, the host is short of it. A program that waits for
	// memory at its own limit is none of the host's.
	scarcePart = 10
	// emptyPart is the same where nobody tells that programs wait.
	emptyPart = 20
	// calm is for how long nothing has waited when a shortage is over, and calmAll when
	// it is over also where little is available.
	calm    = 10 * time.Second
	calmAll = time.Minute
	// LookEvery is how often the memory is looked at where the kernel tells nothing.
	LookEvery = 15 * time.Second
	// tightPart is which part of the RAM is available when berth keeps itself in memory, and
	// easyPart when it lets the kernel have again what is idle of it.
	tightPart = 5
	easyPart  = 4
	// orderShown is how many programs of the order are told.
	orderShown = 8
)

// errShort is why nothing is started by berth's own choice.
var errShort = app.Errorf(app.Unavailable, "this host is short of memory, and starts wait until that is over; the program starts by itself then")

// scarcity judges whether the host is short of memory.
type scarcity struct {
	short  bool
	waited time.Time // when programs were last known to wait for memory
}

// look takes what is known at one moment: whether programs have waited for memory, and
// how much of the total is available. It reports whether the judgement has changed.
func (s *scarcity) look(now time.Time, waited bool, available, total int64) (changed bool) {
	if waited {
		s.waited = now
	}
	was, little := s.short, available < total/scarcePart
	switch quiet := now.Sub(s.waited); {
	case !was:
		s.short = waited && little
	case waited:
	default:
		s.short = quiet < calm || little && quiet < calmAll
	}
	return s.short != was
}

// shortages is what is known of them, and what programs use usually.
type shortages struct {
	habits habits
	mu     sync.Mutex
	last   app.Shortage
	wrong  bool // the order of kills could not be set
	kept   bool // berth keeps itself in memory
}

// Shortage returns the shortage of memory that lasts, or the last one since berth began.
func (h *Host) Shortage() app.Shortage {
	h.shortages.mu.Lock()
	defer h.shortages.mu.Unlock()
	return h.shortages.last
}

// scarce returns why nothing is to start now, nil while the host has memory.
func (h *Host) scarce() error {
	if h.Shortage().Lasts() {
		return errShort
	}
	return nil
}

// WatchMemory watches the host's memory until ctx ends. While programs wait for memory
// that the host has not, builds wait too, and what berth would start by itself.
func (h *Host) WatchMemory(ctx context.Context) {
	if h.Memory == nil {
		return
	}
	var s scarcity
	told := true // by the kernel
	for {
		patience := time.Duration(0)
		switch {
		case !told:
			patience = LookEvery
		case s.short:
			patience = calm
		}
		waited := false
		if told {
			var err error
			if waited, err = h.Memory.Wait(ctx, patience); err != nil && ctx.Err() == nil {
				h.Log.Warn("the kernel does not tell when programs wait for memory: it is looked at now and then", "every", LookEvery, "error", err)
				told = false
				continue
			}
		} else {
			sleep(ctx, patience)
		}
		if ctx.Err() != nil {
			return
		}
		free, err := h.Memory.Free()
		if err != nil {
			h.Log.Error("cannot read how much memory the host has left", "error", err)
			sleep(ctx, LookEvery) // else a kernel that tells much makes many of these
			continue
		}
		h.keep(free)
		waited = waited || !told && free.Available < free.RAM/emptyPart
		if s.look(time.Now(), waited, free.Available, free.RAM) {
			h.turned(ctx, s.short, free)
		}
	}
}

// turned is the beginning of a shortage, or its end.
func (h *Host) turned(ctx context.Context, short bool, free HostMemory) {
	if !short {
		h.shortages.mu.Lock()
		h.shortages.last.Until = time.Now()
		lasted := time.Since(h.shortages.last.Since)
		h.shortages.mu.Unlock()
		h.builds.hold(false)
		h.Log.Info("this host has memory again: builds and starts go on", "after", lasted.Round(time.Second))
		return
	}
	h.builds.hold(true)
	last := app.Shortage{Since: time.Now(), Available: app.MB(free.Available >> 20), Total: app.MB(free.RAM >> 20)}
	h.shortages.mu.Lock()
	h.shortages.last = last // before the programs are measured, which may take a while now
	h.shortages.mu.Unlock()
	var all []app.Measured
	h.Measure(ctx, nil, func(m app.Measured) { all = append(all, m) })
	var ids []app.ID
	for _, r := range h.order(all, free.All) {
		if len(ids) == orderShown {
			break
		}
		s, _ := h.Find(r.App)
		last.Order = append(last.Order, app.Grown{App: r.App, Owner: r.Owner, Name: s.Name, Used: r.MemoryBytes, Usual: r.usual})
		ids = append(ids, r.App)
	}
	h.shortages.mu.Lock()
	h.shortages.last = last
	h.shortages.mu.Unlock()
	if h.Short != nil {
		h.Short(last)
	}
	log := h.Log.With("availableMB", last.Available, "ramMB", last.Total)
	if len(ids) > 0 {
		first := last.Order[0]
		log = log.With("grew", first.App, "name", first.Name, "usesMB", first.Used>>20, "usuallyMB", first.Usual>>20, "order", ids)
		if first.Above() > 0 {
			h.Logs.Note(first.App, h.warning(first))
		}
	}
	log.Warn("this host is short of memory: builds and starts wait")
}

// warning is what the owner of the program reads that has grown most.
func (h *Host) warning(g app.Grown) string {
	return app.Textf("this host is short of memory, and the program uses %d MB, %d MB more than expected of it: it is the first that the kernel ends if nothing is left",
		wide(g.Used), wide(g.Above())).String()
}

// keep keeps berth itself in memory while little is left: the kernel drops code first, and berth
// needs its own to do something about it. At other times the kernel may have what is idle.
func (h *Host) keep(free HostMemory) {
	h.shortages.mu.Lock()
	defer h.shortages.mu.Unlock()
	want := h.shortages.kept
	switch {
	case free.Available < free.RAM/tightPart:
		want = true
	case free.Available > free.RAM/easyPart:
		want = false
	}
	if want == h.shortages.kept {
		return
	}
	h.shortages.kept = want
	if err := h.Memory.Keep(want); err != nil {
		h.Log.Warn("berth may answer late while the host is short of memory", "error", err)
	}
}

// OrderKills sets the order in which the kernel ends programs when the host has no memory
// left: all are the programs that run, as they were measured a moment ago.
func (h *Host) OrderKills(all []app.Measured) {
	if h.Memory == nil || len(all) == 0 {
		return
	}
	free, err := h.Memory.Free()
	if err != nil {
		return // WatchMemory tells
	}
	h.keep(free)
	h.order(all, free.All)
}

// order sets the order of kills and returns it.
func (h *Host) order(all []app.Measured, memory int64) []ranked {
	list := h.shortages.habits.of(all, memory, time.Now())
	var failed error
	for _, r := range list {
		if err := h.Memory.Rank(r.App, r.Run, func(largest int64) int { return r.score(largest, memory) }); err != nil {
			failed = err
		}
	}
	h.shortages.mu.Lock()
	told := h.shortages.wrong
	h.shortages.wrong = failed != nil
	h.shortages.mu.Unlock()
	if failed != nil && !told {
		h.Log.Warn("without memory the kernel may end programs in another order than berth's", "error", failed)
	}
	return list
}
