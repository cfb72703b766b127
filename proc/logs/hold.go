package logs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"

	"berth/app"
)

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

// holding is what the Book lets be held: the FIFOs of programs that run. It
// is safe for concurrent use.
type holding struct {
	holder Holder // nil where nothing is held

	mu    sync.Mutex
	names map[logName]int // how many programs print to each: two runs have one log
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
	return log || strings.HasPrefix(name, pidPrefix)
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
// those that run on the output stays held, and from now on it is what was held
// that is read, whatever has become of its name. The files are the book's.
func (b *Book) TakeOver(held map[string]*os.File, runs func(app.ID) bool) error {
	var errs []error
	for name, f := range held {
		log, ok := logOf(name)
		switch {
		case ok && !log.build && runs(log.id):
			b.hold(log, f, 0)
			b.keep(log, f)
		case ok:
			b.keep(log, f)
			errs = append(errs, b.lastWords(log), b.holding.holder.Release(name))
		case strings.HasPrefix(name, pidPrefix): // no survivor took it
			errs = append(errs, b.holding.holder.Release(name), f.Close())
		default:
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}

// Fallen takes what a program printed last that ran on when TakeOver returned, and that
// somebody has ended since without adopting it. Its output is held no more.
func (b *Book) Fallen(id app.ID) error {
	h, name := &b.holding, logName{id, false}
	err := b.lastWords(name)
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, held := h.names[name]; held {
		delete(h.names, name)
		err = errors.Join(err, h.holder.Release(name.fdName()))
	}
	return err
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
