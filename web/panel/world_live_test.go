package panel

import (
	"context"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"berth/app"
	"berth/proc/logs"
)

// Find implements watch.Access.
func (h *apps) Find(id app.ID) (app.Snapshot, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.all[id]
	return s, ok
}

// SetRAM implements Memory.
func (h *apps) SetRAM(_ context.Context, owner app.AccountID, id app.ID, ram app.MB) error {
	if err := h.on(owner, id, "ram "+ram.String()); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.all[id]
	s.RAM = ram
	h.all[id] = s
	return nil
}

// AvailableRAM implements Memory.
func (h *apps) AvailableRAM(app.ID) app.MB { return 1000 }

// records are what a host remembers, in the real database.
type records struct {
	*apps
	w *world
}

func (r records) Deploys(ctx context.Context, owner app.AccountID, id app.ID) ([]app.Deploy, error) {
	if _, err := r.w.host.App(owner, id); err != nil {
		return nil, err
	}
	all, err := r.w.db.History.Deploys(ctx, id)
	for i := range all {
		all[i].Back = i > 0
	}
	return all, err
}

func (r records) Rollback(ctx context.Context, owner app.AccountID, id app.ID, number int) (app.Deployed, error) {
	return app.Deployed{}, r.w.host.act("rollback "+app.MB(number).String()+" by "+app.ActorOf(ctx, owner).String(), id)
}

func (r records) EventLog(ctx context.Context, _ app.AccountID, id app.ID) ([]app.HistoryEvent, error) {
	if s, _ := r.w.host.Find(id); s.State == app.Preparing {
		return nil, app.Errorf(app.Conflict, "it is being deployed for the first time")
	}
	return r.w.db.History.EventLog(ctx, id)
}

// fakeLogs are real logs, but for the output of a build that a test gives.
type fakeLogs struct {
	app.Logs
	host *apps
	t    testing.TB
	dir  string
	mu   sync.Mutex
	all  map[string]*logs.Log
}

func newFakeLogs(t testing.TB, host *apps) *fakeLogs {
	p := &fakeLogs{host: host, t: t, dir: t.TempDir(), all: map[string]*logs.Log{}}
	t.Cleanup(func() {
		for _, l := range p.all {
			must(t, l.Close())
		}
	})
	return p
}

func (p *fakeLogs) of(id app.ID, build bool) *logs.Log {
	name := "run"
	if build {
		name = "build"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.all[string(id)+name]
	if l == nil {
		var err error
		l, err = logs.Open(filepath.Join(p.dir, string(id)), name, logs.Options{Rate: -1})
		must(p.t, err)
		p.all[string(id)+name] = l
	}
	return l
}

func (p *fakeLogs) Follow(id app.ID, build bool, back int) (app.Follower, error) {
	return p.of(id, build).Follow(back), nil
}

func (p *fakeLogs) Cursor(id app.ID, build bool, from app.LineStart) (app.LogCursor, error) {
	return p.of(id, build).Cursor(from)
}

func (p *fakeLogs) Tail(id app.ID, build bool, most int) string {
	p.host.mu.Lock()
	output := p.host.output
	p.host.mu.Unlock()
	if build && output != "" {
		return output
	}
	return p.of(id, build).Tail(most)
}

func (p *fakeLogs) Open(id app.ID, build bool) (io.ReadCloser, error) {
	return p.of(id, build).Reader()
}

// program lets a program print lines, after the end of an earlier one, and end.
func (p *fakeLogs) program(id app.ID, lines ...string) {
	p.t.Helper()
	p.print(id, "stopped")
	l := p.of(id, false)
	pipe, err := l.Pipe(-1, -1)
	must(p.t, err)
	_, err = pipe.WriteString(strings.Join(lines, "\n") + "\n")
	must(p.t, err)
	must(p.t, pipe.Close())
	l.Drain()
	p.print(id, "the program ended")
}

// print adds lines to the log of a program, as berth's own.
func (p *fakeLogs) print(id app.ID, lines ...string) {
	for _, line := range lines {
		p.of(id, false).Note(line)
	}
}

// lacks fails unless the page holds none of the texts.
func (p page) lacks(t *testing.T, what string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if strings.Contains(p.body, text) {
			t.Errorf("%s: the page says %q", what, text)
		}
	}
}
