package main

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"

	"berth/app"
	"berth/keeper"
	"berth/logs"
	"berth/systemd"
)

// holder keeps descriptors by name while no daemon lives: package keeper, or
// the service manager.
type holder interface {
	// Hold reports whether the holder is a new one, which has nothing else.
	Hold(name string, f *os.File) (started bool, err error)
	Release(name string) error
	// Held is what the daemon before had held. The caller closes the files.
	Held() (map[string]*os.File, error)
	Close() error
}

// manager is systemd as a holder.
type manager struct{ handed map[string]*os.File }

// Hold implements holder.
func (manager) Hold(name string, f *os.File) (bool, error) { return false, systemd.Hold(name, f) }

// Release implements holder.
func (manager) Release(name string) error { return systemd.Release(name) }

// Held implements holder.
func (m *manager) Held() (map[string]*os.File, error) {
	handed := m.handed
	m.handed = nil
	return handed, nil
}

// Close implements holder.
func (m *manager) Close() error {
	var errs []error
	for _, f := range m.handed {
		errs = append(errs, f.Close())
	}
	m.handed = nil
	return errors.Join(errs...)
}

// openHolder is systemd where it keeps descriptors, else the keeper of the data
// directory. Other descriptors that systemd handed over are closed.
func openHolder(dir string, log *slog.Logger) (holder, error) {
	handed, err := systemd.Handed()
	if err != nil {
		log.Warn("cannot take what systemd kept", "error", err)
	}
	mine := map[string]*os.File{}
	for name, files := range handed {
		for i, f := range files {
			if _, ok := logOf(name); ok && i == 0 && systemd.Keeps() {
				mine[name] = f
				continue
			}
			_ = f.Close()
		}
	}
	if systemd.Keeps() {
		return &manager{mine}, nil
	}
	return keeper.Open(dir, "/proc/self/exe")
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

// holding is what the logbook lets be held: the FIFOs of programs that run. It
// is safe for concurrent use.
type holding struct {
	holder holder // nil where nothing is held

	mu    sync.Mutex
	names map[logName]bool
}

// pipe returns a log and the file that a program is to print to, which the
// caller closes. Until ended, it is held for the next daemon.
func (b *logbook) pipe(id app.ID, build bool, uid int) (*logs.Log, *os.File, error) {
	out, err := b.of(id, build)
	if err != nil {
		return nil, nil, err
	}
	f, err := out.Pipe(uid, uid)
	if err != nil {
		return nil, nil, err
	}
	b.hold(logName{id, build}, f)
	return out, f, nil
}

// hold lets a FIFO be held. That it cannot is no reason not to run the program.
func (b *logbook) hold(name logName, f *os.File) {
	h := &b.holding
	if h.holder == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	started, err := h.holder.Hold(name.fdName(), f)
	if err != nil {
		b.log.Warn("what the program prints last is lost if it ends while berth is down", "app", name.id, "error", err)
		return
	}
	if started {
		for other := range h.names {
			if err := b.holdAgain(other); err != nil {
				b.log.Warn("what the program prints last is lost if it ends while berth is down", "app", other.id, "error", err)
			}
		}
	}
	h.names[name] = true
}

// holdAgain gives a FIFO to a holder that replaces one which died. The caller
// holds the lock.
func (b *logbook) holdAgain(name logName) error {
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

// ended says that the program of a log and all its children are dead, and what
// they printed is in it.
func (b *logbook) ended(id app.ID, build bool) {
	h, name := &b.holding, logName{id, build}
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.names[name] {
		return
	}
	delete(h.names, name)
	if err := h.holder.Release(name.fdName()); err != nil {
		b.log.Warn("cannot release the application's output", "app", id, "error", err)
	}
}

// takeOver opens the logs whose programs had a daemon before this one, and takes
// what they printed meanwhile. The programs MUST be dead.
func (b *logbook) takeOver() error {
	h := b.holding.holder
	if h == nil {
		return nil
	}
	held, err := h.Held()
	if err != nil {
		return fmt.Errorf("cannot take over what programs printed while berth was down: %w", err)
	}
	var errs []error
	for name, f := range held {
		if log, ok := logOf(name); ok {
			errs = append(errs, b.lastWords(log), h.Release(name))
		}
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

// lastWords drains the log of a dead program, if the log is still there.
func (b *logbook) lastWords(name logName) error {
	l, err := b.existing(name.id, name.build)
	if errors.Is(err, errNoLog) {
		return nil
	}
	if err != nil {
		return err
	}
	l.Drain()
	return nil
}
