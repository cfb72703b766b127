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
	ctx, hurry, hangups, stop := signals(ctx)
	defer stop()
	next, err := newSuccessor(c.args)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	for _, name := range strangeVariables(os.Environ()) {
		log.Warn("this environment variable is no setting", "name", name, "did you mean", nearest(name, variables()))
	}
	for {
		d := &daemon{settings: s, log: log, baton: b, next: next, hangups: hangups}
		if err := d.run(ctx, hurry); !errors.Is(err, errUpgrade) {
			return err
		}
		b.handed = true
		// Whoever wants it to stop meanwhile wants its programs to: they are taken
		// over here for that.
		if ctx.Err() == nil {
			err := next.execute(b)
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
	l, err := d.baton.listener(ctx, d.settings.Listen)
	if err != nil {
		return err
	}
	d.baton.only(d.settings.Listen)
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
	all := []string{"BERTH_CONFIG"}
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

// signals returns a context that the first signal to stop ends, and one that
// the second ends; a third has its ordinary effect. Hang-ups ask for an upgrade,
// and for nothing once the daemon stops: a session that ends sends one right
// behind SIGTERM.
func signals(ctx context.Context) (first, second context.Context, hangups <-chan struct{}, stop func()) {
	first, cancelFirst := context.WithCancel(ctx)
	second, cancelSecond := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	// A log that nobody reads any more must not end the daemon and leave its
	// programs alone (go doc os/signal, SIGPIPE). Taken, not ignored: what is
	// ignored stays so in the programs.
	pipes := make(chan os.Signal, 1)
	signal.Notify(pipes, syscall.SIGPIPE)
	done, upgrades := make(chan struct{}), make(chan struct{}, 1)
	go func() {
		for {
			select {
			case s := <-ch:
				switch {
				case s == syscall.SIGHUP:
					select {
					case upgrades <- struct{}{}:
					default: // the one that waits will do
					}
				case first.Err() == nil:
					cancelFirst()
				default:
					signal.Reset(syscall.SIGTERM, syscall.SIGINT)
					cancelSecond()
					return
				}
			case <-done:
				return
			}
		}
	}()
	return first, second, upgrades, func() {
		signal.Stop(ch)
		signal.Stop(pipes)
		close(done)
		cancelFirst()
		cancelSecond()
	}
}
