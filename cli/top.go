package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"berth/cli/command"
	"berth/cli/screen"
	"berth/client"
)

// top is "berth top".
func (c *caller) top() *cobra.Command {
	cmd := command.New("top [--json]", "show what your applications use while they use it; q ends it, arrows sort it; without a terminal once", 0, 0)
	asJSON := jsonFlag[usageView](cmd)
	return c.remote(cmd, func(ctx context.Context, w *way, _ []string) error {
		v := c.watching(w, "", *asJSON)
		v.once = v.wide == 0 && !*asJSON
		v.by = 3 // RAM
		v.head = func() []string { return []string{v.board.summary(time.Now(), v.wide)} }
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		keys, restore := c.keys(ctx)
		defer restore()
		return v.run(ctx, keys)
	})
}

// watching is a board that is shown where the results go.
func (c *caller) watching(w *way, only string, asJSON bool) *watching {
	v := &watching{c: c, w: w, only: only, live: screen.NewLive(c.Stdout), wide: screen.Width(c.Stdout)}
	if asJSON {
		v.json = screen.NewEncoder(c.Stdout)
	}
	return v
}

// watchStatus is "berth status --watch": of one application, "" for all.
func (c *caller) watchStatus(ctx context.Context, w *way, a client.App, asJSON bool) error {
	return c.watching(w, a.ID, asJSON).run(ctx, nil)
}

// summary is the first line of top.
func (b *board) summary(now time.Time, wide int) string {
	online, cpu, memory, limit := 0, 0.0, int64(0), int64(0)
	for _, r := range b.rows {
		if r.Online {
			online++
			cpu, memory, limit = cpu+r.CPU, memory+r.Memory, limit+r.Limit
		}
	}
	text := fmt.Sprintf("%s  %d of %d online  CPU %.1f%%", clock(now), online, len(b.rows), cpu)
	if wide >= 60 || wide == 0 {
		text += "  RAM " + megabytes(memory) + " of " + megabytes(limit)
	}
	return text
}

// key is what a key of top does: how many columns further it sorts, or keyQuit.
type key int

const keyQuit key = 1 << 10

// keys are those that are typed, while the standard input and output are terminals. restore
// gives the terminal back.
func (c *caller) keys(ctx context.Context) (keys <-chan key, restore func()) {
	in, is := c.Stdin.(*os.File)
	if !is || !term.IsTerminal(int(in.Fd())) || screen.Width(c.Stdout) == 0 {
		return nil, func() {}
	}
	state, err := term.MakeRaw(int(in.Fd()))
	if err != nil { // then Ctrl-C ends it
		return nil, func() {}
	}
	typed := make(chan key)
	go readKeys(ctx, in, typed) // it ends with the process, which waits for no key
	return typed, func() { _ = term.Restore(int(in.Fd()), state) }
}

// readKeys reads q, Ctrl-C and arrows.
func readKeys(ctx context.Context, in io.Reader, typed chan<- key) {
	bytes := bufio.NewReader(in)
	for {
		b, err := bytes.ReadByte()
		if err != nil {
			return
		}
		switch b {
		case 'q', 'Q', 3: // Ctrl-C is a key in a raw terminal
			send(ctx, typed, keyQuit)
		case 'C': // the end of ESC [ C and of ESC O C
			send(ctx, typed, key(1))
		case 'D':
			send(ctx, typed, key(-1))
		}
	}
}
