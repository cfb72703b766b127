package main

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
)

// serve is the daemon in the foreground. The first SIGTERM stops it cleanly,
// a second one at once.
func serve(ctx context.Context, c *call) (err error) {
	sig := signals(ctx) // first, for an image that follows another may be sent some already
	defer sig.stop()
	set := c.flags()
	from := addSettingFlags(set)
	if _, err := c.parse(set, 0, 0); err != nil {
		return err
	}
	s, err := from.load(c.getenv)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return &problem{
			exitPermission,
			errors.New("cannot serve: berth must run as root, for it gives every application a user and a control group of its own"),
			"Hint: sudo berth serve",
		}
	}
	b, err := takeBaton()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	next, err := newSuccessor(c.args)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	for _, name := range strangeVariables(os.Environ()) {
		log.Warn("this environment variable is no setting", "name", name, "did you mean", nearest(name, variables()))
	}
	return serveOn(sig, s, log, b, next)
}

// serveOn serves until a signal to stop, through upgrades that come to nothing.
func serveOn(sig *stops, s Settings, log *slog.Logger, b *baton, next *successor) error {
	for {
		d := &daemon{settings: s, log: log, baton: b, next: next, hangups: sig.hangups}
		if err := d.run(sig.first, sig.second); !errors.Is(err, errUpgrade) {
			return err
		}
		b.handed = true
		if err := next.takeOver(sig, b); err != nil {
			log.Error("cannot execute the binary that was to take over, serving as before", "binary", next.path, "error", err)
		}
	}
}

// run opens the daemon, serves and closes it.
func (d *daemon) run(ctx, hurry context.Context) (err error) {
	if err := d.open(d.baton.lasting(ctx)); err != nil {
		return err
	}
	defer func() {
		if failed := d.close(); errors.Is(err, errUpgrade) && failed != nil {
			d.log.Error("cannot close everything for the upgrade", "error", failed) // the next image opens it
		} else {
			err = errors.Join(err, failed)
		}
	}()
	l, err := d.listen(ctx)
	if err != nil {
		return err
	}
	d.baton.only(d.settings.addresses()...)
	return d.serve(ctx, hurry, l)
}

// strangeVariables returns those of the environment that look like a mistyped
// setting. They are no error: programs that start berth have variables of
// their own.
func strangeVariables(environ []string) []string {
	known := variables()
	var strange []string
	for _, v := range environ {
		name, _, _ := strings.Cut(v, "=")
		if strings.HasPrefix(name, "BERTH_") && !slices.Contains(known, name) && nearest(name, known) != "" {
			strange = append(strange, name)
		}
	}
	return strange
}

// variables are the environment variables that berth reads.
func variables() []string {
	all := []string{"BERTH_CONFIG", holderEnv}
	for _, s := range settings {
		all = append(all, s.env())
	}
	return all
}

// network keeps 0.0.0.0 what it says: Go takes it for all addresses, IPv6 too.
func network(listen string) string {
	if addr, err := netip.ParseAddrPort(listen); err == nil && addr.Addr().Is4() {
		return "tcp4"
	}
	return "tcp"
}

// stops are the signals that the daemon listens to.
type stops struct {
	first, second context.Context // end with the first signal to stop, and with the second
	hangups       chan struct{}   // ask for an upgrade
	asked         chan chan struct{}
	stop          func()
}

// signals begins to listen. A third signal to stop has its ordinary effect.
// Hang-ups mean nothing once the daemon stops: a session that ends sends one
// right behind SIGTERM.
func signals(ctx context.Context) *stops {
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
	s.stop = func() {
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
