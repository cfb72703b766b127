package host

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"berth/app"
)

func TestScarcity(t *testing.T) {
	type look struct {
		after     time.Duration
		waited    bool
		available int64 // of 1000
		want      bool
	}
	for name, looks := range map[string][]look{
		"a program at its own limit":       {{0, true, 500, false}, {time.Second, true, 120, false}},
		"little, and nobody waits":         {{0, false, 20, false}, {time.Hour, false, 20, false}},
		"it passes":                        {{0, true, 50, true}, {9 * time.Second, false, 300, true}, {2 * time.Second, false, 300, false}},
		"it lasts while programs wait":     {{0, true, 50, true}, {9 * time.Second, true, 300, true}, {9 * time.Second, false, 300, true}, {time.Second, false, 300, false}},
		"as little as before, but in rest": {{0, true, 50, true}, {30 * time.Second, false, 50, true}, {30 * time.Second, false, 50, false}},
	} {
		var s scarcity
		now := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
		for i, l := range looks {
			now = now.Add(l.after)
			was := s.short
			if changed := s.look(now, l.waited, l.available, 1000); s.short != l.want || changed != (was != l.want) {
				t.Errorf("%s: look %d: short %v, changed %v", name, i, s.short, changed)
			}
		}
	}
}

// memory is a Memory whose kernel tells what the test says.
type memory struct {
	mu        sync.Mutex
	available app.MB
	told      chan struct{}
	mute      error // of Wait
	broken    error // of Free and Rank
	scores    map[app.ID]int
	looks     int
	kept      []bool
}

func (m *memory) Wait(ctx context.Context, d time.Duration) (bool, error) {
	if m.mute != nil {
		return false, m.mute
	}
	var over <-chan time.Time
	if d > 0 {
		over = time.After(d)
	}
	select {
	case <-m.told:
		return true, nil
	case <-over:
	case <-ctx.Done():
	}
	return false, nil
}

func (m *memory) Free() (HostMemory, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.looks++
	return HostMemory{m.available.Bytes(), gib, gib}, m.broken
}

func (m *memory) Keep(keep bool) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.kept = append(m.kept, keep)
	return m.broken
}

func (m *memory) Rank(id app.ID, _ int, score func(int64) int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.scores[id] = score(10 << 20)
	return m.broken
}

func (m *memory) has(mb app.MB) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.available = mb
}

// short plays on a host whose memory is watched.
func short(t *testing.T, m *memory, f func(t *testing.T, w *world)) {
	t.Helper()
	play(t, func(t *testing.T, w *world) {
		m.told, m.scores, m.available = make(chan struct{}), map[app.ID]int{}, 500
		w.host.Memory = m
		ctx, cancel := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		watching.Go(func() { w.host.WatchMemory(ctx) })
		defer watching.Wait()
		defer cancel()
		f(t, w)
	})
}

// wait lets programs wait for memory, of which so much is available.
func (m *memory) wait(available app.MB) {
	m.has(available)
	m.told <- struct{}{}
	synctest.Wait()
}

func TestNothingBeginsWithoutMemory(t *testing.T) {
	m := &memory{}
	short(t, m, func(t *testing.T, w *world) {
		w.set(by(map[string]behaviour{"big": {uses: 120}, "crashes": {exit: &app.Exit{Code: 1}, life: time.Hour}}))
		big, other, crashes := w.mustUpload("MAIN=big"), w.mustUpload("MAIN=a"), w.mustUpload("MAIN=crashes,AUTORESTART=true")
		if err := w.host.Stop(t.Context(), owner, other); err != nil {
			t.Fatal(err)
		}
		m.wait(200) // enough: somebody is at his own limit
		if s := w.host.Shortage(); !s.Since.IsZero() {
			t.Errorf("a shortage with 200 MB: %+v", s)
		}
		m.wait(20)
		s := w.host.Shortage()
		if !s.Lasts() || s.Available != 20 || s.Total != 1024 || len(s.Order) != 2 || s.Order[0].App != big || s.Order[0].Used != 120<<20 {
			t.Fatalf("the shortage is %+v", s)
		}
		if !w.noted(big, "this host is short of memory, and the program uses 120 MB, 20 MB more") {
			t.Errorf("the log of what grew has %v", w.notes[big])
		}
		if m.scores[big] <= m.scores[crashes] {
			t.Errorf("the scores are %v", m.scores)
		}
		building := w.uploading(owner, "MAIN=b,BUILD=make")
		_, err := w.host.Start(t.Context(), owner, other)
		wantKind(t, err, app.Unavailable)
		if s := w.snapshot(other); s.State != app.Waiting || w.recorded(other).Wanted != app.WantOnline {
			t.Errorf("what was started is %s", s.State)
		}
		for range 3 { // it lasts while it is told
			time.Sleep(calm - time.Second)
			m.wait(300)
		}
		begun := w.launches(crashes)
		if len(building) > 0 || w.launches(other) != 1 {
			t.Error("a build or a program began without memory")
		}
		if err := w.host.Restart(t.Context(), owner, big); err != nil { // it gives back what it takes
			t.Errorf("a restart: %v", err)
		}
		time.Sleep(calm + time.Second)
		if s := w.host.Shortage(); s.Lasts() || s.Until.IsZero() {
			t.Errorf("with memory the shortage is %+v", s)
		}
		if err := <-building; err != nil {
			t.Error(err)
		}
		time.Sleep(time.Minute)
		if s := w.snapshot(other); !s.Running || w.launches(crashes) != begun {
			t.Errorf("after the shortage it is %s", s.State)
		}
	})
}

// What a build waits for is in the log of its application.
func TestBuildsWaitForMemory(t *testing.T) {
	m := &memory{}
	short(t, m, func(t *testing.T, w *world) {
		m.wait(20)
		building := w.uploading(owner, "MAIN=b,BUILD=make")
		var id app.ID
		for _, s := range w.host.Apps(owner) {
			id = s.ID
			if s.Position != 1 {
				t.Errorf("its position is %d", s.Position)
			}
		}
		if !w.noted(id, "number 1 in the queue, for this host is short of memory") {
			t.Errorf("its log has %v", w.notes[id])
		}
		if !slices.ContainsFunc(w.told, func(e app.Event) bool {
			return e.Deploy != nil && e.Deploy.Position == 1 && e.Deploy.Why == "this host is short of memory"
		}) {
			t.Error("no event says why it waits")
		}
		if err := w.host.Stop(t.Context(), owner, id); err != nil { // it can be called off
			t.Error(err)
		}
		wantKind(t, <-building, app.Conflict)
	})
}

// A build that the kernel ended for the host's lack of memory did nothing wrong.
func TestBuildEndedWithoutMemory(t *testing.T) {
	play(t, func(t *testing.T, w *world) {
		w.set(func(p app.Program) behaviour {
			if p.Build {
				return behaviour{exit: &app.Exit{Code: 137, Signal: 9, HostOOM: true}, life: time.Second}
			}
			return behaviour{}
		})
		_, err := w.upload("MAIN=b,BUILD=make")
		wantKind(t, err, app.Unavailable)
		if !strings.Contains(err.Error(), `this host ran short of memory while "make" ran`) {
			t.Error(err)
		}
	})
}

// A kernel that does not tell is asked now and then, and only for what leaves no doubt.
func TestMemoryIsLookedAt(t *testing.T) {
	m := &memory{mute: errors.New("no such file")}
	short(t, m, func(t *testing.T, w *world) {
		m.has(80)
		time.Sleep(time.Minute)
		synctest.Wait()
		if s := w.host.Shortage(); !s.Since.IsZero() || m.looks > 5 {
			t.Errorf("after %d looks: %+v", m.looks, s)
		}
		m.has(40)
		time.Sleep(LookEvery + time.Second)
		synctest.Wait()
		if s := w.host.Shortage(); !s.Lasts() || len(s.Order) != 0 {
			t.Errorf("with 40 MB: %+v", s)
		}
		m.has(400)
		time.Sleep(2 * LookEvery)
		synctest.Wait()
		if s := w.host.Shortage(); s.Lasts() {
			t.Errorf("with 400 MB: %+v", s)
		}
	})
}

// What cannot be read or set is no shortage, and ends nothing.
func TestMemoryThatCannotBeRead(t *testing.T) {
	m := &memory{broken: errors.New("no /proc")}
	short(t, m, func(t *testing.T, w *world) {
		id := w.mustUpload("MAIN=a")
		m.wait(20)
		w.host.OrderKills([]app.Measured{using(id, 100, 10)})
		if s := w.host.Shortage(); !s.Since.IsZero() || len(m.scores) != 0 {
			t.Errorf("%+v, %v", s, m.scores)
		}
		time.Sleep(LookEvery)
		m.mu.Lock()
		m.broken = nil
		m.mu.Unlock()
		w.host.OrderKills([]app.Measured{using(id, 100, 10)})
		if m.scores[id] == 0 {
			t.Error("no order of kills was set")
		}
	})
}

// berth keeps itself in memory while little is left, whether the kernel tells or the minute's look
// does, and gives it back when there is more again.
func TestKeepsItselfInMemory(t *testing.T) {
	m := &memory{}
	short(t, m, func(t *testing.T, w *world) {
		w.set(by(map[string]behaviour{"a": {uses: 50}}))
		id := w.mustUpload("MAIN=a")
		all := []app.Measured{{App: id, Run: 1}}
		kept := func() int {
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.kept)
		}
		w.host.OrderKills(all) // of 500 MB
		if kept() != 0 {
			t.Error("it is kept although there is enough")
		}
		m.has(200)
		w.host.OrderKills(all)
		w.host.OrderKills(all)
		m.wait(20)
		m.has(240)
		w.host.OrderKills(all)
		if kept() != 1 {
			t.Errorf("it was kept %d times", kept())
		}
		m.has(300)
		w.host.OrderKills(all)
		m.wait(10)
		m.mu.Lock()
		defer m.mu.Unlock()
		if !slices.Equal(m.kept, []bool{true, false, true}) {
			t.Errorf("got %v", m.kept)
		}
	})
}
