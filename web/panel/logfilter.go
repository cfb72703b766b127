package panel

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"berth/app"
)

// maxQuery bounds what is searched for in a log, in bytes.
const maxQuery = 200

// ownLevel is what selects berth's own lines, where levels select the program's.
const ownLevel level = "berth"

// logFilter selects lines of a log. It is in the address of the page, so that somebody else can be
// sent there.
type logFilter struct {
	Query    string // that a line has in it, in whatever case
	Level    level  // that a line has at least, or ownLevel
	Since    string // a name of logSpans; it has set From
	From, To time.Time
}

// logSpan is a stretch of time up to now.
type logSpan struct {
	name string
	long time.Duration
}

var logSpans = []logSpan{{"15m", 15 * time.Minute}, {"1h", time.Hour}, {"24h", 24 * time.Hour}, {"7d", 7 * 24 * time.Hour}}

// logFilterOf reads a filter from an address. A level or a span that there is not selects nothing.
func logFilterOf(q url.Values, now time.Time) (f logFilter, err error) {
	if f.Query = q.Get("q"); len(f.Query) > maxQuery {
		return f, app.Errorf(app.Invalid, "the text to search for may have at most %d bytes", maxQuery)
	}
	if of := level(q.Get("level")); of == ownLevel || slices.Contains(levels, of) {
		f.Level = of
	}
	if at := slices.IndexFunc(logSpans, func(s logSpan) bool { return s.name == q.Get("since") }); at >= 0 {
		f.Since, f.From = logSpans[at].name, now.Add(-logSpans[at].long)
		return f, nil
	}
	if f.From, err = moment(q.Get("from")); err == nil {
		f.To, err = moment(q.Get("to"))
	}
	if len(q.Get("to")) == len(minuteLayout) && err == nil { // the whole minute is meant
		f.To = f.To.Add(time.Minute - time.Millisecond)
	}
	return f, err
}

// minuteLayout is how a form of HTML sends a date and a time of day.
const minuteLayout = "2006-01-02T15:04"

// moment reads a moment, of UTC unless it says otherwise; the zero time is none.
func moment(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	for _, layout := range []string{minuteLayout, "2006-01-02T15:04:05", "2006-01-02T15:04Z07:00", time.RFC3339} {
		if at, err := time.Parse(layout, text); err == nil {
			return at.UTC(), nil
		}
	}
	return time.Time{}, app.Errorf(app.Invalid, "a time is written as 2026-11-26T15:04, and is one of UTC")
}

// Any reports whether the filter leaves anything out.
func (f logFilter) Any() bool { return f != logFilter{} }

// Live reports whether new lines are shown as they come: those that nothing is searched in, and
// that have no end.
func (f logFilter) Live() bool { return f.Query == "" && f.To.IsZero() }

// stream is what the address of a stream of such lines ends with.
func (f logFilter) stream() string {
	var pairs []string
	if f.Level != noLevel {
		pairs = append(pairs, "level", string(f.Level))
	}
	if !f.From.IsZero() {
		pairs = append(pairs, "from", f.From.UTC().Format(time.RFC3339))
	}
	if pairs == nil {
		return ""
	}
	return "&" + query(pairs...)
}

// within reports whether a moment is meant.
func (f logFilter) within(at time.Time) bool {
	return !at.Before(f.From) && (f.To.IsZero() || !at.After(f.To))
}

// Minute is a moment as fields of forms show it, in UTC; "" for none, or one that Since has set.
func (f logFilter) Minute(at time.Time) string {
	if at.IsZero() || f.Since != "" {
		return ""
	}
	return at.UTC().Format(minuteLayout)
}

// sieve lets those lines through that a filter means. It is given all lines of a log in their order:
// what belongs to a line, such as the trace of an error, shares its fate.
type sieve struct {
	logFilter
	with  bool // the last line with a level passed
	trace bool // its trace has begun
}

// takes reports whether a line passes.
func (s *sieve) takes(line string) bool {
	if !s.From.IsZero() || !s.To.IsZero() {
		if at := stampOf(line); !at.IsZero() && !s.within(at) {
			s.with = false
			return false
		}
	}
	if s.Level == noLevel && s.Query == "" {
		return true
	}
	text := line[min(stampLength, len(line)):]
	own := isOwn(text)
	text = withoutEscapes(text)
	return s.serious(text, own) && (s.Query == "" || strings.Contains(strings.ToLower(text), strings.ToLower(s.Query)))
}

// serious reports whether a line has the level that is meant, or belongs to one that has.
func (s *sieve) serious(text string, own bool) bool {
	switch s.Level {
	case noLevel:
		return true
	case ownLevel:
		return own
	case debugLevel, infoLevel, warnLevel, errorLevel:
	}
	if own {
		s.with = false
		return false
	}
	if of := levelOf(text); of != noLevel {
		s.with, s.trace = of.atLeast(s.Level), false
		return s.with
	}
	s.with = s.with && goesOn(text, &s.trace)
	return s.with
}

// sift returns those lines of a text that pass.
func (s *sieve) sift(text string) string {
	if !s.Any() {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		if s.takes(strings.TrimSuffix(line, "\n")) {
			b.WriteString(line)
		}
	}
	return b.String()
}
