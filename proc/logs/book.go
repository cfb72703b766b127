package logs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"

	"berth/app"
)

// Book is the logs of all applications: for each a run log and a build
// log, opened when first needed. It is safe for concurrent use.
type Book struct {
	dir     string
	options Options
	log     *slog.Logger

	mu       sync.Mutex
	open     map[logName]*Log
	removing map[app.ID]bool      // a reader that comes meanwhile finds no log
	kept     map[logName]*os.File // FIFOs of an earlier daemon's programs, until their logs are open

	holding holding
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

// NewBook returns the logs below dir, which need not exist yet.
func NewBook(dir string, o Options, log *slog.Logger) *Book {
	return &Book{
		dir: dir, options: o, log: log, open: map[logName]*Log{}, removing: map[app.ID]bool{}, kept: map[logName]*os.File{},
		holding: holding{names: map[logName]int{}},
	}
}

// ErrNone is what readers get of an application that never printed anything,
// or is deleted: reading makes no log.
var ErrNone = errors.New("there is no log")

// of returns a log, opened and made if need be.
func (b *Book) of(id app.ID, build bool) (*Log, error) {
	name := logName{id, build}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.open[name]; l != nil {
		return l, nil
	}
	return b.openLog(name)
}

// Existing returns a log that is there already, or ErrNone.
func (b *Book) Existing(id app.ID, build bool) (*Log, error) {
	name := logName{id, build}
	b.mu.Lock()
	defer b.mu.Unlock()
	if l := b.open[name]; l != nil {
		return l, nil
	}
	_, err := os.Stat(filepath.Join(b.dir, string(id), name.String()+".log"))
	if b.removing[id] || errors.Is(err, os.ErrNotExist) {
		return nil, ErrNone
	}
	return b.openLog(name)
}

// Ran reports whether a program of the application was ever started.
func (b *Book) Ran(id app.ID) bool {
	_, err := os.Lstat(filepath.Join(b.dir, string(id), logName{id, false}.String()+".fifo"))
	return err == nil
}

// openLog opens a log. The caller holds mu.
func (b *Book) openLog(name logName) (*Log, error) {
	o := b.options
	if name.build {
		o.Rate = -1 // bounded by its time and its files; losing an error message would hurt
	}
	l, err := openKept(filepath.Join(b.dir, string(name.id)), name.String(), o, b.kept[name])
	if err != nil { // what is kept is kept for the next try
		return nil, fmt.Errorf("cannot open the application's log: %w", err)
	}
	b.open[name] = l
	b.forget(name)
	if l.strays() {
		b.log.Warn("somebody removed the file that an application prints to; what it prints is read and kept all the same", "app", name.id, "log", name)
	}
	return l, nil
}

// Note adds a line of berth's own to the run log. That it cannot is told to
// the daemon's log: no operation fails for it.
func (b *Book) Note(id app.ID, text string) {
	l, err := b.of(id, false)
	if err != nil {
		b.log.Error("cannot write to the application's log", "app", id, "error", err)
		return
	}
	l.Note(text)
}

// Tail returns the last max bytes.
func (b *Book) Tail(id app.ID, build bool, max int) string {
	l, err := b.Existing(id, build)
	if errors.Is(err, ErrNone) {
		return ""
	}
	if err != nil {
		b.log.Error("cannot read the application's log", "app", id, "error", err)
		return ""
	}
	return l.Tail(max)
}

// Mark returns a function like Tail for what is written from now on.
func (b *Book) Mark(id app.ID) func(max int) string {
	l, err := b.of(id, false)
	if err != nil {
		b.log.Error("cannot read the application's log", "app", id, "error", err)
		return func(int) string { return "" }
	}
	return l.Mark()
}

// Follow follows a log from at most the last back bytes before now on; the lines
// have their stamps.
func (b *Book) Follow(id app.ID, build bool, back int) (app.Follower, error) {
	l, err := b.Existing(id, build)
	if err != nil {
		return nil, err
	}
	return l.Follow(back), nil
}

// FollowBuild follows the build log from now on; the lines have no stamps.
func (b *Book) FollowBuild(id app.ID) (app.Follower, error) {
	l, err := b.Existing(id, true)
	if err != nil {
		return nil, err
	}
	f := l.Follow(0)
	f.bare = true
	return f, nil
}

// BeginBuild empties the build log.
func (b *Book) BeginBuild(id app.ID) error {
	l, err := b.of(id, true)
	if err != nil {
		return err
	}
	return l.Reset()
}

// Remove closes and removes both logs. Nothing may be written to them from
// then on.
func (b *Book) Remove(id app.ID) error {
	return b.without(id, func() error { return os.RemoveAll(filepath.Join(b.dir, string(id))) })
}

// without closes both logs of an application and takes their directory away.
func (b *Book) without(id app.ID, take func() error) error {
	var mine []*Log
	b.mu.Lock()
	b.removing[id] = true
	for _, build := range []bool{false, true} {
		name := logName{id, build}
		if l := b.open[name]; l != nil {
			mine = append(mine, l)
			delete(b.open, name)
		}
		b.forget(name)
	}
	b.mu.Unlock() // closing takes its time, and others want their logs
	var errs []error
	for _, l := range mine {
		errs = append(errs, l.Close())
	}
	errs = append(errs, take())
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.removing, id)
	return errors.Join(errs...)
}

// Sweep removes the logs of the applications that are gone. Those of nobody who is
// known it closes and has lose take away, by their name in the Book's directory.
func (b *Book) Sweep(known, gone map[app.ID]bool, lose func(name string) error) error {
	list, err := os.ReadDir(b.dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range list {
		switch id := app.ID(e.Name()); {
		case known[id]:
		case gone[id], syscall.Rmdir(filepath.Join(b.dir, e.Name())) == nil: // or it was empty
			errs = append(errs, b.Remove(id)) // it may be open for last words
		default:
			errs = append(errs, b.without(id, func() error { return lose(e.Name()) }))
		}
	}
	return errors.Join(errs...)
}

// Open opens everything that is kept of a log; one that there is not is empty.
func (b *Book) Open(id app.ID, build bool) (io.ReadCloser, error) {
	l, err := b.Existing(id, build)
	if errors.Is(err, ErrNone) {
		return io.NopCloser(strings.NewReader("")), nil
	}
	if err != nil {
		return nil, err
	}
	return l.Reader()
}

// Close closes every log.
func (b *Book) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var errs []error
	for name, l := range b.open {
		errs = append(errs, l.Close())
		delete(b.open, name)
	}
	for name := range b.kept {
		b.forget(name)
	}
	return errors.Join(errs...)
}

// keep takes the FIFO that a program of an earlier daemon has, for when its log
// is opened.
func (b *Book) keep(name logName, f *os.File) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forget(name)
	b.kept[name] = f
	if b.open[name] != nil { // it is read
		b.forget(name)
	}
}

// forget closes the FIFO that was kept for a log, if there is one. The caller
// holds mu.
func (b *Book) forget(name logName) {
	if f := b.kept[name]; f != nil {
		_ = f.Close()
		delete(b.kept, name)
	}
}
