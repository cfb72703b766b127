package logs

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"berth/app"
)

// inputPrefix begins the names of descriptors that lead to what programs read.
const inputPrefix = "in-"

// InputName is what the end of a pipe that leads to a run is called by its holder.
func InputName(id app.ID, run int) string { return fmt.Sprintf("%s%s.%d", inputPrefix, id, run) }

// inputOf returns the run that such a name names.
func inputOf(name string) (id app.ID, run int, ok bool) {
	name, ok = strings.CutPrefix(name, inputPrefix)
	text, number, found := strings.Cut(name, ".")
	run, err := strconv.Atoi(number)
	return app.ID(text), run, ok && found && text != "" && err == nil
}

// The errors of Type, each for a person.
var (
	errNoInput = app.Errorf(app.Conflict, "berth has lost the way to the program's input; restart the application")
	errShut    = app.Errorf(app.Conflict, "the program has closed its input, so it reads nothing any more until it is started again")
	errFull    = app.Errorf(app.Unavailable, "the program does not read its input: as many lines as the kernel keeps wait for it already; try again later")
)

// Input makes the pipe that a program reads, and returns the program's end, which the caller
// closes. The other end is held for the next daemon until Ended, so that the program sees no
// end of its input while it runs.
func (b *Book) Input(p app.Program) (*os.File, error) {
	var ends [2]int
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return nil, fmt.Errorf("cannot make the program's input: %w", err)
	}
	its, ours := os.NewFile(uintptr(ends[0]), "input"), os.NewFile(uintptr(ends[1]), "input")
	h, name := &b.holding, InputName(p.App, p.Run)
	h.mu.Lock()
	defer h.mu.Unlock()
	// It is the user's, or the program could not open /dev/stdin, which opens the pipe again.
	err := its.Chown(p.UID, p.UID)
	if err == nil {
		err = h.keepInput(name, ours)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("cannot make the program's input: %w", err), its.Close(), ours.Close())
	}
	if h.holder != nil {
		if _, err := h.holder.Hold(name, ours); err != nil {
			b.log.Warn("the program sees the end of its input when the daemon ends", "app", p.App, "error", err)
		}
	}
	return its, nil
}

// keepInput takes our end of a pipe, which does not block from then on: O_NONBLOCK belongs to the
// description, so the program's end does. The caller holds the lock.
func (h *holding) keepInput(name string, ours *os.File) error {
	conn, err := ours.SyscallConn()
	if err != nil {
		return err
	}
	closed := conn.Control(func(fd uintptr) { err = unix.SetNonblock(int(fd), true) })
	if err = errors.Join(closed, err); err != nil {
		return err
	}
	if before := h.inputs[name]; before != nil {
		_ = before.Close()
	}
	h.inputs[name] = ours
	return nil
}

// dropInput gives our end of a pipe up. The caller holds the lock.
func (h *holding) dropInput(name string) error {
	ours := h.inputs[name]
	if ours == nil {
		return nil
	}
	delete(h.inputs, name)
	err := ours.Close()
	if h.holder != nil {
		err = errors.Join(err, h.holder.Release(name))
	}
	return err
}

// KeepInput gives up the inputs of all runs of an application but one, which goes on.
func (b *Book) KeepInput(id app.ID, run int) {
	h := &b.holding
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.dropInputs(func(of app.ID, other int) bool { return of == id && other != run }); err != nil {
		b.log.Warn("cannot release the application's input", "app", id, "error", err)
	}
}

// dropInputs gives some inputs up. The caller holds the lock.
func (h *holding) dropInputs(some func(id app.ID, run int) bool) (err error) {
	for name := range h.inputs {
		if id, run, _ := inputOf(name); some(id, run) {
			err = errors.Join(err, h.dropInput(name))
		}
	}
	return err
}

// Type sends a line to the program of a run: all of it, or nothing. It does not wait. line MUST have at
// most app.MaxInput bytes and no end of a line. It fails with app.Conflict, or with app.Unavailable while the pipe is
// full.
func (b *Book) Type(id app.ID, run int, line string) error {
	h := &b.holding
	h.mu.Lock()
	ours := h.inputs[InputName(id, run)]
	h.mu.Unlock()
	if ours == nil {
		return errNoInput
	}
	conn, err := ours.SyscallConn()
	if err != nil {
		return err
	}
	closed := conn.Control(func(fd uintptr) { _, err = unix.Write(int(fd), []byte(line+"\n")) })
	switch {
	case closed != nil: // the program has just ended
		return errNoInput
	case errors.Is(err, unix.EPIPE):
		return errShut
	case errors.Is(err, unix.EAGAIN):
		return errFull
	case err != nil:
		return fmt.Errorf("cannot write to the program's input: %w", err)
	}
	return nil
}
