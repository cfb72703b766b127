//go:build !windows

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// obey lets the terminal obey what is printed, which it does here.
func (t *localTerminal) obey() (undo func(), err error) { return func() {}, nil }

// resized calls do whenever the terminal has another size, until ctx ends.
func (t *localTerminal) resized(ctx context.Context, do func(cols, rows int)) {
	changed := make(chan os.Signal, 1)
	signal.Notify(changed, syscall.SIGWINCH)
	defer signal.Stop(changed)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			if cols, rows := t.size(); cols > 0 {
				do(cols, rows)
			}
		}
	}
}
