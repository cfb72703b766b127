package settings

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"berth/app"
)

// kind is the type of a value: it reads the value's text into where it belongs.
type kind interface {
	set(text string) bool // false, and nothing is set, when the text is no such value
	expects() string      // completes "expected ..."
}

// number is a whole number within bounds.
type number[T ~int | ~int64] struct {
	to          *T
	least, most int64
}

func whole[T ~int | ~int64](to *T, least, most int64) number[T] { return number[T]{to, least, most} }

func (n number[T]) set(text string) bool {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < n.least || v > n.most {
		return false
	}
	*n.to = T(v)
	return true
}

func (n number[T]) expects() string {
	return fmt.Sprintf("a whole number from %d to %d", n.least, n.most)
}

// amount is a number of MB from 0, or auto, which is -1.
type amount struct {
	to   *app.MB
	most int64
}

func (a amount) set(text string) bool {
	if text == "auto" {
		*a.to = -1
		return true
	}
	return whole(a.to, 0, a.most).set(text)
}

func (a amount) expects() string { return whole(a.to, 0, a.most).expects() + `, or "auto"` }

// ratio is a number within bounds.
type ratio struct {
	to       *float64
	min, max float64
}

func (r ratio) set(text string) bool {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= r.min && v <= r.max) { // this way round, NaN is refused
		return false
	}
	*r.to = v
	return true
}

func (r ratio) expects() string { return fmt.Sprintf("a number from %g to %g", r.min, r.max) }

// toggle is true or false.
type toggle struct{ to *bool }

func (t toggle) set(text string) bool {
	if text != "true" && text != "false" {
		return false
	}
	*t.to = text == "true"
	return true
}

func (toggle) expects() string { return "true or false" }

// SetToggle sets what a person wrote as true or false, and reports whether it was.
func SetToggle(to *bool, text string) bool { return toggle{to}.set(text) }

// span is a duration above zero.
type span struct{ to *time.Duration }

func (s span) set(text string) bool {
	v, err := time.ParseDuration(text)
	if err != nil || v <= 0 {
		return false
	}
	*s.to = v
	return true
}

func (span) expects() string { return `a time above zero such as "10s", "5m" or "1h"` }

// hostPort is where to listen; an empty host means every address, and port 0
// one that the system chooses.
type hostPort struct{ to *string }

func (h hostPort) set(text string) bool {
	host, port, err := net.SplitHostPort(text)
	if err != nil || strings.ContainsAny(host, "/ \t@") {
		return false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return false
	}
	*h.to = text
	return true
}

func (hostPort) expects() string { return `HOST:PORT such as "127.0.0.1:8400"` }

// webAddress is empty or the start of an address on the web.
type webAddress struct{ to *string }

func (w webAddress) set(text string) bool {
	u, err := url.Parse(text)
	web := err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "" &&
		u.User == nil && u.RawQuery == "" && u.Fragment == ""
	if text != "" && !web {
		return false
	}
	*w.to = strings.TrimRight(text, "/")
	return true
}

func (webAddress) expects() string { return `an address such as "https://apps.example.org"` }

// directory is a path; a relative one starts at the working directory.
type directory struct{ to *string }

func (d directory) set(text string) bool {
	path, err := filepath.Abs(text)
	if text == "" || strings.Contains(text, "\x00") || err != nil {
		return false
	}
	*d.to = path
	return true
}

func (directory) expects() string { return "the path of a directory" }

// words is any text.
type words struct{ to *string }

func (w words) set(text string) bool {
	*w.to = text
	return true
}

func (words) expects() string { return "a text" }

// Value is a flag of a command, which refuses what is not of its kind.
type Value struct {
	kind
	text  string
	given bool
}

// Whole is the flag of a whole number from least to most.
func Whole[T ~int | ~int64](to *T, least, most int64) *Value {
	return &Value{kind: whole(to, least, most)}
}

// RAM is the flag of an amount of RAM.
func RAM(to *app.MB) *Value { return Whole(to, 1, maxRAM) }

// Word is the flag of any text.
func Word(to *string) *Value { return &Value{kind: words{to}} }

// AddToggle adds the flag of something that is or is not; --name alone means that
// it is.
func AddToggle(set *pflag.FlagSet, to *bool, name, help string) {
	set.VarPF(&Value{kind: toggle{to}}, name, "", help).NoOptDefVal = "true"
}

// Given reports whether the flag was.
func (v *Value) Given() bool { return v.given }

// String returns the text as it was given.
func (v *Value) String() string { return v.text }

// Set reads the text, or says what was expected.
func (v *Value) Set(text string) error {
	if !v.set(text) {
		return errors.New("expected " + v.expects())
	}
	v.text, v.given = text, true
	return nil
}

// Type implements pflag.Value.
func (v *Value) Type() string {
	_, is := v.kind.(toggle)
	return typeName(is)
}

// typeName is what pflag calls a kind of flag: help shows no word behind a toggle.
func typeName(toggle bool) string {
	if toggle {
		return "bool"
	}
	return "value"
}

// text is a flag whose value is read later, when its turn among the other
// sources has come.
type text struct {
	value   string
	boolean bool
	given   bool
}

// String returns the text as it was given, or the default.
func (t *text) String() string { return t.value }

// Set keeps the text.
func (t *text) Set(s string) error {
	t.value, t.given = s, true
	return nil
}

// Type implements pflag.Value.
func (t *text) Type() string { return typeName(t.boolean) }

// nearest returns the candidate that name was probably meant to be, or "".
func nearest(name string, candidates []string) string {
	best, least := "", len(name)/2+1 // further away is no likely slip
	for _, c := range candidates {
		d := distance(name, c)
		if strings.HasSuffix(c, "."+name) || strings.HasSuffix(c, "-"+name) || strings.HasSuffix(c, " "+name) {
			d = 1 // only the section was forgotten
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}

// DidYouMean completes an error about a name that is unknown; format is how the
// better name is written.
func DidYouMean(name string, candidates []string, format string) string {
	if c := nearest(name, candidates); c != "" {
		return fmt.Sprintf("; did you mean "+format+"?", c)
	}
	return ""
}

// distance counts the characters to insert, drop, replace or swap with their
// neighbour to make b of a.
func distance(a, b string) int {
	var before []int // two rows up
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		next := make([]int, len(b)+1)
		next[0] = i + 1
		for j := range len(b) {
			replace := row[j]
			if a[i] != b[j] {
				replace++
			}
			next[j+1] = min(replace, row[j+1]+1, next[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				next[j+1] = min(next[j+1], before[j-1]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}
