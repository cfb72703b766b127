package panel

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
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
	// maxQuery bounds what is searched for, in bytes.
	maxQuery = 200
	// stampLength is that of the stamp of a line: 2006-01-02T15:04:05.000Z and a space.
	stampLength = 25
)

// logPages show what applications print.
type logPages struct {
	logs app.Logs
	feed app.Feed
	line func(ctx context.Context, owner app.AccountID, id app.ID, line string) error // app.Services.Type
}

// logsPage is the data of logs.html.
type logsPage struct {
	live
	Build    bool // this is the output of the build
	Building bool // which runs now
	Lines    []logLine
	Query    string // that was searched for, "" for none
	Found    int    // how many lines have it, of the whole log
	Input    bool   // its owner may send it lines
}

// logLine is one line of a log.
type logLine struct {
	At    time.Time // zero when the line has no stamp
	Own   bool      // berth's own word, not the program's
	Parts []styled
}

func (p logPages) show(c *call) (answer, error) {
	page := logsPage{Build: ofBuild(c), Building: c.app.State == app.Preparing, Query: c.Request.URL.Query().Get("q")}
	if len(page.Query) > maxQuery {
		return answer{}, app.Errorf(app.Invalid, "the text to search for may have at most %d bytes", maxQuery)
	}
	var err error
	if page.Query != "" {
		page.Lines, page.Found, err = p.find(c, page.Build, page.Query)
		return show("logs", page), err
	}
	page.Input = c.own() && c.app.Code.Stdin && !page.Build
	what := "log"
	if page.Build {
		what = "build"
	}
	page.live = liveOf(p.feed, what, c.app.ID)
	page.Lines = linesOf(p.logs.Tail(c.app.ID, page.Build, shownTail))
	return show("logs", page), nil
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
	if len(line) >= stampLength {
		if at, err := time.Parse(time.RFC3339, line[:stampLength-1]); err == nil {
			l.At, line = at, line[stampLength:]
		}
	}
	l.Own = strings.HasPrefix(line, "[berth] ")
	l.Parts = styledParts(line)
	return l
}

// find returns the last lines of the whole log that have query in them, in whatever
// case, within mostFound and mostText, and how many there are.
func (p logPages) find(c *call, build bool, query string) (lines []logLine, found int, err error) {
	file, err := p.logs.Open(c.app.ID, build)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	query = strings.ToLower(query)
	var kept []string
	size := 0 // of kept
	for b := bufio.NewReaderSize(file, 64<<10); c.ctx().Err() == nil; {
		line, err := b.ReadString('\n')
		line = strings.TrimSuffix(line, "\n")
		if strings.Contains(strings.ToLower(withoutEscapes(line[min(stampLength, len(line)):])), query) {
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
