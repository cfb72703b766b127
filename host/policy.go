package host

import (
	"errors"
	"fmt"
	"time"

	"berth/app"
)

const (
	// settling is how long an end that nobody asked for may turn out to be the
	// host's: at a reboot, programs and daemon get their SIGTERM in no order.
	settling = 3 * time.Second
	// backoffMax is the longest pause between automatic restarts.
	backoffMax = 5 * time.Minute
)

// backoff returns the pause before the automatic restart with this number,
// from 1: none, then 1 s doubling up to five minutes.
func backoff(attempt int) time.Duration {
	if attempt <= 1 {
		return 0
	}
	if attempt > 10 {
		return backoffMax
	}
	return min(time.Second<<(attempt-2), backoffMax)
}

// restarts reports whether a program that ended by itself is started again:
// after a failure, if its owner wants that. An out-of-memory kill is a
// failure like any other, and so is an end that nobody saw. What ended with its machine
// is started again as what ran when this one stops.
func restarts(a app.App, e app.Exit) bool {
	return e.Disrupted || a.AutoRestart && e.Code != 0
}

// programSockets is how many sockets a program may have at once, beside those
// that a listener accepts.
const programSockets = 2048

// SocketBounds returns how many sockets a program, the programs of an account and
// all programs may have at once on a host that gives so many ports to connections,
// for a socket may take one of them: no account takes more than a sixteenth, or
// what one program may have, and a quarter is left for the host.
func SocketBounds(ports int) (program, account, all int) {
	return programSockets, max(programSockets, ports/16), max(2*programSockets, ports-ports/4)
}

// signalNames are those a program's owner is likely to meet (signal(7)).
var signalNames = map[int]app.Text{
	4: app.Textf(" (illegal instruction)"), 6: app.Textf(" (aborted)"), 8: app.Textf(" (arithmetic error)"), 9: app.Textf(" (killed)"),
	11: app.Textf(" (segmentation fault)"), 15: app.Textf(" (terminated)"),
	25: app.Textf(" (a file grew larger than one may)"),
}

// sigkill is the signal that nothing survives.
const sigkill = 9

// obeys reports whether a program that ended by itself may have been asked to
// by somebody else: it ended well, or by one of the signals that ask.
func obeys(e app.Exit) bool {
	const interrupted, terminated = 130, 143 // 128 + SIGINT, 128 + SIGTERM
	return !e.OOM && (e.Code == 0 || e.Code == interrupted || e.Code == terminated)
}

// sentence says in plain words how a run ended.
func sentence(e app.Exit) app.Text {
	switch {
	case e.OOM:
		return app.Textf("killed: needed more than %d MB of RAM (exit code %d)", e.LimitMB, e.Code)
	case e.HostOOM && !e.Asked:
		return app.Textf("killed: this host ran short of memory; the program's own limit of %d MB was not the reason (exit code %d)", e.LimitMB, e.Code)
	case e.Disrupted:
		return app.Textf("ended with its machine, or was removed from it, not by itself")
	case e.HeapFull != app.NoHeap && e.HeapMB > 0:
		return app.Textf("its %s heap was full, %d of %d MB (exit code %d, after %s)", e.HeapFull, e.HeapMB, e.LimitMB, e.Code, lasted(e.Ran))
	case e.HeapFull != app.NoHeap:
		return app.Textf("its %s heap was full; it had %d MB of RAM (exit code %d, after %s)", e.HeapFull, e.LimitMB, e.Code, lasted(e.Ran))
	case e.Signal != 0:
		return app.Textf("ended by signal %d%s, exit code %d, after %s", e.Signal, signalNames[e.Signal], e.Code, lasted(e.Ran))
	case e.Code == app.UnknownCode:
		return app.Textf("ended while berth was not running, so its exit code is unknown")
	case e.Code != 0:
		return app.Textf("exited with code %d after %s", e.Code, lasted(e.Ran))
	}
	return app.Textf("ended by itself (exit code 0) after %s", lasted(e.Ran))
}

// stopped says how a run ended that was asked to.
func stopped(e app.Exit, grace time.Duration) string {
	if e.Signal == sigkill && e.Ran >= grace {
		return fmt.Sprintf("stopped: it did not end within %s and was killed", lasted(grace))
	}
	return "stopped"
}

// warning says in plain words that a program needs nearly all of its RAM.
func warning(w app.MemoryWarning) app.Text {
	const mb = 1 << 20
	soon, signal := app.Text{}, app.Text{}
	if w.FullIn > 0 {
		soon = app.Textf("; if it grows on as it does now, it has all of it in %s and is killed", lasted(roughly(w.FullIn)))
	}
	switch {
	case w.Sent:
		signal = app.Textf("; it got %s", w.Signal)
	case w.Signal != "":
		signal = app.Textf("; it did not get %s, which it does not handle", w.Signal)
	}
	return app.Textf("RAM %d %% full: the program needs %d of %d MB%s%s", w.Level, (w.HeldBytes+mb-1)/mb, w.LimitBytes/mb, soon, signal)
}

// roughly is a duration as exactly as a growth tells it.
func roughly(d time.Duration) time.Duration {
	switch {
	case d >= 2*time.Hour:
		return d.Round(10 * time.Minute)
	case d >= 2*time.Minute:
		return d.Round(time.Minute)
	case d >= 20*time.Second:
		return d.Round(10 * time.Second)
	}
	return d.Round(time.Second)
}

// lasted is a duration for people.
func lasted(d time.Duration) string {
	if d < time.Minute {
		return d.Round(100 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// Words says in a sentence what happened; grace is what a program had to end in
// when it was asked to.
func Words(p app.HistoryEvent, grace time.Duration) string {
	e := p.Exit
	switch {
	case p.Memory != nil:
		return warning(*p.Memory).String()
	case p.Text != "" || e == nil:
		return p.Text
	case e.Asked && !e.OOM:
		return stopped(*e, grace)
	}
	return sentence(*e).String()
}

// forUser is what an application's owner may read of an error: causes name
// paths of the host.
func forUser(err error) string {
	if e, ok := errors.AsType[*app.Error](err); ok {
		return e.Message.String()
	}
	return "internal error; the server's log tells more"
}

// withLogs adds what the build or the program printed to an error for the
// user.
func withLogs(err error, logs string) error {
	e, ok := errors.AsType[*app.Error](err)
	if !ok || e.Logs != "" {
		return err
	}
	with := *e
	with.Logs = logs
	return &with
}

// mixed is the error of a tree that is half of one code and half of another.
func mixed() error {
	return app.Errorf(app.Unusable, "a commit failed and the code from before it could not be brought back; commit the whole code again")
}

// ConfigOf is what a stored deployment would have written in its config.
func ConfigOf(a app.App) app.Config {
	c := a.Code
	cfg := app.Config{
		Type: a.Type, RAM: a.RAM, Main: c.Main, Version: c.Version, Start: c.Start, Build: c.Build, Health: c.Health,
		MemorySignal: c.MemorySignal, Stdin: c.Stdin,
	}
	for key, value := range map[string]string{
		"MAIN": c.Main, "VERSION": c.Version, "START": c.Start, "BUILD": c.Build, "HEALTH": c.Health, "MEMORY_SIGNAL": c.MemorySignal,
	} {
		if value != "" {
			cfg.Keys = append(cfg.Keys, key)
		}
	}
	if c.Stdin {
		cfg.Keys = append(cfg.Keys, "STDIN")
	}
	return cfg
}
