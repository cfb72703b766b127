package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"berth/app"
	"berth/httpapi"
	"berth/logs"
)

// logbook is the logs of all applications: for each a run log and a build
// log, opened when first needed. It is safe for concurrent use.
type logbook struct {
	dir     string
	options logs.Options
	log     *slog.Logger

	mu       sync.Mutex
	open     map[logName]*logs.Log
	removing map[app.ID]bool // a reader that comes meanwhile finds no log

	holding  holding
	accesses *accessLogs
}

// logName names one log.
type logName struct {
	id    app.ID
	build bool
}

func (n logName) String() string {
	if n.build {
		return "build"
	}
	return "run"
}

func newLogbook(dir string, o logs.Options, log *slog.Logger) *logbook {
	return &logbook{
		dir: dir, options: o, log: log, open: map[logName]*logs.Log{}, removing: map[app.ID]bool{},
		holding:  holding{names: map[logName]int{}},
		accesses: newAccessLogs(dir, o.MaxFile, o.Keep, log),
	}
}

// errNoLog is what readers get of an application that never printed anything,
// or is deleted: reading makes no log.
var errNoLog = errors.New("there is no log")

// of returns a log, opened and made if need be.
func (b *logbook) of(id app.ID, build bool) (*logs.Log, error) {
	name := logName{id, build}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.open[name]; l != nil {
		return l, nil
	}
	return b.openLog(name)
}

// existing returns a log that is there already, or errNoLog.
func (b *logbook) existing(id app.ID, build bool) (*logs.Log, error) {
	name := logName{id, build}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.open[name]; l != nil {
		return l, nil
	}
	_, err := os.Stat(filepath.Join(b.dir, string(id), name.String()+".log"))
	if b.removing[id] || errors.Is(err, os.ErrNotExist) {
		return nil, errNoLog
	}
	return b.openLog(name)
}

// openLog opens a log. The caller holds mu.
func (b *logbook) openLog(name logName) (*logs.Log, error) {
	o := b.options
	if name.build {
		o.Rate = -1 // bounded by its time and its files; losing an error message would hurt
	}
	l, err := logs.Open(filepath.Join(b.dir, string(name.id)), name.String(), o)
	if err != nil {
		return nil, fmt.Errorf("cannot open the application's log: %w", err)
	}
	b.open[name] = l
	return l, nil
}

// Note adds a line of berth's own to the run log. That it cannot is told to
// the daemon's log: no operation fails for it.
func (b *logbook) Note(id app.ID, text string) {
	l, err := b.of(id, false)
	if err != nil {
		b.log.Error("cannot write to the application's log", "app", id, "error", err)
		return
	}
	l.Note(text)
}

// Tail returns the last max bytes.
func (b *logbook) Tail(id app.ID, build bool, max int) string {
	l, err := b.existing(id, build)
	if errors.Is(err, errNoLog) {
		return ""
	}
	if err != nil {
		b.log.Error("cannot read the application's log", "app", id, "error", err)
		return ""
	}
	return l.Tail(max)
}

// Mark returns a function like Tail for what is written from now on.
func (b *logbook) Mark(id app.ID) func(max int) string {
	l, err := b.of(id, false)
	if err != nil {
		b.log.Error("cannot read the application's log", "app", id, "error", err)
		return func(int) string { return "" }
	}
	return l.Mark()
}

// follower shows a log as its program printed it.
type follower struct{ *logs.Follower }

// Take implements httpapi.Follower.
func (f follower) Take() string { return logs.Unstamped(f.Follower.Take()) }

// FollowBuild implements httpapi.Builds.
func (b *logbook) FollowBuild(id app.ID) (httpapi.Follower, error) {
	l, err := b.existing(id, true)
	if err != nil {
		return nil, err
	}
	return follower{l.Follow(0)}, nil
}

// BeginBuild empties the build log.
func (b *logbook) BeginBuild(id app.ID) error {
	l, err := b.of(id, true)
	if err != nil {
		return err
	}
	return l.Reset()
}

// Remove closes and removes both logs. Nothing may be written to them from
// then on.
func (b *logbook) Remove(id app.ID) error {
	var mine []*logs.Log
	defer b.accesses.remove(id)()
	b.mu.Lock()
	b.removing[id] = true
	for _, build := range []bool{false, true} {
		name := logName{id, build}
		if l := b.open[name]; l != nil {
			mine = append(mine, l)
			delete(b.open, name)
		}
	}
	b.mu.Unlock() // closing takes its time, and others want their logs
	var errs []error
	for _, l := range mine {
		errs = append(errs, l.Close())
	}
	errs = append(errs, os.RemoveAll(filepath.Join(b.dir, string(id))))
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.removing, id)
	return errors.Join(errs...)
}

// sweep removes the logs of applications that are not known.
func (b *logbook) sweep(known map[app.ID]bool) error {
	list, err := os.ReadDir(b.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range list {
		if !known[app.ID(e.Name())] {
			errs = append(errs, b.Remove(app.ID(e.Name()))) // it may be open for last words
		}
	}
	return errors.Join(errs...)
}

// reader opens the whole run log.
func (b *logbook) reader(id app.ID) (io.ReadCloser, error) { return b.whole(id, false) }

// whole opens everything that is kept of a log; one that there is not is empty.
func (b *logbook) whole(id app.ID, build bool) (io.ReadCloser, error) {
	l, err := b.existing(id, build)
	if errors.Is(err, errNoLog) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, err
	}
	return l.Reader()
}

// close closes every log.
func (b *logbook) close() error {
	b.accesses.close()
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for name, l := range b.open {
		errs = append(errs, l.Close())
		delete(b.open, name)
	}
	return errors.Join(errs...)
}
