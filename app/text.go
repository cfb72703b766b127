package app

import (
	"fmt"
	"strings"
)

// Text is a sentence that a person may read, or a part of one: an English format
// of package fmt and its arguments, so that it can be said in another language.
// The format is the key of the catalogues in package text, whose test reads the
// source for it: it MUST be a literal. The zero value is no sentence. A Text is
// never changed and safe for concurrent use.
type Text struct {
	english, format string
	args            []any
}

// Textf makes a sentence. An argument that is itself a Text or an *Error is said
// in the same language as the whole. It prints the arguments at once: later
// changes of what they point to do not show in English.
func Textf(format string, args ...any) Text {
	return Text{english: fmt.Sprintf(format, args...), format: format, args: args}
}

// Words makes a sentence without arguments of a text that is no format, such as a
// constant that others compare. The text MUST be a literal as well.
func Words(english string) Text {
	return Text{english: english, format: strings.ReplaceAll(english, "%", "%%")}
}

// String returns the sentence in English, as logs and the audit log have it.
func (t Text) String() string { return t.english }

// MarshalText returns the sentence in English.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.english), nil }

// Phrase returns what the sentence is made of. The caller MUST NOT change args.
func (t Text) Phrase() (format string, args []any) { return t.format, t.args }

// IsZero reports whether there is no sentence.
func (t Text) IsZero() bool { return t.format == "" }
