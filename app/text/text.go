package text

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Language says sentences in one language. The zero value is English. It is a
// small value, to be copied, and safe for concurrent use.
type Language struct{ of *catalogue }

// Phrase is an argument that is itself a sentence with arguments, such as the
// cause in "cannot start: %v". Where the whole is translated, it is too. What it
// prints by itself MUST be the same sentence in English.
type Phrase interface {
	Phrase() (format string, args []any)
}

// In returns the language of a locale, such as "pt-BR". A locale that has no
// catalogue is English.
func In(locale string) Language {
	for _, c := range catalogues {
		if c.tag == locale {
			return Language{c}
		}
	}
	return Language{}
}

// Accept returns the language that an Accept-Language header (RFC 9110, 12.5.4)
// likes best. Of a language without its region, as of another region, the one there
// is will do. English is the answer to a header that says nothing usable.
func Accept(header string) Language {
	best, most := Language{}, 0.0
	for part := range strings.SplitSeq(header, ",") {
		tag, parameter, _ := strings.Cut(part, ";")
		weight := 1.0
		if q, ok := strings.CutPrefix(strings.TrimSpace(parameter), "q="); ok {
			weight, _ = strconv.ParseFloat(q, 64) // what is no number, or NaN, wins over nothing
		}
		if l, known := spoken(strings.TrimSpace(tag)); known && weight > most && weight <= 1 {
			best, most = l, weight
		}
	}
	return best
}

// spoken returns the language that a tag of Accept-Language means.
func spoken(tag string) (Language, bool) {
	language, _, _ := strings.Cut(tag, "-")
	if strings.EqualFold(language, "en") {
		return Language{}, true
	}
	for _, c := range catalogues {
		if own, _, _ := strings.Cut(c.tag, "-"); strings.EqualFold(language, own) {
			return Language{c}, true
		}
	}
	return Language{}, false
}

// Tag is the language's tag, for the attribute lang of HTML and for
// Content-Language.
func (l Language) Tag() string {
	if l.of == nil {
		return english
	}
	return l.of.tag
}

// Say returns the sentence with its arguments, as fmt.Sprintf would in English.
// The format MUST be a literal, or come from a Phrase whose format is one: the
// test of completeness reads the source.
func (l Language) Say(format string, args ...any) string {
	if l.of == nil {
		return fmt.Sprintf(format, args...)
	}
	said := make([]any, len(args))
	for i, arg := range args {
		said[i] = arg
		switch arg := arg.(type) {
		case Phrase:
			said[i] = l.SayPhrase(arg)
		case error:
			said[i] = l.sayWrapped(arg)
		}
	}
	return fmt.Sprintf(l.of.translated(format), said...)
}

// sayWrapped says an error that may have a Phrase among its causes: what is around
// that is in no catalogue and stays as it is.
func (l Language) sayWrapped(err error) any {
	var p interface {
		error
		Phrase
	}
	if !errors.As(err, &p) {
		return err
	}
	return strings.Replace(err.Error(), p.Error(), l.SayPhrase(p), 1)
}

// SayPhrase says p.
func (l Language) SayPhrase(p Phrase) string {
	format, args := p.Phrase()
	return l.Say(format, args...)
}

// Count says one or many, whichever the language uses for n things. All there are
// so far say "0 sites" and "1 site".
func (l Language) Count(n int, one, many string, args ...any) string {
	if n == 1 {
		return l.Say(one, args...)
	}
	return l.Say(many, args...)
}

// Number writes x with so many decimals.
func (l Language) Number(x float64, decimals int) string {
	s := strconv.FormatFloat(x, 'f', decimals, 64)
	if l.of == nil {
		return s
	}
	return strings.Replace(s, ".", ",", 1)
}

// Time writes the minute of t, in t's own zone.
func (l Language) Time(t time.Time) string {
	if l.of == nil {
		return t.Format("2006-01-02 15:04")
	}
	return t.Format("02/01/2006 15:04")
}

// Date writes the day of t, in t's own zone.
func (l Language) Date(t time.Time) string {
	if l.of == nil {
		return t.Format("2006-01-02")
	}
	return t.Format("02/01/2006")
}
