package logs

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
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
		holding: holding{names: map[logName]int{}, inputs: map[string]*os.File{}},
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

// Output returns a log for who takes lines into it that were printed elsewhere (Log.Take); it
// is opened and made if need be.
func (b *Book) Output(id app.ID, build bool) (*Log, error) { return b.of(id, build) }

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

// Ran reports whether a program of the application was ever started: here, or elsewhere
// with a Log.Take that made it known. The notes that a log has may be of before.
func (b *Book) Ran(id app.ID) bool {
	base := filepath.Join(b.dir, string(id), logName{id, false}.String())
	_, here := os.Lstat(base + ".fifo")
	_, elsewhere := os.Lstat(base + traceSuffix)
	return here == nil || elsewhere == nil
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

// Cursor reads a log from a place on; the lines have their stamps.
func (b *Book) Cursor(id app.ID, build bool, from app.LineStart) (app.LogCursor, error) {
	l, err := b.Existing(id, build)
	if err != nil {
		return nil, err
	}
	c, err := l.Cursor(from)
	if err != nil {
		return nil, err
	}
	return c, nil
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
	return b.closeAnd(id, func() error { return os.RemoveAll(filepath.Join(b.dir, string(id))) })
}

// closeAnd closes both logs of an application and has their directory removed.
func (b *Book) closeAnd(id app.ID, remove func() error) error {
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
	errs = append(errs, remove())
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
			errs = append(errs, b.closeAnd(id, func() error { return lose(e.Name()) }))
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
	b.holding.mu.Lock()
	defer b.holding.mu.Unlock()
	for name, ours := range b.holding.inputs { // they stay held
		errs = append(errs, ours.Close())
		delete(b.holding.inputs, name)
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

// Holder keeps descriptors by name while no daemon lives: systemd/fdstore, or
// the service manager.
type Holder interface {
	// Hold reports whether the holder is a new one, which has nothing else.
	Hold(name string, f *os.File) (started bool, err error)
	Release(name string) error
	// Held is what the daemon before had held. The caller closes the files.
	Held() (map[string]*os.File, error)
	Close() error
}

// fdPrefix begins the names of descriptors that are FIFOs of logs.
const fdPrefix = "log-"

// fdName is what the FIFO of a log is called by its holder.
func (n logName) fdName() string { return fdPrefix + n.String() + "-" + string(n.id) }

// logOf returns the log whose FIFO has the name.
func logOf(name string) (logName, bool) {
	name, ok := strings.CutPrefix(name, fdPrefix)
	kind, id, found := strings.Cut(name, "-")
	n := logName{app.ID(id), kind == "build"}
	return n, ok && found && id != "" && kind == n.String()
}

// HeldName is what the FIFO of an application's programs is called by its holder.
func HeldName(id app.ID) string { return logName{id, false}.fdName() }

// holding is what the Book lets be held: the FIFOs of programs that run, and where lines for
// them go. It is safe for concurrent use.
type holding struct {
	holder Holder // nil where nothing is held

	mu     sync.Mutex
	names  map[logName]int     // how many programs print to each: two runs have one log
	inputs map[string]*os.File // our ends, by what the holder calls them
}

// HoldWith names the holder. It is called before programs are started.
func (b *Book) HoldWith(h Holder) { b.holding.holder = h }

// Pipe returns a log and the file that a program is to print to, which the
// caller closes. Until ended, it is held for the next daemon.
func (b *Book) Pipe(id app.ID, build bool, uid int) (*Log, *os.File, error) {
	out, err := b.of(id, build)
	if err != nil {
		return nil, nil, err
	}
	f, err := out.Pipe(uid, uid)
	if err != nil {
		return nil, nil, err
	}
	b.hold(logName{id, build}, f, 1)
	return out, f, nil
}

// hold lets a FIFO be held, for so many programs more. That it cannot is no
// reason not to run the program.
func (b *Book) hold(name logName, f *os.File, users int) {
	h := &b.holding
	if h.holder == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	started, err := h.holder.Hold(name.fdName(), f)
	if err != nil {
		b.log.Warn("what the program prints last is lost if it ends while berth is down", "app", name.id, "error", err)
		if h.names[name] > 0 { // for another run it is held
			h.names[name] += users
		}
		return
	}
	if started {
		for other := range h.names {
			if err := b.holdAgain(other); err != nil {
				b.log.Warn("what the program prints last is lost if it ends while berth is down", "app", other.id, "error", err)
			}
		}
		for other, ours := range h.inputs {
			if _, err := h.holder.Hold(other, ours); err != nil {
				b.log.Warn("a program sees the end of its input when the daemon ends", "input", other, "error", err)
			}
		}
	}
	h.names[name] += users
}

// holdAgain gives a FIFO to a holder that replaces one which died. The caller
// holds the lock.
func (b *Book) holdAgain(name logName) error {
	l, err := b.of(name.id, name.build)
	if err != nil {
		return err
	}
	f, err := l.Pipe(-1, -1)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = b.holding.holder.Hold(name.fdName(), f)
	return err
}

// Ended says that a program of a log and all its children are dead, and what
// they printed is in it. The FIFO is held while another run prints to it.
func (b *Book) Ended(p app.Program) {
	h, name := &b.holding, logName{p.App, p.Build}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !p.Build {
		if err := h.dropInput(InputName(p.App, p.Run)); err != nil {
			b.log.Warn("cannot release the application's input", "app", p.App, "error", err)
		}
	}
	users, held := h.names[name]
	if !held {
		return
	}
	var err error
	if h.names[name]--; users <= 1 {
		delete(h.names, name)
		err = h.holder.Release(name.fdName())
	}
	if !p.Build {
		err = errors.Join(err, h.holder.Release(pidName(p.App, p.Run)))
	}
	if err != nil {
		b.log.Warn("cannot release the application's output", "app", p.App, "error", err)
	}
}

// pidPrefix begins the names of descriptors that are the first processes of
// programs: they tell a later daemon how a program has ended.
const pidPrefix = "pid-"

// pidName is what the first process of a run is called by its holder.
func pidName(id app.ID, run int) string { return fmt.Sprintf("%s%s.%d", pidPrefix, id, run) }

// ProcessOf returns the run whose first process has the name. That of an older berth
// tells no run, which is 0.
func ProcessOf(name string) (id app.ID, run int, ok bool) {
	name, ok = strings.CutPrefix(name, pidPrefix)
	text, number, _ := strings.Cut(name, ".")
	run, _ = strconv.Atoi(number)
	return app.ID(text), run, ok
}

// IsHeld tells whether a descriptor is one that berth lets be held.
func IsHeld(name string) bool {
	_, log := logOf(name)
	_, _, input := inputOf(name)
	return log || input || strings.HasPrefix(name, pidPrefix)
}

// HoldProcess lets the process of a program be held until ended. That it cannot
// is no reason not to run the program.
func (b *Book) HoldProcess(id app.ID, run int, process *os.File) {
	h := &b.holding
	if h.holder == nil || process == nil {
		return
	}
	if _, err := h.holder.Hold(pidName(id, run), process); err != nil {
		b.log.Warn("how the program ends is not known if it does so while berth is down", "app", id, "error", err)
	}
}

// TakeOver takes what programs printed while no daemon lived into their logs. Of
// those that run on the output and the input stay held, and from now on it is what was held
// that is read, whatever has become of its name. The files are the book's.
func (b *Book) TakeOver(held map[string]*os.File, runs func(app.ID) bool) error {
	var errs []error
	for name, f := range held {
		log, ok := logOf(name)
		id, _, input := inputOf(name)
		switch {
		case input && runs(id):
			b.holding.mu.Lock()
			errs = append(errs, b.holding.keepInput(name, f))
			_, err := b.holding.holder.Hold(name, f) // also to give it on when the daemon is stopped
			errs = append(errs, err)
			b.holding.mu.Unlock()
		case ok && !log.build && runs(log.id):
			b.hold(log, f, 0)
			b.keep(log, f)
		case ok:
			b.keep(log, f)
			errs = append(errs, b.lastWords(log), b.holding.holder.Release(name))
		case input, strings.HasPrefix(name, pidPrefix): // no survivor took it
			errs = append(errs, b.holding.holder.Release(name), f.Close())
		default:
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Fallen takes what a program printed last that ran on when TakeOver returned, and that
// somebody has ended since without adopting it. Its output, its input and its process are held no more.
func (b *Book) Fallen(id app.ID, run int) error {
	h, name := &b.holding, logName{id, false}
	err := b.lastWords(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, held := h.names[name]; held {
		delete(h.names, name)
		err = errors.Join(err, h.holder.Release(name.fdName()), h.holder.Release(pidName(id, run)))
	}
	return errors.Join(err, h.dropInputs(func(of app.ID, _ int) bool { return of == id }))
}

// lastWords drains the log of a dead program, if the log is still there.
func (b *Book) lastWords(name logName) error {
	l, err := b.Existing(name.id, name.build)
	if errors.Is(err, ErrNone) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.forget(name)
		return nil
	}
	if err != nil {
		return err
	}
	l.Drain()
	return nil
}
