package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"berth/app"
	"berth/daemon/settings"
	"berth/proc"
	"berth/systemd"
	"berth/systemd/fdstore"
)

// Options are what a daemon is started with.
type Options struct {
	Settings settings.Settings
	Args     []string // of serve, for the binary that takes over
	Log      *slog.Logger
	Examine  func(context.Context, settings.Settings) []app.Finding // the examination of the host, for the panel
}

// Serve is the daemon. It returns when everything of berth has ended, or, after
// a stop that lets programs run on, everything but those.
func Serve(sig *stops, o Options) (err error) {
	fdstore.DropPages()                    // of the command line
	if err := proc.Protect(); err != nil { // before anything is started that inherits it
		o.Log.Warn("without memory the kernel may end berth before its programs", "error", err)
	}
	h, err := receiveHandover()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.close()) }()
	next, err := newNextBinary(o.Args)
	if err != nil {
		return err
	}
	// By now the variable is gone that an image before this one handed on.
	for _, v := range settings.StrangeVariables(os.Environ(), systemd.HolderEnv, systemd.UnitEnv) {
		o.Log.Warn("this environment variable is no setting", "name", v.Name, "did you mean", v.Meant)
	}
	return serveOn(sig, o, h, next)
}

// serveOn serves until a signal to stop, through upgrades that come to nothing.
func serveOn(sig *stops, o Options, h *handover, next *nextBinary) error {
	for {
		d := &daemon{settings: o.Settings, args: o.Args, log: o.Log, examine: o.Examine, handover: h}
		if err := d.run(sig, next); !errors.Is(err, errUpgrade) {
			return err
		}
		h.handed = true
		if err := next.execute(sig, h); err != nil {
			o.Log.Error("cannot execute the binary that was to take over, serving as before", "binary", next.path, "error", err)
		}
	}
}

// stops are the signals that the daemon listens to.
type stops struct {
	first, second context.Context // end with the first signal to stop, and with the second
	hangups       chan struct{}   // ask for an upgrade
	asked         chan chan struct{}
	Stop          func()
}

// NewSignals begins to listen. A third signal to stop has its ordinary effect.
// Hang-ups mean nothing once the daemon stops: a session that ends sends one
// right behind SIGTERM.
func NewSignals(ctx context.Context) *stops {
	first, cancelFirst := context.WithCancel(ctx)
	second, cancelSecond := context.WithCancel(context.Background())
	s := &stops{first: first, second: second, hangups: make(chan struct{}, 1), asked: make(chan chan struct{})}
	ch := make(chan os.Signal, 4)
	s.listen(ch)
	// A log that nobody reads any more must not end the daemon and leave its
	// programs alone (go doc os/signal, SIGPIPE). Taken, not ignored: what is
	// ignored stays so in the programs.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	take := func(sig os.Signal) {
		switch {
		case sig == syscall.SIGHUP:
			select {
			case s.hangups <- struct{}{}:
			default: // the one that waits will do
			}
		case first.Err() == nil:
			cancelFirst()
		default:
			signal.Reset(syscall.SIGTERM, syscall.SIGINT)
			cancelSecond()
		}
	}
	done := make(chan struct{})
	go func() {
		for {
			select {
			case sig := <-ch:
				take(sig)
			case again := <-s.asked:
				signal.Stop(ch) // it has all by now
				for len(ch) > 0 {
					take(<-ch)
				}
				s.asked <- nil
				<-again
				s.listen(ch)
				s.asked <- nil
			case <-done:
				return
			}
		}
	}()
	s.Stop = func() {
		signal.Stop(ch)
		signal.Stop(pipes)
		close(done)
		cancelFirst()
		cancelSecond()
	}
	return s
}

func (s *stops) listen(ch chan os.Signal) {
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
}

// pause gives signals their ordinary effect, but ignores hang-ups, until resume.
// One that came before is told of when it returns; none is lost.
func (s *stops) pause() (resume func()) {
	again := make(chan struct{})
	s.asked <- again
	<-s.asked
	signal.Ignore(syscall.SIGHUP) // execve keeps that
	return func() {
		close(again)
		<-s.asked // else one that comes right now would have its ordinary effect
	}
}
