package panel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/app"
)

const (
	// shownTail is how much of a log a page begins with, in bytes.
	shownTail = 64 << 10
	// mostFound is how many lines a search shows, the last ones.
	mostFound = 1000
	// mostText is how much of them in bytes, of what was printed: with colours in every
	// other letter a page is five times as long.
	mostText = 512 << 10
	// stampLength is that of the stamp of a line: 2006-01-02T15:04:05.000Z and a space.
	stampLength = 25
)

// logPages show what applications print.
type logPages struct {
	logs  app.Logs
	feed  app.Feed
	apps  app.Applications
	teams app.Teams
	line  func(ctx context.Context, owner app.AccountID, id app.ID, line string) error // app.Services.Type
	turns *turns                                                                       // of searches
}

// searchTurns are turns of searches: each reads all that is kept of a log.
func searchTurns() *turns {
	return newTurns(allTurns, app.Textf("as many logs are being searched as may be at once; try again in a moment"))
}

// logsPage is the data of logs.html.
type logsPage struct {
	live
	Build    bool // this is the output of the build
	Building bool // which runs now
	Lines    []logLine
	Filter   logFilter
	Found    int  // how many lines the filter lets through, of all that is kept
	Shown    int  // how many of them are on the page
	Input    bool // its owner may send it lines
}

// logLine is one line of a log, or a row between two lines: the day that begins, or what berth
// remembers of the application.
type logLine struct {
	At    time.Time // zero when the line has no stamp
	Own   bool      // berth's own word, not the program's
	Level level     // that the program has printed
	Parts []styled
	Day   bool
	Mark  *logMark
}

// logMark is something that happened between two lines.
type logMark struct {
	Number int64
	happened
}

func (p logPages) show(c *call) (answer, error) {
	f, err := logFilterOf(c.Request.URL.Query(), time.Now())
	if err != nil {
		return answer{}, err
	}
	page := logsPage{Build: ofBuild(c), Building: c.app.State == app.Preparing, Filter: f}
	page.Input = c.own() && c.app.Code.Stdin && !page.Build && f.Query == ""
	what := "log"
	if page.Build {
		what = "build"
	}
	if f.Live() {
		page.live = liveOf(p.feed, what, c.app.ID)
		page.Stream += f.stream()
	}
	if f.Any() {
		page.Lines, page.Found, err = p.find(c, page.Build, f)
	} else {
		page.Lines = linesOf(p.logs.Tail(c.app.ID, page.Build, shownTail))
	}
	page.Shown = len(page.Lines)
	var marks []logLine
	if err == nil && !page.Build && f.Query == "" {
		marks, err = p.marks(c)
	}
	page.Lines = withDays(withMarks(page.Lines, marks, f))
	return show("logs", page), err
}

// marks are the deploys and the ends of the program that are remembered, oldest first; none for
// those who may read the log alone.
func (p logPages) marks(c *call) ([]logLine, error) {
	can, _, err := permissions(c, p.teams)
	if err != nil || !can.Has(app.StatusApp) {
		return nil, err
	}
	all, err := p.apps.EventLog(c.ctx(), c.owner, c.app.ID)
	if app.KindOf(err) == app.Conflict { // in its first deployment nothing has happened yet
		return nil, nil
	}
	var marks []logLine
	for _, h := range slices.Backward(all) {
		switch h.Kind {
		case app.HistoryDeploy, app.HistoryFailure, app.HistoryExit, app.HistoryRefusal:
			m := happenedOf(c.lang, h, func(app.AccountID) string { return "" })
			marks = append(marks, logLine{At: h.At, Mark: &logMark{h.Number, m}})
		case app.HistoryMemory, app.HistorySpent, app.HistorySilent, app.HistoryUnwell, app.HistoryDisk: // the log has a line of these
		}
	}
	return marks, err
}

// withMarks puts what happened since the first line between the lines.
func withMarks(lines, marks []logLine, f logFilter) []logLine {
	all := make([]logLine, 0, len(lines)+len(marks))
	at := 0
	for i, line := range lines {
		for ; at < len(marks) && !line.At.IsZero() && marks[at].At.Before(line.At); at++ {
			if i > 0 && f.within(marks[at].At) {
				all = append(all, marks[at])
			}
		}
		all = append(all, line)
	}
	for ; at < len(marks); at++ {
		if len(lines) > 0 && f.within(marks[at].At) {
			all = append(all, marks[at])
		}
	}
	return all
}

// withDays puts a row before the first line of each day, of UTC: scripts put them where the days
// of the reader begin.
func withDays(lines []logLine) []logLine {
	all := make([]logLine, 0, len(lines)+1)
	var day time.Time
	for _, line := range lines {
		if of := line.At.UTC().Truncate(24 * time.Hour); !line.At.IsZero() && !of.Equal(day) {
			day = of
			all = append(all, logLine{At: line.At, Day: true})
		}
		all = append(all, line)
	}
	return all
}

// input sends a line to the program. The owner alone may: what reads lines, such as a shell or a game's
// console, may do anything with them.
func (p logPages) input(c *call, f url.Values) (answer, error) {
	if err := p.line(c.ctx(), c.owner, c.app.ID, f.Get("line")); err != nil {
		return answer{}, err
	}
	if f.Has("stay") { // the page's script shows what comes of it
		return answer{stream: func() { c.WriteHeader(http.StatusNoContent) }}, nil
	}
	return leadTo(c.at("logs?of=program#line")), nil
}

// ofBuild reports whether a call is about the build's output: it says so, or it does
// not say and the build runs.
func ofBuild(c *call) bool {
	switch c.Request.URL.Query().Get("of") {
	case "build":
		return true
	case "program":
		return false
	}
	return c.app.State == app.Preparing && !c.app.Running
}

// linesOf parses text of a log.
func linesOf(text string) []logLine {
	var all []logLine
	for line := range strings.Lines(text) {
		all = append(all, lineOf(strings.TrimSuffix(line, "\n")))
	}
	return all
}

func lineOf(line string) logLine {
	var l logLine
	if l.At = stampOf(line); !l.At.IsZero() {
		line = line[stampLength:]
	}
	l.Own = isOwn(line)
	l.Parts = styledParts(line)
	if !l.Own {
		l.Level = levelOf(l.plain())
	}
	return l
}

// isOwn reports whether the text of a line is berth's own word.
func isOwn(text string) bool { return strings.HasPrefix(text, "[berth] ") }

// stampOf is when a line was printed, zero where it does not say so.
func stampOf(line string) time.Time {
	if len(line) < stampLength {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, line[:stampLength-1])
	if err != nil {
		return time.Time{}
	}
	return at
}

// find returns the last lines of the whole log that a filter lets through, within mostFound and
// mostText, and how many there are.
func (p logPages) find(c *call, build bool, f logFilter) (lines []logLine, found int, err error) {
	end, err := p.turns.begin(c.account.ID)
	if err != nil {
		return nil, 0, err
	}
	defer end()
	file, err := p.logs.Open(c.app.ID, build)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	sieve := sieve{logFilter: f}
	var kept []string
	size := 0 // of kept
	for b := bufio.NewReaderSize(file, 64<<10); c.ctx().Err() == nil; {
		line, err := b.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		if (line != "" || err == nil) && sieve.takes(line) {
			found++
			kept, size = append(kept, line), size+len(line)
		}
		for len(kept) > mostFound || size > mostText && len(kept) > 1 {
			size -= len(kept[0])
			kept[0] = ""
			kept = kept[1:]
		}
		switch {
		case errors.Is(err, io.EOF):
			for _, line := range kept {
				lines = append(lines, lineOf(line))
			}
			return lines, found, nil
		case err != nil:
			return nil, 0, err
		}
	}
	return nil, 0, c.ctx().Err()
}

// download sends everything that is kept of a log.
func (p logPages) download(c *call) (answer, error) {
	name := string(c.app.ID) + ".log"
	if ofBuild(c) {
		name = string(c.app.ID) + ".build.log"
	}
	file, err := p.logs.Open(c.app.ID, ofBuild(c))
	return answer{stream: func() {
		c.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.Header().Set("Content-Disposition", `attachment; filename="`+name+`"`)
		c.sendFile(file, -1, patience)
	}}, err
}
