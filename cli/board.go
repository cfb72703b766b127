package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/cli/screen"
	"berth/client"
)

// boardTypes are the events that a board is made of.
const boardTypes = "state,exit,deploy,metric"

// usageView is an application on a board, as status --watch and top print it with --json,
// one object for each change.
type usageView struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`    // its owner's words
	At      time.Time `json:"at"`      // of the change
	State   string    `json:"state"`   // such as online, or building while it is deployed
	Online  bool      `json:"online"`  // its program runs
	CPU     float64   `json:"cpu"`     // percent of one processor
	Memory  int64     `json:"memory"`  // bytes of RAM
	Limit   int64     `json:"limit"`   // bytes of RAM that it may use
	NetIn   int64     `json:"netIn"`   // bytes since the start
	NetOut  int64     `json:"netOut"`  // bytes since the start
	Attempt int       `json:"attempt"` // restarts by berth in a row
	Last    string    `json:"last"`    // what happened last, in words; "" if nothing is known
}

// boardRow is an application on a board.
type boardRow struct {
	usageView

	in, out  float64 // bytes a second
	measured time.Time
}

// board is what applications do and use, from events.
type board struct {
	rows map[string]*boardRow
}

// load takes what the lists say: at the beginning, and when events are missing. only is
// the application that is meant, "" for all. It returns those whose state is another.
func (b *board) load(apps []client.App, only string, now time.Time) (changed []*boardRow) {
	old := b.rows
	b.rows = map[string]*boardRow{}
	for _, a := range apps {
		if only != "" && a.ID != only {
			continue
		}
		r := old[a.ID]
		if r == nil {
			r = &boardRow{usageView: usageView{ID: a.ID}}
		}
		before := r.usageView
		r.Name, r.Limit = a.Name, a.RAM<<20
		r.State, r.Online = "online", a.Online
		if !a.Online {
			r.State = "offline"
			r.idle()
			if a.RAMKilled || a.ExitCode != 0 {
				r.Last = stateOf(a)
			}
		}
		if r.State != before.State || r.Name != before.Name {
			r.At = now
			changed = append(changed, r)
		}
		b.rows[a.ID] = r
	}
	return changed
}

// idle forgets what a program used.
func (r *boardRow) idle() {
	r.CPU, r.Memory, r.NetIn, r.NetOut, r.in, r.out, r.measured = 0, 0, 0, 0, 0, 0, time.Time{}
}

// take notes an event, and returns the row that it changed: nil for one that is not on the
// board.
func (b *board) take(name string, h happening) *boardRow {
	r := b.rows[h.ID]
	if r == nil && name == "app.state" {
		r = &boardRow{usageView: usageView{ID: h.ID}}
		b.rows[h.ID] = r
	}
	if r == nil {
		return nil
	}
	before := r.usageView
	switch name {
	case "app.state":
		r.State, r.Online, r.Name, r.Attempt = h.State, h.Online, h.Name, h.Attempt
		if r.Limit = h.RAM << 20; !h.Online {
			r.idle()
		}
		if h.RetryAt != "" {
			r.Last = h.text
		}
	case "app.exit":
		r.Last = h.text
	case "app.deploy":
		if r.Last = h.text; h.Phase == "queued" || h.Phase == "building" {
			r.State = h.Phase
		}
	case "app.metrics":
		if past := h.At.Sub(r.measured).Seconds(); !r.measured.IsZero() && past > 0 && h.NetIn >= r.NetIn && h.NetOut >= r.NetOut {
			r.in, r.out = float64(h.NetIn-r.NetIn)/past, float64(h.NetOut-r.NetOut)/past
		}
		r.CPU, r.Memory, r.Limit, r.NetIn, r.NetOut, r.measured = h.CPU, h.Memory, h.Limit, h.NetIn, h.NetOut, h.At
	case "app.removed":
		r.State, r.Last, r.Online = "deleted", h.text, false
		delete(b.rows, h.ID)
	}
	if r.usageView == before { // the lists said so already
		return nil
	}
	r.At = h.At
	return r
}

// boardColumn is a column of a board: its title, its width, and what a row has there.
type boardColumn struct {
	title string
	wide  int
	right bool
	cell  func(r *boardRow) string
	by    func(a, b *boardRow) int // in which order
}

// columns are those of a board that fits into a width.
func columns(width int) []boardColumn {
	descending := func(of func(r *boardRow) float64) func(a, b *boardRow) int {
		return func(a, b *boardRow) int { return cmp.Compare(of(b), of(a)) }
	}
	ascending := func(of func(r *boardRow) string) func(a, b *boardRow) int {
		return func(a, b *boardRow) int { return cmp.Compare(of(a), of(b)) }
	}
	idOf, stateOf := func(r *boardRow) string { return screen.Word(r.ID) }, func(r *boardRow) string { return screen.Word(r.State) }
	id := boardColumn{"ID", 16, false, idOf, ascending(func(r *boardRow) string { return r.ID })}
	state := boardColumn{"STATE", 9, false, stateOf, ascending(stateOf)}
	cpu := boardColumn{
		"CPU", 6, true, func(r *boardRow) string { return whenOnline(r, fmt.Sprintf("%.1f%%", r.CPU)) },
		descending(func(r *boardRow) float64 { return r.CPU }),
	}
	ram := boardColumn{
		"RAM", 5, true, func(r *boardRow) string { return whenOnline(r, megabytes(r.Memory)) },
		descending(func(r *boardRow) float64 { return float64(r.Memory) }),
	}
	if width < 60 {
		id.wide = 12
		return []boardColumn{id, state, cpu, ram}
	}
	ram.wide, ram.cell = 13, func(r *boardRow) string { return whenOnline(r, megabytes(r.Memory)+" of "+megabytes(r.Limit)) }
	return []boardColumn{
		id, state, cpu, ram,
		{"IN/s", 7, true, func(r *boardRow) string { return whenOnline(r, amount(r.in)) }, descending(func(r *boardRow) float64 { return r.in })},
		{"OUT/s", 7, true, func(r *boardRow) string { return whenOnline(r, amount(r.out)) }, descending(func(r *boardRow) float64 { return r.out })},
		{
			"RESTARTS", 8, true, func(r *boardRow) string { return fmt.Sprint(r.Attempt) },
			descending(func(r *boardRow) float64 { return float64(r.Attempt) }),
		},
	}
}

func whenOnline(r *boardRow, text string) string {
	if !r.Online {
		return "-"
	}
	return text
}

// megabytes is RAM as berth counts it.
func megabytes(n int64) string { return fmt.Sprintf("%dM", (n+1<<19)>>20) }

// amount is a number of bytes in few columns.
func amount(n float64) string {
	for _, unit := range []string{"B", "K", "M"} {
		if n < 999.5 {
			return fmt.Sprintf("%.0f%s", n, unit)
		}
		n /= 1024
	}
	return fmt.Sprintf("%.1fG", n)
}

// lines draws the board for a width, in the order of the column with the number by.
func (b *board) lines(width, by int, colour bool) []string {
	all := columns(width)
	by = min(by, len(all)-1)
	rows := make([]*boardRow, 0, len(b.rows))
	for _, r := range b.rows {
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b *boardRow) int { return cmp.Or(all[by].by(a, b), cmp.Compare(a.ID, b.ID)) })
	line := func(cell func(i int, col boardColumn) string) string {
		cells := make([]string, len(all))
		for i, col := range all {
			cells[i] = screen.Pad(cell(i, col), col.wide, col.right)
		}
		return strings.TrimRight(strings.Join(cells, " "), " ")
	}
	head := line(func(i int, col boardColumn) string {
		if i == by && len(rows) > 1 {
			return col.title + "*"
		}
		return col.title
	})
	list := []string{dim(head, colour)}
	for _, r := range rows {
		text := line(func(_ int, col boardColumn) string { return col.cell(r) })
		if colour && !r.Online {
			text = "\x1b[2m" + text + "\x1b[0m"
		}
		list = append(list, text)
	}
	return list
}

// watching is a board under way.
type watching struct {
	c    *caller
	w    *way
	only string // the application, "" for all
	json *json.Encoder
	live *screen.Live
	wide int // columns of the terminal; 0 for none

	board board
	by    int // column
	once  bool
	head  func() []string   // above the table
	last  map[string]string // line of each application, where there is no terminal
	again <-chan time.Time  // when to read the lists anew, which could not be read
}

// reload reads the lists anew. If the server goes away meanwhile, a board that was there is kept, and read later.
func (v *watching) reload(ctx context.Context) error {
	apps, err := v.w.Apps(ctx)
	if err != nil && v.board.rows != nil && client.Transient(err) {
		v.again = time.After(figuresCome)
		return ctx.Err()
	}
	if err != nil {
		return err
	}
	v.again = nil
	for _, r := range v.board.load(apps, v.only, time.Now()) {
		if err := v.changed(r, "app.state"); err != nil {
			return err
		}
	}
	return nil
}

// changed shows that a row is another. Where there is no terminal, figures are not shown:
// each change of state is a line.
func (v *watching) changed(r *boardRow, name string) error {
	switch {
	case v.json != nil:
		return v.json.Encode(r.usageView)
	case v.wide > 0 || v.once || name == "app.metrics":
		return nil
	}
	text := r.State
	switch {
	case name != "app.state" || strings.HasPrefix(r.Last, r.State+":"):
		text = r.Last
	case r.State == "offline" && r.Last != "":
		text += ", " + r.Last
	}
	if v.last[r.ID] == text { // something else has changed, such as its RAM
		return nil
	}
	if v.last == nil {
		v.last = map[string]string{}
	}
	v.last[r.ID] = text
	_, err := fmt.Fprintf(v.c.Stdout, "%s %s %s\n", r.At.UTC().Format(time.RFC3339), screen.Word(r.ID), screen.Escape(text, false))
	return err
}

// draw shows the board on the terminal.
func (v *watching) draw() error {
	if v.json != nil || v.wide == 0 && !v.once {
		return nil
	}
	width := cmp.Or(screen.Width(v.c.Stdout), 80)
	lines := v.board.lines(width, v.by, screen.Colour(v.c.Stdout, v.c.Getenv))
	if v.head != nil {
		lines = append(v.head(), lines...)
	}
	if v.only != "" && v.board.rows[v.only] != nil && v.board.rows[v.only].Last != "" {
		lines = append(lines, screen.Escape(v.board.rows[v.only].Last, false))
	}
	return v.live.Draw(lines...)
}

// note says what the connection does.
func (v *watching) note(text string) {
	if v.wide > 0 && screen.Width(v.c.Stderr) > 0 {
		_ = v.live.Above("berth: " + screen.Escape(text, false) + "\n")
		return
	}
	v.c.noteTo(text)
}

// run shows the board until the context ends, a key ends it, or, once, when it has figures.
func (v *watching) run(ctx context.Context, keys <-chan key) error {
	defer v.live.Done()
	ctx, cancel := context.WithCancel(ctx)
	events, notes, ended := make(chan client.Event), make(chan string), make(chan error, 1)
	var work sync.WaitGroup
	defer work.Wait()
	defer cancel()
	work.Go(func() {
		ended <- v.c.follow(ctx, v.w, following{
			path: func() string { return eventsPath(v.only, boardTypes) },
			last: "0", // which no server knows: the first event is reset, and nothing is missed behind it
			note: func(text string) { send(ctx, notes, text) },
			each: func(e client.Event) error { send(ctx, events, e); return ctx.Err() },
		})
	})
	pace := time.NewTicker(boardPace)
	defer pace.Stop()
	soon := time.After(figuresCome)
	for dirty := false; ; {
		var err error
		select {
		case err = <-ended:
			return err
		case e := <-events:
			dirty = true
			if err = v.take(ctx, e); err == errEnough { //nolint:errorlint // take's own
				return nil
			}
		case text := <-notes:
			v.note(text)
		case k := <-keys:
			dirty = true
			if k == keyQuit {
				return nil
			}
			v.by = min(max(v.by+int(k), 0), len(columns(cmp.Or(v.wide, 80)))-1)
		case <-v.again:
			dirty, err = true, v.reload(ctx)
		case <-soon:
			if v.once {
				return v.draw()
			}
		case <-pace.C:
			if dirty && !v.once {
				dirty = false
				err = v.draw()
			}
		}
		if err != nil {
			return err
		}
	}
}

const (
	// boardPace is the least time between two drawings.
	boardPace = 250 * time.Millisecond
	// figuresCome is when all that runs was measured once: berth does that every two seconds.
	figuresCome = 2500 * time.Millisecond
)

// send hands something over, unless nobody takes it any more.
func send[T any](ctx context.Context, to chan<- T, v T) {
	select {
	case to <- v:
	case <-ctx.Done():
	}
}

// take shows what an event changes.
func (v *watching) take(ctx context.Context, e client.Event) error {
	h, err := happened(e)
	if err != nil {
		return err
	}
	if e.Name == "reset" || e.Name == "gap" {
		return v.reload(ctx)
	}
	r := v.board.take(e.Name, h)
	if r == nil {
		return nil
	}
	if err := v.changed(r, e.Name); err != nil {
		return err
	}
	if e.Name == "app.removed" && v.only != "" {
		return errEnough
	}
	return nil
}
