package cli

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"time"

	"berth/cli/screen"
	"berth/client"
	"berth/files/bundle"
)

// progress shows how a deploy goes: on a terminal in one line that changes, else in lines,
// or in lines of JSON.
type progress struct {
	*caller
	live   *screen.Live
	asJSON bool
	colour bool
	tty    bool
	began  time.Time
	last   time.Time // that the bytes were shown
	whole  bool      // the ZIP has gone out
	built  bool      // lines of the build were shown
	phase  string
	place  int
}

func newProgress(c *caller, asJSON bool) *progress {
	p := &progress{caller: c, asJSON: asJSON, live: screen.NewLive(c.Stderr), colour: screen.Colour(c.Stderr, c.Getenv)}
	f, is := c.Stderr.(*os.File)
	p.tty = is && screen.Width(f) > 0 && !asJSON
	return p
}

// end removes the line that changes: what came of the deploy is said.
func (p *progress) end() {
	if p.tty {
		_ = p.live.Draw()
	}
}

// line prints an event with --json, and else a sentence of the server's.
func (p *progress) line(l deployLine, text string) {
	if p.asJSON {
		_ = screen.NewEncoder(p.Stdout).Encode(l)
		return
	}
	if text != "" {
		_ = p.live.Above(screen.Escape(text, false) + "\n")
	}
}

// note prints a sentence of ours.
func (p *progress) note(text string) {
	if !p.asJSON {
		_ = p.live.Above(screen.Escape(text, false) + "\n")
	}
}

// log prints lines of the build or the program.
func (p *progress) log(text string) {
	if p.asJSON {
		p.line(deployLine{Event: "log", Text: text}, "")
		return
	}
	_ = p.live.Above(screen.Escape(strings.TrimRight(text, "\n"), p.colour) + "\n")
}

func (p *progress) packed(files, ignored int, bytes int64) {
	text := fmt.Sprintf("%d files, %s", files, bundle.SizeText(bytes))
	if files == 1 {
		text = "1 file, " + bundle.SizeText(bytes)
	}
	if ignored > 0 {
		text += fmt.Sprintf("; %d left out by ignore files", ignored)
	}
	p.line(deployLine{Event: "packed", Bytes: bytes}, text)
}

// sent shows how much of the ZIP has gone out.
func (p *progress) sent(n, of int64) {
	now := time.Now()
	if p.began.IsZero() || n < of && p.whole { // it is sent again
		p.began, p.whole = now, false
	}
	if n < of && (!p.tty || now.Sub(p.last) < 100*time.Millisecond) {
		return
	}
	p.last = now
	if n == of {
		if p.whole {
			return
		}
		p.whole = true
		if p.tty {
			_ = p.live.Draw()
		}
		text := "sent " + bundle.SizeText(of)
		if took := now.Sub(p.began).Round(100 * time.Millisecond); took > 0 {
			text += " in " + took.String()
		}
		p.line(deployLine{Event: "sent", Bytes: of}, text)
		return
	}
	rate := float64(n) / max(now.Sub(p.began).Seconds(), 0.001)
	_ = p.live.Draw(fmt.Sprintf("sending %3d %% of %s, %s/s", 100*n/max(of, 1), bundle.SizeText(of), bundle.SizeText(int64(rate))))
}

// step shows a step of the deploy, and what the build prints.
func (p *progress) step(s client.Progress) {
	if s.Log != "" {
		p.built = true
		p.log(s.Log)
	}
	if s.Phase == p.phase && s.Position == p.place {
		return
	}
	p.phase, p.place = s.Phase, s.Position
	text := map[string]string{"checked": "checked", "building": "building", "launching": "starting"}[s.Phase]
	if s.Phase == "queued" {
		text = fmt.Sprintf("in the queue of builds: number %d", s.Position)
	}
	switch {
	case p.asJSON:
		p.line(deployLine{Event: cmp.Or(s.Phase, "checked"), ID: s.ID, Position: s.Position}, "")
	case text != "":
		_ = p.live.Draw(text)
	}
}
