package cli

import (
	"context"
	"time"

	"golang.org/x/sys/windows"
)

// obey lets the console obey what is printed.
func (t *localTerminal) obey() (undo func(), err error) {
	console := windows.Handle(t.out.Fd())
	var before uint32
	if err := windows.GetConsoleMode(console, &before); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(console, before|windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING); err != nil {
		return nil, err
	}
	return func() { _ = windows.SetConsoleMode(console, before) }, nil
}

// sizePace is how often resized looks: a console tells nobody.
const sizePace = 500 * time.Millisecond

// resized calls do whenever the console has another size, until ctx ends.
func (t *localTerminal) resized(ctx context.Context, do func(cols, rows int)) {
	ticker := time.NewTicker(sizePace)
	defer ticker.Stop()
	cols, rows := t.size()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if c, r := t.size(); c > 0 && (c != cols || r != rows) {
			cols, rows = c, r
			do(cols, rows)
		}
	}
}
