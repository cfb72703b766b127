package runtimes

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"berth/app"
)

// version is the numbers of a version, the first first; nil is unknown.
type version []int

// parseVersion reads the numbers in front; what follows them is of no matter.
func parseVersion(s string) version {
	var v version
	for part := range strings.SplitSeq(leading.FindString(s), ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		v = append(v, n)
	}
	return v
}

var leading = regexp.MustCompile(`^\d{1,9}(\.\d{1,9})*`)

// compare orders versions; a number that is not there is 0.
func (v version) compare(w version) int {
	at := func(v version, i int) int {
		if i < len(v) {
			return v[i]
		}
		return 0
	}
	for i := range max(len(v), len(w)) {
		if d := at(v, i) - at(w, i); d != 0 {
			return d
		}
	}
	return 0
}

// next is the first version after all that begin like v up to number i.
func (v version) next(i int) version {
	w := slices.Clone(v[:i+1])
	w[i]++
	return w
}

// fit is how a version stands to a range.
type fit int

const (
	unclear fit = iota // the range is not understood, or the version unknown
	fits
	older // than the range begins
	newer // than the range ends, or left out of it
)

// comparator is one condition of a range, in the signs of npm, pip, composer
// and bundler. Where they differ berth takes the wider meaning.
var comparator = regexp.MustCompile(`^[\s,]*(>=|<=|==|=|!=|>|<|\^|~>|~=|~|)\s*v?(\d{1,9}(?:\.\d{1,9})*|[xX*])(?:\.[xX*])*(?:[\s,]+|$)`)

// judge tells how a version stands to a range such as ">=18 <21 || ^22.1".
func judge(ranges string, v version) fit {
	if v == nil {
		return unclear
	}
	verdict := older
	for alternative := range strings.SplitSeq(ranges, "||") {
		switch f := judgeAll(strings.TrimSpace(alternative), v); f {
		case unclear, fits:
			return f
		case newer:
			verdict = newer
		case older:
		}
	}
	return verdict
}

// judgeAll tells how a version stands to conditions that must all hold.
func judgeAll(text string, v version) fit {
	verdict := fits
	for first := true; first || text != ""; first = false {
		m := comparator.FindStringSubmatch(text)
		if m == nil {
			return unclear
		}
		text = text[len(m[0]):]
		switch f := judgeOne(m[1], parseVersion(m[2]), v); {
		case f == older:
			verdict = older
		case f == newer && verdict == fits:
			verdict = newer
		}
	}
	return verdict
}

// judgeOne tells how v stands to one condition; "20" means all that begin so.
func judgeOne(sign string, w, v version) fit {
	if w == nil { // "*"
		return fits
	}
	last := len(w) - 1
	low, high := w, w.next(last)
	switch sign {
	case "!=":
		if v.compare(low) >= 0 && v.compare(high) < 0 {
			return newer
		}
		return fits
	case ">=":
		high = nil
	case ">":
		low, high = w.next(last), nil
	case "<":
		low, high = nil, w
	case "<=":
		low = nil
	case "^":
		high = w.next(max(0, min(last, slices.IndexFunc(w, func(n int) bool { return n > 0 }))))
	case "~":
		high = w.next(min(1, last))
	case "~>", "~=":
		high = w.next(max(0, last-1))
	}
	switch {
	case low != nil && v.compare(low) < 0:
		return older
	case high != nil && v.compare(high) >= 0:
		return newer
	}
	return fits
}

// demand is what a project says of the version it needs.
type demand struct {
	ranges string
	file   string // that says so
	key    string // in the file, "" when that is clear
}

// outdated is what to do where the version of the language is older than the project asks for.
func (p *project) outdated() app.Text {
	if remedy := p.lang.outdated; !remedy.IsZero() && !p.tools.Images() { // which tells of the host's own
		return remedy
	}
	return app.Textf("ask the owner of this host for a newer one, or require an older version there")
}

// suit refuses an upload that asks for a newer version than the host has. One
// older than the host's may do. What runs already goes on starting, whatever
// became of the host.
func suit(p *project) error {
	if p.lang.demand == nil {
		return nil
	}
	d := p.lang.demand(p)
	if d.ranges == "" || !p.files.Brought(d.file) {
		return nil
	}
	where := d.file
	if d.key != "" {
		where += " (" + d.key + ")"
	}
	have := p.tools.Version(p.lang.programs[0].binary)
	asked := d.ranges[:min(len(d.ranges), 60)]
	switch judge(d.ranges, parseVersion(have)) {
	case older:
		remedy := p.outdated()
		if fitting := p.fitting(d.ranges); fitting != "" {
			remedy = app.Textf("it has %s as well: write VERSION=%s into discloud.config", fitting, fitting)
		}
		return app.Errorf(app.Unusable, "%s asks for %s %s, and this host has %s: %s", where, p.lang.title, asked, have, remedy)
	case newer:
		p.note("%s asks for %s %s; this host runs %s.", where, p.lang.title, asked, have)
	case unclear, fits:
	}
	return nil
}
