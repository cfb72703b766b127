package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
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
	ctx, hurry, stop := signals(ctx)
	defer stop()
	log := slog.New(slog.NewTextHandler(c.stderr, nil))
	d, err := openDaemon(ctx, s, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.close()) }()
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Listen)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w", s.Listen, err)
	}
	return d.serve(ctx, hurry, l)
}

// signals returns a context that the first signal to stop ends, and one that
// the second ends; a third has its ordinary effect. A hang-up counts as the
// first only: a session that ends sends one right behind SIGTERM.
func signals(ctx context.Context) (first, second context.Context, stop func()) {
	first, cancelFirst := context.WithCancel(ctx)
	second, cancelSecond := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 4)
	signal.Notify(ch, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	done := make(chan struct{})
	go func() {
		for {
			select {
			case s := <-ch:
				switch {
				case first.Err() == nil:
					cancelFirst()
				case s != syscall.SIGHUP:
					signal.Reset(syscall.SIGTERM, syscall.SIGINT)
					cancelSecond()
					return
				}
			case <-done:
				return
			}
		}
	}()
	return first, second, func() {
		signal.Stop(ch)
		close(done)
		cancelFirst()
		cancelSecond()
	}
}
